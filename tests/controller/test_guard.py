"""The budgets of one switch: its meters, its entries, and who exceeds them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config.schema import Config
from controller.model.packet_ins import OverBudget, PacketClass
from controller.runtime import translate
from controller.southbound.codec import match
from controller.southbound.codec.meters import CONTROLLER_METER, Meter, MeterModCommand, MeterStats
from controller.southbound.switch import budgets, pipeline
from controller.southbound.switch.budgets import METERED
from controller.southbound.switch.guard import Guard

LIMITS = translate.limits(Config())
S = 10**9


def guard(*ports: int, max_meters: int = 0x40000) -> Guard:
    subject = Guard(LIMITS, ports)
    subject.has_meters(max_meters)
    return subject


def number(port: int, packets: PacketClass) -> int:
    (found,) = (
        meter.number
        for meter in budgets.meters(port, LIMITS)
        if budgets.owner(meter.number) == (port, packets)
    )
    return found


@given(st.sets(st.integers(1, 0xFEFF), max_size=20))
def test_no_two_ports_and_classes_share_a_meter(ports: set[int]) -> None:
    owners = [
        budgets.owner(meter.number) for port in ports for meter in budgets.meters(port, LIMITS)
    ]
    assert sorted(owners) == sorted((port, packets) for port in ports for packets in METERED)
    assert all(budgets.owned(number(port, packets)) for port, packets in owners)


def test_every_copy_of_a_port_goes_through_the_meter_of_its_class() -> None:
    entries = budgets.entries(3)
    copies = [entry for entry in pipeline.STATIC if match.copied_bytes(entry.actions) is not None]
    assert len(entries) == len(copies)
    for entry, static in zip(entries, copies, strict=True):
        packets = pipeline.packet_class(static.cookie)
        assert pipeline.packet_class(entry.cookie) == packets
        assert (entry.table, entry.goto) == (static.table, static.goto)
        assert entry.priority > static.priority
        assert set(static.match) < set(entry.match)
        assert entry.actions[-4:] == number(3, packets).to_bytes(4, "big")


def test_an_empty_switch_gets_all_meters_and_one_in_step_none() -> None:
    subject = guard(1, 2)
    changes = subject.reconcile()
    assert {command for command, _ in changes} == {MeterModCommand.ADD}
    assert len(changes) == 2 * len(METERED) + 1
    subject.read_back(meter for _, meter in changes)
    assert subject.reconcile() == []


def test_what_differs_is_modified_what_is_not_wanted_goes_and_others_meters_stay() -> None:
    subject = guard(1)
    right = [meter for _, meter in subject.reconcile()]
    gone = budgets.meters(9, LIMITS)[0]
    foreign = Meter(5, 100, 100)
    subject.read_back([right[0]._replace(rate_pps=7), *right[1:], gone, foreign])
    assert subject.reconcile() == [
        (MeterModCommand.MODIFY, right[0]),
        (MeterModCommand.DELETE, gone),
    ]


def test_a_switch_without_meters_gets_none_and_no_entries_that_need_them() -> None:
    subject = guard(1, 2, max_meters=0)
    assert not subject.metered
    assert subject.reconcile() == []
    assert subject.entries() == []
    assert subject.add_port(3) == ([], [])


def test_a_port_that_the_meters_do_not_reach_has_none_and_is_known() -> None:
    subject = guard(1, 60_000, max_meters=0x20000)
    assert subject.uncovered() == [60_000]
    assert subject.entries() == budgets.entries(1)


def test_ports_come_and_go_with_their_meters() -> None:
    subject = guard(1)
    changes, entries = subject.add_port(2)
    assert changes == [(MeterModCommand.ADD, meter) for meter in budgets.meters(2, LIMITS)]
    assert entries == budgets.entries(2)
    assert subject.add_port(2) == ([], [])
    changes, gone = subject.remove_port(2)
    assert gone == entries
    assert changes == [(MeterModCommand.DELETE, meter) for meter in budgets.meters(2, LIMITS)]
    assert subject.remove_port(2) == ([], [])


class TestCounters:
    @pytest.fixture
    def subject(self) -> Guard:
        return guard(1, 2)

    def test_the_offender_is_the_port_and_the_class_whose_meter_has_dropped(
        self, subject: Guard
    ) -> None:
        syn, arp = number(1, PacketClass.SYN), number(2, PacketClass.NEIGHBOUR)
        assert subject.counted([MeterStats(syn, 10 * S, 9, 5), MeterStats(arp, S, 0, 0)]) == []
        assert subject.counted(
            [MeterStats(syn, 12 * S, 1009, 905), MeterStats(arp, 3 * S, 50, 0)]
        ) == [OverBudget(1, PacketClass.SYN, 900, 450.0)]

    def test_a_meter_that_was_set_up_anew_counts_from_zero(self, subject: Guard) -> None:
        syn = number(1, PacketClass.SYN)
        subject.counted([MeterStats(syn, 10 * S, 5000, 4000)])
        (found,) = subject.counted([MeterStats(syn, S, 30, 20)])
        assert found == OverBudget(1, PacketClass.SYN, 20, 20.0)

    def test_what_has_no_meter_of_its_own_is_of_no_port(self, subject: Guard) -> None:
        subject.counted([MeterStats(CONTROLLER_METER, S, 0, 0)])
        (found,) = subject.counted([MeterStats(CONTROLLER_METER, 2 * S, 5, 5)])
        assert (found.port, found.dropped) == (0, 5)

    def test_meters_that_nobody_asked_for_tell_nothing(self, subject: Guard) -> None:
        for duration_ns in (S, 2 * S):
            stats = [MeterStats(n, duration_ns, duration_ns, duration_ns) for n in range(99)]
            assert subject.counted(stats) == []

    @given(
        st.lists(
            st.builds(
                MeterStats,
                st.sampled_from([m.number for m in budgets.meters(1, LIMITS)]),
                st.integers(0, 2**63),
                st.integers(0, 2**64 - 1),
                st.integers(0, 2**64 - 1),
            )
        )
    )
    def test_whatever_a_switch_counts_nothing_is_negative(self, told: list[MeterStats]) -> None:
        subject = guard(1)
        for stats in told:
            for found in subject.counted([stats]):
                assert found.dropped > 0
                assert found.per_s > 0
