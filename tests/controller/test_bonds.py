"""Bonds: one place of several ports, of which each carries connections of its own."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config.errors import ConfigError
from controller.config.schema import Config
from controller.core.congestion.regulation import Features
from controller.core.topology.bonds import Bonds
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.core.topology.named_ports import NamedPorts
from controller.model.effects import Deliver
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
from controller.model.values import N_PATH_IDS, Port, PortId
from engine_bench import REGISTERS, SECOND, EngineBench, make_engine, records, star
from packets import Host

SERVER, CLIENT = Host(1), Host(2)
BOND = NamedPorts(1, (3, 4, 5))
MEMBERS = [PortId(1, 3), PortId(1, 4), PortId(1, 5)]
AT_CLIENT = PortId(1, 9)
MAC = bytes([2, 1, 0, 0, 1, 0])


def port(number: int, up: bool = True, live: bool = True) -> Port:
    return Port(number, f"s1-eth{number}", MAC, up, live=live)


def bonded(*, meters: bool = True) -> EngineBench:
    """A server behind a bond of three ports, and a client."""
    bench = EngineBench(make_engine(bonds=(BOND,)), has_meters=meters)
    bench.switch_up(1)
    bench.now_ns += PORT_GRACE_NS
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
            effects = bench.do(bench.engine.port_changed(1, port(3 + lost, up=False), bench.now_ns))
            assert not records(effects, "host_lost")
            assert bench.engine.fabric.hosts[SERVER.mac].port == MEMBERS[now_at]
        effects = bench.do(bench.engine.port_changed(1, port(5, up=False), bench.now_ns))
        assert len(records(effects, "host_lost")) == 1

    def test_it_stays_when_the_port_that_stands_for_all_is_removed(self) -> None:
        bench = bonded()
        bench.do(bench.engine.port_removed(MEMBERS[0], bench.now_ns))
        assert bench.engine.fabric.hosts[SERVER.mac].port == MEMBERS[1]
        assert {member_of(bench, path_id) for path_id in range(N_PATH_IDS)} == {4, 5}

    def test_frames_to_all_leave_by_one_port_and_never_return(self) -> None:
        bench = bonded()
        bench.sleep(SECOND)
        flood = next(iter(bench.entries(1, FloodTo)))
        assert set(flood.tagged) & {3, 4, 5} == {3}
        assert {one.port for one in bench.entries(1, FloodFrom)} & {3, 4, 5} == {3}
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
            bench.do(bench.engine.port_changed(1, port(4, up=up), bench.now_ns))
        bench.do(bench.engine.port_changed(1, port(4), bench.now_ns))
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
        assert again.entries(1, BondEgress) == bench.entries(1, BondEgress)
        assert again.entries(1, BondIngress) == bench.entries(1, BondIngress)

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
        bench.do(bench.engine.port_changed(1, port(4, up=False), bench.now_ns))
        after = [member_of(bench, path_id) for path_id in range(N_PATH_IDS)]
        assert 4 not in after
        assert all(now == then for now, then in zip(after, before, strict=True) if then != 4)
        counts = Counter(after)
        assert abs(counts[3] - counts[5]) <= 2
        (window,) = (
            w for w in bench.entries(1, HostWindow) if w.address == SERVER.address and w.port != 4
        )
        assert window.port == after[before.index(4)]
        bench.do(bench.engine.port_changed(1, port(4), bench.now_ns))
        assert [member_of(bench, path_id) for path_id in range(N_PATH_IDS)] == before

    def test_a_port_that_is_not_live_carries_nothing(self) -> None:
        bench = bonded()
        bench.do(bench.engine.port_changed(1, port(3, live=False), bench.now_ns))
        assert 3 not in {member_of(bench, path_id) for path_id in range(N_PATH_IDS)}
        assert bench.engine.fabric.hosts[SERVER.mac].port == MEMBERS[1]

    def test_a_switch_that_says_of_no_port_that_it_is_live_does_not_tell(self) -> None:
        bench = bonded()
        for member in MEMBERS:
            bench.do(bench.engine.port_changed(1, port(member.port, live=False), bench.now_ns))
        assert len({member_of(bench, path_id) for path_id in range(N_PATH_IDS)}) == 3

    def test_without_bonds_switches_hold_nothing_of_it(self) -> None:
        bench = star()
        assert not bench.entries(1, BondEgress) | bench.entries(1, BondIngress)
        assert not bench.entries(1, AssignPathIds)


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["up", "down", "idle", "gone"]))))
def test_frames_leave_by_ports_that_are_up_and_evenly(changes: list[tuple[int, str]]) -> None:
    bonds = Bonds([NamedPorts(None, (1, 2, 3, 4))])
    ports: dict[int, Port] = {}
    for number, what in changes:
        if what == "gone":
            bonds.remove_port(PortId(1, number))
            ports.pop(number, None)
        else:
            ports[number] = replace(port(number), up=what != "down", live=what == "up")
            bonds.set_port(1, ports[number])
    up = {number for number, one in ports.items() if one.up and number <= 4}
    usable = {number for number in up if ports[number].live} or up
    for number in ports:
        shares = Counter(bonds.member(PortId(1, number), path_id) for path_id in range(N_PATH_IDS))
        if number > 4 or not usable:
            assert set(shares) == {PortId(1, number)}
        else:
            assert {one.port for one in shares} == usable
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
