"""Hosts and their addresses: answered for, passed on within limits, asked and forgotten in time."""

import pytest

from controller.core.hosts.flooding import Floods
from controller.model.effects import AddressProbe, Deliver, Effect, NeighbourReply
from controller.model.entries import Forward, ForwardVia
from controller.model.packet_ins import NeighbourMessage
from controller.model.values import PortId
from controller.model.vlans import vlan_of
from engine_bench import (
    BROADCAST,
    RECEIVER,
    SECOND,
    SENDERS,
    EngineBench,
    records,
    star,
    two_switches,
)
from packets import Host

AGE_NS = 1800 * SECOND
A, B, *_ = SENDERS
PORT_A, PORT_B, PORT_R = PortId(1, 1), PortId(1, 2), PortId(1, 40)
V4, V6 = "address", "address6"
TAG_7, TAG_8 = bytes.fromhex("8100 2007"), bytes.fromhex("8100 0008")
PRIORITY_ONLY = bytes.fromhex("8100 e000")


def say(
    bench: EngineBench,
    port: PortId,
    mac: bytes,
    address: bytes,
    target: bytes,
    *,
    asks: bool = True,
    tags: bytes = b"",
    dst_mac: bytes = BROADCAST,
) -> list[Effect]:
    said = NeighbourMessage(asks, mac, address, target, dst_mac, tags, b"frame")
    return bench.do(bench.engine.resolve(port, said, bench.now_ns))


def introduce(bench: EngineBench, kind: str, tags: bytes = b"") -> None:
    """A and B announce their addresses of that kind."""
    for host, port in ((A, PORT_A), (B, PORT_B)):
        address = getattr(host, kind)
        say(bench, port, host.mac, address, address, tags=tags)


def deliveries(effects: list[Effect]) -> list[tuple[PortId, ...]]:
    return [effect.ports for effect in effects if isinstance(effect, Deliver)]


@pytest.fixture(params=[V4, V6])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestAnswers:
    def test_a_known_address_is_answered_for(self, kind: str) -> None:
        bench = star()
        introduce(bench, kind)
        a, b = getattr(A, kind), getattr(B, kind)
        assert say(bench, PORT_A, A.mac, a, b) == [NeighbourReply(PORT_A, B.mac, b, A.mac, a)]

    def test_who_wants_an_address_is_told_by_its_owner_alone(self, kind: str) -> None:
        """RFC 5227 section 2.1.1, RFC 4862 section 5.4.3: the owner may be gone."""
        bench = star()
        introduce(bench, kind)
        b = getattr(B, kind)
        assert deliveries(say(bench, PORT_A, A.mac, bytes(len(b)), b)) == [(PORT_B,)]

    def test_who_has_an_address_and_asks_for_it_reaches_everybody(self, kind: str) -> None:
        bench = star()
        introduce(bench, kind)
        a = getattr(A, kind)
        for address in (bytes(len(a)), a):
            ((*ports,),) = deliveries(say(bench, PORT_A, A.mac, address, a))
            assert {PORT_B, PORT_R} <= set(ports)
            assert PORT_A not in ports

    def test_an_unsolicited_answer_is_learnt_and_reaches_everybody(self, kind: str) -> None:
        bench = star()
        introduce(bench, kind)
        a, b = getattr(A, kind), getattr(B, kind)
        told = say(bench, PORT_A, A.mac, b, b"", asks=False)
        assert PORT_B in deliveries(told)[0]
        effects = say(bench, PORT_R, RECEIVER.mac, a, b)
        assert [effect.mac for effect in effects if isinstance(effect, NeighbourReply)] == [A.mac]

    def test_a_group_or_no_address_is_no_host(self) -> None:
        bench = star()
        for mac in (BROADCAST, bytes(6)):
            say(bench, PortId(1, 35), mac, b"\x0a\0\0\x63", A.address)
            assert Forward(mac, 35) not in bench.entries(1, Forward)


class TestVlans:
    def test_they_are_answered_under_their_tags_and_do_not_mix(self, kind: str) -> None:
        bench = star()
        introduce(bench, kind, TAG_7)
        a, b = getattr(A, kind), getattr(B, kind)
        answer = NeighbourReply(PORT_A, B.mac, b, A.mac, a, TAG_7)
        assert say(bench, PORT_A, A.mac, a, b, tags=TAG_7) == [answer]
        asked = say(bench, PORT_A, A.mac, a, b, tags=TAG_8)
        assert not [effect for effect in asked if isinstance(effect, NeighbourReply)]

    def test_a_tag_may_carry_a_priority_only(self) -> None:
        assert vlan_of(PRIORITY_ONLY) == vlan_of(b"") == b""
        assert vlan_of(TAG_7) == vlan_of(bytes.fromhex("8100 e007")) != vlan_of(TAG_8)
        assert vlan_of(TAG_7 + TAG_8) != vlan_of(TAG_8 + TAG_7)


class TestAge:
    def asked(self, effects: list[Effect]) -> list[bytes]:
        return [effect.address for effect in effects if isinstance(effect, AddressProbe)]

    def test_who_was_not_heard_of_is_asked_and_stays_if_he_answers(self, kind: str) -> None:
        bench = star()
        introduce(bench, kind)
        a = getattr(A, kind)
        bench.now_ns += AGE_NS
        effects = bench.do(bench.engine.tend(bench.now_ns))
        questions = [e for e in effects if isinstance(e, AddressProbe) and e.address == a]
        assert questions == [AddressProbe(PORT_A, A.mac, a, bytes([2, 1, 0, 0, 1, 0]))]
        told = say(bench, PORT_A, A.mac, a, b"", asks=False, dst_mac=questions[0].asker_mac)
        assert deliveries(told) == []  # It was the controller that had asked.
        assert a not in self.asked(bench.sleep(10 * SECOND))
        assert Forward(A.mac, 1) in bench.entries(1, Forward)

    def test_who_never_answers_is_forgotten(self) -> None:
        bench = two_switches()
        bench.now_ns += AGE_NS
        seen = bench.sleep(5 * SECOND)
        assert self.asked(seen).count(RECEIVER.address) == 3
        assert {"mac": RECEIVER.mac.hex(":")} in records(seen, "host_lost")
        assert Forward(RECEIVER.mac, 1) not in bench.entries(2, Forward)
        assert ForwardVia(RECEIVER.mac, 2) not in bench.entries(1, ForwardVia)
        assert deliveries(bench.arp(1, A, RECEIVER))  # nobody is known to have it

    def test_who_keeps_one_address_stays(self) -> None:
        bench = star()
        introduce(bench, V6)
        bench.now_ns += AGE_NS - SECOND
        say(bench, PORT_A, A.mac, A.address6, A.address6)
        bench.sleep(10 * SECOND)
        assert Forward(A.mac, 1) in bench.entries(1, Forward)
        assert Forward(B.mac, 2) not in bench.entries(1, Forward)


class TestFloods:
    def test_a_port_has_its_share_and_the_others_theirs(self) -> None:
        bench = star()
        seen: list[Effect] = []
        for number in range(5000):
            bench.now_ns += 10**6
            seen += say(bench, PORT_A, A.mac, A.address, number.to_bytes(4, "big"))
        assert 500 <= len(deliveries(seen)) <= 601
        assert records(seen, "flood_limited") == [{"port": str(PORT_A)}]
        assert deliveries(say(bench, PORT_B, B.mac, B.address, Host(200).address))

    def test_all_ports_together_have_one(self) -> None:
        floods = Floods(100)
        admitted = sum(floods.admit(PortId(1, port), 0) for port in range(50) for _ in range(100))
        assert admitted == 1000

    def test_it_is_forgotten_who_kept_quiet(self) -> None:
        floods = Floods(100)
        assert all(floods.admit(PORT_A, 0) for _ in range(100))
        assert floods.full_again(SECOND // 2) == []
        assert floods.full_again(SECOND) == [PORT_A]
