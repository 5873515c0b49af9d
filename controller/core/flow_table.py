"""The global-view flow table (GVT) of SDTCP section 3.3, with its tables BRT and BGT.

Segments that entered by different switches may come in any order, an answer before its question.

It is kept up to date segment by segment; what a port carries is maintained incrementally, so that a
queue event is answered without a walk over the connections. It does not know paths: it is told
them.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from controller.core.flow import ACK, FIN, RST, SYN, Connection, Flow, FlowKey, Segment
from controller.core.values import FlowClass, PortId

HALF_OPEN_LIMIT = 16_384
HALF_OPEN_TIMEOUT_NS = 30 * 10**9
EARLY_ANSWER_TIMEOUT_NS = 10**9


class Change(Enum):
    """What a segment did to a connection."""

    OPENED = "opened"
    FINISHED = "finished"
    RESET = "reset"
    REPLACED = "replaced"


class PortCounts(NamedTuple):
    """a = |G| and b = |B| of a port (SDTCP section 3.4), and the largest MSS (0 without flows).

    `idle` of the burst flows are known to send nothing at present; `handshake_ns` is the least time
    from SYN to SYN-ACK seen lately through the port, 0 if none was seen.
    """

    background: int
    burst: int
    mss_bytes: int
    idle: int = 0
    handshake_ns: int = 0

    @property
    def flows(self) -> int:
        """N = a + b."""
        return self.background + self.burst

    @property
    def active_burst(self) -> int:
        return max(0, self.burst - self.idle)

    @property
    def active_flows(self) -> int:
        return self.background + self.active_burst


NO_FLOWS = PortCounts(0, 0, 0)


class _PortFlows:
    """The flows that leave through one port, by class, and the multiset of their MSS."""

    def __init__(self) -> None:
        self.by_class: dict[FlowClass, set[Flow]] = {cls: set() for cls in FlowClass}
        self._mss: Counter[int] = Counter()
        self.largest_mss_bytes = 0

    def add(self, flow: Flow) -> None:
        self.by_class[flow.cls].add(flow)
        self._mss[flow.mss_bytes] += 1
        self.largest_mss_bytes = max(self.largest_mss_bytes, flow.mss_bytes)

    def discard(self, flow: Flow) -> None:
        self.by_class[flow.cls].discard(flow)
        self._mss[flow.mss_bytes] -= 1
        if not self._mss[flow.mss_bytes]:
            del self._mss[flow.mss_bytes]
            if flow.mss_bytes == self.largest_mss_bytes:
                self.largest_mss_bytes = max(self._mss, default=0)


@dataclass(slots=True)
class _Half:
    """A SYN without its answer, or an answer without its SYN, and who has finished since."""

    segment: Segment
    seen_ns: int
    finished: set[FlowKey] = field(default_factory=set)


class GlobalFlowTable:
    """All TCP connections of the fabric. Only established ones have a route and are counted."""

    def __init__(
        self,
        half_open_limit: int = HALF_OPEN_LIMIT,
        half_open_timeout_ns: int = HALF_OPEN_TIMEOUT_NS,
    ) -> None:
        self._half_open_limit = half_open_limit
        self._half_open_timeout_ns = half_open_timeout_ns
        self._connections: dict[FlowKey, Connection] = {}
        self._half_open: OrderedDict[FlowKey, _Half] = OrderedDict()
        self._early_answers: OrderedDict[FlowKey, _Half] = OrderedDict()
        self._ports: dict[PortId, _PortFlows] = {}
        self._touched: dict[PortId, None] = {}

    def __len__(self) -> int:
        """The number of established connections."""
        return len(self._connections)

    @property
    def half_open(self) -> int:
        return len(self._half_open)

    @property
    def connections(self) -> list[Connection]:
        """The established connections."""
        return list(self._connections.values())

    def find(self, key: FlowKey) -> Connection | None:
        """The established connection that a segment of either direction belongs to."""
        return self._connections.get(key) or self._connections.get(key.reverse)

    def counts(self, port: PortId) -> PortCounts:
        flows = self._ports.get(port)
        if flows is None:
            return NO_FLOWS
        return PortCounts(
            len(flows.by_class[FlowClass.BACKGROUND]),
            len(flows.by_class[FlowClass.BURST]),
            flows.largest_mss_bytes,
        )

    def flows(self, port: PortId, cls: FlowClass) -> frozenset[Flow]:
        """BRT or BGT of one egress port."""
        flows = self._ports.get(port)
        return frozenset(flows.by_class[cls]) if flows else frozenset()

    def take_touched(self) -> list[PortId]:
        """The ports whose counts or MSS changed since the last call, first come first."""
        touched, self._touched = list(self._touched), {}
        return touched

    # Segments

    def observe(self, segment: Segment, now_ns: int) -> list[tuple[Change, Connection]]:
        """Enter one copied segment; data segments change nothing."""
        if segment.flags & RST:
            return self._reset(segment)
        if segment.flags & SYN:
            if segment.flags & ACK:
                return self._syn_ack(segment, now_ns)
            return self._syn(segment, now_ns)
        if segment.flags & FIN:
            return self._fin(segment)
        return []

    def _syn(self, segment: Segment, now_ns: int) -> list[tuple[Change, Connection]]:
        changes: list[tuple[Change, Connection]] = []
        known = self.find(segment.key)
        if known is not None:
            if known.key == segment.key and known.initial_sequence == segment.sequence:
                return []
            self.remove(known)
            changes.append((Change.REPLACED, known))
        crossing = self._half_open.get(segment.key.reverse)
        if crossing is not None:
            # RFC 9293 section 3.5, simultaneous open: the first SYN stays the initiator's.
            crossing.seen_ns = now_ns
            self._half_open.move_to_end(segment.key.reverse)
            return changes
        early = self._early_answers.pop(segment.key, None)
        if early is not None and early.segment.answers(segment):
            return changes + self._open(segment, early.segment, early.finished, now_ns)
        self._half_open.pop(segment.key, None)
        self._half_open[segment.key] = _Half(segment, now_ns)
        if len(self._half_open) > self._half_open_limit:
            self._half_open.popitem(last=False)
        return changes

    def _syn_ack(self, segment: Segment, now_ns: int) -> list[tuple[Change, Connection]]:
        key = segment.key.reverse
        entry = self._half_open.pop(key, None)
        if entry is not None:
            return self._open(entry.segment, segment, entry.finished, now_ns)
        if self.find(key) is None:
            # It came by another switch than the SYN, whose copy may be on its way yet.
            self._early_answers.pop(key, None)
            self._early_answers[key] = _Half(segment, now_ns)
            if len(self._early_answers) > self._half_open_limit:
                self._early_answers.popitem(last=False)
        return []

    def _open(
        self, syn: Segment, answer: Segment, finished: set[FlowKey], now_ns: int
    ) -> list[tuple[Change, Connection]]:
        # RFC 7323 section 2.2: windows are scaled only if both ends offered to.
        scaled = syn.window_scale is not None and answer.window_scale is not None
        mss_bytes = min(syn.offered_mss_bytes, answer.offered_mss_bytes)
        connection = Connection(
            initiator_mac=syn.src_mac,
            responder_mac=syn.dst_mac,
            initial_sequence=syn.sequence,
            opened_ns=now_ns,
            forward=Flow(syn.key, mss_bytes, answer.shift if scaled else 0),
            reverse=Flow(syn.key.reverse, mss_bytes, syn.shift if scaled else 0),
            finished=finished,
        )
        self._establish(connection)
        return [(Change.OPENED, connection)]

    def _fin(self, segment: Segment) -> list[tuple[Change, Connection]]:
        connection = self.find(segment.key)
        if connection is None:
            for halves in (self._half_open, self._early_answers):
                half = halves.get(segment.key) or halves.get(segment.key.reverse)
                if half is not None:
                    half.finished.add(segment.key)
            return []
        connection.finished.add(segment.key)
        if len(connection.finished) < 2:
            return []
        self.remove(connection)
        return [(Change.FINISHED, connection)]

    def _reset(self, segment: Segment) -> list[tuple[Change, Connection]]:
        self._forget_handshake(segment.key)
        connection = self.find(segment.key)
        if connection is None:
            return []
        self.remove(connection)
        return [(Change.RESET, connection)]

    # Changes that do not come from a segment

    def adopt(self, connection: Connection) -> None:
        """Enter a connection whose handshake was not seen. Its key must not be known."""
        self._forget_handshake(connection.key)
        self._establish(connection)

    def _establish(self, connection: Connection) -> None:
        connection.established = True
        self._connections[connection.key] = connection

    def route(self, flow: Flow, ports: tuple[PortId, ...]) -> None:
        """Tell the egress ports that a flow's data leaves through."""
        if ports == flow.ports:
            return
        self._unlist(flow)
        flow.ports = ports
        self._list(flow)

    def reclassify(self, flow: Flow, cls: FlowClass) -> None:
        """Move a flow between BRT and BGT."""
        self._unlist(flow)
        flow.cls = cls
        self._list(flow)

    def remove(self, connection: Connection) -> None:
        """Forget an established connection; its flows keep their ports for whoever cleans up."""
        del self._connections[connection.key]
        connection.established = False
        for flow in connection.flows:
            self._unlist(flow)

    def expire(self, now_ns: int) -> list[Segment]:
        """Drop the SYNs that were never answered; returns the answers whose SYN never came."""
        while self._half_open:
            key, entry = next(iter(self._half_open.items()))
            if now_ns - entry.seen_ns < self._half_open_timeout_ns:
                break
            del self._half_open[key]
        orphans = []
        while self._early_answers:
            key, entry = next(iter(self._early_answers.items()))
            if now_ns - entry.seen_ns < EARLY_ANSWER_TIMEOUT_NS:
                break
            del self._early_answers[key]
            orphans.append(entry.segment)
        return orphans

    def _forget_handshake(self, key: FlowKey) -> None:
        for side in (key, key.reverse):
            self._half_open.pop(side, None)
            self._early_answers.pop(side, None)

    def _list(self, flow: Flow) -> None:
        for port in flow.ports:
            self._ports.setdefault(port, _PortFlows()).add(flow)
            self._touched[port] = None

    def _unlist(self, flow: Flow) -> None:
        for port in flow.ports:
            flows = self._ports[port]
            flows.discard(flow)
            self._touched[port] = None
            if not any(flows.by_class.values()):
                del self._ports[port]
