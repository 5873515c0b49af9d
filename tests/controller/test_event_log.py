"""One JSON object a line, there as soon as it is written."""

import json
from pathlib import Path

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
