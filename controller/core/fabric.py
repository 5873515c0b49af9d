"""Switches, ports, links and hosts, and the path between two hosts.

Paths are shortest paths and symmetric: a flow's ACKs come back through the ports that its data
leaves by. That holds because ties between equally long paths are broken by fixed weights of the
links.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

import networkx as nx

from controller.core.values import PortId

_HOP_WEIGHT = 1 << 48

# A port that came up this recently may yet turn out to lead to a switch.
PORT_GRACE_NS = 250_000_000
# A link that was there before the controller came is believed until its other switch is back: Open
# vSwitch tries to connect again after at most 8 s.
PRESUMED_FOR_NS = 12 * 10**9


@dataclass(frozen=True, slots=True)
class Port:
    """A switch's own description of one of its ports; a speed of 0 is not known."""

    number: int
    name: str
    mac: bytes
    up: bool
    speed_bps: int = 0


@dataclass(slots=True)
class Host:
    mac: bytes
    port: PortId
    addresses: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class _PortState:
    port: Port
    settled_ns: int


class Fabric:
    """The graph. `version` rises when links change; `take_changed_hosts` tells which hosts did.

    `changes` rises whenever a port, a link or the place of a host may have changed.
    """

    def __init__(self, link_timeout_ns: int) -> None:
        self._link_timeout_ns = link_timeout_ns
        self._ports: dict[PortId, _PortState] = {}
        self._connected: set[int] = set()
        self._links: dict[PortId, tuple[PortId, int]] = {}
        self._presumed_links: dict[PortId, int] = {}
        self._looked_ns = 0
        self.hosts: dict[bytes, Host] = {}
        self._owners: dict[bytes, bytes] = {}
        self._changed_hosts: set[bytes] = set()
        self.version = 0
        self.changes = 0
        self._graph: nx.Graph[int] = nx.Graph()
        self._trees: dict[int, dict[int, int]] = {}
        self._trees_version = -1

    # Switches and ports

    def connect(self, switch: int, ports: Iterable[Port], now_ns: int) -> None:
        self._connected.add(switch)
        ports = list(ports)
        for port_id in self.ports_of(switch):
            if port_id.port not in {port.number for port in ports}:
                self.remove_port(port_id)
        for port in ports:
            self.set_port(switch, port, now_ns)
        # Discovery frames could not pass in the meantime; that says nothing about the links.
        for a, (b, _) in self._links.items():
            if switch in (a.switch, b.switch):
                self._links[a] = (b, now_ns)

    def disconnect(self, switch: int) -> None:
        """The control channel is lost. Forwarding goes on, so nothing is taken for gone."""
        self._connected.discard(switch)

    def set_port(self, switch: int, port: Port, now_ns: int) -> None:
        """Enter a port or its new state; one that goes down loses its link and its hosts."""
        self.changes += 1
        port_id = PortId(switch, port.number)
        known = self._ports.get(port_id)
        if not port.up:
            self._clear(port_id)
        settled_ns = now_ns + PORT_GRACE_NS
        if known is not None and known.port.up and port.up:
            settled_ns = known.settled_ns
        self._ports[port_id] = _PortState(port, settled_ns)

    def remove_port(self, port_id: PortId) -> None:
        self._clear(port_id)
        self._ports.pop(port_id, None)

    def settle(self, port_id: PortId) -> None:
        """It is known what this port leads to; waive the grace."""
        if port_id in self._ports:
            self._ports[port_id].settled_ns = 0

    def port(self, port_id: PortId) -> Port | None:
        state = self._ports.get(port_id)
        return state.port if state else None

    def connected(self) -> set[int]:
        return set(self._connected)

    def ports_of(self, switch: int) -> list[PortId]:
        return [port_id for port_id in self._ports if port_id.switch == switch]

    def live_ports(self) -> list[PortId]:
        """The ports that are up, of the switches that can be reached now."""
        return [
            port_id
            for port_id, state in self._ports.items()
            if state.port.up and port_id.switch in self._connected
        ]

    def is_link(self, port_id: PortId) -> bool:
        return port_id in self._links or port_id in self._presumed_links

    def is_edge(self, port_id: PortId, now_ns: int) -> bool:
        """Whether hosts are behind this port. While that is not certain yet, it is no edge."""
        state = self._ports.get(port_id)
        return (
            state is not None
            and state.port.up
            and now_ns >= state.settled_ns
            and not self.is_link(port_id)
        )

    def edge_ports(self, now_ns: int) -> list[PortId]:
        return [port_id for port_id in self.live_ports() if self.is_edge(port_id, now_ns)]

    # Links

    def presume_link(self, port_id: PortId, now_ns: int) -> None:
        """This port was a link before the controller came; discovery has time to confirm it."""
        if port_id not in self._links:
            self.changes += 1
            self._presumed_links[port_id] = now_ns + max(self._link_timeout_ns, PRESUMED_FOR_NS)
            self.version += 1

    def link_seen(self, a: PortId, b: PortId, now_ns: int) -> bool:
        """A discovery frame went from `a` to `b`. Returns whether that is news."""
        if a == b or a not in self._ports or b not in self._ports:
            return False
        known = self._links.get(a, (None, 0))[0] == b and self._links.get(b, (None, 0))[0] == a
        if not known:
            for port_id in (a, b):
                self._clear(port_id)
            self.version += 1
        self._links[a] = (b, now_ns)
        self._links[b] = (a, now_ns)
        return not known

    def expire_links(self, now_ns: int) -> list[tuple[PortId, PortId]]:
        """Drop the links not seen for the timeout, except those of a switch out of reach.

        To be called more often than the timeout. After a longer pause it is the controller that was
        not there to see them, and every link gets another chance.
        """
        was_away = now_ns - self._looked_ns > self._link_timeout_ns
        self._looked_ns = now_ns
        if was_away:
            self._links = {a: (b, now_ns) for a, (b, _) in self._links.items()}
        expired = []
        for a, (b, seen_ns) in list(self._links.items()):
            reachable = a.switch in self._connected and b.switch in self._connected
            if a < b and reachable and now_ns - seen_ns > self._link_timeout_ns:
                expired.append((a, b))
                self._unlink(a)
        for port_id, deadline_ns in list(self._presumed_links.items()):
            if now_ns > deadline_ns:
                del self._presumed_links[port_id]
                self.version += 1
        return expired

    def link_ports(self) -> list[PortId]:
        """The ports that lead, or are presumed to lead, to another switch."""
        return [*self._links, *self._presumed_links]

    def links(self) -> list[tuple[PortId, PortId]]:
        return [(a, b) for a, (b, _) in self._links.items() if a < b]

    def _unlink(self, port_id: PortId) -> None:
        if self._presumed_links.pop(port_id, None) is not None:
            self.version += 1
        entry = self._links.pop(port_id, None)
        if entry is not None:
            self._links.pop(entry[0], None)
            self.version += 1

    def _clear(self, port_id: PortId) -> None:
        """Forget what was behind a port."""
        self.changes += 1
        self._unlink(port_id)
        for host in [host for host in self.hosts.values() if host.port == port_id]:
            self.forget(host.mac)

    # Hosts

    def learn(self, mac: bytes, port_id: PortId) -> bool:
        """A host sent from an edge port. Returns whether it is new there."""
        host = self.hosts.get(mac)
        if host is not None and host.port == port_id:
            return False
        if host is None:
            self.hosts[mac] = Host(mac, port_id)
        else:
            host.port = port_id
        self.changes += 1
        self._changed_hosts.add(mac)
        return True

    def bind(self, mac: bytes, address: bytes) -> None:
        """A known host has this address; whoever had it before has it no longer."""
        previous = self._owners.get(address)
        if previous is not None and previous != mac:
            self.hosts[previous].addresses.discard(address)
        self._owners[address] = mac
        self.hosts[mac].addresses.add(address)

    def owner(self, address: bytes) -> Host | None:
        mac = self._owners.get(address)
        return self.hosts[mac] if mac is not None else None

    def hosts_at(self, port_id: PortId) -> list[Host]:
        return [host for host in self.hosts.values() if host.port == port_id]

    def forget(self, mac: bytes) -> None:
        host = self.hosts.pop(mac)
        for address in host.addresses:
            del self._owners[address]
        self.changes += 1
        self._changed_hosts.add(mac)

    def take_changed_hosts(self) -> set[bytes]:
        """The hosts that came, moved or went since the last call."""
        changed, self._changed_hosts = self._changed_hosts, set()
        return changed

    # Paths

    def next_ports(self, host: Host) -> dict[int, int]:
        """For each switch from which the host can be reached: the port that leads there."""
        ports = dict(self._tree(host.port.switch))
        ports[host.port.switch] = host.port.port
        return ports

    def path(self, src_mac: bytes, dst_mac: bytes) -> tuple[PortId, ...] | None:
        """The egress ports from host to host, the last one the receiver's; None without a path."""
        src, dst = self.hosts.get(src_mac), self.hosts.get(dst_mac)
        if src is None or dst is None:
            return None
        next_ports = self.next_ports(dst)
        path = []
        switch = src.port.switch
        while switch != dst.port.switch:
            if switch not in next_ports:
                return None
            path.append(PortId(switch, next_ports[switch]))
            switch = self._links[path[-1]][0].switch
        return (*path, dst.port)

    def _tree(self, root: int) -> dict[int, int]:
        """For every other switch that reaches `root`: its port towards it."""
        if self._trees_version != self.version:
            self._trees = {}
            self._graph = self._build_graph()
            self._trees_version = self.version
        if root not in self._trees:
            tree: dict[int, int] = {}
            if root in self._graph:
                predecessors, _ = nx.dijkstra_predecessor_and_distance(self._graph, root)
                for switch, parents in predecessors.items():
                    if parents:
                        tree[switch] = self._graph.edges[switch, parents[0]]["ports"][switch]
            self._trees[root] = tree
        return self._trees[root]

    def _build_graph(self) -> "nx.Graph[int]":
        graph: nx.Graph[int] = nx.Graph()
        for a, b in self.links():
            weight = _HOP_WEIGHT + _tie_breaker(a, b)
            known = graph.get_edge_data(a.switch, b.switch)
            if known is None or weight < known["weight"]:
                ports = {a.switch: a.port, b.switch: b.port}
                graph.add_edge(a.switch, b.switch, weight=weight, ports=ports)
        return graph


def _tie_breaker(a: PortId, b: PortId) -> int:
    """The same for both directions, and the same after a restart."""
    digest = blake2b(repr(sorted([tuple(a), tuple(b)])).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")
