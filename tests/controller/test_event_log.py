"""One JSON object a line, there as soon as it is written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.ops.event_log import EventLog, read_events


def test_lines_are_whole_and_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(str(path))
    log.write("link_up", {"a": "1:2", "b": "2:1"}, 5, 1.2345678)
    assert json.loads(path.read_text()) == {
        "event": "link_up",
        "time_ns": 5,
        "wall_s": 1.234568,
        "a": "1:2",
        "b": "2:1",
    }
    log.write("stop", {}, 6, 2.0)
    assert path.read_text().count("\n") == 2
    log.close()


def test_it_is_continued_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        log = EventLog(str(path))
        log.write("start", {}, 0, 0.0)
        log.close()
    assert path.read_text().count("\n") == 2


def test_without_a_file_nothing_is_written() -> None:
    log = EventLog(None)
    log.write("start", {}, 0, 0.0)
    assert log.is_written is None


def test_a_place_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        EventLog(str(tmp_path / "none" / "events.jsonl"))


def test_a_full_disk_ends_the_log_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog("/dev/full")
    for _ in range(3):
        log.write("stop", {}, 6, 2.0)
    log.close()
    (record,) = caplog.records
    assert "cannot write /dev/full: No space left on device" in record.getMessage()
    assert log.is_written is False


def test_it_goes_on_in_a_new_file_once_the_old_one_is_moved_away(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(str(path))
    log.write("start", {}, 0, 0.0)
    path.rename(tmp_path / "events.jsonl.1")
    log.reopen()
    log.write("stop", {}, 1, 1.0)
    assert log.is_written is True
    log.close()
    assert json.loads(path.read_text())["event"] == "stop"


def test_a_file_that_cannot_be_opened_again_ends_the_log_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    log = EventLog(str(folder / "events.jsonl"))
    (folder / "events.jsonl").unlink()
    folder.rmdir()
    log.reopen()
    log.write("stop", {}, 1, 1.0)
    (record,) = caplog.records
    assert "cannot open" in record.getMessage()


def test_windows_that_are_only_renewed_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(str(path))
    log.write("window_set", {"switch": 1, "refresh": True}, 0, 0.0)
    log.write("window_set", {"switch": 1, "refresh": False}, 1, 0.0)
    log.close()
    (line,) = path.read_text().splitlines()
    assert json.loads(line) == {"event": "window_set", "time_ns": 1, "wall_s": 0.0, "switch": 1}


def test_what_is_still_being_written_is_left_for_the_next_reading(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert read_events(path) == []
    path.write_text('{"event": "start", "time_ns": 1}\n{"event": "rank", "ti')
    assert read_events(path) == [{"event": "start", "time_ns": 1}]
    with path.open("a") as log:
        log.write('me_ns": 2}\n')
    assert [event["event"] for event in read_events(path)] == ["start", "rank"]
    assert read_events(path, "rank") == [{"event": "rank", "time_ns": 2}]


class Disk:
    """Does what waits for a disk when it is told to."""

    def __init__(self) -> None:
        self.works: list[tuple[Callable[[], Any], Callable[[Any], object]]] = []
        self.due: list[Callable[[], object]] = []

    def do(self, work: Callable[[], Any], done: Callable[[Any], object]) -> None:
        self.works.append((work, done))

    def later(self, _: float, work: Callable[[], object]) -> None:
        self.due.append(work)

    def time_passes(self) -> None:
        for work in self.due:
            work()
        self.due.clear()

    def turns(self) -> None:
        while self.works:
            work, done = self.works.pop(0)
            done(work())


def test_nobody_waits_for_a_slow_disk_and_lines_are_written_together(tmp_path: Path) -> None:
    path, disk = tmp_path / "events.jsonl", Disk()
    log = EventLog(str(path), disk.do, disk.later)
    for number in range(3):
        log.write("link_up", {"number": number}, number, 0.0)
    disk.time_passes()
    for number in range(3, 5):
        log.write("link_up", {"number": number}, number, 0.0)
    disk.time_passes()
    assert len(disk.works) == 1
    assert path.read_text() == ""
    disk.turns()
    assert [event["number"] for event in read_events(path)] == list(range(5))


def test_what_a_disk_is_too_slow_for_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.ops.event_log._MOST_WAITING", 10)
    path, disk = tmp_path / "events.jsonl", Disk()
    log = EventLog(str(path), disk.do, disk.later)
    for number in range(25):
        log.write("link_up", {"number": number}, number, 0.0)
    disk.time_passes()
    log.write("stop", {}, 30, 0.0)
    disk.turns()
    events = read_events(path)
    assert [event["event"] for event in events] == [*["link_up"] * 10, "events_lost", "stop"]
    assert events[10]["lines"] == 15


def test_what_waits_is_written_before_the_end(tmp_path: Path) -> None:
    path, disk = tmp_path / "events.jsonl", Disk()
    log = EventLog(str(path), disk.do, disk.later)
    log.write("start", {}, 0, 0.0)
    disk.time_passes()
    log.write("stop", {}, 1, 0.0)
    log.close()
    log.write("too late", {}, 2, 0.0)
    disk.turns()
    disk.time_passes()
    assert [event["event"] for event in read_events(path)] == ["start", "stop"]


def test_a_new_file_begins_with_what_was_not_written_yet(tmp_path: Path) -> None:
    path, disk = tmp_path / "events.jsonl", Disk()
    log = EventLog(str(path), disk.do, disk.later)
    path.rename(tmp_path / "events.jsonl.1")
    log.write("start", {}, 0, 0.0)
    log.reopen()
    disk.time_passes()
    disk.turns()
    assert [event["event"] for event in read_events(path)] == ["start"]
