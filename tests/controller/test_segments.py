"""A recording in a directory, in virtual time."""

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from controller.api.recording.blocks import Block, Kind, row
from controller.api.recording.segments import DAY_S, Files, Hole, Memory, Segments

NOW_S = 1_790_000_000.0


class Recorded:
    """A recording that something is written to once a minute."""

    def __init__(self, directory: Any, most_bytes: int = 10**6) -> None:
        self.directory = directory
        self.most_bytes = most_bytes
        self.now_s = NOW_S
        self.chance = random.Random(1)
        self.restart()

    def restart(self) -> list[Block]:
        self.segments = Segments(self.directory, self.most_bytes)
        return self.segments.open()

    def write(self, n: int = 1, size: int = 100, kind: Kind = Kind.EVENTS) -> None:
        for _ in range(n):
            self.now_s += 60
            # What cannot be packed, so that sizes are known.
            value = row([self.now_s, self.chance.randbytes(size // 2).hex()])
            self.segments.append(kind, self.now_s - 1, self.now_s, [value], self.now_s)

    def found(self, begin_s: float = 0.0, end_s: float = 1e11) -> list[float]:
        blocks = self.segments.read(begin_s, end_s)
        return [block.rows()[0][0] for block in blocks if isinstance(block, Block)]

    def holes(self) -> list[Hole]:
        return [one for one in self.segments.read(0, 1e11) if isinstance(one, Hole)]


@pytest.fixture(params=["memory", "files"])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Recorded:
    return Recorded(Memory() if request.param == "memory" else Files(tmp_path / "events"))


def test_what_was_written_is_read_of_the_time_that_is_asked_for(recorded: Recorded) -> None:
    assert recorded.found() == []
    assert recorded.segments.begin_s is None
    recorded.write(100)
    assert len(recorded.found()) == 100
    assert recorded.segments.begin_s == NOW_S + 59
    assert recorded.found(NOW_S + 120, NOW_S + 180) == [NOW_S + 120, NOW_S + 180]
    assert recorded.found(NOW_S + 120.5, NOW_S + 178) == []


def test_it_goes_on_after_a_restart(recorded: Recorded) -> None:
    recorded.write(5)
    recorded.write(1, kind=Kind.ALIVE)
    newest = recorded.restart()
    assert [(block.kind, block.end_s) for block in newest] == [
        (Kind.EVENTS, NOW_S + 300),
        (Kind.ALIVE, NOW_S + 360),
    ]
    recorded.write(5)
    assert len(recorded.found()) == 11
    recorded.restart()
    assert len(recorded.found()) == 11


def test_it_is_of_a_day(recorded: Recorded) -> None:
    recorded.write(3000)
    oldest = recorded.now_s - DAY_S
    found = recorded.found()
    # A segment goes as a whole, once all of it is older.
    assert oldest - 1860 <= found[0] <= oldest
    assert len(recorded.directory.names()) <= 51


def test_it_is_of_some_size(recorded: Recorded) -> None:
    recorded.write(100, size=100_000)
    assert recorded.segments.n_bytes <= 10**6
    found = recorded.found()
    assert found[-1] == recorded.now_s
    assert len(found) > 10
    recorded.restart()
    assert recorded.segments.n_bytes <= 10**6
    assert recorded.found() == found


def test_a_clock_that_is_set_back_does_no_harm(recorded: Recorded) -> None:
    recorded.write(10)
    recorded.now_s -= 7200
    recorded.write(10)
    assert len(recorded.found()) == 20
    assert recorded.found(NOW_S - 7200, NOW_S - 3600)[0] == NOW_S - 7200 + 660
    recorded.restart()
    recorded.write(1)
    assert len(recorded.found()) == 21


def test_a_clock_that_is_ahead_for_a_moment_removes_nothing(
    recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="weir.api")
    recorded.write(1000)
    n_files = len(recorded.directory.names())
    recorded.now_s += 1e8
    recorded.write(20)
    recorded.now_s -= 1e8 + 1200
    recorded.write(20)
    assert len(recorded.found()) == 1040
    assert len(recorded.directory.names()) == n_files + 2
    assert caplog.messages == []
    # What is of the future is in nobody's way.
    recorded.write(2000)
    recorded.restart()
    recorded.write(1)
    oldest = recorded.now_s - DAY_S
    assert oldest - 1860 <= min(recorded.found()) <= oldest
    assert "is removed: it is too old" in caplog.text


def test_after_long_idleness_the_old_go_one_by_one(recorded: Recorded) -> None:
    recorded.write(300)
    n_files = len(recorded.directory.names())
    recorded.restart()
    recorded.now_s += 10 * DAY_S
    recorded.write(1)
    assert len(recorded.directory.names()) == n_files + 1
    recorded.write(40)
    assert len(recorded.found()) == 41
    assert len(recorded.directory.names()) == 2


@pytest.fixture
def on_disk(tmp_path: Path) -> Recorded:
    return Recorded(Files(tmp_path / "events"))


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "events").iterdir())


def test_others_cannot_read_it(on_disk: Recorded, tmp_path: Path) -> None:
    on_disk.write()
    (file,) = files(tmp_path)
    assert file.stat().st_mode & 0o007 == 0
    assert file.parent.stat().st_mode & 0o007 == 0


def test_a_torn_segment_is_read_as_far_as_it_is_whole(
    on_disk: Recorded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="weir.api")
    on_disk.write(10)
    (file,) = files(tmp_path)
    os.truncate(file, file.stat().st_size - 5)
    on_disk.restart()
    assert len(on_disk.found()) == 9
    # The process was ended while it wrote: it asks for what it could not write again.
    assert on_disk.holes() == []
    assert caplog.messages == ["the recording ends in the middle of a block, which is removed"]
    on_disk.write(5)
    on_disk.restart()
    assert len(on_disk.found()) == 14
    assert on_disk.holes() == []


def test_a_segment_that_was_cut_later_is_a_hole(
    on_disk: Recorded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    on_disk.write(10)
    on_disk.restart()
    on_disk.write(1)
    file, _ = files(tmp_path)
    os.truncate(file, file.stat().st_size - 5)
    for _ in range(2):
        assert on_disk.holes() == [Hole(NOW_S + 540, NOW_S + 659)]
        on_disk.restart()
    assert "0000000000.weir, is not read as a whole" in caplog.text


def test_a_damaged_segment_is_a_hole(
    on_disk: Recorded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    on_disk.write(10)
    (file,) = files(tmp_path)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    on_disk.restart()
    found = on_disk.found()
    assert len(found) == 9
    (hole,) = on_disk.holes()
    missing = ({NOW_S + 60 * n for n in range(1, 11)} - set(found)).pop()
    assert hole == (missing - 60, missing + 59)
    assert len(caplog.records) == 1


def test_the_last_block_that_is_damaged_is_a_hole_until_the_next_segment(
    on_disk: Recorded, tmp_path: Path
) -> None:
    on_disk.write(3)
    (file,) = files(tmp_path)
    data = file.read_bytes()
    file.write_bytes(data[:-20] + bytes(20))
    on_disk.restart()
    on_disk.write(1)
    assert on_disk.holes() == [Hole(NOW_S + 120, NOW_S + 239)]


def test_a_segment_that_somebody_has_removed_is_a_hole(
    on_disk: Recorded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    on_disk.write(2)
    files(tmp_path)[0].unlink()
    assert on_disk.found() == []
    assert on_disk.holes() == [Hole(NOW_S + 59, NOW_S + 120)]
    assert "No such file" in caplog.text


def test_other_files_are_left_alone(on_disk: Recorded, tmp_path: Path) -> None:
    on_disk.write(1)
    (tmp_path / "events" / "notes.txt").write_text("mine")
    (tmp_path / "events" / "0000000007.weir").mkdir()
    on_disk.restart()
    on_disk.write(3000)
    assert (tmp_path / "events" / "notes.txt").exists()
    # What cannot be removed is not in the way of others.
    assert len(on_disk.found()) > 1000


def test_nothing_of_a_block_that_does_not_fit_the_disk_stays(
    on_disk: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk.write(2)
    size = files(tmp_path)[0].stat().st_size
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 10:
            return write(descriptor, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        on_disk.write(1)
    monkeypatch.undo()
    assert files(tmp_path)[0].stat().st_size == size
    on_disk.write(1)
    assert len(on_disk.found()) == 3
    assert on_disk.holes() == []


def test_a_directory_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("a file")
    with pytest.raises(OSError, match="exists"):
        Recorded(Files(tmp_path / "events"))
