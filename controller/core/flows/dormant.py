"""Dormant connections: idle for long, but open, and expected to move data again some day.

Programs keep pools of connections for days, and the first requests over a pool come all at once. A
dormant connection needs nothing on any switch but its part of a `ServiceWatch`: an entry at the
client's switch for all dormant connections between two hosts and one TCP port. It copies up the
first segment, and with that the connection counts again.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from controller.core.desired.tables import Tables
from controller.core.flows.host_pairs import Connection, HostPair
from controller.model.entries import ServiceWatch
from controller.model.flow import FlowKey


class _Place(NamedTuple):
    """A watch on a switch."""

    switch: int
    watch: ServiceWatch


class DormantConnections:
    """The dormant connections, those for longest first, and the watches for them.

    A switch has at most `watches_per_switch` watches. `adopted` are watches that a switch held
    when it connected, for connections that were dormant before this controller was there.
    """

    def __init__(self, tables: Tables, watches_per_switch: int) -> None:
        self._tables = tables
        self._watches_per_switch = watches_per_switch
        self._places: dict[Connection, _Place | None] = {}  # None while a host is unknown
        self._uses: Counter[_Place] = Counter()
        self._n_watches: Counter[int] = Counter()
        self._adopted: dict[_Place, None] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def most_watches(self) -> int:
        """How many watches the switch has that has most."""
        return max(self._n_watches.values(), default=0)

    @property
    def watches(self) -> bool:
        """Whether there is any watch."""
        return bool(self._uses)

    def __iter__(self) -> Iterator[Connection]:
        """Those that are dormant for longest come first."""
        return iter(self._places)

    def add(self, connection: Connection) -> bool:
        """Watch for data of a connection. Returns whether its switch had room for a watch."""
        place = _place_of(connection)
        if place is not None and not self._use(place):
            return False
        self._places[connection] = place
        return True

    def discard(self, connection: Connection) -> None:
        """The connection is not dormant any more."""
        place = self._places.pop(connection, None)
        if place is not None:
            self._leave(place)

    def rerouted(self, pair: HostPair) -> list[Connection]:
        """The hosts of a pair may be elsewhere. Returns the connections that cannot be watched any
        more, because their switch has no room."""
        excess = []
        for connection in pair.dormant:
            place, before = _place_of(connection), self._places[connection]
            if place == before:
                continue
            if place is not None and not self._use(place):
                excess.append(connection)
                continue
            self._places[connection] = place
            if before is not None:
                self._leave(before)
        return excess

    # Watches that outlive their controller

    def adopt(self, switch: int, watch: ServiceWatch) -> None:
        """Keep a watch that a switch held when it connected, as long as there is room."""
        place = _Place(switch, watch)
        if place not in self._adopted and self._use(place):
            self._adopted[place] = None

    def forget_adopted(self, switch: int) -> None:
        """The switch is gone for good."""
        for place in [place for place in self._adopted if place.switch == switch]:
            self._unadopt(place)

    def adopted_addresses(self) -> set[bytes]:
        """The addresses of hosts with connections that may be dormant."""
        return {host for _, watch in self._adopted for host in (watch.client, watch.server)}

    def is_watched(self, switch: int, key: bytes) -> bool:
        """Whether a switch watches for data of a flow."""
        if not self._n_watches[switch]:
            return False
        flow = FlowKey.unpack(key)
        from_client = ServiceWatch(flow.src, flow.dst, flow.dst_port)
        from_server = ServiceWatch(flow.dst, flow.src, flow.src_port)
        uses = self._uses
        return _Place(switch, from_client) in uses or _Place(switch, from_server) in uses

    # Uses of watches

    def _use(self, place: _Place) -> bool:
        """Use a watch once more; returns whether there is room for it."""
        if place not in self._uses:
            while self._n_watches[place.switch] >= self._watches_per_switch:
                oldest = next((p for p in self._adopted if p.switch == place.switch), None)
                if oldest is None:
                    return False
                self._unadopt(oldest)
            self._n_watches[place.switch] += 1
            self._tables.put(place.switch, place.watch)
        self._uses[place] += 1
        return True

    def _leave(self, place: _Place) -> None:
        self._uses[place] -= 1
        if not self._uses[place]:
            del self._uses[place]
            self._n_watches[place.switch] -= 1
            self._tables.remove(place.switch, place.watch.key)

    def _unadopt(self, place: _Place) -> None:
        del self._adopted[place]
        self._leave(place)


def client_is_initiator(connection: Connection) -> bool:
    """Whether the connection's initiator is the client. If its handshake was not seen, the side
    with the lower port is taken for the server."""
    if connection.initial_sequence >= 0:
        return True
    ports = FlowKey.unpack(connection.key)
    return ports.src_port >= ports.dst_port


def _place_of(connection: Connection) -> _Place | None:
    """Where a connection is to be watched: at the client's switch; None if it is not known."""
    edges = connection.pair.edges
    if not edges:
        return None
    flow = FlowKey.unpack(connection.key)
    switch = edges[0]
    if not client_is_initiator(connection):
        flow, switch = flow.reverse, edges[-1]
    return _Place(switch, ServiceWatch(flow.src, flow.dst, flow.dst_port))
