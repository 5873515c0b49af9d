"""Pages of the flow table, without holding up whoever else has to run.

A page may be asked for of a million flows. So nothing here takes long at once: `checkpoint` is
called after every few flows, and the table may change meanwhile. What need not be looked at is not:
flows without a volume come last by volume, and addresses are those of whole lanes.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from ipaddress import IPv4Network, IPv6Network, ip_address
from operator import itemgetter
from typing import Any, NamedTuple

from controller.core.flows.flow_table import GlobalFlowTable
from controller.core.flows.host_pairs import Connection, Lane
from controller.model.values import FlowClass, PortId
from controller.rpc.methods import FlowQuery

# How many flows are looked at between two checkpoints, and sorted at once.
_AT_ONCE, _RUN = 64, 512
_BY_ADDRESS = {"src", "dst"}

Checkpoint = Callable[[], None]


class Flow(NamedTuple):
    """One direction of a connection."""

    lane: Lane
    connection: Connection

    @property
    def key(self) -> bytes:
        return self.lane.key(self.connection)


class Page(NamedTuple):
    """Some of the flows that match, in their order, and how many there are in all."""

    flows: list[Flow]
    total: int


# What flows are ranked by, the greatest first; the third tells apart what is otherwise equal.
_Ranked = tuple[int, bytes, int, Flow]
_Sortable = tuple[Any, ...]


class FlowPages:
    """Pages of `table`."""

    def __init__(self, table: GlobalFlowTable, checkpoint: Checkpoint) -> None:
        self._table = table
        self._checkpoint = checkpoint

    def page(self, query: FlowQuery) -> Page:
        """What a query asks for."""
        if query.sort in _BY_ADDRESS:
            flows = list(self._page_by_address(query, lambda _: True, query.offset, query.limit))
            return Page(flows, self._total(query))
        if query.sort == "volume":
            return self._by_volume(query)
        sign = -1 if query.sort == "oldest" else 1
        ranked = (
            (sign * flow.connection.opened_ns, flow.key, id(flow.connection), flow)
            for flow in self._matching(query)
        )
        flows, total = self._greatest(query, ranked)
        return Page(flows, total)

    def _by_volume(self, query: FlowQuery) -> Page:
        """The largest first, then those without a volume by their addresses. A flow that begins to
        be counted keeps its place until it has sent something."""
        flows, n_known = self._greatest(query, self._with_volume(query))
        missing = query.limit - len(flows)
        if missing:
            skipped = max(0, query.offset - n_known)
            flows += self._page_by_address(query, _has_no_volume, skipped, missing, reverse=True)
        return Page(flows, self._total(query))

    # What matches

    def _total(self, query: FlowQuery) -> int:
        if query == FlowQuery(sort=query.sort, limit=query.limit, offset=query.offset):
            return 2 * len(self._table)
        if query.tcp_port is not None:
            return sum(1 for _ in self._matching(query))
        total = 0
        for lane in self._lanes(query):
            self._checkpoint()
            total += _size(query, lane)
        return total

    def _matching(self, query: FlowQuery) -> Iterator[Flow]:
        for lane in self._lanes(query):
            self._checkpoint()
            for n, connection in enumerate(_asked_for(query, lane)):
                if not n % _AT_ONCE:
                    self._checkpoint()
                flow = Flow(lane, connection)
                if query.tcp_port is None or query.tcp_port in _tcp_ports(flow.key):
                    yield flow

    def _with_volume(self, query: FlowQuery) -> Iterator[_Ranked]:
        """The flows that are known to have sent something. There may be few among many."""
        for lane, connection in self._counted(query):
            record = lane.record(connection)
            if not record or not record.volume_bytes or not connection.established:
                continue
            flow = Flow(lane, connection)
            key = flow.key
            if query.tcp_port is not None and query.tcp_port not in _tcp_ports(key):
                continue
            if query.flow_class in (None, lane.cls(connection).value):
                yield record.volume_bytes, key, id(connection), flow

    def _counted(self, query: FlowQuery) -> Iterator[Flow]:
        """Flows among which are all that match and are counted."""
        lanes = self._lanes_of_port(query)
        if lanes is not None and self._have_fewer(lanes, self._table.n_counted):
            for lane in self._lanes(query):
                for n, connection in enumerate(list(lane.members)):
                    if not n % _AT_ONCE:
                        self._checkpoint()
                    yield Flow(lane, connection)
            return
        fits: dict[int, bool] = {}
        for connections in self._table.counted():
            for n, connection in enumerate(connections):
                if not n % _AT_ONCE:
                    self._checkpoint()
                for lane in connection.pair.lanes:
                    # Connections of the same lane are many.
                    fitting = fits.get(id(lane))
                    if fitting is None:
                        fitting = fits[id(lane)] = _fits(query, lane)
                    if fitting:
                        yield Flow(lane, connection)

    def _have_fewer(self, lanes: Set[Lane], most: int) -> bool:
        total = 0
        for n, lane in enumerate(lanes):
            if not n % _AT_ONCE:
                self._checkpoint()
            total += len(lane.members)
            if total >= most:
                return False
        return True

    def _lanes(self, query: FlowQuery) -> Iterator[Lane]:
        """The lanes whose flows may match; for one port, those that lead out of it."""
        lanes: Iterable[Lane] | None = self._lanes_of_port(query)
        if lanes is None:
            lanes = (lane for pair in self._table.host_pairs for lane in pair.lanes)
        return (lane for lane in lanes if _fits(query, lane))

    def _lanes_of_port(self, query: FlowQuery) -> Set[Lane] | None:
        """The lanes that lead out of the port that is asked for; None if none is."""
        if query.switch is None or query.port is None:
            return None
        return self._table.lanes(PortId(query.switch, query.port))

    # Order

    def _greatest(self, query: FlowQuery, ranked: Iterable[_Ranked]) -> tuple[list[Flow], int]:
        """The page of what is ranked, and how much that is in all."""
        end, total = query.offset + query.limit, 0
        heap: list[_Ranked] = []
        for one in ranked:
            total += 1
            if len(heap) < end:
                heapq.heappush(heap, one)
            elif one[:3] > heap[0][:3]:
                heapq.heapreplace(heap, one)
        in_order = self._in_order(heap, reverse=True)
        return [flow for *_, flow in itertools.islice(in_order, query.offset, None)], total

    def _page_by_address(
        self,
        query: FlowQuery,
        wanted: Callable[[Flow], bool],
        offset: int,
        limit: int,
        *,
        reverse: bool = False,
    ) -> Iterator[Flow]:
        """A page of the wanted flows by their addresses. Those of one lane are together."""
        groups: list[_Sortable] = []
        for lane in self._lanes(query):
            self._checkpoint()
            if lane.members:
                groups.append((_prefix(query, lane), id(lane), lane))
        left, in_order = limit, self._in_order(groups, reverse=reverse)
        for _, group in itertools.groupby(in_order, itemgetter(0)):
            flows: list[_Sortable] = []
            for *_, lane in group:
                for n, connection in enumerate(_asked_for(query, lane)):
                    if not n % _AT_ONCE:
                        self._checkpoint()
                    flow = Flow(lane, connection)
                    if wanted(flow) and (
                        query.tcp_port is None or query.tcp_port in _tcp_ports(flow.key)
                    ):
                        flows.append((flow.key, id(connection), flow))
            if offset >= len(flows):
                offset -= len(flows)
                continue
            for *_, flow in self._in_order(flows, reverse=reverse):
                if offset:
                    offset -= 1
                elif left:
                    left -= 1
                    yield flow
            if not left:
                return

    def _in_order(self, items: Sequence[_Sortable], *, reverse: bool) -> Iterator[_Sortable]:
        """Sorted in runs, which are merged as far as they are wanted."""
        runs = []
        for begin in range(0, len(items), _RUN):
            self._checkpoint()
            runs.append(sorted(items[begin : begin + _RUN], reverse=reverse))
        for n, item in enumerate(heapq.merge(*runs, reverse=reverse)):
            if not n % _AT_ONCE:
                self._checkpoint()
            yield item


def _has_no_volume(flow: Flow) -> bool:
    record = flow.lane.record(flow.connection)
    return record is None or not record.volume_bytes


def _prefix(query: FlowQuery, lane: Lane) -> bytes:
    """What lanes are sorted by: by volume, that of the keys of their flows."""
    return lane.dst + lane.src if query.sort == "dst" else lane.src + lane.dst


def _asked_for(query: FlowQuery, lane: Lane) -> Sequence[Connection]:
    """The lane's part of BRT, of BGT, or of both, as it is now."""
    members: Set[Connection] = lane.members
    if query.flow_class is not None:
        members = lane.of(FlowClass(query.flow_class))
    return list(members)


def _size(query: FlowQuery, lane: Lane) -> int:
    if query.flow_class is None:
        return len(lane.members)
    return len(lane.of(FlowClass(query.flow_class)))


def _fits(query: FlowQuery, lane: Lane) -> bool:
    """Whether flows of this lane may match."""
    if query.host is not None and not any(_in(query.host, end) for end in (lane.src, lane.dst)):
        return False
    if query.switch is None and query.port is None:
        return True
    return any(
        query.switch in (None, port_id.switch) and query.port in (None, port_id.port)
        for port_id in lane.ports
    )


def _in(network: IPv4Network | IPv6Network, address: bytes) -> bool:
    return len(address) * 8 == network.max_prefixlen and ip_address(address) in network


def _tcp_ports(key: bytes) -> tuple[int, int]:
    ports = int.from_bytes(key[-4:], "big")
    return ports >> 16, ports & 0xFFFF
