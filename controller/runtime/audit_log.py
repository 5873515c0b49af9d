"""The audit log: who has changed what of the controller, and when.

It is a file of one JSON object a line, `audit.jsonl` in the state directory. It is turned over when
it is full, and one former file is kept. All entries are kept in memory, too, so nobody who reads
them waits for a disk, and so that they are there without a state directory. A file that cannot be
read or written is logged, and never stops the controller.
"""

import bisect
import io
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from controller.northbound.views import AuditEntryView, AuditPage, StepView

LOG = logging.getLogger("weir.app")

FILE = "audit.jsonl"

_MOST_BYTES = 8 * 2**20
# Of entries in one answer: a page ends earlier than asked if its entries are this long.
_PAGE_BYTES = 2**20

What = Literal["settings", "undo", "off", "on", "reload"]

_ENTRY = TypeAdapter(AuditEntryView)


class _Line(NamedTuple):
    serial: int
    written: bytes


class AuditLog:
    """The log at a path; without one it ends with the process. `wall_s` is the time of day. A file
    and its former one have at most `most_bytes` each."""

    def __init__(
        self, path: Path | None, wall_s: Callable[[], float], most_bytes: int = _MOST_BYTES
    ) -> None:
        self._path = path
        self._wall_s = wall_s
        self._most_bytes = most_bytes
        self._former: list[_Line] = []
        self._present: list[_Line] = []
        self._n_bytes = 0
        self._last = 0
        self._is_torn = False
        self._is_full = False
        self._unwritten: list[_Line] = []
        if path is not None:
            self._former = self._read(self._turned_over(path))
            self._present = self._read(path)
            self._n_bytes = sum(len(line.written) for line in self._present)

    def skip(self, last: str) -> None:
        """Give no entry the id `last`, or one before it."""
        self._last = max(self._last, int(last))

    def add(
        self, what: What, by: str, changes: Sequence[StepView] = (), detail: str = ""
    ) -> tuple[AuditEntryView, bool]:
        """Add an entry that is made now; returns it, and whether it is in the file."""
        return self._added(what, by, changes, detail), self._write()

    def add_each(self, what: What, by: str, details: Iterable[str]) -> None:
        """Add an entry for each of these, and write all of them at once."""
        for detail in details:
            self._added(what, by, (), detail)
        self._write()

    def _added(
        self, what: What, by: str, changes: Sequence[StepView], detail: str
    ) -> AuditEntryView:
        self._last += 1
        entry: AuditEntryView = {
            "id": str(self._last),
            "at_s": round(self._wall_s(), 3),
            "by": by,
            "what": what,
            "changes": list(changes),
            "detail": detail,
        }
        line = _Line(self._last, _ENTRY.dump_json(entry) + b"\n")
        if self._n_bytes + len(line.written) > self._most_bytes and self._present:
            self._former, self._present, self._n_bytes = self._present, [], 0
            self._is_full = True
        self._present.append(line)
        self._n_bytes += len(line.written)
        self._unwritten.append(line)
        return entry

    def page(self, limit: int, before: str | None) -> AuditPage:
        """At most so many entries, newest first, from the one before `before` on."""
        lines = self._former + self._present
        end = len(lines)
        if before is not None:
            end = bisect.bisect_left(lines, int(before), key=lambda line: line.serial)
        begin, n_bytes = end, 0
        while begin > 0 and end - begin < limit and n_bytes < _PAGE_BYTES:
            begin -= 1
            n_bytes += len(lines[begin].written)
        shown = lines[begin:end]
        next_before = str(shown[0].serial) if shown and begin > 0 else None
        return AuditPage(_entries(shown), next_before)

    @staticmethod
    def _turned_over(path: Path) -> Path:
        return path.with_name(f"{path.name}.1")

    def _read(self, path: Path) -> list[_Line]:
        """The entries of a file that can be used."""
        if not path.exists():
            return []
        try:
            with path.open("rb") as file:
                # Whoever has written more than this was not this log.
                file.seek(max(0, path.stat().st_size - 2 * self._most_bytes))
                text = file.read()
        except OSError as error:
            LOG.error("the audit log cannot be read: %s: %s", path, error.strerror)
            return []
        self._is_torn = bool(text) and not text.endswith(b"\n")
        lines, unusable = [], 0
        for written in text.splitlines(keepends=True):
            try:
                serial = int(_ENTRY.validate_json(written)["id"])
            except (ValidationError, ValueError):
                unusable += 1
                continue
            if serial <= self._last:
                unusable += 1
                continue
            self._last = serial
            lines.append(_Line(serial, written.rstrip(b"\n") + b"\n"))
        if unusable:
            LOG.error("%d lines of the audit log %s are no entries, and left out", unusable, path)
        return lines

    def _write(self) -> bool:
        """Write what is not in the file yet; returns whether all is."""
        if self._path is None:
            self._unwritten.clear()
            return False
        if not self._unwritten:
            return True
        oldest = (self._former or self._present)[0].serial
        self._unwritten = [line for line in self._unwritten if line.serial >= oldest]
        try:
            if self._is_full and self._path.exists():
                self._path.replace(self._turned_over(self._path))
                self._is_torn = False
            self._is_full = False
            # Without a buffer, which would be written when it is closed, whatever has failed.
            with self._path.open("ab", buffering=0) as file:
                self._append(file, b"".join(line.written for line in self._unwritten))
        except OSError as error:
            LOG.error("the audit log is not kept: cannot write %s: %s", self._path, error.strerror)
            return False
        self._unwritten.clear()
        return True

    def _append(self, file: io.FileIO, written: bytes) -> None:
        """All of it, or nothing. Raises OSError."""
        n_before = file.seek(0, os.SEEK_END)
        # After a line of which only a part was written, a new one begins.
        left = memoryview(b"\n" * self._is_torn + written)
        was_torn, self._is_torn = self._is_torn, True
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            # The part that is there is taken back; where even that fails, it remains torn.
            _take_back(file, n_before)
            self._is_torn = was_torn
            raise
        self._is_torn = False


def _take_back(file: io.FileIO, n_bytes: int) -> None:
    """Leave only so many bytes. Raises OSError."""
    file.truncate(n_bytes)


def _entries(lines: Sequence[_Line]) -> Iterator[AuditEntryView]:
    return (_ENTRY.validate_json(line.written) for line in reversed(lines))
