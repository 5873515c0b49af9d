"""The budgets before parsing, with a clock that moves."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from controller.model.entries import FloodFrom, Relearn
from controller.model.packet_ins import OverBudget, PacketClass
from controller.southbound.switch import pipeline
from controller.southbound.switch.admission import Admission
from controller.southbound.switch.budgets import Limits
from controller.southbound.switch.encoding import encode

S = 10**9
LIMITS = Limits(500, 200, 20, 20_000, 20_000, 1_000, 20_000, 1000, 100, 50)
COOKIES = {
    packets: next(
        entry.cookie
        for entry in (*pipeline.STATIC, *encode(Relearn(1)), *encode(FloodFrom(1, of_hosts=True)))
        if pipeline.packet_class(entry.cookie) is packets and entry.actions
    )
    for packets in PacketClass
}


class Subject:
    def __init__(self) -> None:
        self.now_ns = 0
        self.admission = Admission(LIMITS, lambda: self.now_ns)

    def says(self, packets: PacketClass, port: int = 1, n: int = 1) -> int:
        """How many of so many packet-ins are read."""
        head = struct.pack("!BBHIIHBBQ", 4, 10, 42, 0, 0, 0, 1, 0, COOKIES[packets])
        message = head + struct.pack("!QII", 0x0001000C80000004, port, 0) + bytes(2)
        return sum(self.admission.admits(message) for _ in range(n))


def test_classes_do_not_starve_each_other() -> None:
    subject = Subject()
    assert subject.says(PacketClass.NEIGHBOUR, n=500) == LIMITS.switch_frames_pps
    assert subject.says(PacketClass.UNKNOWN, n=500) == LIMITS.switch_frames_pps
    assert subject.says(PacketClass.DISCOVERY, n=10) == 10
    assert subject.says(PacketClass.SYN, n=10) == 10


def test_segments_over_budget_leave_room_for_the_ends_of_connections() -> None:
    subject = Subject()
    assert subject.admission.segments_open()
    subject.admission.read(3000)
    assert not subject.admission.segments_open()
    assert subject.says(PacketClass.SYN, n=10) == 0
    assert subject.says(PacketClass.SEGMENT, n=10) == 0
    assert subject.says(PacketClass.END, n=500) == LIMITS.switch_ends_pps
    subject.now_ns = 3 * S
    assert subject.admission.segments_open()


def test_what_was_thrown_away_is_told_once_by_port_and_class() -> None:
    subject = Subject()
    subject.says(PacketClass.NEIGHBOUR, port=7, n=50)
    subject.says(PacketClass.NEIGHBOUR, port=7, n=30)
    subject.says(PacketClass.NEIGHBOUR, port=8, n=10)
    subject.now_ns = 2 * S
    assert subject.admission.take_dropped() == [
        OverBudget(7, PacketClass.NEIGHBOUR, 30, 15.0),
        OverBudget(8, PacketClass.NEIGHBOUR, 10, 5.0),
    ]
    assert subject.admission.take_dropped() == []


def test_a_switch_that_invents_ports_does_not_fill_the_memory() -> None:
    subject = Subject()
    subject.says(PacketClass.UNKNOWN, n=50)
    for port in range(10_000):
        subject.says(PacketClass.UNKNOWN, port=port)
    told = subject.admission.take_dropped()
    assert len(told) < 5000
    assert sum(dropped.dropped for dropped in told) == 10_000


@given(st.binary(max_size=60))
def test_any_packet_in_is_of_some_class(body: bytes) -> None:
    Subject().admission.admits(bytes([4, 10, 0, 8 + len(body), 0, 0, 0, 0]) + body)
