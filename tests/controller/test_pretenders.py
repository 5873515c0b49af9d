"""Hosts that say they are what they are not: what they get, and what those they harm lose."""

from dataclasses import replace

import pytest

from controller.core.hosts.port_security import (
    BACK_WITHIN_NS,
    BARE_FOR_NS,
    HOLD_NS,
    QUIET_NS,
    BoundHost,
    PortSecuritySettings,
    Refusal,
)
from controller.core.hosts.resolution import ResolverSettings
from controller.model.effects import AddressProbe, Effect, Warn
from controller.model.flow import ACK, FIN, RST, SYN, FlowKey, Segment
from controller.model.packet_ins import NeighbourMessage
from controller.model.values import PortId
from engine_bench import (
    BROADCAST,
    CONNECTIONS,
    MSS,
    RECEIVER,
    SECOND,
    SENDERS,
    EngineBench,
    make_engine,
    records,
    star,
)
from packets import Host

VICTIM, LIAR, OTHER, *_ = SENDERS
AT_VICTIM, AT_LIAR, AT_RECEIVER = PortId(1, 1), PortId(1, 2), PortId(1, 40)


def guarded(**settings: object) -> EngineBench:
    """A star whose ports are guarded like that."""
    bench = star()
    security = PortSecuritySettings(**settings)  # type: ignore[arg-type]
    bench.engine = make_engine(resolver=replace(ResolverSettings(), security=security))
    bench.switch_up(1)
    bench.now_ns += SECOND
    for host, port in list(bench.places.items()):
        bench.place(host, port)
    return bench


def says(bench: EngineBench, port: PortId, mac: bytes, address: bytes) -> list[Effect]:
    """A gratuitous ARP by a port."""
    said = NeighbourMessage(True, mac, address, address, BROADCAST, b"", b"frame")
    return bench.do(bench.engine.resolve(port, said, bench.now_ns))


def probes(effects: list[Effect]) -> list[tuple[PortId, bytes, bytes]]:
    return [(e.port, e.mac, e.address) for e in effects if isinstance(e, AddressProbe)]


def warnings(effects: list[Effect]) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, Warn)]


def disbelieved(effects: list[Effect]) -> list[tuple[object, object]]:
    return [(told["port"], told["reason"]) for told in records(effects, "port_disbelieved")]


def heard(
    bench: EngineBench,
    port: PortId,
    macs: tuple[Host, Host],
    key: FlowKey,
    flags: int,
    payload_bytes: int = 0,
    sequence: int = 1,
) -> list[Effect]:
    """A copied segment that entered by `port`, from the first host to the second, as it says."""
    src, dst = macs
    fields = dst.mac + src.mac, key.pack(), flags, sequence, 2, payload_bytes, MSS, 7
    segment = Segment(port.port, *fields)
    return bench.do(bench.engine.segments(port.switch, [segment], bench.now_ns))


class TestPlaces:
    def test_a_host_that_moves_is_believed_and_asked_for_where_it_was(self) -> None:
        bench = guarded()
        effects = says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
        assert records(effects, "host_moved")
        assert probes(effects) == [(AT_VICTIM, VICTIM.mac, VICTIM.address)]
        assert bench.engine.fabric.hosts[VICTIM.mac].port == AT_LIAR

    def test_if_it_answers_there_it_stays_and_the_pretender_is_named(self) -> None:
        bench = guarded()
        says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
        effects = says(bench, AT_VICTIM, VICTIM.mac, VICTIM.address)
        assert bench.engine.fabric.hosts[VICTIM.mac].port == AT_VICTIM
        told = {"port": str(AT_LIAR), "reason": "host elsewhere"}
        assert records(effects, "port_disbelieved") == [told]
        assert (
            "port 2 sends from the Ethernet address of a host at another port"
            in (warnings(effects)[0])
        )
        for _ in range(5):
            bench.now_ns += HOLD_NS // 6
            assert records(says(bench, AT_LIAR, VICTIM.mac, VICTIM.address), "host_moved") == []
        assert bench.engine.fabric.hosts[VICTIM.mac].port == AT_VICTIM

    def test_each_time_for_longer(self) -> None:
        bench = guarded()
        for times in (1, 2, 4):
            says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
            says(bench, AT_VICTIM, VICTIM.mac, VICTIM.address)
            bench.now_ns += times * HOLD_NS - 1
            says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
            assert bench.engine.fabric.hosts[VICTIM.mac].port == AT_VICTIM
            bench.now_ns += 1

    def test_who_is_held_and_silent_there_is_let_go(self) -> None:
        bench = guarded()
        says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
        says(bench, AT_VICTIM, VICTIM.mac, VICTIM.address)
        bench.now_ns += 10 * SECOND
        # Now it does move, and its hold lasts a minute.
        elsewhere = PortId(1, 39)
        asked = []
        for _ in range(8):
            says(bench, elsewhere, VICTIM.mac, VICTIM.address)
            asked += probes(bench.sleep(SECOND))
        assert asked[0] == (AT_VICTIM, VICTIM.mac, VICTIM.address)
        assert bench.engine.fabric.hosts[VICTIM.mac].port == elsewhere

    def test_two_pretenders_are_held_off_as_one(self) -> None:
        bench = guarded()
        says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
        says(bench, PortId(1, 39), VICTIM.mac, VICTIM.address)
        says(bench, AT_VICTIM, VICTIM.mac, VICTIM.address)
        for port in (AT_LIAR, PortId(1, 39)):
            says(bench, port, VICTIM.mac, VICTIM.address)
        assert bench.engine.fabric.hosts[VICTIM.mac].port == AT_VICTIM

    def test_it_may_move_on_later(self) -> None:
        bench = guarded()
        says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
        bench.now_ns += BACK_WITHIN_NS
        says(bench, AT_VICTIM, VICTIM.mac, VICTIM.address)
        says(bench, PortId(1, 39), VICTIM.mac, VICTIM.address)
        assert bench.engine.fabric.hosts[VICTIM.mac].port == PortId(1, 39)

    def test_where_moves_are_not_meant_to_be_the_first_place_is_the_right_one(self) -> None:
        bench = guarded(moves=False)
        effects = says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
        assert records(effects, "port_disbelieved")
        assert bench.engine.fabric.hosts[VICTIM.mac].port == AT_VICTIM

    @pytest.mark.parametrize("port", [1, "s1-eth1"])
    def test_a_bound_host_is_at_its_port_only(self, port: int | str) -> None:
        bench = guarded(bound=(BoundHost(VICTIM.mac, 1, port),))
        says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
        assert bench.engine.fabric.hosts[VICTIM.mac].port == AT_VICTIM

    def test_who_is_believed_again_is_told(self) -> None:
        bench = guarded(moves=False)
        says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
        says(bench, AT_LIAR, VICTIM.mac, VICTIM.address)
        seen = bench.sleep(QUIET_NS + SECOND)
        told = {"port": str(AT_LIAR), "reason": "host elsewhere", "refused": 2}
        assert records(seen, "port_believed") == [told]


class TestAddresses:
    def test_who_takes_an_address_has_it_only_if_its_owner_does_not_mind(self) -> None:
        bench = guarded()
        effects = says(bench, AT_LIAR, LIAR.mac, VICTIM.address)
        assert probes(effects) == [(AT_VICTIM, VICTIM.mac, VICTIM.address)]
        assert owner(bench, VICTIM.address) == LIAR.mac
        effects = says(bench, AT_VICTIM, VICTIM.mac, VICTIM.address)
        assert owner(bench, VICTIM.address) == VICTIM.mac
        told = {"port": str(AT_LIAR), "reason": "address taken"}
        assert records(effects, "port_disbelieved") == [told]
        says(bench, AT_LIAR, LIAR.mac, VICTIM.address)
        assert owner(bench, VICTIM.address) == VICTIM.mac


def owner(bench: EngineBench, address: bytes) -> bytes:
    host = bench.engine.fabric.owner(address)
    assert host is not None
    return host.mac


class TestBounds:
    def test_a_port_has_so_many_hosts(self) -> None:
        bench = guarded(hosts_per_port=50)
        before = len(bench.engine.fabric.hosts)
        key = FlowKey(LIAR.address, 1, RECEIVER.address, 80)
        for number in range(3000):
            forged = bytes([2, 9, 9, 9, *number.to_bytes(2, "big")])
            segment = Segment(2, RECEIVER.mac + forged, key.pack(), SYN, number, 0, 0, MSS, 7)
            bench.do(bench.engine.segments(1, [segment], bench.now_ns))
        assert len(bench.engine.fabric.hosts) == before + 49  # The liar is one of fifty.
        assert bench.engine.port_security.refused[AT_LIAR, Refusal.HOSTS] == 2951

    def test_and_so_many_addresses(self) -> None:
        bench = guarded(addresses_per_port=50)
        for number in range(3000):
            says(bench, AT_LIAR, LIAR.mac, b"\x0b\0" + number.to_bytes(2, "big"))
        assert bench.engine.fabric.n_addresses_at(AT_LIAR) == 50

    def test_whoever_cannot_be_asked_for_makes_room_in_the_end(self) -> None:
        bench = guarded(hosts_per_port=2)
        # Its address is another's now.
        says(bench, AT_LIAR, Host(201).mac, VICTIM.address)
        says(bench, AT_VICTIM, Host(202).mac, VICTIM.address)
        bench.now_ns += BARE_FOR_NS + BACK_WITHIN_NS
        says(bench, AT_LIAR, Host(203).mac, Host(203).address)
        assert Host(201).mac not in bench.engine.fabric.hosts
        assert Host(203).mac in bench.engine.fabric.hosts

    def test_others_have_their_own(self) -> None:
        bench = guarded(hosts_per_port=1)
        says(bench, AT_LIAR, Host(201).mac, Host(201).address)
        says(bench, PortId(1, 39), Host(202).mac, Host(202).address)
        assert Host(201).mac not in bench.engine.fabric.hosts
        assert Host(202).mac in bench.engine.fabric.hosts


CALL = FlowKey(LIAR.address, 7, VICTIM.address, 80)
GOOD = FlowKey(OTHER.address, 7, VICTIM.address, 80)


class TestSegments:
    def test_who_answers_himself_has_opened_nothing(self) -> None:
        """2,000 connections to the victim, who has not answered one."""
        bench = guarded()
        for port in range(1, 2001):
            key = CALL._replace(src_port=port)
            heard(bench, AT_LIAR, (LIAR, VICTIM), key, SYN)
            heard(bench, AT_LIAR, (LIAR, LIAR), key.reverse, SYN | ACK)
        assert len(bench.engine.flow_table) == 0
        assert bench.engine.flow_table.counters["elsewhere"] == 2000

    def test_nor_who_answers_in_anothers_name(self) -> None:
        bench = guarded()
        heard(bench, AT_LIAR, (LIAR, VICTIM), CALL, SYN)
        heard(bench, AT_LIAR, (VICTIM, LIAR), CALL.reverse, SYN | ACK)
        says(bench, AT_VICTIM, VICTIM.mac, VICTIM.address)
        for port in range(100, 200):
            key = CALL._replace(src_port=port)
            heard(bench, AT_LIAR, (LIAR, VICTIM), key, SYN)
            heard(bench, AT_LIAR, (VICTIM, LIAR), key.reverse, SYN | ACK)
        assert len(bench.engine.flow_table) <= 1

    @pytest.mark.parametrize("flags", [RST, FIN])
    def test_nobody_ends_the_connections_of_others(self, flags: int) -> None:
        bench = guarded()
        bench.connect(OTHER, VICTIM, 7)
        for key in (GOOD, GOOD.reverse):
            heard(bench, AT_LIAR, (LIAR, VICTIM), key, flags)
            heard(bench, AT_LIAR, (LIAR, OTHER), key, flags)
        assert len(bench.engine.flow_table) == 1

    def test_nor_keeps_them_from_opening(self) -> None:
        bench = guarded()
        heard(bench, PortId(1, 3), (OTHER, VICTIM), GOOD, SYN)
        heard(bench, AT_LIAR, (LIAR, OTHER), GOOD.reverse, RST)
        heard(bench, AT_LIAR, (LIAR, VICTIM), GOOD, RST)
        heard(bench, AT_VICTIM, (VICTIM, OTHER), GOOD.reverse, SYN | ACK)
        assert len(bench.engine.flow_table) == 1

    def test_nor_does_it_help_to_seem_to_move_there(self) -> None:
        bench = guarded()
        bench.connect(OTHER, VICTIM, 7)
        for flags in (RST, FIN, RST):
            heard(bench, AT_LIAR, (VICTIM, OTHER), GOOD.reverse, flags)
        assert len(bench.engine.flow_table) == 1

    def test_whoever_has_the_address_takes_its_connections_back(self) -> None:
        """Two hosts of the liar have made a connection of its four numbers."""
        bench = guarded()
        accomplice = Host(201)
        bench.place(accomplice, PortId(1, 39))
        heard(bench, AT_LIAR, (LIAR, accomplice), GOOD, SYN)
        heard(bench, PortId(1, 39), (accomplice, LIAR), GOOD.reverse, SYN | ACK)
        assert len(bench.engine.flow_table) == 0, "the address is known to be another's"
        heard(bench, AT_LIAR, (LIAR, VICTIM), GOOD, SYN)
        bench.connect(OTHER, VICTIM, 7)
        table = bench.engine.flow_table
        assert [flow.pair.initiator_mac for flow in table.connections] == [OTHER.mac]

    def test_data_in_anothers_name_is_not_adopted(self) -> None:
        bench = guarded()
        bench.engine.connections.relearning.add(1)
        heard(bench, AT_LIAR, (LIAR, VICTIM), GOOD, ACK, payload_bytes=100)
        assert len(bench.engine.flow_table) == 0
        heard(bench, PortId(1, 3), (OTHER, VICTIM), GOOD, ACK, payload_bytes=100)
        assert len(bench.engine.flow_table) == 1

    def test_an_answer_that_nobody_asked_for_is_not_adopted(self) -> None:
        bench = guarded()
        for port in range(1, 100):
            key = FlowKey(b"\x0b\0\0\x01", port, LIAR.address, 80)
            heard(bench, AT_LIAR, (LIAR, VICTIM), key.reverse, SYN | ACK)
        bench.sleep(3 * SECOND)
        assert len(bench.engine.flow_table) == 0

    def test_from_outside_an_answer_may_come_by_another_router(self) -> None:
        bench = guarded()
        out, back = Host(201), Host(202)
        bench.place(out, PortId(1, 38))
        bench.place(back, PortId(1, 39))
        key = FlowKey(OTHER.address, 7, b"\x08\x08\x08\x08", 80)
        heard(bench, PortId(1, 3), (OTHER, out), key, SYN)
        heard(bench, PortId(1, 39), (back, OTHER), key.reverse, SYN | ACK)
        assert len(bench.engine.flow_table) == 1

    def test_a_router_may_answer_by_another_address_than_it_was_asked(self) -> None:
        """VRRP: frames go to the virtual router's address, and come from the real one's."""
        bench = guarded()
        virtual, real = Host(201), Host(202)
        for mac in (virtual, real):
            bench.place(mac, PortId(1, 39))
        key = FlowKey(OTHER.address, 7, b"\x08\x08\x08\x08", 80)
        heard(bench, PortId(1, 3), (OTHER, virtual), key, SYN)
        heard(bench, PortId(1, 39), (real, OTHER), key.reverse, SYN | ACK)
        assert len(bench.engine.flow_table) == 1
        heard(bench, PortId(1, 39), (real, OTHER), key.reverse, RST)
        assert len(bench.engine.flow_table) == 0

    def test_who_answers_himself_in_anothers_name_is_named(self) -> None:
        for is_early in (False, True):
            bench = guarded()
            asked = (LIAR, VICTIM), CALL, SYN
            answered = (LIAR, LIAR), CALL.reverse, SYN | ACK
            effects = []
            for macs, key, flags in (answered, asked) if is_early else (asked, answered):
                effects = heard(bench, AT_LIAR, macs, key, flags)
            assert disbelieved(effects) == [(str(AT_LIAR), "address borrowed")]

    @pytest.mark.parametrize("flags", [RST, FIN, SYN])
    def test_and_who_touches_the_connections_of_others(self, flags: int) -> None:
        bench = guarded()
        bench.connect(OTHER, VICTIM, 7)
        effects = heard(bench, AT_LIAR, (LIAR, VICTIM), GOOD, flags, sequence=9)
        assert disbelieved(effects) == [(str(AT_LIAR), "address borrowed")]
        assert "port 2 sends TCP segments from the IP address of a host" in warnings(effects)[0]
        assert disbelieved(heard(bench, AT_LIAR, (LIAR, OTHER), GOOD.reverse, flags)) == []
        assert bench.engine.port_security.refused[AT_LIAR, Refusal.ADDRESS_BORROWED] == 2

    def test_but_not_a_router_within_a_vlan(self) -> None:
        """It sends on what comes from either end, in the name of that end."""
        bench = guarded()
        router, at_router, at_other = Host(201), PortId(1, 39), PortId(1, 3)
        bench.place(router, at_router)
        effects: list[Effect] = []
        for key, flags in (
            (GOOD, SYN),
            (GOOD.reverse, SYN | ACK),
            (GOOD, SYN),
            (GOOD, FIN | ACK),
            (GOOD.reverse, RST),
        ):
            src, at, dst = OTHER, at_other, VICTIM
            if key != GOOD:
                src, at, dst = VICTIM, AT_VICTIM, OTHER
            effects += heard(bench, at, (src, router), key, flags)
            effects += heard(bench, at_router, (router, dst), key, flags)
        assert bench.engine.flow_table.counters["elsewhere"] >= 4
        assert disbelieved(effects) == []

    def test_whatever_of_it_is_heard_first(self) -> None:
        """Copies of one switch may overtake those of another."""
        bench = guarded()
        router, at_router = Host(201), PortId(1, 39)
        bench.place(router, at_router)
        effects = heard(bench, at_router, (router, VICTIM), GOOD, SYN)
        effects += heard(bench, at_router, (router, OTHER), GOOD.reverse, SYN | ACK)
        assert bench.engine.flow_table.counters["elsewhere"] == 1
        assert disbelieved(effects) == []

    def test_nor_the_router_that_takes_over_from_another(self) -> None:
        bench = guarded()
        first, second, at_other = Host(201), Host(202), PortId(1, 3)
        bench.place(first, PortId(1, 38))
        bench.place(second, PortId(1, 39))
        heard(bench, at_other, (OTHER, first), GOOD, SYN)
        heard(bench, PortId(1, 38), (first, OTHER), GOOD.reverse, SYN | ACK)
        outside = GOOD._replace(dst=b"\x08\x08\x08\x08")
        heard(bench, at_other, (OTHER, second), outside, SYN)
        heard(bench, PortId(1, 39), (second, OTHER), outside.reverse, SYN | ACK)
        assert len(bench.engine.flow_table) == 2
        effects = heard(bench, PortId(1, 39), (second, VICTIM), GOOD, FIN | ACK)
        assert bench.engine.flow_table.counters["elsewhere"] == 1
        assert disbelieved(effects) == []

    def test_nor_the_servers_of_a_balancer(self) -> None:
        bench = guarded()
        server, at_server = Host(201), PortId(1, 39)
        bench.place(server, at_server)
        effects = heard(bench, PortId(1, 3), (OTHER, VICTIM), GOOD, SYN)
        for flags in (SYN | ACK, FIN | ACK, RST):
            effects += heard(bench, at_server, (server, OTHER), GOOD.reverse, flags)
        assert bench.engine.flow_table.counters["elsewhere"] > 0
        assert disbelieved(effects) == []

    def test_nor_who_answers_for_an_address_that_was_just_taken_from_him(self) -> None:
        bench = guarded()
        bench.connect(OTHER, VICTIM, 7)
        says(bench, AT_LIAR, LIAR.mac, VICTIM.address)
        key = GOOD._replace(src_port=8)
        heard(bench, PortId(1, 3), (OTHER, LIAR), key, SYN)
        heard(bench, AT_LIAR, (LIAR, OTHER), key.reverse, SYN | ACK)
        assert len(bench.engine.flow_table) == 2
        effects = heard(bench, AT_VICTIM, (VICTIM, OTHER), key.reverse, RST)
        assert bench.engine.flow_table.counters["elsewhere"] == 1
        assert disbelieved(effects) == []

    def test_the_hosts_of_a_port_open_so_many_connections(self) -> None:
        bench = star()
        bench.engine = make_engine(connections=replace(CONNECTIONS, per_port=100))
        bench.switch_up(1)
        bench.now_ns += SECOND
        for host, port in list(bench.places.items()):
            bench.place(host, port)
        for number in range(1, 200):
            bench.connect(LIAR, VICTIM, number)
        bench.connect(OTHER, VICTIM, 1)
        table = bench.engine.flow_table
        assert len(table) == 101
        assert table.counters["excess"] == 99
        for number in range(1, 51):
            bench.segment(CALL._replace(src_port=number), RST)
        bench.connect(LIAR, VICTIM, 999)
        assert len(table) == 52
