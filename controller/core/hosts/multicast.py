"""Multicast groups: what is sent to a group goes only where its members are (RFC 4541), if wanted.

Switches hand over what hosts and routers say by IGMP and MLD, and do not flood it themselves:
questions are sent on to all hosts, reports to routers only, since a host that hears of another
one's report keeps its own back. The controller asks, too, whether or not there is a router.

Nobody is left out by what is not known. A port gets everything while it is not yet known what its
hosts want, if a router is there, if its hosts want more than is remembered, and if its switch has
no meters or no channel to the controller. So does every port while the controller is away
(`GroupsFollowed`). Groups of the link itself (224.0.0.0/24, ff02::/16), which some hosts do not
report, always go to all ports, and so do those that nobody has ever joined.
"""

from collections import Counter
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

# RFC 3376 section 8 and RFC 3810 section 9: how often hosts are asked, how long they may take to
# answer, and for how long both make a member count.
QUERY_EVERY_NS, ANSWER_WITHIN_S = 125 * 10**9, 10
MEMBER_FOR_NS = 2 * QUERY_EVERY_NS + ANSWER_WITHIN_S * 10**9
# Routers that ask less often than the controller still count.
ROUTER_FOR_NS = 3 * QUERY_EVERY_NS
# Who has left counts until others at the port, asked twice, had time to say that they have not.
LEAVES_WITHIN_NS, _LEFT_ANSWER_WITHIN_S = 3_500_000_000, 1
# The same for a port that has come up, with the longer time.
UNSURE_FOR_NS = 2 * (ANSWER_WITHIN_S + 1) * 10**9
GROUPS_LIMIT, GROUPS_PER_PORT = 1024, 256
_FOLLOWED_AGAIN_NS = CONTROLLER_ANSWERS_S * 10**9 // 3
_SWITCHES_PER_TURN, _ENTRIES_PER_TURN, _ASKED_PER_TURN = 16, 256, 128
# Who comes and goes all the time is not asked for each time.
_ASKED_OF_PORT = 4

Group = tuple[bytes, bytes]
"""A VLAN (empty: none) and an address."""

_Ways = tuple[tuple[int, ...], tuple[int, ...]]
# Of a switch the ports for a VLAN, with tags and without, among these links and ports for hosts.
_WaysOut = Callable[[bytes, int, Collection[int], Collection[int]], _Ways]


class _Switch(NamedTuple):
    """Links of the tree and ports for hosts. If it is not `metered`, what its hosts say comes as
    frames that the switch does not flood, and is not read."""

    links: frozenset[int]
    edges: frozenset[int]
    metered: bool


class _Question(NamedTuple):
    """What is to be asked at a port, and when."""

    at_ns: int
    port: PortId
    within_s: int


class Multicast:
    """Keeps the entries of groups. Effects go to `emit`; `deliver` sends a frame out of ports;
    `admit` tells whether one more frame of a port may be sent on to many."""

    def __init__(
        self,
        fabric: Fabric,
        tables: Tables,
        emit: Callable[[Effect], None],
        deliver: Callable[[Iterable[PortId], bytes], None],
        admit: Callable[[PortId, int], bool],
        ways_out: _WaysOut,
    ) -> None:
        self._fabric = fabric
        self._tables = tables
        self._emit = emit
        self._deliver = deliver
        self._admit = admit
        self._ways_out = ways_out
        self._vlans = frozenset(fabric.vlans.all)
        self._now_ns = 0
        self._switches: dict[int, _Switch] = {}
        self._tree: frozenset[Link] = frozenset()
        # Until when, by port.
        self._members: dict[Group, dict[PortId, int]] = {}
        self._n_of_port: dict[PortId, int] = {}
        self._routers: dict[PortId, int] = {}
        self._takes_all: dict[PortId, int] = {}
        # A heap of when to look whether a membership is over, and of each the earliest such time.
        self._ends: list[tuple[int, Group, PortId]] = []
        self._look_at: dict[tuple[Group, PortId], int] = {}
        # A heap, and how many there are by port and time to answer.
        self._questions: list[_Question] = []
        self._n_asked: Counter[tuple[PortId, int]] = Counter()
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
            listeners = self._listeners() - {port_id}
        else:
            if port_id not in self._routers:
                self._routers[port_id] = 0
                self._renew()
            self._routers[port_id] = now_ns + ROUTER_FOR_NS
            listeners = set(self._fabric.edge_places(now_ns)) - {port_id}
        if listeners and self._admit(port_id, now_ns):
            self._deliver(sorted(listeners), said.frame)
        self._go_on()

    def host_moved(self, port_id: PortId, now_ns: int) -> None:
        """A host is at this port now. What it wants it does not say by itself."""
        self._now_ns = now_ns
        self._find_out(port_id)

    def _listeners(self) -> set[PortId]:
        """The ports that need the reports of others: those of routers, and those where routers are
        not known."""
        deaf = (
            PortId(switch, port)
            for switch, known in self._switches.items()
            if self._is_deaf(switch)
            for port in known.edges
        )
        return {*map(self._fabric.place, self._routers), *deaf}

    def _is_deaf(self, switch: int) -> bool:
        """Whether nothing is heard of what the hosts of a switch say."""
        return not self._switches[switch].metered or not self._tables.connected(switch)

    def _reported(self, group: Group, port_id: PortId, *, is_member: bool) -> None:
        members = self._members.get(group, {})
        if not is_member:
            until_ns = self._now_ns + LEAVES_WITHIN_NS
            if until_ns < members.get(port_id, 0):
                members[port_id] = until_ns
                if self._look(group, port_id, until_ns):
                    self._ask(port_id, _LEFT_ANSWER_WITHIN_S)
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

    def _find_out(self, port_id: PortId) -> None:
        """Ask what the hosts at a port want; meanwhile they get everything."""
        self._give_all(port_id, UNSURE_FOR_NS)
        self._ask(port_id, ANSWER_WITHIN_S)

    def _ask(self, port_id: PortId, within_s: int) -> None:
        """Ask at a port, twice: a question or its answer may be lost (RFC 3376 section 8.1)."""
        for at_ns in (self._now_ns, self._now_ns + within_s * 10**9):
            self._ask_at(_Question(at_ns, port_id, within_s))

    def _ask_at(self, question: _Question) -> None:
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
            _, port_id, within_s = question
            port = self._fabric.port(port_id)
            left -= 1
            for vlan in self._vlans if port is not None else ():
                tags = self._fabric.tags_at(port_id, tag(vlan))
                if port is not None and tags is not None:
                    for is_ipv6 in (False, True):
                        self._emit(GroupQuery(port_id, is_ipv6, within_s, port.mac, tags))
                    left -= 2

    # Where it goes

    def follow(
        self, switch: int, links: Collection[int], edges: Collection[int], *, metered: bool
    ) -> None:
        """From now on a switch floods to these links of the tree and ports for hosts."""
        former = self._switches.get(switch)
        self._switches[switch] = _Switch(frozenset(links), frozenset(edges), metered)
        for port in sorted(set(edges) - (former.edges if former else frozenset())):
            self._find_out(PortId(switch, port))
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
            self._find_out(PortId(switch, port))
        self._renew()

    def disconnect(self) -> None:
        """The channel of a switch is lost."""
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
                self._ask_at(_Question(now_ns, port_id, ANSWER_WITHIN_S))
        due = [one for one, again_ns in self._followed_again_ns.items() if again_ns <= now_ns]
        for switch in due[:_SWITCHES_PER_TURN]:
            self._followed_again_ns[switch] = now_ns + _FOLLOWED_AGAIN_NS
            if self._tables.connected(switch):
                for vlan in self._vlans:
                    self._emit(Install(switch, GroupsFollowed(vlan)))
        self.go_on(now_ns)

    def _end_memberships(self) -> None:
        while self._ends and self._ends[0][0] <= self._now_ns:
            at_ns, group, port_id = heappop(self._ends)
            if self._look_at.get((group, port_id)) != at_ns:
                continue  # It was looked at before.
            del self._look_at[group, port_id]
            until_ns = self._members[group][port_id]
            if until_ns <= self._now_ns:
                self._drop(group, port_id)
            else:
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
            if known.edges and self._is_deaf(switch):
                edges[switch] = set(known.edges)
        links = links_towards(self._tree, edges.keys())
        for switch, known in self._switches.items():
            ways = self._ways_out(
                vlan, switch, links.get(switch, set()) & known.links, edges.get(switch, set())
            )
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


def _is_of_link(address: bytes) -> bool:
    """Whether a group is of the link itself, or no group."""
    if len(address) == 16:
        return address[0] != 0xFF or address[1] & 0xF <= 2
    return address[0] >> 4 != 0xE or address[:3] == b"\xe0\0\0"
