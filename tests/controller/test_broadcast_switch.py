"""Frames to groups in a ring of real Open vSwitches: with a controller, without, and in a storm."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.southbound.switch.pipeline import Table
from dummy_ovs import DummyOvs, controlled, wait_for
from packets import Host, arp, ethernet, ipv4
from test_real_switch import CONFIG, World, stock_prefix

H1, H2, H3 = Host(1), Host(2), Host(3)
PORTS = {H1: "p1", H2: "p2", H3: "p3"}
BROADCAST, ALL_HOSTS = b"\xff" * 6, bytes.fromhex("01005e000001")
RATE = 50
FROM_HOSTS, FROM_LINKS = (f"table={Table.FLOOD.value}, priority={n}" for n in (100, 350))


def to_group(src: Host, mark: int, group: bytes = BROADCAST) -> bytes:
    packet = ipv4(src.address, b"\xff" * 4, b"to all" + mark.to_bytes(4, "big"), protocol=17)
    return ethernet(group, src.mac, 0x0800, packet)


class Ring(World):
    config = CONFIG + f"budgets: {{{{broadcast: {RATE}}}}}\n"
    ports = PORTS

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        super().__init__(switch, directory)
        for n in (1, 2, 3):
            switch.add_bridge(f"s{n}", n, self.listen)
        for a, b in ((1, 2), (2, 3), (3, 1)):
            switch.add_link((f"s{a}", f"s{b}"), (f"l{a}{b}", f"l{b}{a}"), 10 + a)
        for n in (1, 2, 3):
            switch.add_port(f"s{n}", f"p{n}", 1)

    def reaches(self, frame: bytes, by: Host) -> None:
        """Both other hosts get it once."""
        self.send(frame, by=by)
        once = [int(host is not by) for host in (H1, H2, H3)]
        wait_for(lambda: self.got(frame) == once, "it at both other hosts")

    def got(self, frame: bytes) -> list[int]:
        """How often each host has got it."""
        return [self.switch.sent(PORTS[host]).count(frame) for host in (H1, H2, H3)]

    def flooding(self) -> bool:
        """Whether every switch floods: over two links in all, and from its host."""
        of_links = [flow for flow in self.entries() if FROM_LINKS in flow]
        of_hosts = [flow for flow in self.entries() if FROM_HOSTS in flow]
        return len(of_links) == 4 and len(of_hosts) == 3 and all("meter" in f for f in of_hosts)

    def entries(self) -> list[str]:
        """Where frames to groups may come from, and where they go."""
        wanted = FROM_HOSTS, FROM_LINKS, f"table={Table.FLOOD_OUT.value}, "
        flows = (flow for n in (1, 2, 3) for flow in self.switch.flows(f"s{n}"))
        return sorted(flow for flow in flows if any(one in flow for one in wanted))


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    with controlled(Ring, stock_prefix(), tmp_path) as ring:
        wait_for(lambda: len(ring.events("link_up")) >= 3, "the links")
        wait_for(ring.flooding, "the entries for frames to groups")
        yield ring


def test_a_frame_to_a_group_reaches_every_host_once_and_its_sender_is_learnt(ring: Ring) -> None:
    for mark, group in ((1, BROADCAST), (2, ALL_HOSTS)):
        frame = to_group(H1, mark, group)
        ring.reaches(frame, by=H1)
    wait_for(lambda: ring.events("host_learnt"), "its sender")
    assert [event["mac"] for event in ring.events("host_learnt")] == [H1.mac.hex(":")]
    # What comes after them leaves after whatever else comes of them.
    ring.reaches(to_group(H1, 3), by=H1)
    assert ring.got(to_group(H1, 1)) == ring.got(to_group(H1, 2, ALL_HOSTS)) == [0, 1, 1]


def test_the_controller_answers_questions_and_floods_what_it_cannot_answer(ring: Ring) -> None:
    question = arp(1, H1, H2)
    ring.send(question, by=H1)
    wait_for(lambda: ring.got(question) == [0, 1, 1], "the question at both")
    ring.send(arp(2, H2, H1), by=H2)
    wait_for(lambda: len(ring.events("host_address")) == 2, "both addresses")
    again = arp(1, H3, H2)
    ring.send(again, by=H3)
    wait_for(lambda: ring.got(arp(2, H2, H3)) == [0, 0, 1], "the controller's answer")
    assert ring.got(again) == [0, 0, 0]


@pytest.mark.slow  # Switches wait for the controller for a while.
def test_all_goes_on_without_a_controller(ring: Ring) -> None:
    assert ring.controller.stop() == 0
    ring.reaches(to_group(H2, 1), by=H2)
    question = arp(1, H1, H2)

    def asked() -> bool:
        ring.send(question, by=H1)
        return ring.got(question)[1] > 0

    wait_for(asked, "the question at its target")
    wait_for(lambda: ring.got(question)[1] == ring.got(question)[2], "it at the other one")
    # Nobody has learnt where they are.
    frame = ethernet(H1.mac, H2.mac, 0x88B5, bytes(60))
    ring.send(frame, by=H2)
    wait_for(lambda: ring.got(frame)[0] == 1, "a frame to a host that no switch knows")


def test_a_storm_is_cut_and_named(ring: Ring) -> None:
    sent: set[bytes] = set()
    begun_s = time.monotonic()

    def named() -> list[dict[str, Any]]:
        frames = [to_group(H1, len(sent) + n) for n in range(4 * RATE)]
        sent.update(frames)
        ring.switch.inject(PORTS[H1], *frames)
        return ring.events("packet_ins_limited")

    wait_for(named, "the port to be named")
    took_s = time.monotonic() - begun_s
    assert {event["port"] for event in named()} == {"0000000000000001:1"}
    assert "flooded" in {event["class"] for event in named()}
    arrived = sum(frame in sent for frame in ring.switch.sent("p2"))
    assert 0 < arrived <= RATE * (took_s + 5) < len(sent)


def test_a_restarted_controller_changes_nothing(ring: Ring) -> None:
    before = ring.entries()
    ring.controller.stop()
    ring.controller.start()
    mark = 0
    while len(ring.events("link_up")) < 6 or mark < 20:
        ring.reaches(to_group(H3, mark), by=H3)
        mark += 1
        time.sleep(2 / RATE)  # Far from what the meter drops.
    assert ring.entries() == before
    assert "refused" not in ring.controller.log
