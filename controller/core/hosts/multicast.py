"""Multicast groups: what is sent to a group goes only where its members are (RFC 4541), if wanted.

Switches copy up what hosts and routers say by IGMP and MLD, and do not flood it themselves:
questions are sent on to all hosts, reports to routers only, since a host that hears of another
one's report keeps its own back. Where no router asks, the controller does.

Nobody is left out by what is not known. A port gets everything while it is not yet known what its
hosts want, if a router is there, and if its hosts want more than is remembered or more than could
be read. So does every port while the controller is away (`GroupsFollowed`). Groups of the link
itself (224.0.0.0/24, ff02::/16), which some hosts do not report, always go to all ports, and so do
those that nobody has ever joined.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from controller.core.desired.tables import Tables
from controller.core.topology.fabric import Fabric
from controller.core.topology.links import Link
from controller.model.effects import Effect, GoOn, GroupQuery, Install
from controller.model.entries import CONTROLLER_ANSWERS_S, GroupsFollowed, GroupTo
from controller.model.packet_ins import GroupKind, GroupMessage
from controller.model.values import PortId
from controller.model.vlans import tag

# RFC 3376 section 8: the query interval, what it takes to answer, and from both how long a member
# and another querier count. RFC 3810 section 9 has the same.
QUERY_EVERY_NS, ANSWER_WITHIN_NS = 125 * 10**9, 10 * 10**9
MEMBER_FOR_NS = 2 * QUERY_EVERY_NS + ANSWER_WITHIN_NS
QUERIER_FOR_NS = 2 * QUERY_EVERY_NS + ANSWER_WITHIN_NS // 2
# Who has left counts until others at the port had time to say that they have not.
LEAVES_WITHIN_NS = 2_500_000_000
UNSURE_FOR_NS = ANSWER_WITHIN_NS + 2 * 10**9
GROUPS_LIMIT, GROUPS_PER_PORT = 1024, 256
_FOLLOWED_AGAIN_NS = CONTROLLER_ANSWERS_S * 10**9 // 3
_GROUPS_PER_TURN = 16
_GENERAL = bytes(4), bytes(16)

Group = tuple[bytes, bytes]
"""A VLAN (empty: none) and an address."""

_Ways = tuple[tuple[int, ...], tuple[int, ...]]
# Of a switch the ports for a VLAN, with tags and without, among these links and ports for hosts.
_WaysOut = Callable[[bytes, int, Collection[int], Collection[int]], _Ways]


class _Switch(NamedTuple):
    """Links of the tree and ports for hosts. Those that are not `metered` take everything: what
    their hosts say is not copied up, but comes as frames that the switch does not flood."""

    links: frozenset[int]
    edges: frozenset[int]
    metered: bool


class Multicast:
    """Keeps the entries of groups. Effects go to `emit`; `deliver` sends a frame out of ports."""

    def __init__(
        self,
        fabric: Fabric,
        tables: Tables,
        emit: Callable[[Effect], None],
        deliver: Callable[[Iterable[PortId], bytes], None],
        ways_out: _WaysOut,
    ) -> None:
        self._fabric = fabric
        self._tables = tables
        self._emit = emit
        self._deliver = deliver
        self._ways_out = ways_out
        self._now_ns = 0
        self._switches: dict[int, _Switch] = {}
        self._tree: frozenset[Link] = frozenset()
        # Until when, by port.
        self._members: dict[Group, dict[PortId, int]] = {}
        self._ends: list[tuple[int, Group, PortId]] = []  # A heap: when to look whether it is over.
        self._n_of_port: dict[PortId, int] = {}
        self._routers: dict[PortId, int] = {}
        self._takes_all: dict[PortId, int] = {}
        self._queriers: dict[tuple[bytes, bool], int] = {}  # By VLAN, and whether of IPv6.
        self._ask_at_ns = 0
        self._followed_again_ns: dict[int, int] = {}
        self._dirty: dict[Group, None] = {}

    @property
    def n_groups(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Mapping[Group, Collection[PortId]]:
        """The groups, and the ports at which they have members."""
        return self._members

    @property
    def routers(self) -> Collection[PortId]:
        """The ports at which there are routers."""
        return self._routers.keys()

    @property
    def unsure(self) -> Collection[PortId]:
        """The ports that get everything since it is not known what their hosts want."""
        return self._takes_all.keys()

    # What is said

    def said(self, port_id: PortId, said: GroupMessage, now_ns: int) -> None:
        """A host or a router at an edge port has said something about groups."""
        self._now_ns = now_ns
        port_id = self._fabric.place(port_id)
        match said.kind:
            case GroupKind.HELLO:
                self._found_router(port_id)
            case GroupKind.QUERY:
                self._queriers[said.vlan, said.is_ipv6] = now_ns + QUERIER_FOR_NS
                self._found_router(port_id)
                if said.whole:
                    places = self._fabric.edge_places(now_ns)
                    self._deliver((one for one in places if one != port_id), said.frame)
                else:
                    self._ask(said.vlan, is_ipv6=said.is_ipv6)
            case GroupKind.REPORT:
                for address, is_member in said.groups:
                    if not _is_of_link(address):
                        self._reported((said.vlan, address), port_id, is_member=is_member)
                if not said.whole:
                    self._give_all(port_id, MEMBER_FOR_NS)
                elif others := [one for one in self._routers if one != port_id]:
                    self._deliver(others, said.frame)

    def _found_router(self, port_id: PortId) -> None:
        if port_id not in self._routers:
            self._renew()
        self._routers[port_id] = self._now_ns + QUERIER_FOR_NS

    def _reported(self, group: Group, port_id: PortId, *, is_member: bool) -> None:
        members = self._members.get(group, {})
        if not is_member:
            if port_id in members:
                until_ns = self._now_ns + LEAVES_WITHIN_NS
                if until_ns < members[port_id]:
                    members[port_id] = until_ns
                    heappush(self._ends, (until_ns, group, port_id))
                    self._query(port_id, *group)
            return
        if port_id not in members:
            if self._n_of_port.get(port_id, 0) >= GROUPS_PER_PORT:
                self._give_all(port_id, MEMBER_FOR_NS)
                return
            if group not in self._members:
                if not self._has_room():
                    return  # It goes to all ports.
                self._members[group] = members
            self._n_of_port[port_id] = self._n_of_port.get(port_id, 0) + 1
            heappush(self._ends, (self._now_ns + MEMBER_FOR_NS, group, port_id))
            self._dirty[group] = None
            self._go_on()
        members[port_id] = self._now_ns + MEMBER_FOR_NS

    def _has_room(self) -> bool:
        """Whether one more group can be remembered, if need be instead of one without members."""
        if len(self._members) < GROUPS_LIMIT:
            return True
        without = next((group for group, members in self._members.items() if not members), None)
        if without is not None:
            del self._members[without]
            self._dirty[without] = None
        return without is not None

    def _give_all(self, port_id: PortId, for_ns: int) -> None:
        if port_id not in self._takes_all:
            self._renew()
        until_ns = self._now_ns + for_ns
        self._takes_all[port_id] = max(until_ns, self._takes_all.get(port_id, 0))

    # What is asked

    def _ask(self, vlan: bytes, *, is_ipv6: bool) -> None:
        """Ask at all ports for all groups."""
        for port_id in self._fabric.edge_places(self._now_ns):
            self._query(port_id, vlan, _GENERAL[is_ipv6])

    def _query(self, port_id: PortId, vlan: bytes, address: bytes) -> None:
        port, tags = self._fabric.port(port_id), self._fabric.tags_at(port_id, tag(vlan))
        if port is not None and tags is not None:
            self._emit(GroupQuery(port_id, address, port.mac, tags))

    def _vlans(self) -> Iterable[bytes]:
        known = {vlan for vlan, _ in self._members} | {vlan for vlan, _ in self._queriers}
        return sorted({*self._fabric.vlans.all, *known})

    # Where it goes

    def follow(
        self, switch: int, links: Collection[int], edges: Collection[int], *, metered: bool
    ) -> None:
        """From now on a switch floods to these links of the tree and ports for hosts."""
        former = self._switches.get(switch)
        self._switches[switch] = _Switch(frozenset(links), frozenset(edges), metered)
        for port in edges if former is None else set(edges) - former.edges:
            port_id = PortId(switch, port)
            self._give_all(port_id, UNSURE_FOR_NS)
            for vlan in self._vlans():
                for address in _GENERAL:
                    self._query(port_id, vlan, address)
        self._renew()

    def follow_tree(self, tree: frozenset[Link]) -> None:
        """What is flooded takes these links from now on. Switches at which that changes something
        `follow`."""
        self._tree = tree

    def connect(self, switch: int) -> None:
        """A switch is connected. What it holds of groups may be out of date."""
        self._tables.sweep(switch, GroupTo)
        self._followed_again_ns[switch] = 0
        self._renew()

    def forget_switch(self, switch: int) -> None:
        """A switch is gone for good."""
        self._switches.pop(switch, None)
        self._followed_again_ns.pop(switch, None)
        for known in (self._routers, self._takes_all):
            for port_id in [one for one in known if one.switch == switch]:
                del known[port_id]
        for group, members in list(self._members.items()):
            for port_id in [one for one in members if one.switch == switch]:
                self._drop(group, port_id)
        self._renew()

    def tend(self, now_ns: int) -> None:
        """Forget who has not been heard for long; ask again."""
        self._now_ns = now_ns
        for known in (self._routers, self._takes_all):
            for port_id in [one for one, until_ns in known.items() if until_ns <= now_ns]:
                del known[port_id]
                self._renew()
        while self._ends and self._ends[0][0] <= now_ns:
            _, group, port_id = heappop(self._ends)
            until_ns = self._members.get(group, {}).get(port_id)
            if until_ns is not None and until_ns <= now_ns:
                self._drop(group, port_id)
            elif until_ns is not None:
                heappush(self._ends, (until_ns, group, port_id))
        for one in [one for one, until_ns in self._queriers.items() if until_ns <= now_ns]:
            del self._queriers[one]
        if now_ns >= self._ask_at_ns:
            self._ask_at_ns = now_ns + QUERY_EVERY_NS
            for vlan in self._vlans():
                for is_ipv6 in (False, True):
                    if (vlan, is_ipv6) not in self._queriers:
                        self._ask(vlan, is_ipv6=is_ipv6)
        self.go_on()
        for switch, again_ns in self._followed_again_ns.items():
            if again_ns <= now_ns and self._tables.connected(switch):
                self._followed_again_ns[switch] = now_ns + _FOLLOWED_AGAIN_NS
                self._emit(Install(switch, GroupsFollowed()))

    def go_on(self) -> None:
        """Tell the switches of some groups that go other ways now."""
        for group in list(islice(self._dirty, _GROUPS_PER_TURN)):
            del self._dirty[group]
            self._tell(group)
        self._go_on()

    def _go_on(self) -> None:
        if self._dirty:
            self._emit(GoOn())

    def _renew(self) -> None:
        """All groups may go other ways now."""
        self._dirty.update(dict.fromkeys(self._members))
        self._go_on()

    def _drop(self, group: Group, port_id: PortId) -> None:
        """A port has no member any more. A group without any goes to routers."""
        del self._members[group][port_id]
        self._n_of_port[port_id] -= 1
        if not self._n_of_port[port_id]:
            del self._n_of_port[port_id]
        self._dirty[group] = None

    def _tell(self, group: Group) -> None:
        members = self._members.get(group)
        if members is None:
            for switch in self._switches:
                self._tables.remove(switch, GroupTo(*group, ()).key)
            return
        vlan, address = group
        edges: dict[int, set[int]] = {}
        for port_id in (*members, *self._routers, *self._takes_all):
            if port_id.port in self._edges(port_id.switch):
                edges.setdefault(port_id.switch, set()).add(port_id.port)
        for switch, known in self._switches.items():
            if not known.metered and known.edges:
                edges[switch] = set(known.edges)
        links = links_towards(self._tree, edges.keys())
        for switch, known in self._switches.items():
            ways = self._ways_out(
                vlan, switch, links.get(switch, set()) & known.links, edges.get(switch, set())
            )
            self._tables.put(switch, GroupTo(vlan, address, *ways))

    def _edges(self, switch: int) -> frozenset[int]:
        known = self._switches.get(switch)
        return known.edges if known else frozenset()


def links_towards(tree: Iterable[Link], wanted: Collection[int]) -> dict[int, set[int]]:
    """Of each switch the ports of a tree's links beyond which there are wanted switches."""
    around: dict[int, list[tuple[int, int, int]]] = {}
    for a, b in tree:
        around.setdefault(a.switch, []).append((a.port, b.switch, b.port))
        around.setdefault(b.switch, []).append((b.port, a.switch, a.port))
    found: dict[int, set[int]] = {}
    seen: set[int] = set()
    for root in around:
        if root in seen:
            continue
        seen.add(root)
        order = [(root, 0, 0, 0)]  # A switch, its port to the one above, that one, and its port.
        for switch, *_ in order:
            for port, peer, peer_port in around[switch]:
                if peer not in seen:
                    seen.add(peer)
                    order.append((peer, peer_port, switch, port))
        below = {switch: int(switch in wanted) for switch, *_ in order}
        for switch, _, above, _ in reversed(order[1:]):
            below[above] += below[switch]
        for switch, port, above, above_port in order[1:]:
            if below[switch]:
                found.setdefault(above, set()).add(above_port)
            if below[root] - below[switch]:
                found.setdefault(switch, set()).add(port)
    return found


def _is_of_link(address: bytes) -> bool:
    """Whether a group is of the link itself, or no group."""
    if len(address) == 16:
        return address[0] != 0xFF or address[1] & 0xF <= 2
    return address[0] >> 4 != 0xE or address[:3] == b"\xe0\0\0"
