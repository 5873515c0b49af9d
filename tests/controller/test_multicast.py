"""Multicast groups: where what is sent to them goes, by what hosts and routers have said."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.hosts.multicast import (
    GROUPS_LIMIT,
    GROUPS_PER_PORT,
    LEAVES_WITHIN_NS,
    MEMBER_FOR_NS,
    QUERY_EVERY_NS,
    UNSURE_FOR_NS,
    links_towards,
)
from controller.core.topology.flood_tree import flood_tree
from controller.core.topology.vlans import Membership, VlanRule
from controller.model.effects import Deliver, Effect, GroupQuery
from controller.model.entries import FloodFrom, FloodTo, GroupsFollowed, GroupTo, HeldEntry
from controller.model.packet_ins import GroupKind, GroupMessage
from controller.model.values import Port, PortId
from controller.model.vlans import vlan_numbered
from engine_bench import SECOND, EngineBench, make_engine
from test_broadcast import AT_1, AT_2, AT_3, RING, fabrics, links_of, live, ring, switch_up

GROUP, GROUP6 = bytes((239, 1, 2, 3)), bytes.fromhex("ff0e") + bytes(13) + b"\x07"
GROUPS = pytest.mark.parametrize("group", [GROUP, GROUP6])
# Switches take a moment to follow.
MOMENT_S = 1


def settled(*rules: VlanRule) -> EngineBench:
    """A ring in which every port has had time to say what its hosts want."""
    bench = ring(*rules, by_group=True)
    live(bench, UNSURE_FOR_NS / SECOND + 2)
    return bench


def mac_at(port: PortId) -> bytes:
    return bytes([2, 0, 0, 0, 2, port.switch])


def says(
    bench: EngineBench,
    port: PortId,
    *groups: tuple[bytes, bool],
    kind: GroupKind = GroupKind.REPORT,
    vlan: bytes = b"",
    whole: bool = True,
) -> list[Effect]:
    """Who is at a port says something about groups."""
    is_ipv6 = any(len(group) == 16 for group, _ in groups)
    said = GroupMessage(kind, is_ipv6, groups, whole, vlan, b"a frame of 14 bytes")
    return bench.do(bench.engine.flooded(port, mac_at(port), said, bench.now_ns))


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
    far = {a: b for link in RING for a, b in (link, link[::-1])}
    found: dict[PortId, int] = {}
    waiting = [start]
    for at in waiting:
        assert len(waiting) < 100, "it goes round"
        if at.port not in {entry.port for entry in bench.entries(at.switch, FloodFrom)}:
            continue
        ways: list[FloodTo | GroupTo] = []
        if bench.entries(at.switch, GroupsFollowed):
            wanted = GroupTo(vlan, group, ()).key
            ways += [one for one in bench.entries(at.switch, GroupTo) if one.key == wanted]
        ways += [one for one in bench.entries(at.switch, FloodTo) if one.vlan in (None, vlan)]
        for number in {*ways[0].tagged, *ways[0].untagged} - {at.port}:
            out = PortId(at.switch, number)
            if out in far:
                waiting.append(far[out])
            else:
                found[out] = found.get(out, 0) + 1
    return found


def queries(effects: list[Effect]) -> list[tuple[PortId, bytes]]:
    return [(one.port, one.group) for one in effects if isinstance(one, GroupQuery)]


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
        for entry in bench.entries(1, GroupTo):
            assert entry.tagged == (AT_1.port,)

    def test_a_port_gets_everything_until_its_hosts_had_time_to_answer(self) -> None:
        bench = ring(by_group=True)
        joins(bench, AT_2)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        live(bench, UNSURE_FOR_NS / SECOND + 2)
        assert reached(bench, AT_1) == {AT_2: 1}
        set_port(bench, AT_3, up=False)
        live(bench, 1)
        set_port(bench, AT_3, up=True)
        asked = queries(live(bench, 2))
        assert {(AT_3, bytes(4)), (AT_3, bytes(16))} <= set(asked)
        assert {port for port, _ in asked} == {AT_3}
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        live(bench, UNSURE_FOR_NS / SECOND + 2)
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_who_leaves_counts_until_others_there_have_had_time_to_object(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        assert queries(says(bench, AT_2, (GROUP, False))) == [(AT_2, GROUP)]
        assert queries(says(bench, AT_2, (GROUP, False))) == [], "it has been asked already"
        live(bench, 1)
        assert reached(bench, AT_1) == {AT_2: 1}
        says(bench, AT_2, (GROUP, True))
        live(bench, 10)
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_who_does_not_answer_for_long_is_no_member_any_more(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        joins(bench, AT_3)
        asked = 0
        for _ in range(int(2 * MEMBER_FOR_NS / SECOND)):
            seen = set(queries(live(bench, 1)))
            if (AT_2, bytes(4)) in seen:
                asked += 1
                assert seen == {(p, g) for p in (AT_1, AT_2, AT_3) for g in (bytes(4), bytes(16))}
                says(bench, AT_2, (GROUP, True))
        assert asked == 2 * MEMBER_FOR_NS // QUERY_EVERY_NS
        assert reached(bench, AT_1) == {AT_2: 1}
        live(bench, MEMBER_FOR_NS / SECOND + 1)
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


class TestRouters:
    def test_they_get_everything_and_the_reports(self) -> None:
        bench = settled()
        effects = says(bench, AT_3, kind=GroupKind.QUERY)
        assert delivered(effects) == {AT_1, AT_2}, "all are asked"
        assert delivered(says(bench, AT_2, (GROUP, True))) == {AT_3}, "no other host hears it"
        live(bench, MOMENT_S)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
        assert delivered(says(bench, AT_2, (GROUP, False))) == {AT_3}

    def test_where_one_asks_the_controller_does_not(self) -> None:
        bench = settled()
        asked: list[tuple[PortId, bytes]] = []
        for second in range(400):
            if second % 120 == 0:
                says(bench, AT_3, kind=GroupKind.QUERY)
            asked += queries(live(bench, 1))
        assert {group for _, group in asked} == {bytes(16)}, "nobody has asked over IPv6"
        asked = queries(live(bench, 400))
        assert {group for _, group in asked} == {bytes(4), bytes(16)}, "it is gone"
        joins(bench, AT_2)
        assert reached(bench, AT_1) == {AT_2: 1}

    def test_others_are_known_by_what_they_say_to_each_other(self) -> None:
        bench = settled()
        joins(bench, AT_2)
        assert delivered(says(bench, AT_3, kind=GroupKind.HELLO)) == set()
        live(bench, MOMENT_S)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}

    def test_a_question_that_could_not_be_read_whole_is_asked_again(self) -> None:
        bench = settled()
        asked = queries(says(bench, AT_3, kind=GroupKind.QUERY, whole=False))
        assert (AT_1, bytes(4)) in asked


class TestBounds:
    def test_who_wants_more_than_can_be_read_or_remembered_gets_everything(self) -> None:
        for whole in (False, True):
            bench = settled()
            joins(bench, AT_2)
            n = GROUPS_PER_PORT + 1 if whole else 5
            groups = [(bytes((239, 9, *number.to_bytes(2, "big"))), True) for number in range(n)]
            says(bench, AT_3, *groups, whole=whole)
            live(bench, 10)
            assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}
            live(bench, MEMBER_FOR_NS / SECOND + 5)
            joins(bench, AT_2)
            assert reached(bench, AT_1) == {AT_2: 1}

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
                bench.do(
                    bench.engine.flooded(
                        port,
                        mac_at(port)[:-1] + bytes([9 + place]),
                        GroupMessage(GroupKind.REPORT, False, ((group, True),), True, b"", b""),
                        bench.now_ns,
                    )
                )
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
        live(bench, UNSURE_FOR_NS / SECOND + 4)
        joins(bench, AT_2)
        assert reached(bench, AT_1) == {AT_2: 1, AT_3: 1}

    def test_if_it_is_not_wanted_nothing_of_it_is_there(self) -> None:
        bench = ring()
        says(bench, AT_2, (GROUP, True))
        live(bench, 20)
        assert not bench.entries(1, GroupTo)
        assert not bench.entries(1, GroupsFollowed)
        assert "multicast groups" not in bench.engine.fullness()


class TestChanges:
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
            live(bench, UNSURE_FOR_NS / SECOND + 4)
            joins(bench, AT_2)
            assert reached(bench, AT_1) == {AT_2: 1} | ({} if by_group else {AT_3: 1})

    @settings(max_examples=30, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["join", "leave", "link", "switch"]),
                st.sampled_from([AT_1, AT_2, AT_3]),
                st.integers(0, 2),
            ),
            max_size=12,
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
            live(bench, UNSURE_FOR_NS / SECOND + 2, links)
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
