"""What is counted on the way, and the recent events."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.ops.event_log import EventLog, Recent
from controller.runtime.loop_watch import watch_turns
from controller.runtime.tallies import DELAY_BOUNDS_NS, TURN_BOUNDS_NS, Histogram, Tallies, kind_of
from controller.southbound.codec import extension
from controller.southbound.codec.discovery import Origin
from controller.southbound.switch import events


@given(st.lists(st.integers(0, 10**9)))
def test_a_histogram_counts_what_is_within_its_bounds(durations_ns: list[int]) -> None:
    histogram = Histogram()
    for duration_ns in durations_ns:
        histogram.observe(duration_ns)
    *within, total = histogram.cumulative()
    assert total == len(durations_ns)
    assert histogram.sum_ns == sum(durations_ns)
    for bound_ns, n in zip(DELAY_BOUNDS_NS, within, strict=True):
        assert n == sum(duration_ns <= bound_ns for duration_ns in durations_ns)


def test_packet_ins_are_counted_by_the_batch() -> None:
    tallies = Tallies()
    segment = (1, b"", b"", 2, 0, 0, 0, None, None, None)
    tallies.count(7, events.SegmentsCopied([segment] * 5))
    tallies.count(7, events.FrameMissed(1, b"", b"", b""))
    tallies.count(8, events.LinkDiscovered(1, Origin(7, 1, 0)))
    assert tallies.packet_ins == {7: {"segment": 5, "unknown": 1}, 8: {"discovery": 1}}


def test_notices_and_windows_are_counted_as_they_are_recorded() -> None:
    tallies = Tallies()
    event = extension.QueueEvent(2, 3, 0, 14, 20_000, 65_536, 1, 1)
    tallies.count(7, events.QueueNotice(event, 4))
    tallies.record("queue_event", {"switch": 7, "port": 3, "notice": "CN-H"})
    tallies.record("window_set", {"switch": 7, "refresh": False, "windows": [{}, {}]})
    tallies.record("window_set", {"switch": 7, "refresh": True, "windows": [{}]})
    assert tallies.missed_notices[7] == 4
    assert tallies.notices == {(7, 3, "CN-H"): 1}
    assert tallies.windows == {(7, False): 2, (7, True): 1}
    assert tallies.events == {"queue_event": 1, "window_set": 2}


@given(st.integers(0, 2**32 - 1), st.text())
def test_what_others_think_up_is_no_new_kind(experimenter: int, text: str) -> None:
    kinds = {"foreign_experimenter", "unexpected", "refused", "held_back_too_long", "malformed"}
    assert kind_of(f"experimenter message of 0x{experimenter:08x}") == "foreign_experimenter"
    assert kind_of(text) in kinds


def test_the_loop_is_watched() -> None:
    tallies = Tallies()
    now_ns = 0
    late_ms = iter((0, 1, 30))

    class EndError(Exception):
        pass

    def sleep(seconds: float) -> None:
        nonlocal now_ns
        try:
            now_ns += int(seconds * 10**9) + next(late_ms) * 10**6
        except StopIteration:
            raise EndError from None

    with pytest.raises(EndError):
        tallies.watch_loop(lambda: now_ns, sleep)
    assert tallies.loop_lag.sum_ns == 31 * 10**6


def test_turns_of_the_loop_are_timed_from_one_look_at_the_input_to_the_next() -> None:
    now_ns, polled = 0, []

    def poll(seconds: float) -> object:
        nonlocal now_ns
        now_ns += 10**9  # Waiting is no turn.
        polled.append(seconds)
        return f"input {len(polled)}"

    hub, histogram = SimpleNamespace(do_poll=poll), Histogram(TURN_BOUNDS_NS)
    watch_turns(hub, histogram.observe, lambda: now_ns)
    for took_ms in (3, 30, 1):
        now_ns += took_ms * 10**6
        assert hub.do_poll(0.5) == f"input {len(polled)}"
    assert polled == [0.5] * 3
    assert (histogram.sum_ns, histogram.longest_ns) == (34 * 10**6, 30 * 10**6)
    assert histogram.cumulative() == [1, 1, 2, 2, 2, 3, 3, 3, 3]


class TestRecent:
    def test_single_connections_and_renewed_windows_are_left_out(self) -> None:
        log = EventLog(None)
        log.write("connection_opened", {}, 1, 1.0)
        log.write("window_set", {"refresh": True}, 1, 1.0)
        log.write("window_set", {"switch": 1, "refresh": False}, 2, 2.0)
        (event,) = log.recent.after(0)
        assert event.line() == {
            "event": "window_set",
            "time_ns": 2,
            "wall_s": 2.0,
            "switch": 1,
        }

    @given(st.integers(0, 60), st.integers(0, 60))
    def test_what_came_after(self, n: int, serial: int) -> None:
        recent = Recent(limit=20)
        for i in range(n):
            recent.add("event", {}, i, 0.0)
        assert recent.last == n
        kept = range(max(1, n - 19), n + 1)
        assert [e.serial for e in recent.after(serial)] == [s for s in kept if s > serial]

    @given(st.lists(st.integers(0, 40)))
    def test_events_of_many_windows_are_fewer(self, sizes: list[int]) -> None:
        recent = Recent(limit=20, most_parts=100)
        for size in sizes:
            recent.add("window_set", {"switch": 1, "windows": list(range(size))}, 0, 0.0)
        kept = len(recent.after(0))
        # As many as have room, the latest first.
        fit = [n for n in range(min(20, len(sizes)) + 1) if sum(sizes[len(sizes) - n :]) <= 100]
        assert kept == max(fit)

    def test_the_latest_event_is_kept_whatever_its_size(self) -> None:
        recent = Recent(limit=20, most_parts=100)
        for size in (3, 300):
            recent.add("window_set", {"windows": list(range(size))}, 0, 0.0)
        assert [event.serial for event in recent.after(0)] == [2]


def test_of_switches_that_are_gone_the_latest_are_remembered() -> None:
    tallies = Tallies()
    tallies.record("window_set", {"switch": 1, "refresh": False, "windows": [0]})
    for switch in range(1, 2000):
        tallies.came(switch)
        tallies.left(switch, {"refused": 1})
    assert set(tallies.disconnections) == set(tallies.unusable) == set(range(976, 2000))
    assert not tallies.windows


def test_a_switch_that_came_back_is_not_forgotten() -> None:
    tallies = Tallies()
    tallies.left(1, {})
    tallies.came(1)
    for switch in range(2, 2000):
        tallies.left(switch, {})
    assert tallies.disconnections[1] == 1


def test_what_a_switch_has_told_ends_where_another_takes_its_place() -> None:
    tallies = Tallies()
    tallies.count(7, events.QueuesRead([]))
    tallies.count(7, events.ConnectionsSampled([]))
    assert (tallies.queues, tallies.samples) == ({7: []}, {7: []})
    tallies.count(7, events.Ready(0, []))
    assert (tallies.queues, tallies.samples) == ({}, {})
