"""Multicast groups: what is sent to a group goes only where its members are (RFC 4541), if wanted.

Switches hand over what hosts and routers say by IGMP and MLD, and do not flood it themselves:
questions are sent on to all hosts, reports to routers only, since a host that hears of another
one's report keeps its own back. The controller asks, too, whether or not there is a router.

Nobody is left out by what is not known. A port gets everything while it is not yet known what its
hosts want, if a router is there, if its hosts want more than is remembered, and if its switch has
no meters. So does every port while the controller, or the channel of any switch, is away
(`GroupsFollowed`). Groups of the link itself (224.0.0.0/24, ff02::/16), which some hosts do not
report, always go to all ports, and so do those that nobody has ever joined.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from controller.core.desired.tables import Tables
from controller.core.hosts.resolution import Resolver
from controller.core.topology.fabric import Fabric
from controller.core.topology.links import Link
from controller.core.topology.vlans import Membership
from controller.model.effects import Effect, GoOn, GroupQuery, Install
from controller.model.entries import CONTROLLER_ANSWERS_S, GroupsFollowed, GroupTo
from controller.model.packet_ins import GroupKind, GroupMessage
from controller.model.values import PortId
from controller.model.vlans import tag

# RFC 3376 section 8 and RFC 3810 section 9: how often hosts are asked, how long they may take to
# answer, and for how long both make a member count.
QUERY_EVERY_NS, ANSWER_WITHIN_S = 125 * 10**9, 10
MEMBER_FOR_NS = 2 * QUERY_EVERY_NS + ANSWER_WITHIN_S * 10**9
# Routers that ask less often than the controller still count.
ROUTER_FOR_NS = 3 * QUERY_EVERY_NS
# Who has left counts until others at the port, asked twice, had time to say that they have not.
LEAVES_WITHIN_NS, _LEFT_ANSWER_WITHIN_S = 3_500_000_000, 1
# The same for a port that has come up, with the longer time. What has been there before may be a
# router, which does not answer, but asks.
UNSURE_FOR_NS = 2 * (ANSWER_WITHIN_S + 1) * 10**9
LONG_UNSURE_FOR_NS = QUERY_EVERY_NS + ANSWER_WITHIN_S * 10**9
GROUPS_LIMIT, GROUPS_PER_PORT = 1024, 256
_FOLLOWED_AGAIN_NS = CONTROLLER_ANSWERS_S * 10**9 // 3
_SWITCHES_PER_TURN, _ENTRIES_PER_TURN, _ASKED_PER_TURN = 16, 256, 128
# Who comes and goes all the time is not asked for each time.
_ASKED_OF_PORT = 4

Group = tuple[bytes, bytes]
"""A VLAN (empty: none) and an address."""


class _Switch(NamedTuple):
    """Links of the tree, and ports for hosts with their VLANs where a rule names them. If it is not
    `metered`, what its hosts say comes as frames that the switch does not flood, and is not read.
    """

    links: frozenset[int]
    edges: Mapping[int, Membership | None]
    metered: bool


class _Question(NamedTuple):
    """Who is in a group, or without one what groups there are: to be asked at a port, and when."""

    at_ns: int
    port: PortId
    group: Group | None


class Multicast:
    """Keeps the entries of groups. Effects go to `emit`; `resolver` sends on what is said."""

    def __init__(
        self,
        fabric: Fabric,
        tables: Tables,
        emit: Callable[[Effect], None],
        resolver: Resolver,
    ) -> None:
        self._fabric = fabric
        self._tables = tables
        self._emit = emit
        self._resolver = resolver
        resolver.moved = self._host_moved
        self._vlans = frozenset(fabric.vlans.all)
        self._followed = GroupsFollowed(untagged=not fabric.vlans)
        self._now_ns = 0
        self._switches: dict[int, _Switch] = {}
        self._tree: frozenset[Link] = frozenset()
        # Until when, by port.
        self._members: dict[Group, dict[PortId, int]] = {}
        self._without: dict[Group, None] = {}  # Groups without members, those for longest first.
        self._n_of_port: dict[PortId, int] = {}
        self._routers: dict[PortId, int] = {}
        self._takes_all: dict[PortId, int] = {}
        # A heap of when to look whether a membership is over, and of each the earliest such time.
        self._ends: list[tuple[int, Group, PortId]] = []
        self._look_at: dict[tuple[Group, PortId], int] = {}
        # A heap, and how many of them there are at each port about each group.
        self._questions: list[_Question] = []
        self._n_asked: Counter[tuple[PortId, Group | None]] = Counter()
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
        """The ports that get everything since it is not known what their hosts want, or too
        much."""
        return self._takes_all.keys()

    # What is said

    def said(self, port_id: PortId, said: GroupMessage, now_ns: int) -> None:
        """A host or a router at an edge port has said something about groups."""
        self._now_ns = now_ns
        port_id = self._fabric.place(port_id)
        if said.vlan not in self._vlans:
            return
        if said.kind is GroupKind.REPORT:
            for address, is_member in said.groups:
                if not _is_of_link(address):
                    self._reported((said.vlan, address), port_id, is_member=is_member)
            self._resolver.deliver(sorted(self._listeners() - {port_id}), said.frame)
        else:
            if port_id not in self._routers:
                self._ask_at_ns = 0  # It has not heard who is where.
                self._renew()
            self._routers[port_id] = now_ns + ROUTER_FOR_NS
            self._resolver.flood(port_id, said.frame, now_ns)
        self._go_on()

    def _host_moved(self, port_id: PortId, now_ns: int) -> None:
        """A host is at this port now. What it wants it does not say by itself."""
        self._now_ns = now_ns
        self._find_out(port_id, UNSURE_FOR_NS)

    def _listeners(self) -> set[PortId]:
        """The ports that need the reports of others: those of routers, and those where nobody would
        know of any."""
        unheard = (
            PortId(switch, port)
            for switch, known in self._switches.items()
            if not known.metered
            for port in known.edges
        )
        return {*map(self._fabric.place, self._routers), *unheard}

    def _reported(self, group: Group, port_id: PortId, *, is_member: bool) -> None:
        members = self._members.get(group, {})
        if not is_member:
            until_ns = self._now_ns + LEAVES_WITHIN_NS
            if until_ns < members.get(port_id, 0):
                members[port_id] = until_ns
                if self._look(group, port_id, until_ns):
                    self._ask(port_id, group)
            return
        if port_id not in members:
            if self._n_of_port.get(port_id, 0) >= GROUPS_PER_PORT:
                self._give_all(port_id, MEMBER_FOR_NS)
                return
            if group not in self._members:
                if not self._has_room():
                    self._give_all(port_id, MEMBER_FOR_NS)
                    return
                self._members[group] = members
            self._without.pop(group, None)
            self._n_of_port[port_id] = self._n_of_port.get(port_id, 0) + 1
            self._dirty[group] = None
        members[port_id] = self._now_ns + MEMBER_FOR_NS
        if (group, port_id) not in self._look_at:
            self._look(group, port_id, members[port_id])

    def _look(self, group: Group, port_id: PortId, at_ns: int) -> bool:
        """Look then whether a membership is over, unless that will be looked at before; returns
        whether it will not."""
        if at_ns >= self._look_at.get((group, port_id), at_ns + 1):
            return False
        self._look_at[group, port_id] = at_ns
        heappush(self._ends, (at_ns, group, port_id))
        return True

    def _has_room(self) -> bool:
        """Whether one more group can be remembered, if need be instead of one without members."""
        if len(self._members) < GROUPS_LIMIT:
            return True
        if not self._without:
            return False
        group = next(iter(self._without))
        del self._without[group], self._members[group]
        self._dirty[group] = None
        return True

    def _give_all(self, port_id: PortId, for_ns: int) -> None:
        if port_id not in self._takes_all:
            self._renew()
        until_ns = self._now_ns + for_ns
        self._takes_all[port_id] = max(until_ns, self._takes_all.get(port_id, 0))

    # What is asked

    def _find_out(self, port_id: PortId, unsure_ns: int) -> None:
        """Ask what the hosts at a port want; meanwhile they get everything."""
        self._give_all(port_id, unsure_ns)
        self._ask(port_id, None)

    def _ask(self, port_id: PortId, group: Group | None) -> None:
        """Ask at a port, twice: a question or its answer may be lost (RFC 3376 section 8.1)."""
        for at_ns in (self._now_ns, self._now_ns + _within_s(group) * 10**9):
            self._plan(_Question(at_ns, port_id, group))

    def _plan(self, question: _Question) -> None:
        if self._n_asked[question[1:]] < _ASKED_OF_PORT:
            self._n_asked[question[1:]] += 1
            heappush(self._questions, question)

    def _put_questions(self) -> None:
        left = _ASKED_PER_TURN
        while left > 0 and self._questions and self._questions[0].at_ns <= self._now_ns:
            question = heappop(self._questions)
            self._n_asked[question[1:]] -= 1
            if not self._n_asked[question[1:]]:
                del self._n_asked[question[1:]]
            left -= 1
            _, port_id, group = question
            for vlan, address in self._all_of(port_id) if group is None else [group]:
                self._query(port_id, vlan, address, _within_s(group))
                left -= 1

    def _all_of(self, port_id: PortId) -> Iterable[Group]:
        """What stands for all groups in the VLANs of a port."""
        membership = self._fabric.membership(port_id)
        vlans = membership.all if membership is not None else (b"",)
        return [(vlan, address) for vlan in vlans for address in (bytes(4), bytes(16))]

    def _query(self, port_id: PortId, vlan: bytes, address: bytes, within_s: int) -> None:
        port, tags = self._fabric.port(port_id), self._fabric.tags_at(port_id, tag(vlan))
        if port is not None and tags is not None:
            self._emit(GroupQuery(port_id, address, within_s, port.mac, tags))

    # Where it goes

    def follow(
        self,
        switch: int,
        links: Iterable[int],
        edges: Mapping[int, Membership | None],
        *,
        metered: bool,
    ) -> None:
        """From now on a switch floods to these links of the tree and ports for hosts."""
        former = self._switches.get(switch)
        self._switches[switch] = _Switch(frozenset(links), edges, metered)
        unsure_ns = UNSURE_FOR_NS if former else LONG_UNSURE_FOR_NS
        for port in sorted(edges):
            if former is None or port not in former.edges:
                self._find_out(PortId(switch, port), unsure_ns)
        self._renew()

    def follow_tree(self, tree: frozenset[Link]) -> None:
        """What is flooded takes these links from now on. Switches at which that changes something
        `follow`."""
        self._tree = tree

    def connect(self, switch: int, now_ns: int) -> None:
        """A switch is connected. What it holds of groups may be out of date, and so may be what is
        known of its hosts."""
        self._now_ns = now_ns
        self._tables.sweep(switch, GroupTo)
        self._followed_again_ns[switch] = 0
        known = self._switches.get(switch)
        for port in sorted(known.edges) if known else ():
            self._find_out(PortId(switch, port), LONG_UNSURE_FOR_NS)
        self._renew()

    def forget_switch(self, switch: int) -> None:
        """A switch is gone for good."""
        self._switches.pop(switch, None)
        self._followed_again_ns.pop(switch, None)
        for known in (self._routers, self._takes_all):
            for port_id in [one for one in known if one.switch == switch]:
                del known[port_id]
        for group, members in self._members.items():
            for port_id in [one for one in members if one.switch == switch]:
                self._drop(group, port_id)
        self._renew()

    def tend(self, now_ns: int) -> None:
        """Forget who has not been heard for long; ask again."""
        self._now_ns = now_ns
        before = len(self._routers) + len(self._takes_all)
        for known in (self._routers, self._takes_all):
            for port_id in [one for one, until_ns in known.items() if until_ns <= now_ns]:
                del known[port_id]
        if len(self._routers) + len(self._takes_all) < before:
            self._renew()
        self._end_memberships()
        if now_ns >= self._ask_at_ns:
            self._ask_at_ns = now_ns + QUERY_EVERY_NS
            for port_id in self._fabric.edge_places(now_ns):
                self._plan(_Question(now_ns, port_id, None))
        if all(self._tables.connected(one) for one, at in self._switches.items() if at.edges):
            self._follow_groups()
        self.go_on(now_ns)

    def _follow_groups(self) -> None:
        """Have some switches go on with it for a while."""
        again_ns = self._followed_again_ns
        due = [switch for switch, at_ns in again_ns.items() if at_ns <= self._now_ns]
        for switch in due[:_SWITCHES_PER_TURN]:
            again_ns[switch] = self._now_ns + _FOLLOWED_AGAIN_NS
            if self._tables.connected(switch):
                self._emit(Install(switch, self._followed))

    def _end_memberships(self) -> None:
        while self._ends and self._ends[0][0] <= self._now_ns:
            at_ns, group, port_id = heappop(self._ends)
            if self._look_at.get((group, port_id)) != at_ns:
                continue  # It was looked at before.
            del self._look_at[group, port_id]
            until_ns = self._members[group][port_id]
            if until_ns <= self._now_ns:
                self._drop(group, port_id)
                continue
            if until_ns <= self._now_ns + LEAVES_WITHIN_NS:
                # Others may have left since it was asked who is there.
                until_ns = self._members[group][port_id] = self._now_ns + LEAVES_WITHIN_NS
                self._ask(port_id, group)
            self._look(group, port_id, until_ns)

    def go_on(self, now_ns: int) -> None:
        """Ask a few more questions, and tell the switches of some groups that go other ways now."""
        self._now_ns = now_ns
        self._put_questions()
        for group in list(islice(self._dirty, 1 + _ENTRIES_PER_TURN // (1 + len(self._switches)))):
            del self._dirty[group]
            self._tell(group)
        self._go_on()

    def _go_on(self) -> None:
        if self._dirty or (self._questions and self._questions[0].at_ns <= self._now_ns):
            self._emit(GoOn())

    def _renew(self) -> None:
        """All groups may go other ways now."""
        self._dirty.update(dict.fromkeys(self._members))

    def _drop(self, group: Group, port_id: PortId) -> None:
        """A port has no member any more. A group without any goes to routers."""
        del self._members[group][port_id]
        if not self._members[group]:
            self._without[group] = None
        self._look_at.pop((group, port_id), None)
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
        for port_id in map(self._fabric.place, (*members, *self._routers, *self._takes_all)):
            known = self._switches.get(port_id.switch)
            if known is not None and port_id.port in known.edges:
                edges.setdefault(port_id.switch, set()).add(port_id.port)
        for switch, known in self._switches.items():
            if known.edges and not known.metered:
                edges[switch] = set(known.edges)
        links = links_towards(self._tree, edges.keys())
        for switch, known in self._switches.items():
            to_hosts = {port: known.edges[port] for port in edges.get(switch, ())}
            to_switches = known.links.intersection(links.get(switch, ()))
            ways = self._fabric.vlans.ways_out(vlan, to_switches, to_hosts)
            self._tables.put(switch, GroupTo(vlan, address, *ways))


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


def _within_s(group: Group | None) -> int:
    """How long hosts may take to answer a question."""
    return ANSWER_WITHIN_S if group is None else _LEFT_ANSWER_WITHIN_S


def _is_of_link(address: bytes) -> bool:
    """Whether a group is of the link itself, or no group."""
    if len(address) == 16:
        return address[0] != 0xFF or address[1] & 0xF <= 2
    return address[0] >> 4 != 0xE or address[:3] == b"\xe0\0\0"
