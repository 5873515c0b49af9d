"""Frames to groups: the tree that they take, and what switches hold of it."""

from collections.abc import Callable
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from controller.core.congestion.regulation import Features
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.core.topology.flood_tree import flood_tree
from controller.core.topology.links import Link
from controller.core.topology.vlans import Membership, VlanRule
from controller.model.effects import Deliver, Effect, Install
from controller.model.entries import (
    CONTROLLER_ANSWERS_S,
    ControllerAnswers,
    FloodFrom,
    FloodTo,
    Forward,
    GroupTo,
    HeldEntry,
)
from controller.model.values import Port, PortId
from controller.model.vlans import vlan_numbered
from engine_bench import SECOND, EngineBench, make_engine

N_SWITCHES = 7
pairs = st.sampled_from(list(combinations(range(N_SWITCHES), 2)))
fabrics = st.lists(st.tuples(pairs, st.integers(0, 1)), unique=True)


def links_of(drawn: list[tuple[tuple[int, int], int]]) -> set[Link]:
    """Two parallel links at most between any two switches."""
    return {(PortId(a, 100 * (n + 1) + b), PortId(b, 100 * (n + 1) + a)) for (a, b), n in drawn}


def parts(links: set[Link]) -> list[set[int]]:
    """The connected parts of a fabric, by brute force."""
    found: list[set[int]] = []
    for link in links:
        ends = {end.switch for end in link}
        touched = [part for part in found if part & ends]
        found = [part for part in found if not part & ends]
        found.append(ends.union(*touched))
    return found


class TestTree:
    @given(fabrics, fabrics, st.sets(st.integers(0, N_SWITCHES - 1)))
    def test_it_reaches_all_once(
        self,
        drawn: list[tuple[tuple[int, int], int]],
        before: list[tuple[tuple[int, int], int]],
        silent: set[int],
    ) -> None:
        links = links_of(drawn)
        former = flood_tree(links_of(before))
        tree = set(flood_tree(links, former, silent))
        assert tree <= links
        assert sorted(map(sorted, parts(tree))) == sorted(map(sorted, parts(links)))
        # A tree has a link less than switches, in each part.
        assert len(tree) == sum(len(part) - 1 for part in parts(links))
        # What cannot be changed stays, and what need not change, too.
        kept = {one for one in former & links if {end.switch for end in one} <= silent}
        assert kept <= tree
        if former <= links and len(former) == len(tree):
            assert tree == former

    def test_avoided_links_are_used_only_if_there_is_no_other_way(self) -> None:
        links = links_of([((0, 1), 0), ((1, 2), 0), ((0, 2), 0)])
        (bad,) = links_of([((0, 1), 0)])
        assert flood_tree(links, avoided={bad}) == links - {bad}
        assert flood_tree({bad}, avoided={bad}) == {bad}

    def test_it_is_shallow(self) -> None:
        leaves, spines = range(8), (100, 101)
        links = {(PortId(leaf, spine), PortId(spine, leaf)) for leaf in leaves for spine in spines}
        tree = flood_tree(links)
        hub = [sum(spine in {end.switch for end in one} for one in tree) for spine in spines]
        assert sorted(hub) == [1, 8]


AT_1, AT_2, AT_3 = PortId(1, 1), PortId(2, 1), PortId(3, 1)
RING = (
    (PortId(1, 12), PortId(2, 21)),
    (PortId(2, 23), PortId(3, 32)),
    (PortId(1, 13), PortId(3, 31)),
)


def switch_up(bench: EngineBench, switch: int, *held: HeldEntry, has_meters: bool = True) -> None:
    numbers = {1: (1, 12, 13), 2: (1, 21, 23), 3: (1, 31, 32)}[switch]
    ports = [Port(n, f"s{switch}-eth{n}", bytes([2, 1, 0, 0, switch, n]), True) for n in numbers]
    bench.held[switch] = {one.entry.key: one.entry for one in held}
    features = Features(0, has_meters=has_meters)
    bench.do(bench.engine.switch_up(switch, ports, features, held, bench.now_ns))


def live(bench: EngineBench, seconds: float = 1.0, links: tuple[Link, ...] = RING) -> list[Effect]:
    """Time passes, and discovery goes round."""
    seen: list[Effect] = []
    for _ in range(int(seconds * 4)):
        for link in links:
            seen += bench.link(*link)
        seen += bench.sleep(SECOND // 4)
    return seen


def ring(*rules: VlanRule, has_meters: bool = True, by_group: bool = False) -> EngineBench:
    """Three switches in a ring, a host's port at each."""
    bench = EngineBench(make_engine(vlans=rules, multicast_snooping=by_group))
    for switch in (1, 2, 3):
        switch_up(bench, switch, has_meters=has_meters)
    live(bench)
    return bench


def spread(
    bench: EngineBench, start: PortId, way: Callable[[int], FloodTo | GroupTo]
) -> dict[PortId, int]:
    """How often a frame to a group that enters by a port leaves by the others for hosts, if it
    takes this `way` at each switch."""
    far = {a: b for link in RING for a, b in (link, link[::-1])}
    found: dict[PortId, int] = {}
    waiting = [start]
    for at in waiting:
        assert len(waiting) < 100, "it goes round"
        accepted = {entry.port for entry in bench.entries(at.switch, FloodFrom)}
        if at.port not in accepted:
            continue
        out = way(at.switch)
        for number in {*out.tagged, *out.untagged} - {at.port}:
            leaves = PortId(at.switch, number)
            if leaves in far:
                waiting.append(far[leaves])
            else:
                found[leaves] = found.get(leaves, 0) + 1
    return found


def reaches(bench: EngineBench, port: PortId, in_vlan: bytes | None = None) -> dict[PortId, int]:
    """The same of what is flooded."""

    def way(switch: int) -> FloodTo:
        (out,) = (e for e in bench.entries(switch, FloodTo) if e.vlan == in_vlan)
        return out

    return spread(bench, port, way)


def blocked(bench: EngineBench) -> Link:
    """The link of the ring that is not in the tree."""
    (link,) = (
        link
        for link in RING
        if not any(e.port == link[0].port for e in bench.entries(link[0].switch, FloodFrom))
    )
    return link


class TestSwitches:
    def test_a_frame_reaches_every_host_once(self) -> None:
        bench = ring()
        for port in (AT_1, AT_2, AT_3):
            assert reaches(bench, port) == dict.fromkeys({AT_1, AT_2, AT_3} - {port}, 1)
        of_hosts = {e.port for e in bench.entries(1, FloodFrom) if e.of_hosts}
        assert of_hosts == {AT_1.port}

    def test_nothing_leaves_by_a_port_that_may_lead_to_a_switch(self) -> None:
        bench = EngineBench(make_engine())
        switch_up(bench, 1)
        bench.do(bench.engine.tend(bench.now_ns))
        assert not bench.entries(1, FloodFrom)
        bench.now_ns += PORT_GRACE_NS
        bench.do(bench.engine.tend(bench.now_ns))
        assert {entry.port for entry in bench.entries(1, FloodFrom)} == {1, 12, 13}
        switch_up(bench, 2)
        bench.link(*RING[0])
        live(bench, 1, RING[:1])
        assert FloodFrom(12, of_hosts=False) in bench.entries(1, FloodFrom)

    def test_when_a_link_fails_all_are_reached_again_and_never_twice(self) -> None:
        bench = ring()
        gone = next(link for link in RING if link != blocked(bench))
        end = gone[0]
        down, up = (Port(end.port, "flapping", bytes(6), up=up) for up in (False, True))
        bench.do(bench.engine.port_changed(end.switch, down, bench.now_ns))
        bench.do(bench.engine.tend(bench.now_ns))
        assert all(n == 1 for n in reaches(bench, AT_1).values())
        live(bench, 1, tuple(link for link in RING if link != gone))
        assert reaches(bench, AT_1) == {AT_2: 1, AT_3: 1}
        bench.do(bench.engine.port_changed(end.switch, up, bench.now_ns))
        live(bench, 70)  # A link that fails often is on trial for a minute.
        assert reaches(bench, AT_1) == {AT_2: 1, AT_3: 1}

    def test_a_silent_switch_keeps_its_place(self) -> None:
        bench = ring()
        before = bench.entries(3, FloodFrom), bench.entries(3, FloodTo)
        bench.do(bench.engine.switch_down(3, bench.now_ns))
        live(bench, 3)
        assert (bench.entries(3, FloodFrom), bench.entries(3, FloodTo)) == before
        assert reaches(bench, AT_1) == {AT_2: 1, AT_3: 1}

    def test_a_restarted_controller_changes_nothing(self) -> None:
        bench = ring()
        held = {switch: dict(entries) for switch, entries in bench.held.items()}
        after = EngineBench(make_engine(), now_ns=bench.now_ns)
        for switch in (1, 2, 3):
            switch_up(after, switch, *(HeldEntry(e, 0, SECOND) for e in held[switch].values()))
        for _ in range(60):
            live(after, 0.25)
            assert reaches(after, AT_1) == {AT_2: 1, AT_3: 1}
        for switch in (1, 2, 3):
            assert after.entries(switch, FloodTo) == bench.entries(switch, FloodTo)

    def test_without_meters_the_controller_floods_what_hosts_send(self) -> None:
        bench = ring(has_meters=False)
        assert not [e for e in bench.entries(1, FloodFrom) if e.of_hosts]
        assert [e for e in bench.entries(1, FloodFrom) if not e.of_hosts]

    def test_each_vlan_has_ports_of_its_own(self) -> None:
        v10, v20 = vlan_numbered(10), vlan_numbered(20)
        bench = ring(
            VlanRule(1, (1,), Membership(untagged=v10)),
            VlanRule(2, (1,), Membership(frozenset({v10, v20}))),
            VlanRule(3, (1,), Membership(untagged=v20)),
        )
        assert reaches(bench, AT_1, v10) == {AT_2: 1}
        assert reaches(bench, AT_2, v20) == {AT_3: 1}
        assert reaches(bench, AT_1, b"") == {}
        (of_v20,) = (e for e in bench.entries(3, FloodTo) if e.vlan == v20)
        assert of_v20.untagged == (1,)

    def test_its_sender_is_learnt_and_it_is_not_flooded_again(self) -> None:
        bench = ring()
        mac = bytes([2, 0, 0, 0, 0, 7])
        effects = bench.do(bench.engine.flooded(AT_1, mac, bench.now_ns))
        assert Forward(mac, 1) in bench.entries(1, Forward)
        assert not [e for e in effects if isinstance(e, Deliver)]
        bench.do(bench.engine.flooded(RING[0][0], bytes([2, 0, 0, 0, 0, 8]), bench.now_ns))
        assert len(bench.entries(1, Forward)) == 1


def test_switches_are_told_again_and_again_who_answers_questions() -> None:
    bench = ring()
    told: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for _ in range(240):
        for effect in live(bench, 0.25):
            if isinstance(effect, Install) and isinstance(effect.entry, ControllerAnswers):
                told[effect.switch].append(bench.now_ns)
    for times in told.values():
        gaps = [later - one for one, later in pairwise(times)]
        assert max(gaps) <= CONTROLLER_ANSWERS_S * SECOND / 2
        assert len(times) < 30


def test_hosts_that_come_and_go_change_nothing() -> None:
    bench = ring()
    seen = bench.engine.fabric.port_changes
    for number in range(20):
        bench.do(bench.engine.flooded(AT_1, bytes([2, 0, 0, 0, 1, number]), bench.now_ns))
    assert bench.engine.fabric.port_changes == seen


class TestDoubt:
    """What discovery does not know for certain must not become a loop."""

    def test_a_port_that_has_led_to_a_switch_is_none_for_hosts_until_it_was_down(self) -> None:
        bench = ring()
        held = {switch: dict(entries) for switch, entries in bench.held.items()}
        after = EngineBench(make_engine(), now_ns=bench.now_ns)
        for switch in (1, 2):  # The third one does not come back, and floods as it did.
            switch_up(after, switch, *(HeldEntry(e, 0, SECOND) for e in held[switch].values()))
        after.held[3] = held[3]
        live(after, 30, RING[:1])
        assert reaches(after, AT_1)[AT_2] == 1
        for switch in (1, 2):
            for entry in after.entries(switch, FloodFrom):
                assert not entry.of_hosts or entry.port == 1
        down, up = (Port(13, "s1-eth13", bytes(6), up=up) for up in (False, True))
        after.do(after.engine.port_changed(1, down, after.now_ns))
        after.do(after.engine.port_changed(1, up, after.now_ns))
        live(after, 2, RING[:1])
        assert FloodFrom(13, of_hosts=True) in after.entries(1, FloodFrom)

    def test_a_link_does_not_join_before_another_one_has_left_for_a_while(self) -> None:
        bench = ring()
        idle = blocked(bench)
        gone = next(link for link in RING if link != idle)

        def has(link: Link) -> bool:
            return all(
                FloodFrom(end.port, of_hosts=False) in bench.entries(end.switch, FloodFrom)
                for end in link
            )

        began_ns = bench.now_ns
        for end in gone:  # Both ends report it, one a moment later.
            down = Port(end.port, "gone", bytes(6), up=False)
            bench.now_ns += 10**6
            bench.do(bench.engine.port_changed(end.switch, down, bench.now_ns))
            bench.do(bench.engine.tend(bench.now_ns))
            assert not has(idle)
        left = tuple(link for link in RING if link != gone)
        while not has(idle):
            for link in left:
                bench.link(*link)
            bench.now_ns += 50 * 10**6
            bench.do(bench.engine.tend(bench.now_ns))
            bench.do(bench.engine.go_on(bench.now_ns))
        assert 250 * 10**6 <= bench.now_ns - began_ns < SECOND

    def test_a_port_that_a_rule_names_is_no_link(self) -> None:
        bench = ring(VlanRule(1, (12,), Membership(untagged=vlan_numbered(10))))
        assert RING[0] not in bench.engine.fabric.links()
        for end in RING[0]:
            assert not any(e.port == end.port for e in bench.entries(end.switch, FloodFrom))
        assert bench.complaints.count(1) == 1
        assert reaches(bench, AT_1, b"") == {AT_2: 1, AT_3: 1}

    def test_a_renamed_port_gets_nothing_of_its_former_vlan_at_once(self) -> None:
        v10 = vlan_numbered(10)
        bench = ring(
            VlanRule(1, (1,), Membership(untagged=v10)),
            VlanRule(2, ("s2-eth1",), Membership(untagged=v10)),
        )
        renamed = Port(1, "elsewhere", bytes(6), up=True)
        assert reaches(bench, AT_1, v10) == {AT_2: 1}
        bench.do(bench.engine.port_changed(2, renamed, bench.now_ns))
        assert reaches(bench, AT_1, v10) == {}
        live(bench, 1)
        assert reaches(bench, AT_1, v10) == {}
        assert reaches(bench, AT_3, b"") == {AT_2: 1}

    def test_what_a_switch_holds_of_other_rules_goes_at_once(self) -> None:
        before = ring()
        held = before.held[1].values()
        after = EngineBench(
            make_engine(vlans=(VlanRule(1, (1,), Membership(untagged=vlan_numbered(10))),))
        )
        switch_up(after, 1, *(HeldEntry(e, 0, SECOND) for e in held))
        assert not after.entries(1, FloodTo)

    def test_audits_leave_what_switches_remove_themselves(self) -> None:
        bench = ring()
        engine, now_ns = bench.engine, bench.now_ns
        held = list(bench.held[1].values())
        assert ControllerAnswers() in held
        live(bench, 310)
        bench.do(engine.audit_read(1, held, now_ns))
        assert ControllerAnswers() in bench.held[1].values()
