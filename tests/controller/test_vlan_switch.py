"""VLANs on a real Open vSwitch: hosts of two VLANs at two switches, and a router in both."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.model.vlans import tag, vlan_numbered
from dummy_ovs import DummyOvs, controlled, wait_for
from packets import ACK, FIN, SYN, Host, arp, ethernet, ipv4, segment, tcp_options
from test_real_switch import CONFIG, TwoSwitchesAndController, stock_prefix

# At a port of its own switch each; in VLAN 10, 20 and 10, and in none.
A, B, C, STRANGER = Host(1), Host(2), Host(3), Host(5)
ROUTER = Host(4)
PORTS = {A: "p1", B: "p2", C: "p3", ROUTER: "p4", STRANGER: "p5"}
V10, V20 = vlan_numbered(10), vlan_numbered(20)
CALL, ANSWER = (40_000, 80), (80, 40_000)
UDP = 17


def tagged(frame: bytes, in_vlan: bytes) -> bytes:
    return frame[:12] + tag(in_vlan) + frame[12:]


def datagram(src: Host, dst: Host, mark: int = 0) -> bytes:
    packet = ipv4(src.address, dst.address, bytes(39) + bytes([mark]), protocol=UDP)
    return ethernet(dst.mac, src.mac, 0x0800, packet)


class TwoVlans(TwoSwitchesAndController):
    ports = PORTS
    config = CONFIG.replace(
        "fabric: {{",
        "fabric: {{vlans: [{{switch: 1, ports: [p1], access: 10}}, {{ports: [p2], access: 20}}, "
        "{{switch: 2, ports: [p3], access: 10}}, {{ports: ['?4'], trunk: [10, 20]}}], ",
    )

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        super().__init__(switch, directory)
        switch.add_port("s2", "p4", 4)
        switch.add_port("s2", "p5", 5)

    def announce(self) -> None:
        """All hosts say where they are, until the fabric knows it."""
        self.wait_events("link_up")

        def known() -> bool:
            for host in (A, B, C, STRANGER):
                self.send(arp(1, host, host), host)
            for in_vlan in (V10, V20):
                self.send(tagged(arp(1, ROUTER, ROUTER), in_vlan), ROUTER)
            return len(self.events("host_address")) == 6

        wait_for(known, "all hosts to be known")
        wait_for(lambda: len(self.forwards()) == 10, "forwarding entries on both switches")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TwoVlans]:
    with controlled(TwoVlans, stock_prefix(), tmp_path) as world:
        world.announce()
        yield world


def test_frames_have_the_form_of_their_port(world: TwoVlans) -> None:
    world.send(datagram(A, C), A)
    world.arrives(datagram(A, C), C)
    world.send(datagram(A, ROUTER), A)
    world.arrives(tagged(datagram(A, ROUTER), V10), ROUTER)
    world.send(tagged(datagram(ROUTER, B), V20), ROUTER)
    world.arrives(datagram(ROUTER, B), B)
    # A tag that only carries a priority names no VLAN.
    frame = datagram(A, C, 7)
    world.send(frame[:12] + bytes.fromhex("8100e000") + frame[12:], A)
    world.arrives(frame, C)


@pytest.mark.parametrize("controlled_too", [True, False])
def test_nobody_gets_what_is_in_another_vlan(world: TwoVlans, controlled_too: bool) -> None:
    if not controlled_too:
        assert world.controller.stop() == 0
    for in_vlan in (V10, V20):
        for dst in (B, STRANGER, ROUTER, C):
            # An access port and one that no rule names take no tags; a trunk only its own.
            world.send(tagged(datagram(A, dst), in_vlan), A)
            world.send(tagged(datagram(STRANGER, dst), in_vlan), STRANGER)
    world.send(datagram(A, B), A)
    world.send(datagram(A, STRANGER), A)
    world.send(datagram(STRANGER, A), STRANGER)
    world.send(datagram(ROUTER, B), ROUTER)
    world.send(tagged(datagram(ROUTER, A), V20), ROUTER)
    world.send(tagged(datagram(ROUTER, A), vlan_numbered(30)), ROUTER)
    world.send(tagged(datagram(ROUTER, STRANGER), V10), ROUTER)
    last = datagram(A, C, 9)
    world.send(last, A)
    world.arrives(last, C)
    world.send(tagged(datagram(ROUTER, B, 9), V20), ROUTER)
    world.arrives(datagram(ROUTER, B, 9), B)
    for host, expected in ((A, 0), (B, 1), (C, 1), (STRANGER, 0), (ROUTER, 0)):
        assert (
            len([frame for frame in world.received(host) if frame[-40:-1] == bytes(39)]) == expected
        )


def test_questions_are_answered_in_their_vlan_only(world: TwoVlans) -> None:
    world.send(arp(1, A, C), A)
    world.arrives(arp(2, C, A), A)
    world.send(arp(1, A, ROUTER), A)
    world.arrives(arp(2, ROUTER, A), A)
    world.send(tagged(arp(1, ROUTER, B), V20), ROUTER)
    world.arrives(tagged(arp(2, B, ROUTER), V20), ROUTER)
    question = arp(1, A, B)
    world.send(question, A)
    world.arrives(question, C)
    world.arrives(tagged(question, V10), ROUTER)
    assert question not in world.received(B) + world.received(STRANGER)
    assert arp(2, B, A) not in world.received(A)


def test_what_a_router_passes_on_are_two_legs(world: TwoVlans) -> None:
    def leg(frame: bytes, src: Host, dst: Host) -> bytes:
        return dst.mac + src.mac + frame[12:]

    syn = segment(A, B, CALL, SYN, options=tcp_options(1460, 7))
    syn_ack = segment(B, A, ANSWER, SYN | ACK, options=tcp_options(1460, 9))
    for frame, way in ((syn, (A, B)), (syn_ack, (B, A))):
        src, dst = way
        own, other = (V10, V20) if src is A else (V20, V10)
        there = leg(frame, src, ROUTER)
        world.send(there, src)
        world.arrives(tagged(there, own), ROUTER)
        passed = leg(frame, ROUTER, dst)
        world.send(tagged(passed, other), ROUTER)
        world.arrives(passed, dst)
    opened = world.wait_events("connection_opened", 2)
    assert sorted(event["vlan"] for event in opened) == [10, 20]
    assert {(event["src"], event["dst"]) for event in opened} == {("10.0.0.1", "10.0.0.2")}

    # Each leg has counters of its own.
    wait_for(
        lambda: (
            {
                in_vlan
                for flow in world.switch.flows("s1") + world.switch.flows("s2")
                for in_vlan in (10, 20)
                if "tp_dst=80" in flow and f"dl_vlan={in_vlan}" in flow
            }
            == {10, 20}
        ),
        "the flow counters of both legs",
    )
    for src, dst, call in ((A, B, CALL), (B, A, ANSWER)):
        fin = segment(src, dst, call, FIN | ACK)
        world.send(leg(fin, src, ROUTER), src)
        world.send(tagged(leg(fin, ROUTER, dst), V20 if src is A else V10), ROUTER)
    closed = world.wait_events("connection_closed", 2)
    assert {event["reason"] for event in closed} == {"finished"}
    assert "refused" not in world.controller.log


def vlan_entries(world: TwoVlans) -> list[str]:
    """The entries of the first table, which goes without saying, of both switches."""
    flows = world.switch.flows("s1") + world.switch.flows("s2")
    return sorted(flow for flow in flows if "table=" not in flow)


def test_a_restarted_controller_changes_nothing(world: TwoVlans) -> None:
    before = sorted(world.forwards())
    entries = vlan_entries(world)
    assert len(entries) > 10
    world.controller.stop()
    world.send(datagram(A, C, 1), A)
    world.arrives(datagram(A, C, 1), C)
    world.controller.start()
    world.wait_events("link_up", 2)
    world.send(datagram(A, C, 2), A)
    world.arrives(datagram(A, C, 2), C)
    assert sorted(world.forwards()) == before
    assert vlan_entries(world) == entries
    assert "refused" not in world.controller.log
