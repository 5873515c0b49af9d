"""A recording in a directory: segments of a bounded size, the oldest of which make room.

It is read and written by one thread at a time. A segment that is damaged, torn or gone is logged,
and the others are read all the same.
"""

import contextlib
import logging
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from controller.api.recording.blocks import Block, Damage, Kind, pack, scan

LOG = logging.getLogger("weir.api")

DAY_S = 86_400.0
# One of so many bytes is read at a time.
_SEGMENT_BYTES, _SEGMENT_S = 4 * 1024 * 1024, 1800.0
_NAME = re.compile(r"([0-9]{10})\.weir")


class Directory(Protocol):
    """Where segments are, by names. All raise OSError."""

    def names(self) -> Iterable[str]: ...

    def read(self, name: str) -> bytes: ...

    def append(self, name: str, data: bytes) -> None:
        """All of it, or nothing."""

    def cut(self, name: str, n_bytes: int) -> None:
        """Keep the first `n_bytes`."""

    def remove(self, name: str) -> None: ...


class Memory:
    """A directory that ends with the process."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}

    def names(self) -> Iterable[str]:
        return list(self._files)

    def read(self, name: str) -> bytes:
        return bytes(self._files[name])

    def append(self, name: str, data: bytes) -> None:
        self._files.setdefault(name, bytearray()).extend(data)

    def cut(self, name: str, n_bytes: int) -> None:
        del self._files[name][n_bytes:]

    def remove(self, name: str) -> None:
        self._files.pop(name, None)


class Files:
    """A directory on the disk, which is made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = ""
        self._file: int | None = None

    def names(self) -> Iterable[str]:
        self._make()
        return [path.name for path in self._path.iterdir()]

    def _make(self) -> None:
        self._path.mkdir(mode=0o750, exist_ok=True)

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def append(self, name: str, data: bytes) -> None:
        file = self._opened(name)
        before = os.fstat(file).st_size
        try:
            for at in range(0, len(data), _SEGMENT_BYTES):
                self._write(file, data[at : at + _SEGMENT_BYTES])
        except OSError:
            # A full disk can still be given back what it has taken of this.
            with contextlib.suppress(OSError):
                os.ftruncate(file, before)
            raise

    def _write(self, file: int, data: bytes) -> None:
        while data:
            data = data[os.write(file, data) :]

    def _opened(self, name: str) -> int:
        if self._file is not None and self._name != name:
            os.close(self._file)
            self._file = None
        if self._file is None:
            self._make()
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path / name, flags, mode=0o640)
            self._name = name
        return self._file

    def cut(self, name: str, n_bytes: int) -> None:
        os.truncate(self._path / name, n_bytes)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)


class Hole(NamedTuple):
    """Nothing can be read of between two times, because a segment is damaged or gone."""

    begin_s: float
    end_s: float


class _Segment:
    """What is known of a segment without reading it again: all its blocks are of `begin_s` to
    `end_s`. Without gaps, which are of any time before they are written, `first_s` to `last_s`."""

    def __init__(self, name: str, begun_s: float) -> None:
        self.name = name
        self.begun_s = begun_s
        self.begin_s, self.end_s = math.inf, -math.inf
        self.first_s, self.last_s = math.inf, -math.inf
        self.n_bytes = 0
        self.is_whole = True

    @property
    def is_known(self) -> bool:
        """Whether it has anything that can be read."""
        return self.first_s <= self.last_s

    def reach(self, kind: int, begin_s: float, end_s: float) -> None:
        """It has a block of between two times."""
        self.begin_s, self.end_s = min(self.begin_s, begin_s), max(self.end_s, end_s)
        if kind != Kind.GAPS:
            self.first_s, self.last_s = min(self.first_s, begin_s), max(self.last_s, end_s)


class Segments:
    """Of at most `most_bytes` and `most_s`. `open` it before all else. Times are of the day, in
    seconds since 1970."""

    def __init__(self, directory: Directory, most_bytes: int, most_s: float = DAY_S) -> None:
        self._directory = directory
        self._most_bytes, self._most_s = most_bytes, most_s
        # So that not much more than one segment's share is lost when the oldest goes.
        self._segment_bytes = min(_SEGMENT_BYTES, most_bytes // 8)
        self._known: list[_Segment] = []
        self._next = 0
        self._is_new = True
        self._told: set[str] = set()

    @property
    def n_bytes(self) -> int:
        return sum(segment.n_bytes for segment in self._known)

    @property
    def begin_s(self) -> float | None:
        """Since when there is something; None if there is nothing."""
        return min((one.first_s for one in self._known if one.is_known), default=None)

    def open(self) -> list[Block]:
        """Look through all segments. Returns the newest block of each kind, in the order they were
        written. Raises OSError if the directory cannot be read or made."""
        newest: dict[int, Block] = {}
        names = sorted(filter(_NAME.fullmatch, self._directory.names()))
        for name in names:
            self._next = int(name.partition(".")[0]) + 1
            segment = _Segment(name, 0.0)
            data = self._data(segment)
            segment.n_bytes = len(data)
            for found in scan(data):
                if isinstance(found, Block):
                    # In the order they were written.
                    newest.pop(found.kind, None)
                    newest[found.kind] = found
                    segment.reach(found.kind, found.begin_s, found.end_s)
                elif found.torn and name == names[-1]:
                    # Its process was ended while it wrote, and what is missing is asked for again.
                    self._cut(segment, found.at)
                else:
                    self._damaged(segment, found)
            segment.is_whole = segment.is_whole and segment.is_known
            self._known.append(segment)
        return list(newest.values())

    def _cut(self, segment: _Segment, n_bytes: int) -> None:
        LOG.info("the recording ends in the middle of a block, which is removed")
        try:
            self._directory.cut(segment.name, n_bytes)
            segment.n_bytes = n_bytes
        except OSError as error:
            self._tell(segment.name, error.strerror or str(error))

    def append(
        self, kind: Kind, begin_s: float, end_s: float, rows: Iterable[bytes], now_s: float
    ) -> None:
        """Write a block. Raises OSError, and ValueError if it is too large; nothing is written
        then."""
        data = pack(kind, begin_s, end_s, rows)
        self._make_room(len(data), now_s)
        segment = self._present(now_s)
        try:
            self._directory.append(segment.name, data)
        except OSError:
            # What is in it may not be what it seems.
            self._is_new = True
            if not segment.n_bytes:
                self._known.pop()
                self._next -= 1
            raise
        segment.n_bytes += len(data)
        segment.reach(kind, begin_s, end_s)

    def _present(self, now_s: float) -> _Segment:
        """The segment to write to."""
        if self._known and not self._is_new:
            last = self._known[-1]
            # The clock may have been set back.
            is_young = 0 <= now_s - last.begun_s < _SEGMENT_S
            if is_young and last.n_bytes < self._segment_bytes:
                return last
        self._known.append(_Segment(f"{self._next:010d}.weir", now_s))
        self._next += 1
        self._is_new = False
        return self._known[-1]

    def _make_room(self, n_bytes: int, now_s: float) -> None:
        while self._known and self.n_bytes + n_bytes > self._most_bytes:
            self._remove(self._known[0])
        # One at a time: what a wrong clock can do is bounded.
        past = next((one for one in self._known if self._is_past(one, now_s)), None)
        if past is not None:
            LOG.info("a segment of the recording, %s, is removed: it is too old", past.name)
            self._remove(past)

    def _is_past(self, segment: _Segment, now_s: float) -> bool:
        """Whether all of it is too old, by the clock and by what was written since."""
        end_s = segment.end_s
        if end_s > now_s:
            # The clock was ahead when it was written.
            end_s = segment.begin_s
        if not math.isfinite(end_s):
            # It cannot be read, and says where something is missing.
            return segment is self._known[0]
        newest_s = self._known[-1].end_s
        if len(self._known) > 1:
            before_s = self._known[-2].end_s
            # The clock may be ahead for a moment: the next segment would tell.
            newest_s = before_s if newest_s - before_s > self._most_s else newest_s
        return min(now_s, newest_s) - end_s > self._most_s

    def _remove(self, segment: _Segment) -> None:
        try:
            self._directory.remove(segment.name)
        except OSError as error:
            LOG.warning("a segment of the recording stays: %s", error)
        self._told.discard(segment.name)
        self._known.remove(segment)

    def read(self, begin_s: float, end_s: float) -> Iterator[Block | Hole]:
        """The blocks that have something of between two times, in the order they were written,
        and where some of them are missing."""
        known = list(self._known)
        for number, segment in enumerate(known):
            # While a reader takes its time, old segments make room for new ones.
            if segment not in self._known:
                continue
            # What is damaged at its ends was between its neighbours.
            before_s = max((one.last_s for one in known[:number]), default=-math.inf)
            after_s = min((one.first_s for one in known[number + 1 :]), default=math.inf)
            if not math.isfinite(before_s):
                before_s = segment.first_s if segment.is_known else after_s
            if not math.isfinite(after_s):
                after_s = max(end_s, before_s)
            is_near = segment.begin_s <= end_s and segment.end_s >= begin_s
            if is_near or (not segment.is_whole and before_s <= end_s and after_s >= begin_s):
                for found in self._blocks(segment, before_s, after_s):
                    if found.begin_s <= end_s and found.end_s >= begin_s:
                        yield found

    def _blocks(self, segment: _Segment, before_s: float, after_s: float) -> Iterator[Block | Hole]:
        """Its blocks and holes; those before and after it are of these times."""
        data = self._data(segment)
        if not data and segment.n_bytes:
            is_known = segment.is_known
            yield Hole(segment.first_s, segment.last_s) if is_known else Hole(before_s, after_s)
        last_s, is_missing = before_s, False
        for found in scan(data):
            if isinstance(found, Damage):
                self._damaged(segment, found)
                is_missing = True
                continue
            if found.kind != Kind.GAPS:
                if is_missing:
                    yield Hole(last_s, max(last_s, found.begin_s))
                    is_missing = False
                last_s = max(last_s, found.end_s)
            yield found
        if is_missing and after_s >= last_s:
            yield Hole(last_s, after_s)

    def _damaged(self, segment: _Segment, found: Damage) -> None:
        segment.is_whole = False
        self._tell(segment.name, f"{found.n_bytes} bytes of it are damaged")

    def _data(self, segment: _Segment) -> bytes:
        try:
            return self._directory.read(segment.name)
        except OSError as error:
            self._tell(segment.name, error.strerror or str(error))
            return b""

    def _tell(self, name: str, why: str) -> None:
        if name not in self._told:
            self._told.add(name)
            LOG.warning("a segment of the recording, %s, is not read as a whole: %s", name, why)
