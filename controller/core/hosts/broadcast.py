"""Frames to groups and to everybody: switches flood them over a tree, without the controller.

A switch takes such a frame from its hosts and from the links of the tree, and from nowhere else,
and sends it out of all others of these ports. So it reaches every port once. It does not loop while
the switches change one after another: links leave the tree on all switches first, and others join
it a moment later. What hosts send is metered, port by port.

Questions of ARP and neighbour discovery are an exception for as long as the controller is there,
which answers most of them: it says so to the switches again and again (`ControllerAnswers`). So are
frames to hosts that are not known yet.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from controller.core.desired.tables import Tables
from controller.core.hosts.multicast import Multicast
from controller.core.topology.fabric import PORT_GRACE_NS, Fabric
from controller.core.topology.flood_tree import flood_tree
from controller.core.topology.links import Link
from controller.core.topology.vlans import Membership
from controller.model.effects import Effect, GoOn, Install
from controller.model.entries import (
    CONTROLLER_ANSWERS_S,
    ControllerAnswers,
    Entry,
    EntryKey,
    FloodFrom,
    FloodTo,
    GroupMessages,
    GroupTo,
)
from controller.model.values import PortId
from controller.model.vlans import tag

_ANSWERS_AGAIN_NS = CONTROLLER_ANSWERS_S * 10**9 // 3
# Ports of Open vSwitch have 16 bits, and a meter each.
_LAST_METERED_PORT = 0xFFFF
# Flow entries for all switches of a large fabric at once would take long.
_TOLD_PER_TURN = 16
# When all switches surely do without what has left the tree.
_SETTLED_NS = 250_000_000


class _Edge(NamedTuple):
    """A port for hosts: its VLANs where a rule names it, and the other ports of its bond."""

    vlans: Membership | None
    others: frozenset[int]


_Edges = dict[int, _Edge]


class Broadcast:
    """Keeps the switches' entries for frames to groups. Effects go to `emit`.

    A switch without meters does not flood what hosts send: the controller does. `multicast` knows
    the members of groups, if what is sent to one goes to them only.
    """

    def __init__(
        self,
        fabric: Fabric,
        tables: Tables,
        emit: Callable[[Effect], None],
        multicast: Multicast | None,
    ) -> None:
        self.multicast = multicast
        self._fabric = fabric
        self._tables = tables
        self._emit = emit
        self._metered: set[int] = set()
        self._tree: frozenset[Link] = frozenset()
        self._held_ports: set[PortId] = set()
        self._seen = -1, -1
        self._look_at_ns = self._not_before_ns = 0
        # What is told to switches now: of the tree only what was in the former one while it `waits`
        # for others to leave.
        self._followed: frozenset[Link] | None = None
        self._waits = False
        self._joins_at_ns: int | None = None
        self._answers_from: dict[int, int] = {}
        self._keys: dict[int, set[EntryKey]] = {}
        # Of each switch the links of the tree, the ports for hosts and whether it has meters: what
        # it was told, and the ports that it is to be told of.
        self._told: dict[int, tuple[set[int], _Edges, bool]] = {}
        self._changed: dict[int, tuple[set[int], _Edges]] = {}

    def connect(self, switch: int, held: Iterable[Entry], now_ns: int, *, metered: bool) -> None:
        """A switch is connected; what it holds tells which links were of the tree, and is left as
        it is until it is known which ports lead to hosts."""
        self._not_before_ns = now_ns + PORT_GRACE_NS
        (self._metered.add if metered else self._metered.discard)(switch)
        for entry in held:
            if isinstance(entry, FloodFrom) and not entry.of_hosts:
                self._held_ports.add(PortId(switch, entry.port))
        self._tables.sweep(switch, FloodTo, lambda entry: not self._fits(switch, entry))
        if self.multicast is not None:
            self.multicast.connect(switch, now_ns)
        else:
            for kind in (GroupTo, GroupMessages):
                self._tables.sweep(switch, kind)
        self._answers_from[switch] = 0
        self._emit(Install(switch, ControllerAnswers()))
        self._look_at_ns = 0

    def port_changed(self, port_id: PortId) -> None:
        """A port is gone, or may be in other VLANs: until that is followed, nothing is flooded
        there that it does not carry."""
        switch, port = port_id
        links, edges, _ = self._told.get(switch, (set(), {}, False))
        if port in edges:
            is_gone = self._fabric.port(port_id) is None
            if is_gone or edges[port].vlans != self._fabric.membership(port_id):
                if is_gone:
                    # With its meter.
                    self._tables.vanished(switch, FloodFrom(port, of_hosts=True).key)
                self._install(switch, links, {n: of for n, of in edges.items() if n != port})

    def forget_switch(self, switch: int) -> None:
        """A switch is gone for good."""
        self._metered.discard(switch)
        if self.multicast is not None:
            self.multicast.forget_switch(switch)
        for known in (self._answers_from, self._keys, self._told, self._changed):
            known.pop(switch, None)

    def tend(self, now_ns: int) -> None:
        """Follow the fabric."""
        self._say_who_answers(now_ns)
        if self.multicast is not None:
            self.multicast.tend(now_ns)
        self._tell_some()
        if self._changed:
            return  # One tree after the other.
        if self._waits and self._joins_at_ns is None:
            self._joins_at_ns = now_ns + _SETTLED_NS
        if self._joins_at_ns is not None and now_ns >= self._joins_at_ns:
            self._waits, self._joins_at_ns = False, None
            self._follow(self._tree, now_ns)
        fabric = self._fabric
        seen = fabric.port_changes, fabric.version
        if seen == self._seen and now_ns < self._look_at_ns:
            return
        if now_ns < self._not_before_ns or any(map(fabric.is_presumed, fabric.link_ports())):
            return  # Switches go on with what they hold until it is known where ports lead.
        # Ports that have just come up may lead to switches: nothing goes there until that is known.
        self._look_at_ns = now_ns + PORT_GRACE_NS if seen != self._seen else 1 << 63
        self._seen = seen
        links = [link for link in fabric.links() if not fabric.is_protected(link)]
        silent = {end.switch for link in links for end in link} - fabric.connected()
        if self._followed is None:
            self._followed = frozenset(link for link in links if set(link) <= self._held_ports)
        former = self._followed
        self._tree = flood_tree(links, former, silent, fabric.doubtful_links())
        if former - self._tree:
            self._waits, self._joins_at_ns = True, None
        self._follow(self._tree & former if self._waits else self._tree, now_ns)

    def go_on(self, now_ns: int) -> None:
        """Tell a few more switches of their ports, and of some groups."""
        self._tell_some()
        if self.multicast is not None:
            self.multicast.go_on(now_ns)

    def _tell_some(self) -> None:
        for switch in list(islice(self._changed, _TOLD_PER_TURN)):
            self._install(switch, *self._changed.pop(switch))
        if self._changed:
            self._emit(GoOn())

    def _say_who_answers(self, now_ns: int) -> None:
        due = [one for one, from_ns in self._answers_from.items() if from_ns <= now_ns]
        for switch in due[:_TOLD_PER_TURN]:
            self._answers_from[switch] = now_ns + _ANSWERS_AGAIN_NS
            if self._tables.connected(switch):
                self._emit(Install(switch, ControllerAnswers()))

    def _follow(self, tree: frozenset[Link], now_ns: int) -> None:
        """Find the switches at which something has changed, and tell them."""
        self._followed = tree
        if self.multicast is not None:
            self.multicast.follow_tree(tree)
        links: dict[int, set[int]] = {}
        for link in tree:
            for end in link:
                links.setdefault(end.switch, set()).add(end.port)
        edges: dict[int, _Edges] = {}
        for port_id in self._fabric.host_ports(now_ns):
            bond = self._fabric.bonds.bond(port_id)
            others = bond.ports.keys() - {port_id.port} if bond else ()
            edge = _Edge(self._fabric.membership(port_id), frozenset(others))
            edges.setdefault(port_id.switch, {})[port_id.port] = edge
        for switch in filter(self._tables.connected, self._tables.switches()):
            ports = links.get(switch, set()), edges.get(switch, {})
            if self._told.get(switch) != (*ports, switch in self._metered):
                self._changed[switch] = ports
        self._tell_some()

    def _install(self, switch: int, links: set[int], edges: _Edges) -> None:
        fabric, is_metered = self._fabric, switch in self._metered
        vlans_of = {port: edge.vlans for port, edge in edges.items()}
        wanted: list[Entry] = [FloodFrom(port, of_hosts=False) for port in sorted(links)]
        if is_metered:
            # Frames to a group count as having entered by one port of a bond; others do not.
            sources: list[tuple[int, int | None]] = [(port, None) for port in edges]
            sources += [(other, port) for port, edge in edges.items() for other in edge.others]
            sources = [source for source in sorted(sources) if source[0] <= _LAST_METERED_PORT]
            wanted += (FloodFrom(port, of_hosts=True, counts_as=as_) for port, as_ in sources)
            if self.multicast is not None:
                wanted += (GroupMessages(port) for port, _ in sources)
        for vlan in fabric.vlans.all if fabric.vlans else [None]:
            wanted.append(FloodTo(vlan, *fabric.vlans.ways_out(vlan, links, vlans_of)))
        keys = {entry.key for entry in wanted}
        for key in self._keys.get(switch, set()) - keys:
            self._tables.remove(switch, key)
        for entry in wanted:
            self._tables.put(switch, entry)
        self._keys[switch] = keys
        self._told[switch] = links, edges, is_metered
        if self.multicast is not None:
            self.multicast.follow(switch, links, vlans_of, metered=is_metered)

    def _fits(self, switch: int, entry: FloodTo) -> bool:
        """Whether what a switch holds floods no port with what it does not carry."""
        fabric, tags = self._fabric, tag(entry.vlan or b"")
        if (entry.vlan is None) == bool(fabric.vlans):
            return False
        return all(
            fabric.vlans.on_wire(fabric.membership(port_id), tags) == form
            for ports, form in ((entry.tagged, tags), (entry.untagged, b""))
            for port_id in (PortId(switch, port) for port in ports)
            if not fabric.is_link(port_id)
        )
