"""Dormant connections: idle for long, but open, and expected to move data again some day.

Programs keep pools of connections for days, and the first requests over a pool come all at once. A
dormant connection needs nothing on any switch but its part of a `ServiceWatch`: an entry at the
client's switch for all dormant connections between two hosts and one TCP port. It copies up the
first segment, and with that the connection counts again.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False)
class _Watched:
    """A watch and its connections. `adopted_ns` is when its switch connected and held it already,
    for connections that were dormant before this controller was there; else None."""

    place: _Place
    connections: set[Connection] = field(default_factory=set)
    adopted_ns: int | None = None


class DormantConnections:
    """The dormant connections, those for longest first, and the watches for them.

    A switch has at most `watches_per_switch` watches; if there are more, the one that has not got
    another connection for longest goes.
    """

    def __init__(self, tables: Tables, watches_per_switch: int) -> None:
        self._tables = tables
        self._watches_per_switch = watches_per_switch
        self._watched: dict[Connection, _Watched | None] = {}  # None while a host is unknown
        self._watches: dict[int, dict[ServiceWatch, _Watched]] = {}  # By switch.
        self._adopted: dict[_Place, _Watched] = {}  # The first adopted first.
        self.n_watches = 0
        self.adopted_ends: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def most_watches(self) -> int:
        """How many watches the switch has that has most."""
        return max(map(len, self._watches.values()), default=0)

    def __iter__(self) -> Iterator[Connection]:
        """Those that are dormant for longest come first."""
        return iter(self._watched)

    def since(self, since_ns: int, most: int) -> list[Connection]:
        """Those that are dormant since then or longer, at most so many of them."""
        return list(islice(takewhile(lambda one: one.begun_ns <= since_ns, self), most))

    def add(self, connection: Connection) -> list[Connection]:
        """Watch for data of a connection. Returns those for whose watch there is no room any
        more."""
        return self._watch(connection, _place_of(connection))

    def discard(self, connection: Connection) -> None:
        """The connection is not dormant any more."""
        watched = self._watched.pop(connection, None)
        if watched is not None:
            self._leave(watched, connection)

    def rerouted(self, pair: HostPair) -> list[Connection]:
        """The hosts of a pair may be elsewhere. Returns the connections for whose watch there is no
        room any more."""
        excess = []
        for connection in pair.dormant:
            place, before = _place_of(connection), self._watched[connection]
            if place == (before.place if before else None):
                continue
            if before is not None:
                self._leave(before, connection)
            excess += self._watch(connection, place)
        return excess

    # Watches that outlive their controller

    def adopt(self, switch: int, watch: ServiceWatch, now_ns: int) -> list[Connection]:
        """Keep a watch that a switch held when it connected. Returns the connections for whose
        watch there is no room any more."""
        watched, excess = self._put(_Place(switch, watch))
        if watched.adopted_ns is not None:
            return excess
        watched.adopted_ns = now_ns
        self._adopted[watched.place] = watched
        self.adopted_ends.update(watch.ends)
        return excess

    def forget_adopted(self, switch: int) -> None:
        """The switch is gone for good."""
        for watched in [one for one in self._adopted.values() if one.place.switch == switch]:
            self._unadopt(watched)

    def forget_adopted_before(self, since_ns: int) -> None:
        """Nobody has used these watches for long."""
        for watched in list(islice(self._adopted.values(), _LOOKED_AT)):
            assert watched.adopted_ns is not None
            if watched.adopted_ns > since_ns:
                break
            self._unadopt(watched)

    def is_watched(self, switch: int, key: bytes) -> bool:
        """Whether a switch watches for data of a flow."""
        watches = self._watches.get(switch)
        if not watches:
            return False
        flow = FlowKey.unpack(key)
        return ServiceWatch.of(flow) in watches or ServiceWatch.of(flow.reverse) in watches

    # The connections of a watch

    def _watch(self, connection: Connection, place: _Place | None) -> list[Connection]:
        if place is None:
            self._watched[connection] = None
            return []
        watched, excess = self._put(place)
        watched.connections.add(connection)
        self._watched[connection] = watched
        return excess

    def _put(self, place: _Place) -> tuple[_Watched, list[Connection]]:
        """The watch at a place, which is the latest now, and the connections of one that had to
        go."""
        watches = self._watches.setdefault(place.switch, {})
        watched, excess = watches.pop(place.watch, None), []
        if watched is None:
            if len(watches) >= self._watches_per_switch:
                excess = self._evict(next(iter(watches.values())))
            watched = _Watched(place)
            self._tables.put(place.switch, place.watch)
            self.n_watches += 1
        watches[place.watch] = watched
        return watched, excess

    def _evict(self, watched: _Watched) -> list[Connection]:
        """End a watch. Returns its connections, which are to be forgotten."""
        connections = list(watched.connections)
        for connection in connections:
            self._watched[connection] = None
        watched.connections.clear()
        self._unadopt(watched)
        return connections

    def _leave(self, watched: _Watched, connection: Connection) -> None:
        watched.connections.discard(connection)
        self._end_if_unused(watched)

    def _unadopt(self, watched: _Watched) -> None:
        if self._adopted.pop(watched.place, None) is not None:
            watched.adopted_ns = None
            for end in watched.place.watch.ends:
                self.adopted_ends[end] -= 1
                if not self.adopted_ends[end]:
                    del self.adopted_ends[end]
        self._end_if_unused(watched)

    def _end_if_unused(self, watched: _Watched) -> None:
        switch, watch = watched.place
        if not watched.connections and watched.adopted_ns is None:
            del self._watches[switch][watch]
            self._tables.remove(switch, watch.key)
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
    return _Place(switch, ServiceWatch.of(flow))
