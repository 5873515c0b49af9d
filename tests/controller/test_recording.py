"""What is recorded of the stream of events, and of when some are missing, in virtual time."""

import errno
import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from controller.api.recording import recording
from controller.api.recording.blocks import Block, Kind
from controller.api.recording.recording import Event, Gap, Recording, Writer, tally
from controller.api.recording.segments import Memory, Segments

NOW_S = 1_790_000_000.0


class Disk(Memory):
    """One that may be full."""

    full = False

    def append(self, name: str, data: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(name, data)


class Controller:
    """It remembers some of its events."""

    def __init__(self, run: str = "first", remembered: int = 100) -> None:
        self.run, self.remembered = run, remembered
        self.events: list[dict[str, Any]] = []

    def happens(self, now_s: float, n: int = 1) -> None:
        for _ in range(n):
            serial = len(self.events) + 1
            self.events.append({"serial": serial, "event": "link_up", "wall_s": now_s})


class Recorded:
    """A recording over restarts of the API and of the controller."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.now_s = NOW_S
        self.controller = Controller()
        self.restart()

    def restart(self) -> None:
        """The API's process ends, however, and another one begins."""
        self.segments = Segments(self.disk, 10**6)
        self.recording, self.writer = Recording(), Writer(self.segments)
        self.recording.resume(self.segments.open())
        self.told = 0

    def connect(self) -> list[Event]:
        controller = self.controller
        wanted: dict[str, Any] = self.recording.wanted()
        last = len(controller.events)
        self.recording.begin({"run": controller.run, "last": last})
        self.told = min(wanted["after"], last) if wanted.get("run") == controller.run else 0
        return self.hear()

    def hear(self) -> list[Event]:
        """All that the controller has told since."""
        messages = self.controller.events[self.told :]
        missed = len(messages) - self.controller.remembered
        if missed > 0:
            messages = [{"event": "events_missed", "missed": missed}, *messages[missed:]]
        self.told = len(self.controller.events)
        return self.recording.take(messages, self.now_s)

    def happens(self, n: int = 1, seconds: float = 1.0) -> list[Event]:
        self.now_s += seconds
        self.controller.happens(self.now_s, n)
        return self.hear()

    def write(self) -> int:
        batch = self.recording.batch()
        return self.writer.write(batch, self.now_s) if batch else 0

    def blocks(self, kind: Kind) -> Iterable[Block]:
        found = self.segments.read(0, 1e11)
        return (one for one in found if isinstance(one, Block) and one.kind == kind)

    def serials(self) -> list[int]:
        rows = (block.rows()[1:] for block in self.blocks(Kind.EVENTS))
        return [event["serial"] for event in itertools.chain.from_iterable(rows)]

    def gaps(self) -> list[Gap]:
        return [Gap(*block.rows()[0]) for block in self.blocks(Kind.GAPS)]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_events_are_recorded_and_passed_on(recorded: Recorded) -> None:
    recorded.connect()
    assert [event["serial"] for event in recorded.happens(3)] == [1, 2, 3]
    recorded.write()
    recorded.happens(2500)
    # Those of before are what the controller has forgotten.
    recorded.write()
    assert recorded.serials() == [1, 2, 3, *range(2404, 2504)]


def test_what_had_happened_before_is_recorded_and_not_passed_on(recorded: Recorded) -> None:
    recorded.controller.happens(NOW_S - 3, 5)
    assert recorded.connect() == []
    assert [event["serial"] for event in recorded.happens()] == [6]
    recorded.write()
    assert recorded.serials() == [1, 2, 3, 4, 5, 6]
    # After a break, those who listen have missed them.
    recorded.recording.end()
    recorded.controller.happens(NOW_S + 1, 2)
    assert [event["serial"] for event in recorded.connect()] == [7, 8]
    recorded.write()
    assert recorded.gaps() == []


def test_a_restart_of_the_api_misses_nothing(recorded: Recorded) -> None:
    recorded.connect()
    recorded.happens(3)
    recorded.write()
    # This was not written when it ended.
    recorded.happens(2)
    recorded.restart()
    recorded.controller.happens(NOW_S + 60, 4)
    recorded.connect()
    recorded.write()
    assert recorded.serials() == [*range(1, 10)]
    assert recorded.gaps() == []


def test_a_controller_that_was_started_again_leaves_a_gap(recorded: Recorded) -> None:
    recorded.connect()
    recorded.happens(3, seconds=5)
    recorded.write()
    recorded.recording.end()
    recorded.now_s += 10
    assert recorded.recording.present_gap(recorded.now_s) == (
        *(NOW_S + 4, NOW_S + 15),
        "the controller does not answer",
    )
    recorded.controller = Controller("second")
    recorded.controller.happens(NOW_S + 14)
    recorded.connect()
    assert recorded.recording.present_gap(recorded.now_s) is None
    recorded.write()
    assert recorded.serials() == [1, 2, 3, 1]
    assert recorded.gaps() == [(NOW_S + 4, NOW_S + 14, "the controller was started again")]


def test_a_restart_of_both_leaves_a_gap_since_the_controller_was_last_heard(
    recorded: Recorded,
) -> None:
    recorded.connect()
    recorded.happens()
    for _ in range(100):
        recorded.now_s += 1
        recorded.hear()
        recorded.write()
    recorded.restart()
    recorded.now_s += 3600
    recorded.controller = Controller("second")
    recorded.connect()
    recorded.write()
    ((from_s, to_s, why),) = recorded.gaps()
    assert NOW_S + 90 <= from_s <= NOW_S + 101
    assert to_s == recorded.now_s
    assert why == "the controller was started again"


def test_quiet_hours_take_little(recorded: Recorded) -> None:
    recorded.connect()
    for _ in range(3600):
        recorded.now_s += 1
        recorded.hear()
        recorded.write()
    assert 3600 / 10 - 2 <= len(list(recorded.blocks(Kind.ALIVE))) <= 3600 / 10
    assert recorded.segments.n_bytes < 40_000


def test_events_that_the_controller_has_forgotten_leave_a_gap(recorded: Recorded) -> None:
    recorded.connect()
    recorded.happens(seconds=2)
    recorded.happens(150, seconds=3)
    recorded.write()
    why = "50 events were missed: the controller had forgotten them"
    assert recorded.gaps() == [(NOW_S + 1, NOW_S + 5, why)]
    assert recorded.serials() == [1, *range(52, 152)]


def test_nothing_was_missed_before_the_first_recording(recorded: Recorded) -> None:
    recorded.controller.happens(NOW_S - 60, 1000)
    recorded.connect()
    recorded.write()
    assert len(recorded.serials()) == 100
    assert recorded.gaps() == []


def test_a_full_disk_leaves_a_gap(recorded: Recorded) -> None:
    recorded.connect()
    recorded.happens(2)
    assert recorded.write() == 0
    recorded.disk.full = True
    for _ in range(5):
        recorded.happens(3)
        assert recorded.write() == 3
    assert recorded.writer.failure == "No space left on device"
    why = "events could not be written: No space left on device"
    assert recorded.writer.lost == (NOW_S + 2, NOW_S + 6, why)
    recorded.disk.full = False
    recorded.happens(4)
    assert recorded.write() == 0
    assert recorded.writer.failure is None
    assert recorded.writer.lost is None
    assert recorded.serials() == [1, 2, 18, 19, 20, 21]
    assert recorded.gaps() == [(NOW_S + 2, NOW_S + 6, why)]


def test_a_disk_that_is_full_while_nothing_happens_loses_nothing(recorded: Recorded) -> None:
    recorded.connect()
    recorded.disk.full = True
    recorded.now_s += 20
    recorded.hear()
    assert recorded.write() == 0
    assert recorded.writer.lost is None
    recorded.disk.full = False
    recorded.now_s += 20
    recorded.hear()
    recorded.write()
    assert recorded.gaps() == []


def test_a_slow_disk_leaves_a_gap_and_takes_bounded_memory(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_MOST_WAITING_BYTES", 10_000)
    recorded.connect()
    for _ in range(4):
        recorded.happens(4)
    # What is handed over is in memory until it is written.
    batch = recorded.recording.batch()
    assert batch is not None
    recorded.happens(4)
    assert recorded.recording.dropped == 10
    recorded.writer.write(batch, recorded.now_s)
    recorded.recording.written_bytes += batch.n_bytes
    recorded.happens()
    recorded.write()
    assert recorded.serials() == [*range(1, 11), 21]
    why = "events were missed: they could not be written as fast as they came"
    assert recorded.gaps() == [(NOW_S + 3, NOW_S + 6, why)]


def test_a_clock_that_is_set_back_makes_a_gap_of_no_time(recorded: Recorded) -> None:
    recorded.connect()
    recorded.happens()
    recorded.recording.end()
    recorded.now_s -= 3600
    recorded.controller = Controller("second")
    recorded.connect()
    recorded.write()
    ((from_s, to_s, _),) = recorded.gaps()
    assert from_s == to_s == NOW_S - 3599


def test_a_block_says_first_what_it_has_of_which_port(recorded: Recorded) -> None:
    notices = [
        {"event": "queue_event", "switch": 1, "port": port, "notice": notice}
        for port, notice in ((1, "CN-L"), (1, "CN-H"), (1, "CR"), (2, "CR"))
    ]
    first, second = "0000000000000001:1", "0000000000000001:2"
    link = {"event": "link_up", "a": first, "b": "0000000000000002:7"}
    windows = {"event": "window_set", "switch": 10, "windows": [{"port": 3}, {"port": 3}]}
    off = {"event": "regulation_off", "switch": 1, "port": "eth2"}
    assert tally([*notices, link, windows, off]) == {
        first: (3, 3),
        second: (1, 0),
        "0000000000000002:7": (0, 0),
        "000000000000000a:3": (0, 0),
    }
    recorded.connect()
    recorded.recording.take(
        [{**one, "serial": n, "wall_s": NOW_S} for n, one in enumerate(notices)], NOW_S
    )
    recorded.write()
    (block,) = recorded.blocks(Kind.EVENTS)
    assert block.first()["ports"] == {first: [3, 3], second: [1, 0]}
    assert block.first()["events"] == 4


def windows(serial: int, n: int) -> dict[str, Any]:
    window = {"port": 1, "class": "background", "credit": {"bound_bytes": 0, "max_hold_ms": 160}}
    return {
        "serial": serial,
        "event": "window_set",
        "wall_s": NOW_S + serial,
        "switch": 1,
        "windows": [window] * n,
    }


def test_large_events_are_in_blocks_of_a_bounded_size(recorded: Recorded) -> None:
    recorded.connect()
    # More than 8 MB together.
    recorded.recording.take([windows(serial + 1, 2000) for serial in range(55)], NOW_S)
    assert recorded.write() == 0
    assert recorded.serials() == [*range(1, 56)]
    sizes = [block.raw_bytes for block in recorded.blocks(Kind.EVENTS)]
    assert max(sizes) < 1_100_000
    assert len(sizes) < 12
    assert recorded.gaps() == []


def test_an_event_that_is_too_large_is_lost_alone(recorded: Recorded) -> None:
    recorded.connect()
    recorded.recording.take([windows(1, 1), windows(2, 110_000), windows(3, 1)], NOW_S)
    assert recorded.write() == 1
    assert recorded.writer.failure is not None
    recorded.happens(0, seconds=20)
    assert recorded.write() == 0
    assert recorded.writer.failure is None
    assert recorded.serials() == [1, 3]
    why = "events could not be written: a block has at most 8388608 bytes"
    assert recorded.gaps() == [(NOW_S + 2, NOW_S + 2, why)]


def test_large_events_wait_in_bounded_memory() -> None:
    taking = Recording()
    taking.begin({"run": "first", "last": 0})
    taking.take([windows(1, 100_000), windows(2, 110_000), windows(3, 1)], NOW_S)
    batch = taking.batch()
    assert batch is not None
    assert taking.dropped == 1
    assert batch.n_bytes <= recording._MOST_WAITING_BYTES


def test_it_goes_on_after_what_was_written_last_whatever_the_clock_was(
    recorded: Recorded,
) -> None:
    recorded.connect()
    recorded.happens(10)
    recorded.write()
    recorded.happens(0, seconds=20)
    recorded.write()
    recorded.happens(10, seconds=-3600)
    recorded.write()
    recorded.restart()
    assert recorded.recording.wanted() == {"after": 20, "run": "first"}


def test_newest_blocks_that_cannot_be_read_are_passed_over() -> None:
    going_on = Recording()
    going_on.resume([Block(Kind.EVENTS, 1, 1, 10, b"damaged")])
    assert going_on.wanted() == {"after": 0}
