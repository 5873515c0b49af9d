"""Who is over budget is named, when it begins and when it ends."""

import pytest

from controller.core.hosts.over_budget import QUIET_NS, Offenders
from controller.core.topology.fabric import Fabric
from controller.model.effects import Effect, Record, Warn
from controller.model.packet_ins import OverBudget, PacketClass
from controller.model.values import Port, PortId

S = 10**9
MAC = b"\2\0\0\0\0\1"
PORT = PortId(1, 3)


class Subject:
    def __init__(self) -> None:
        self.out: list[Effect] = []
        fabric = Fabric(4 * S)
        fabric.connect(1, [Port(3, "eth3", b"\2\1\0\0\0\3", True)], 0)
        fabric.learn(MAC, PORT)
        self.offenders = Offenders(fabric, self.out.append)

    def report(self, now_s: float, *over_budget: OverBudget) -> list[Effect]:
        self.out.clear()
        self.offenders.report(1, over_budget, round(now_s * S))
        return list(self.out)

    def tend(self, now_s: float) -> list[Effect]:
        self.out.clear()
        self.offenders.tend(round(now_s * S))
        return list(self.out)


@pytest.fixture
def subject() -> Subject:
    return Subject()


def test_the_port_and_its_host_are_named_once(subject: Subject) -> None:
    record, complaint = subject.report(0, OverBudget(3, PacketClass.SYN, 60_000, 30_000.4))
    assert record == Record(
        "packet_ins_limited",
        {
            "port": "0000000000000001:3",
            "class": "syn",
            "hosts": [MAC.hex(":")],
            "dropped_per_s": 30_000,
        },
    )
    assert isinstance(complaint, Warn)
    assert complaint.switch == 1
    assert "port 3 (02:00:00:00:00:01)" in complaint.text
    assert "syn" in complaint.text
    assert subject.report(2, OverBudget(3, PacketClass.SYN, 50_000, 25_000.0)) == []
    (offender,) = subject.offenders.active
    assert (offender.port, offender.packets) == (PORT, "syn")
    assert (offender.dropped, offender.dropped_per_s) == (110_000, 25_000.0)


def test_who_has_been_quiet_is_let_go_with_what_it_came_to(subject: Subject) -> None:
    subject.report(0, OverBudget(3, PacketClass.SYN, 5, 2.5))
    subject.report(2, OverBudget(3, PacketClass.SYN, 6, 3.0))
    assert subject.tend(2 + QUIET_NS / S - 1) == []
    record, complaint = subject.tend(2 + QUIET_NS / S)
    assert isinstance(record, Record)
    assert (record.event, record.fields["dropped"]) == ("packet_ins_in_budget", 11)
    assert isinstance(complaint, Warn)
    assert subject.offenders.active == []
    assert subject.offenders.dropped == {(PORT, "syn"): 11}
    assert subject.report(60, OverBudget(3, PacketClass.SYN, 1, 0.5)), "it is told anew"


def test_a_port_without_a_host_and_a_port_that_is_not_known(subject: Subject) -> None:
    _, complaint = subject.report(0, OverBudget(9, PacketClass.NEIGHBOUR, 5, 2.5))
    assert isinstance(complaint, Warn)
    assert "port 9 (no known host)" in complaint.text
    _, complaint = subject.report(0, OverBudget(0, PacketClass.SEGMENT, 5, 2.5))
    assert isinstance(complaint, Warn)
    assert "some port" in complaint.text


def test_a_switch_that_is_gone_is_forgotten(subject: Subject) -> None:
    subject.report(0, OverBudget(3, PacketClass.SYN, 5, 2.5))
    subject.offenders.forget(1)
    assert subject.offenders.active == []
    assert subject.offenders.dropped == {}


def test_it_is_bounded(subject: Subject) -> None:
    subject.report(0, *(OverBudget(port, PacketClass.SYN, 1, 1.0) for port in range(10_000)))
    assert len(subject.offenders.active) < 10_000
    assert len(subject.offenders.dropped) < 10_000
