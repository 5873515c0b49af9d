"""Multicast groups: where what is sent to them goes, by what hosts and routers have said."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.hosts.multicast import (
    GROUPS_LIMIT,
    GROUPS_PER_PORT,
    LEAVES_WITHIN_NS,
    LONG_UNSURE_FOR_NS,
    MEMBER_FOR_NS,
    QUERY_EVERY_NS,
    ROUTER_FOR_NS,
    UNSURE_FOR_NS,
    links_towards,
)
from controller.core.topology.flood_tree import flood_tree
from controller.core.topology.named_ports import NamedPorts
from controller.core.topology.vlans import Membership, VlanRule
from controller.model.effects import Deliver, Effect, GoOn, GroupQuery, Install
from controller.model.entries import (
    FloodTo,
    GroupMessages,
    GroupsFollowed,
    GroupTo,
    HeldEntry,
)
from controller.model.packet_ins import GroupKind, GroupMessage
from controller.model.values import Port, PortId
from controller.model.vlans import tag, tags_of, vlan_numbered
from engine_bench import SECOND, EngineBench, make_engine
from test_broadcast import AT_1, AT_2, AT_3, RING, fabrics, links_of, live, ring, spread, switch_up

GROUP, GROUP6 = bytes((239, 1, 2, 3)), bytes.fromhex("ff0e") + bytes(13) + b"\x07"
GROUPS = pytest.mark.parametrize("group", [GROUP, GROUP6])
# Switches take a moment to follow.
MOMENT_S = 1


def settled(*rules: VlanRule) -> EngineBench:
    """A ring in which every port has had time to say what its hosts want."""
    bench = ring(*rules, by_group=True)
    live(bench, LONG_UNSURE_FOR_NS / SECOND + 2)
    return bench


def mac_at(port: PortId) -> bytes:
    return bytes([2, 0, 0, 0, 2, port.switch])


def says(
    bench: EngineBench,
    port: PortId,
    *groups: tuple[bytes, bool],
    kind: GroupKind = GroupKind.REPORT,
    vlan: bytes = b"",
    mac: bytes | None = None,
) -> list[Effect]:
    """Who is at a port says something about groups."""
    said = GroupMessage(kind, groups, vlan, bytes(12) + tag(vlan) + b"\x08\0said")
    at = port, mac or mac_at(port)
    return bench.do(bench.engine.said_of_groups(*at, said, bench.now_ns))


def joins(bench: EngineBench, port: PortId, group: bytes = GROUP, vlan: bytes = b"") -> None:
    says(bench, port, (group, True), vlan=vlan)
    live(bench, MOMENT_S)


def leaves(bench: EngineBench, port: PortId, group: bytes = GROUP) -> None:
    says(bench, port, (group, False))
    live(bench, LEAVES_WITHIN_NS / SECOND + MOMENT_S)


def set_port(bench: EngineBench, port: PortId, *, up: bool) -> None:
    changed = Port(port.port, f"s{port.switch}-eth{port.port}", bytes(6), up=up)
    bench.do(bench.engine.port_changed(port.switch, changed, bench.now_ns))


def reached(
    bench: EngineBench, start: PortId, group: bytes = GROUP, vlan: bytes = b""
) -> dict[PortId, int]:
    """How often a datagram to a group that enters by a port leaves by the others for hosts, by the
    entries of the switches."""

    def way(switch: int) -> FloodTo | GroupTo:
        wanted = GroupTo(vlan, group, ()).key
        if any(not (one.untagged and vlan) for one in bench.entries(switch, GroupsFollowed)):
            for entry in bench.entries(switch, GroupTo):
                if entry.key == wanted:
                    return entry
        (out,) = (one for one in bench.entries(switch, FloodTo) if one.vlan in (None, vlan))
        return out

    return spread(bench, start, way)


def asked(effects: list[Effect], group: bytes | None = None) -> dict[PortId, int]:
    """How often hosts were asked for a group, or for all of them over IPv4 and as often over IPv6,
    by port."""
    found = [one for one in effects if isinstance(one, GroupQuery)]
    of_ipv6, of_ipv4 = (
        Counter(one.port for one in found if one.group == address)
        for address in (bytes(16), bytes(4))
    )
    if group is not None:
        return dict(Counter(one.port for one in found if one.group == group))
    assert of_ipv6 == of_ipv4
    return dict(of_ipv6)


def delivered(effects: list[Effect]) -> set[PortId]:
    return {port for one in effects if isinstance(one, Deliver) for port in one.ports}


class TestMembers:
    @GROUPS
    def test_only_members_get_what_is_sent_to_their_group(self, group: bytes) -> None:
        bench = settled()
        assert reached(bench, AT_1, group) == {AT_2: 1, AT_3: 1}, "nobody has joined it ever"
        joins(bench, AT_2, group)
        assert reached(bench, AT_1, group) == {AT_2: 1}
        assert reached(bench, AT_3, group) == {AT_2: 1}
        assert reached(bench, AT_2, group) == {}
        joins(bench, AT_3, group)
        assert reached(bench, AT_1, group) == {AT_2: 1, AT_3: 1}
        leaves(bench, AT_2, group)
        assert reached(bench, AT_1, group) == {AT_3: 1}
        leaves(bench, AT_3, group)
        assert reached(bench, AT_1, group) == {}

    def test_switches_send_it_over_no_link_behind_which_nobody_wants_it(self) -> None:
        bench = settled()
        joins(bench, AT_1)
        (entry,) = bench.entries(1, GroupTo)
        assert entry.tagged == (AT_1.port,)

    def test_a_port_gets_everything_until_its_hosts_had_time_to_answer(self) -> None:
        bench = ring(by_group=True)
        joins(bench, AT_2)
        live(bench, UNSURE_FOR_NS / SECOND + 2)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        live(bench, (LONG_UNSURE_FOR_NS - UNSURE_FOR_NS) / SECOND)
        assert reached(bench, AT_1) == {AT_2: 1}
        set_port(bench, AT_3, up=False)
        live(bench, 1)
        set_port(bench, AT_3, up=True)
        assert asked(live(bench, 15)) == {AT_3: 2}
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        live(bench, UNSURE_FOR_NS / SECOND + 2)
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_who_leaves_counts_until_others_there_have_had_time_to_object(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        effects = says(bench, AT_2, (GROUP, False)) + says(bench, AT_2, (GROUP, False))
        assert asked(effects + live(bench, 2), GROUP) == {AT_2: 2}
        assert reached(bench, AT_1) == {AT_2: 1}
        says(bench, AT_2, (GROUP, True))
        live(bench, 10)
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_who_stays_is_asked_again_when_another_one_leaves_soon_after(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        says(bench, AT_2, (GROUP, False))
        live(bench, 2)
        says(bench, AT_2, (GROUP, True))
        says(bench, AT_2, (GROUP, False))
        effects = live(bench, 3)
        assert asked(effects, GROUP)[AT_2] >= 1
        says(bench, AT_2, (GROUP, True))
        live(bench, 10)
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_who_does_not_answer_for_long_is_no_member_any_more(self) -> None:
        """Whoever else asks."""
        bench = settled()
        joins(bench, AT_2)
        joins(bench, AT_3)
        times = 0
        for second in range(int(2 * MEMBER_FOR_NS / SECOND)):
            seen = asked(live(bench, 1))
            if second % 20 == 0:
                says(bench, AT_1, kind=GroupKind.QUERY)
            if AT_2 in seen:
                times += 1
                assert seen == dict.fromkeys((AT_1, AT_2, AT_3), 1)
                says(bench, AT_2, (GROUP, True))
        assert times == 2 * MEMBER_FOR_NS // QUERY_EVERY_NS + 1, "once for the router"
        assert reached(bench, AT_3) == {AT_1: 1, AT_2: 1}, "at the first, somebody is a router"
        live(bench, max(MEMBER_FOR_NS, ROUTER_FOR_NS) / SECOND + 1)
        assert reached(bench, AT_1) == {}

    def test_a_port_that_is_down_gets_nothing(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        set_port(bench, AT_2, up=False)
        joins(bench, AT_3)
        assert reached(bench, AT_1) == {AT_3: 1}
        set_port(bench, AT_2, up=True)
        live(bench, UNSURE_FOR_NS / SECOND + 4)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}

    @pytest.mark.parametrize(
        "group", [bytes((224, 0, 0, 251)), bytes.fromhex("ff02" + "00" * 13 + "fb")]
    )
    def test_groups_of_the_link_go_everywhere(self, group: bytes) -> None:
        bench = settled()
        joins(bench, AT_2, group)
        assert reached(bench, AT_1, group) == {AT_2: 1, AT_3: 1}

    def test_each_vlan_has_members_of_its_own(self) -> None:
        v10, v20 = vlan_numbered(10), vlan_numbered(20)
        bench = settled(
            *(VlanRule(n, (1,), Membership(frozenset({v10}), v20)) for n in (1, 2, 3)),
        )
        joins(bench, AT_2, vlan=v10)
        joins(bench, AT_3, vlan=v20)
        assert reached(bench, AT_1, vlan=v10) == {AT_2: 1}
        assert reached(bench, AT_1, vlan=v20) == {AT_3: 1}
        (of_v20,) = (e for e in bench.entries(3, GroupTo) if e.vlan == v20)
        assert of_v20.untagged == (AT_3.port,)

    def test_what_is_said_in_a_vlan_that_is_not_followed_is_not_read(self) -> None:
        bench = settled()
        joins(bench, AT_2, vlan=vlan_numbered(7))
        assert reached(bench, AT_1, vlan=vlan_numbered(7)) == {AT_2: 1, AT_3: 1}
        assert not bench.entries(1, GroupTo)

    def test_hosts_that_have_moved_are_asked_and_get_everything_meanwhile(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        moved = mac_at(AT_3)
        says(bench, AT_3)
        joins(bench, AT_3)
        effects = says(bench, AT_1, mac=moved)
        assert asked(effects + live(bench, 12)) == {AT_1: 2}
        assert reached(bench, AT_2) == {AT_1: 1, AT_3: 1}


class TestRouters:
    def test_they_get_everything_and_the_reports(self) -> None:
        bench = settled()
        effects = says(bench, AT_3, kind=GroupKind.QUERY)
        assert delivered(effects) == {AT_1, AT_2}, "all are asked"
        assert delivered(says(bench, AT_2, (GROUP, True))) == {AT_3}, "no other host hears it"
        live(bench, MOMENT_S)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        assert delivered(says(bench, AT_2, (GROUP, False))) == {AT_3}

    def test_others_are_known_by_what_they_say_to_each_other(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        assert delivered(says(bench, AT_3, kind=GroupKind.ROUTING)) == {AT_1, AT_2}
        live(bench, MOMENT_S)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        live(bench, ROUTER_FOR_NS / SECOND + 1)
        joins(bench, AT_2)
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_in_a_vlan_they_get_what_is_said_there(self) -> None:
        v10, v20 = vlan_numbered(10), vlan_numbered(20)
        bench = settled(
            VlanRule(1, (1,), Membership(frozenset({v10, v20}))),
            VlanRule(2, (1,), Membership(untagged=v10)),
            VlanRule(3, (1,), Membership(untagged=v20)),
        )
        says(bench, AT_1, kind=GroupKind.QUERY, vlan=v10)
        (out,) = (e for e in says(bench, AT_2, (GROUP, True), vlan=v10) if isinstance(e, Deliver))
        assert out.ports == (AT_1,)
        assert tags_of(out.frame) == tag(v10)

    def test_so_many_messages_of_a_port_are_sent_on(self) -> None:
        bench = settled()
        sent = [delivered(says(bench, AT_3, kind=GroupKind.QUERY)) for _ in range(1000)]
        assert 50 < sum(map(bool, sent)) < 200


class TestBounds:
    def test_who_wants_more_than_is_remembered_gets_everything(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        numbers = range(GROUPS_PER_PORT + 1)
        says(bench, AT_3, *((bytes((239, 9, *n.to_bytes(2, "big"))), True) for n in numbers))
        live(bench, 30)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        live(bench, MEMBER_FOR_NS / SECOND + 5)
        joins(bench, AT_2)
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_who_comes_and_goes_all_the_time_takes_no_more_room(self) -> None:
        bench = settled()
        multicast = bench.engine.multicast
        assert multicast is not None
        effects: list[Effect] = []
        for _ in range(500):
            effects += says(bench, AT_2, (GROUP, True), (GROUP, False), (GROUP, True))
            effects += bench.sleep(SECOND // 100)
        assert len(multicast._ends) < 10
        assert len(multicast._questions) <= 4
        # It takes 5 s, in which who leaves has 3.5.
        assert asked(effects, GROUP)[AT_2] <= 6

    def test_a_turn_tells_switches_no_more_than_so_many_ways(self) -> None:
        bench = settled()
        joined = tuple((bytes((239, 7, 0, n)), True) for n in range(GROUPS_PER_PORT))
        said = GroupMessage(GroupKind.REPORT, joined, b"", b"")
        engine = bench.engine
        effects = engine.said_of_groups(AT_2, mac_at(AT_2), said, bench.now_ns)
        turns = []
        while any(isinstance(one, GoOn) for one in effects):
            effects = engine.go_on(bench.now_ns)
            turns.append(sum(isinstance(one, Install) for one in effects))
        assert sum(turns) == 3 * GROUPS_PER_PORT
        assert max(turns) < 300

    def test_there_are_so_many_groups_and_others_go_everywhere(self) -> None:
        bench = settled()
        multicast = bench.engine.multicast
        assert multicast is not None
        each = GROUPS_LIMIT // 4
        ports = [*(AT_1, AT_2, AT_3), PortId(3, 2)]
        bench.do(
            bench.engine.port_changed(
                3, Port(2, "s3-eth2", bytes([2, 1, 0, 0, 3, 2]), up=True), bench.now_ns
            )
        )
        live(bench, UNSURE_FOR_NS / SECOND + 2)
        for place, port in enumerate(ports):
            for number in range(each):
                group = bytes((239, 20 + place, *number.to_bytes(2, "big")))
                says(bench, port, (group, True), mac=mac_at(port)[:-1] + bytes([9 + place]))
        live(bench, 10)
        assert multicast.n_groups == GROUPS_LIMIT
        assert bench.engine.fullness()["multicast groups"] == (GROUPS_LIMIT, GROUPS_LIMIT)
        says(bench, AT_2, (bytes((239, 21, 0, 0)), False))
        live(bench, LEAVES_WITHIN_NS / SECOND + MOMENT_S)
        joins(bench, AT_2, GROUP)
        assert multicast.n_groups == GROUPS_LIMIT, "one without members has made room"
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_without_meters_a_switch_gets_everything(self) -> None:
        bench = EngineBench(make_engine(multicast_snooping=True))
        for switch in (1, 2, 3):
            switch_up(bench, switch, has_meters=switch != 3)
        live(bench, LONG_UNSURE_FOR_NS / SECOND + 4)
        joins(bench, AT_2)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        assert delivered(says(bench, AT_2, (GROUP, True))) == {AT_3}, "a router may be there"

    def test_if_it_is_not_wanted_nothing_of_it_is_there(self) -> None:
        bench = ring()
        says(bench, AT_2, (GROUP, True))
        live(bench, 20)
        assert not bench.entries(1, GroupTo)
        assert not bench.entries(1, GroupsFollowed)
        assert not bench.entries(1, GroupMessages)
        assert "multicast groups" not in bench.engine.fullness()


class TestChanges:
    def test_while_a_switch_is_away_all_get_everything(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        bench.do(bench.engine.switch_down(3, bench.now_ns))
        for switch in (1, 2, 3):
            bench.held[switch].pop(GroupsFollowed(untagged=True).key)  # In a few seconds.
        live(bench, 15)
        for start in (AT_1, AT_2, AT_3):
            assert reached(bench, start) == dict.fromkeys({AT_1, AT_2, AT_3} - {start}, 1)
        held = [HeldEntry(one, 0, SECOND) for one in bench.held[3].values()]
        switch_up(bench, 3, *held)
        assert asked(live(bench, 12))[AT_3] >= 2
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        live(bench, LONG_UNSURE_FOR_NS / SECOND)
        joins(bench, AT_2)
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_a_router_misses_nothing_over_a_restart(self) -> None:
        """It asks now and then, and does not answer."""
        before = settled()
        joins(before, AT_2)
        says(before, AT_3, kind=GroupKind.QUERY)
        bench = EngineBench(make_engine(multicast_snooping=True), now_ns=before.now_ns)
        for switch in (1, 2, 3):
            held = (HeldEntry(one, 0, SECOND) for one in before.held[switch].values())
            switch_up(bench, switch, *held)
        for second in range(400):
            live(bench, 1)
            if second % 10 == 0:
                says(bench, AT_2, (GROUP, True))
            if second % 125 == 124:
                says(bench, AT_3, kind=GroupKind.QUERY)
            assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        assert delivered(says(bench, AT_2, (GROUP, True))) == {AT_3}

    def test_members_behind_a_bond_are_where_it_is(self) -> None:
        bench = EngineBench(
            make_engine(bonds=(NamedPorts(1, (3, 4)),), multicast_snooping=True), has_meters=True
        )
        bench.switch_up(1)
        bench.sleep(LONG_UNSURE_FOR_NS + 3 * SECOND)
        for group in (GROUP, GROUP6):
            says(bench, PortId(1, 4), (group, True))
        for up in (3, 4, 3):
            for number in (3, 4):
                set_port(bench, PortId(1, number), up=number == up)
            bench.sleep(UNSURE_FOR_NS + 3 * SECOND)
            ways = bench.entries(1, GroupTo)
            assert [way.tagged for way in ways] == [(up,), (up,)]

    def test_after_a_restart_everybody_gets_everything_until_it_is_known(self) -> None:
        before = settled()
        joins(before, AT_2)
        for by_group in (True, False):
            bench = EngineBench(make_engine(multicast_snooping=by_group), now_ns=before.now_ns)
            for switch in (1, 2, 3):
                held = (HeldEntry(one, 0, SECOND) for one in before.held[switch].values())
                switch_up(bench, switch, *held)
            for _ in range(20):
                assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
                live(bench, 0.5)
            live(bench, LONG_UNSURE_FOR_NS / SECOND + 4)
            joins(bench, AT_2)
            assert reached(bench, AT_1) == {AT_2: 1} | ({} if by_group else {AT_3: 1})

    @settings(max_examples=20, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["join", "leave", "link", "switch"]),
                st.sampled_from([AT_1, AT_2, AT_3]),
                st.integers(0, 2),
            ),
            max_size=8,
        )
    )
    def test_whatever_happens_members_get_it_once_and_others_do_not(
        self, happens: list[tuple[str, PortId, int]]
    ) -> None:
        bench = settled()
        members: set[PortId] = set()
        joins(bench, AT_1)
        leaves(bench, AT_1)
        down: int | None = None
        for what, port, number in happens:
            links = tuple(link for n, link in enumerate(RING) if n != down)
            if what == "join":
                members.add(port)
                says(bench, port, (GROUP, True))
            elif what == "leave":
                members.discard(port)
                says(bench, port, (GROUP, False))
            elif what == "link":
                # One link at most is down.
                if down is not None:
                    self.set_link(bench, down, up=True)
                down = None if down == number else number
                if down is not None:
                    self.set_link(bench, down, up=False)
                links = tuple(link for n, link in enumerate(RING) if n != down)
            else:
                bench.do(bench.engine.switch_down(port.switch, bench.now_ns))
                live(bench, 0.5, links)
                held = [HeldEntry(one, 0, SECOND) for one in bench.held[port.switch].values()]
                switch_up(bench, port.switch, *held)
                if down is not None:
                    self.set_link(bench, down, up=False)
            live(bench, LEAVES_WITHIN_NS / SECOND + 2, links)
            for member in members:
                says(bench, member, (GROUP, True))
            settle_ns = LONG_UNSURE_FOR_NS if what == "switch" else UNSURE_FOR_NS
            live(bench, settle_ns / SECOND + 2, links)
            for start in (AT_1, AT_2, AT_3):
                assert reached(bench, start) == dict.fromkeys(members - {start}, 1)

    @staticmethod
    def set_link(bench: EngineBench, number: int, *, up: bool) -> None:
        for end in RING[number]:
            set_port(bench, end, up=up)


@given(fabrics, st.sets(st.integers(0, 6)))
def test_links_lead_towards_what_is_wanted(
    drawn: list[tuple[tuple[int, int], int]], wanted: set[int]
) -> None:
    """Against what is found by cutting each link of a tree."""
    tree = flood_tree(links_of(drawn))
    found = links_towards(tree, wanted)
    for link in tree:
        for here, there in (link, link[::-1]):
            beyond, waiting = {there.switch}, [there.switch]
            while waiting:
                at = waiting.pop()
                for a, b in tree - {link}:
                    for end, other in ((a, b), (b, a)):
                        if end.switch == at and other.switch not in beyond:
                            beyond.add(other.switch)
                            waiting.append(other.switch)
            assert (here.port in found.get(here.switch, set())) == bool(beyond & wanted)
