"""Dormant connections: idle for long, but open, and expected to move data again some day.

Programs keep pools of connections for days, and the first requests over a pool come all at once. A
dormant connection needs nothing on any switch but its part of a `ServiceWatch`: an entry at the
client's switch for all dormant connections between two hosts and one TCP port. It copies up the
first segment, and with that the connection counts again.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import NamedTuple

from controller.core.desired.tables import Tables
from controller.core.flows.host_pairs import Connection, HostPair
from controller.model.entries import ServiceWatch
from controller.model.flow import FlowKey

_LOOKED_AT = 64


class _Place(NamedTuple):
    """A watch on a switch."""

    switch: int
    watch: ServiceWatch


class DormantConnections:
    """The dormant connections, those for longest first, and the watches for them.

    A switch has at most `watches_per_switch` watches; if there are more, the one that has not got
    another connection for longest goes. Some are *adopted*: a switch held them when it connected,
    for connections that were dormant before this controller was there.
    """

    def __init__(self, tables: Tables, watches_per_switch: int) -> None:
        self._tables = tables
        self._watches_per_switch = watches_per_switch
        # Where each is watched for, None while a host is unknown; and since when it is dormant.
        self._places: dict[Connection, tuple[_Place | None, int]] = {}
        # By switch, the connections of each watch.
        self._watches: dict[int, dict[ServiceWatch, set[Connection]]] = {}
        self.n_watches = 0
        self._adopted: dict[_Place, int] = {}  # Since when; longest first.
        self.adopted_addresses: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def most_watches(self) -> int:
        """How many watches the switch has that has most."""
        return max(map(len, self._watches.values()), default=0)

    def __iter__(self) -> Iterator[Connection]:
        """Those that are dormant for longest come first."""
        return iter(self._places)

    def since(self, since_ns: int, most: int) -> list[Connection]:
        """Those that are dormant since then or longer, at most so many of them."""
        some = islice(self._places.items(), most)
        return [one for one, _ in takewhile(lambda item: item[1][1] <= since_ns, some)]

    def add(self, connection: Connection, now_ns: int) -> list[Connection]:
        """Watch for data of a connection. Returns those for whose watch there is no room any
        more."""
        place = _place_of(connection)
        self._places[connection] = place, now_ns
        return self._put(place, connection)

    def discard(self, connection: Connection) -> None:
        """The connection is not dormant any more."""
        place, _ = self._places.pop(connection, (None, 0))
        self._leave(place, connection)

    def rerouted(self, pair: HostPair) -> list[Connection]:
        """The hosts of a pair may be elsewhere. Returns the connections for whose watch there is no
        room any more."""
        excess = []
        for connection in pair.dormant:
            place, (before, since_ns) = _place_of(connection), self._places[connection]
            if place != before:
                self._leave(before, connection)
                self._places[connection] = place, since_ns
                excess += self._put(place, connection)
        return excess

    # Watches that outlive their controller

    def adopt(self, switch: int, watch: ServiceWatch, now_ns: int) -> list[Connection]:
        """Keep a watch that a switch held when it connected. Returns the connections for whose
        watch there is no room any more."""
        place = _Place(switch, watch)
        if place in self._adopted:
            return []
        self._adopted[place] = now_ns
        self.adopted_addresses.update((watch.client, watch.server))
        return self._put(place, None)

    def forget_adopted(self, switch: int) -> None:
        """The switch is gone for good."""
        for place in [place for place in self._adopted if place.switch == switch]:
            self._unadopt(place)

    def forget_adopted_before(self, since_ns: int) -> None:
        """Nobody has used these watches for long."""
        for place, adopted_ns in list(islice(self._adopted.items(), _LOOKED_AT)):
            if adopted_ns > since_ns:
                break
            self._unadopt(place)

    def is_watched(self, switch: int, key: bytes) -> bool:
        """Whether a switch watches for data of a flow."""
        watches = self._watches.get(switch)
        if not watches:
            return False
        flow = FlowKey.unpack(key)
        from_client = ServiceWatch(flow.src, flow.dst, flow.dst_port)
        from_server = ServiceWatch(flow.dst, flow.src, flow.src_port)
        return from_client in watches or from_server in watches

    # The connections of a watch

    def _put(self, place: _Place | None, connection: Connection | None) -> list[Connection]:
        """Watch at a place for a connection, or for unknown ones (None)."""
        if place is None:
            return []
        watches = self._watches.setdefault(place.switch, {})
        # It is the last one now.
        connections = watches.pop(place.watch, None)
        excess = []
        if connections is None:
            connections = set()
            if len(watches) >= self._watches_per_switch:
                excess = self._evict(place.switch, next(iter(watches)))
            self._tables.put(place.switch, place.watch)
            self.n_watches += 1
        watches[place.watch] = connections
        if connection is not None:
            connections.add(connection)
        return excess

    def _evict(self, switch: int, watch: ServiceWatch) -> list[Connection]:
        """End a watch. Returns its connections, which are to be forgotten."""
        connections = list(self._watches[switch].pop(watch))
        for connection in connections:
            _, since_ns = self._places[connection]
            self._places[connection] = None, since_ns
        self._drop_adopted(_Place(switch, watch))
        self._tables.remove(switch, watch.key)
        self.n_watches -= 1
        return connections

    def _leave(self, place: _Place | None, connection: Connection) -> None:
        if place is not None:
            self._watches[place.switch][place.watch].discard(connection)
            self._end_if_unused(place)

    def _unadopt(self, place: _Place) -> None:
        self._drop_adopted(place)
        self._end_if_unused(place)

    def _drop_adopted(self, place: _Place) -> None:
        if self._adopted.pop(place, None) is not None:
            for host in (place.watch.client, place.watch.server):
                self.adopted_addresses[host] -= 1
                if not self.adopted_addresses[host]:
                    del self.adopted_addresses[host]

    def _end_if_unused(self, place: _Place) -> None:
        watches = self._watches[place.switch]
        if not watches[place.watch] and place not in self._adopted:
            del watches[place.watch]
            self._tables.remove(place.switch, place.watch.key)
            self.n_watches -= 1


def client_is_initiator(connection: Connection) -> bool:
    """Whether the connection's initiator is the client. If its handshake was not seen, the side
    with the lower port is taken for the server."""
    if connection.initial_sequence >= 0:
        return True
    ports = FlowKey.unpack(connection.key)
    return ports.src_port >= ports.dst_port


def _place_of(connection: Connection) -> _Place | None:
    """Where a connection is to be watched: at the client's switch; None while there is no path
    between its hosts, because one is not known."""
    edges = connection.pair.edges
    if not edges or not connection.pair.forward.ports:
        return None
    flow = FlowKey.unpack(connection.key)
    switch = edges[0]
    if not client_is_initiator(connection):
        flow, switch = flow.reverse, edges[-1]
    return _Place(switch, ServiceWatch(flow.src, flow.dst, flow.dst_port))
