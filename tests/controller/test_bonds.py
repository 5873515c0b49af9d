"""Bonds: one place of several ports, of which each carries connections of its own."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config.errors import ConfigError
from controller.config.schema import Config
from controller.core.congestion.regulation import Features
from controller.core.hosts.resolution import Resolver
from controller.core.topology.bonds import Bonds
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.core.topology.named_ports import NamedPorts
from controller.model.effects import Deliver, Effect
from controller.model.entries import (
    AssignPathIds,
    BondEgress,
    BondIngress,
    FloodFrom,
    FloodTo,
    Forward,
    HeldEntry,
    HostWindow,
)
from controller.model.flow import SYN, FlowKey, Segment
from controller.model.values import N_PATH_IDS, Port, PortId
from engine_bench import REGISTERS, SECOND, EngineBench, make_engine, records, star
from packets import Host

SERVER, CLIENT = Host(1), Host(2)
BOND = NamedPorts(1, (3, 4, 5))
MEMBERS = [PortId(1, 3), PortId(1, 4), PortId(1, 5)]
AT_CLIENT = PortId(1, 9)


def port(number: int, up: bool = True, live: bool = True, name: str = "") -> Port:
    return Port(number, name or f"s1-eth{number}", bytes([2, 0, 0, 0, 1, number]), up, live=live)


def set_port(bench: EngineBench, described: Port) -> list[Effect]:
    """A port has changed, long ago now."""
    effects = bench.do(bench.engine.port_changed(1, described, bench.now_ns))
    return effects + bench.sleep(SECOND)


def bonded(*, meters: bool = True) -> EngineBench:
    """A server behind a bond of three ports, and a client."""
    bench = EngineBench(make_engine(bonds=(BOND,)), has_meters=meters)
    bench.switch_up(1)
    bench.sleep(SECOND)
    bench.place(SERVER, MEMBERS[1])
    bench.place(CLIENT, AT_CLIENT)
    return bench


def member_of(bench: EngineBench, path_id: int) -> int:
    """By which port the switch sends frames with a path id to the server."""
    (forward,) = (one for one in bench.entries(1, Forward) if one.mac == SERVER.mac)
    assert forward.by_bond
    hops = {hop.path_id: hop.member for hop in bench.entries(1, BondEgress)}
    assert {hop.port for hop in bench.entries(1, BondEgress)} == {forward.port}
    return hops.get(path_id, hops[None])


def enters_as(bench: EngineBench, port_id: PortId, path_id: int | None) -> int:
    """As which port the switch counts what enters by one."""
    by_key = {(one.port, one.path_id): one.member for one in bench.entries(1, BondIngress)}
    return by_key.get((port_id.port, path_id), port_id.port)


class TestPlaces:
    def test_a_host_is_at_one_place_by_whichever_port_it_speaks(self) -> None:
        bench = bonded()
        for member in MEMBERS * 3:
            bench.places[SERVER] = member
            bench.arp(1, SERVER, SERVER)
            bench.connect(SERVER, CLIENT, src_port=member.port, path_id=member.port)
        host = bench.engine.fabric.hosts[SERVER.mac]
        assert host.port == MEMBERS[0]
        assert not bench.engine.port_security.refused

    def test_it_stays_as_long_as_a_port_is_up(self) -> None:
        bench = bonded()
        for lost, now_at in ((0, 1), (1, 2)):
            effects = set_port(bench, port(3 + lost, up=False))
            assert not records(effects, "host_lost")
            assert bench.engine.fabric.hosts[SERVER.mac].port == MEMBERS[now_at]
        effects = set_port(bench, port(5, up=False))
        assert len(records(effects, "host_lost")) == 1

    def test_it_stays_when_the_port_that_stands_for_all_is_removed(self) -> None:
        bench = bonded()
        bench.do(bench.engine.port_removed(MEMBERS[0], bench.now_ns))
        assert bench.engine.fabric.hosts[SERVER.mac].port == MEMBERS[1]
        assert {member_of(bench, path_id) for path_id in range(N_PATH_IDS)} == {4, 5}

    def test_it_stays_when_a_switch_is_back_with_other_ports_up(self) -> None:
        bench = bonded()
        for number in (4, 5):
            set_port(bench, port(number, up=False))
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        ports = [port(n, up=n != 3) for n in range(1, 10)]
        bench.do(bench.engine.switch_up(1, ports, Features(REGISTERS), [], bench.now_ns))
        host = bench.engine.fabric.hosts[SERVER.mac]
        assert (host.port.port in (4, 5), host.addresses) == (True, {(b"", SERVER.address)})

    def test_a_port_that_leaves_a_bond_leaves_its_hosts_there(self) -> None:
        rules = NamedPorts(1, ("a*",)), NamedPorts(1, ("b*",))
        bench = EngineBench(make_engine(bonds=rules))
        names = {3: "a3", 4: "a4", 5: "b5"}
        ports = [port(n, name=names.get(n, "")) for n in range(1, 10)]
        bench.do(bench.engine.switch_up(1, ports, Features(REGISTERS), [], bench.now_ns))
        bench.sleep(SECOND)
        bench.place(SERVER, PortId(1, 3))
        set_port(bench, port(3, name="b3"))
        assert bench.engine.fabric.hosts[SERVER.mac].port == PortId(1, 4)
        # The last one: there is no bond any more.
        set_port(bench, port(4, name="c4"))
        (forward,) = (one for one in bench.entries(1, Forward) if one.mac == SERVER.mac)
        assert forward == Forward(SERVER.mac, 4)

    def test_answers_to_probes_go_no_further(self) -> None:
        bench = bonded()
        for member in MEMBERS:
            set_port(bench, port(member.port))
        for member in MEMBERS:
            answer = port(3).mac + SERVER.mac + b"\x08\x06" + bytes(46)
            effects = bench.engine.frame(member, SERVER.mac, port(3).mac, answer, bench.now_ns)
            assert not [effect for effect in effects if isinstance(effect, Deliver)]

    def test_frames_to_all_leave_by_one_port_and_never_return(self) -> None:
        bench = bonded()
        bench.sleep(SECOND)
        flood = next(iter(bench.entries(1, FloodTo)))
        assert set(flood.tagged) & {3, 4, 5} == {3}
        # Those to hosts that nobody knows may enter by each, and do not return either.
        assert {(one.port, one.counts_as) for one in bench.entries(1, FloodFrom)} >= {
            *((3, None), (4, 3), (5, 3), (9, None))
        }
        assert [enters_as(bench, member, None) for member in MEMBERS] == [3, 3, 3]

    def test_so_do_those_that_the_controller_delivers(self) -> None:
        bench = bonded()
        for source, reached in ((MEMBERS[2], set()), (AT_CLIENT, {3})):
            mac = SERVER.mac if source == MEMBERS[2] else CLIENT.mac
            frame = Host(7).mac + mac + b"\x88\xb5" + bytes(50)
            effects = bench.engine.frame(source, mac, Host(7).mac, frame, bench.now_ns)
            (ports,) = (e.ports for e in effects if isinstance(e, Deliver))
            assert {port_id.port for port_id in ports} & {3, 4, 5} == reached

    def test_a_member_that_leads_to_a_switch_is_refused(self) -> None:
        bench = bonded()
        bench.switch_up(2)
        bench.link(MEMBERS[1], PortId(2, 1))
        assert bench.complaints == [1]
        assert not bench.engine.fabric.links()
        # The others are used as before; that one not before it was down.
        for up in (True, False):
            assert {member_of(bench, path_id) for path_id in range(N_PATH_IDS)} == {3, 5}
            set_port(bench, port(4, up=up))
        set_port(bench, port(4))
        assert {member_of(bench, path_id) for path_id in range(N_PATH_IDS)} == {3, 4, 5}

    def test_a_restarted_controller_finds_hosts_where_they_are(self) -> None:
        bench = bonded()
        bench.connect(CLIENT, SERVER, path_id=1)
        bench.sleep(SECOND)
        held = [HeldEntry(entry, 0, 0) for entry in bench.held[1].values()]
        again = EngineBench(make_engine(bonds=(BOND,)))
        again.switch_up(1, *held)
        host = again.engine.fabric.hosts[SERVER.mac]
        assert (host.port, host.addresses) == (MEMBERS[0], {(b"", SERVER.address)})
        for _ in range(2):
            assert again.entries(1, BondEgress) == bench.entries(1, BondEgress) != set()
            assert again.entries(1, BondIngress) == bench.entries(1, BondIngress) != set()
            again.sleep(20 * SECOND)  # Long after all that nobody wants is gone.

    def test_what_was_told_before_a_restart_does_not_send_frames_back(self) -> None:
        bench = bonded()
        set_port(bench, port(3, up=False))
        set_port(bench, port(3))
        assert enters_as(bench, MEMBERS[0], None) == 4
        held = [HeldEntry(entry, 0, 0) for entry in bench.held[1].values()]
        for rules in ((BOND,), ()):
            again = EngineBench(make_engine(bonds=rules))
            again.switch_up(1, *held)
            entries = again.entries(1, BondIngress)
            assert all(entry.port != entry.member for entry in entries)
            places = {entry.member for entry in entries if entry.path_id is None}
            assert places == ({3} if rules else set())
            assert {enters_as(again, member, None) for member in MEMBERS} == (places or {3, 4, 5})

    def test_also_if_the_port_that_stood_for_all_has_failed_meanwhile(self) -> None:
        bench = bonded()
        held = [HeldEntry(entry, 0, 0) for entry in bench.held[1].values()]
        again = make_engine(bonds=(BOND,))
        ports = [port(n, up=n != MEMBERS[0].port) for n in range(1, 10)]
        again.switch_up(1, ports, Features(REGISTERS), held, bench.now_ns)
        assert again.fabric.hosts[SERVER.mac].port == MEMBERS[1]


class TestPaths:
    def test_path_ids_are_dealt_to_all_ports(self) -> None:
        bench = bonded()
        shares = Counter(member_of(bench, path_id) for path_id in range(N_PATH_IDS))
        assert sorted(shares.values()) == [5, 5, 6]
        assert bench.entries(1, AssignPathIds)

    def test_what_enters_counts_as_having_entered_where_the_other_direction_leaves(self) -> None:
        bench = bonded()
        for member in MEMBERS:
            for path_id in range(N_PATH_IDS):
                assert enters_as(bench, member, path_id) == member_of(bench, path_id)

    def test_a_connection_is_held_at_the_port_of_its_path_id(self) -> None:
        for path_id in range(N_PATH_IDS):
            bench = bonded()
            bench.connect(CLIENT, SERVER, path_id=path_id)
            windows = {
                window.port
                for window in bench.entries(1, HostWindow)
                if window.address == SERVER.address
            }
            assert windows == {member_of(bench, path_id)}

    def test_only_those_of_a_port_that_is_down_move(self) -> None:
        bench = bonded()
        before = [member_of(bench, path_id) for path_id in range(N_PATH_IDS)]
        bench.connect(CLIENT, SERVER, path_id=before.index(4))
        set_port(bench, port(4, up=False))
        after = [member_of(bench, path_id) for path_id in range(N_PATH_IDS)]
        assert 4 not in after
        assert all(now == then for now, then in zip(after, before, strict=True) if then != 4)
        counts = Counter(after)
        assert abs(counts[3] - counts[5]) <= 2
        (window,) = (
            w for w in bench.entries(1, HostWindow) if w.address == SERVER.address and w.port != 4
        )
        assert window.port == after[before.index(4)]
        set_port(bench, port(4))
        assert [member_of(bench, path_id) for path_id in range(N_PATH_IDS)] == before

    def test_a_port_that_is_not_live_carries_nothing(self) -> None:
        bench = bonded()
        set_port(bench, port(3, live=False))
        assert 3 not in {member_of(bench, path_id) for path_id in range(N_PATH_IDS)}
        assert bench.engine.fabric.hosts[SERVER.mac].port == MEMBERS[1]

    def test_if_no_port_is_live_none_carries_anything(self) -> None:
        bench = bonded()
        for member in MEMBERS:
            set_port(bench, port(member.port, live=False))
        assert not bench.entries(1, BondEgress)
        assert bench.engine.fabric.hosts[SERVER.mac].port == MEMBERS[2]

    def test_a_switch_that_says_of_no_port_that_it_is_live_does_not_tell(self) -> None:
        bench = EngineBench(make_engine(bonds=(BOND,)))
        ports = [port(n, live=False) for n in range(1, 10)]
        bench.do(bench.engine.switch_up(1, ports, Features(REGISTERS), [], bench.now_ns))
        bench.place(SERVER, MEMBERS[0])
        bench.sleep(SECOND)
        bench.place(SERVER, MEMBERS[0])
        assert len({member_of(bench, path_id) for path_id in range(N_PATH_IDS)}) == 3

    def test_a_port_that_has_just_come_up_may_lead_to_a_switch(self) -> None:
        bench = bonded()
        set_port(bench, port(4, up=False))
        bench.do(bench.engine.port_changed(1, port(4), bench.now_ns))
        bench.now_ns += PORT_GRACE_NS - 1
        bench.do(bench.engine.tend(bench.now_ns))
        assert 4 not in {member_of(bench, path_id) for path_id in range(N_PATH_IDS)}
        bench.now_ns += 1
        bench.do(bench.engine.tend(bench.now_ns))
        assert 4 in {member_of(bench, path_id) for path_id in range(N_PATH_IDS)}

    def test_without_bonds_switches_hold_nothing_of_it(self) -> None:
        bench = star()
        assert not bench.entries(1, BondEgress) | bench.entries(1, BondIngress)
        assert not bench.entries(1, AssignPathIds)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["up", "down", "idle", "new", "gone"])))
)
def test_frames_leave_by_ports_that_are_up_and_evenly(changes: list[tuple[int, str]]) -> None:
    bonds = Bonds([NamedPorts(None, tuple(range(1, 8)))])
    bonds.set_port(1, port(99), settled=True)
    ports: dict[int, Port] = {}
    settled: dict[int, bool] = {}
    for number, what in changes:
        if what == "gone":
            bonds.remove_port(PortId(1, number))
            ports.pop(number, None)
        else:
            ports[number] = replace(port(number), up=what != "down", live=what != "idle")
            settled[number] = what != "new"
            bonds.set_port(1, ports[number], settled=settled[number])
    up = {number for number, one in ports.items() if one.up and one.live and number <= 7}
    usable = {number for number in up if settled[number]} or up
    for number in ports:
        shares = Counter(bonds.member(PortId(1, number), path_id) for path_id in range(N_PATH_IDS))
        if number > 7 or not usable:
            assert set(shares) == {PortId(1, number)}
        else:
            assert {one.port for one in shares} == usable
            assert max(shares.values()) - min(shares.values()) <= 1
            assert bonds.place(PortId(1, number)).port in usable


class TestConfiguration:
    def read(self, *sections: dict[str, object]) -> tuple[NamedPorts, ...]:
        config = Config.model_validate({"fabric": {"bonds": sections}})
        return config.engine_settings().bonds

    def test_it_is_read(self) -> None:
        rules = self.read({"switch": 17, "ports": ["eth1", 2]}, {"ports": ["bond*"]})
        assert rules == (NamedPorts(17, ("eth1", 2)), NamedPorts(None, ("bond*",)))

    @pytest.mark.parametrize(
        ("section", "says"),
        [({"ports": []}, "at least 1 item"), ({"switch": 1}, "Field required")],
    )
    def test_errors_say_what_is_wrong(self, section: dict[str, object], says: str) -> None:
        with pytest.raises((ConfigError, ValueError), match=says):
            self.read(section)


def test_hosts_are_looked_for_once_at_each_port_of_a_bond(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments come by all ports of a bond in turn, as many as there are connections."""
    bench = bonded()
    looked: list[PortId] = []
    learn = Resolver.learn

    def counted(of: Resolver, mac: bytes, at: PortId, now_ns: int) -> bool:
        looked.append(at)
        return learn(of, mac, at, now_ns)

    monkeypatch.setattr(Resolver, "learn", counted)
    for number in range(1, 61):
        key = FlowKey(SERVER.address, number, CLIENT.address, 80).pack()
        at = MEMBERS[number % 3]
        segment = Segment(at.port, CLIENT.mac + SERVER.mac, key, SYN, number, 0, 0, 1460, 7)
        bench.do(bench.engine.segments(1, [segment], bench.now_ns))
    assert sorted(looked) == MEMBERS
    assert bench.engine.flow_table.half_open == 60
