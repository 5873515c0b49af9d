"""The audit log: who has changed what of the controller, and when.

It is a file of one JSON object a line, `audit.jsonl` in the state directory. It is turned over when
it is full, and one former file is kept. All entries are kept in memory, too, so nobody who reads
them waits for a disk, and so that they are there without a state directory. They are written in the
background, in order: nobody waits for that either. A file that cannot be read or written is logged,
and never stops the controller.
"""

import bisect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

from pydantic import TypeAdapter, ValidationError

from controller.northbound.views import AuditEntryView, AuditPage, StepView
from controller.ops.background import at_once
from controller.runtime.audit_file import AuditFile, Line, turned_over

LOG = logging.getLogger("weir.app")

FILE = "audit.jsonl"

_MOST_BYTES = 8 * 2**20
# Of entries in one answer: a page ends earlier than asked if its entries are this long.
_PAGE_BYTES = 2**20

What = Literal["settings", "undo", "off", "on", "reload"]

_ENTRY = TypeAdapter(AuditEntryView)


class Do(Protocol):
    """Has work done, one piece after the other, and `done` told what it returns."""

    def __call__(
        self,
        work: Callable[[], OSError | None],
        done: Callable[[OSError | None], object],
    ) -> object: ...


class AuditLog:
    """The log at a path; without one it ends with the process. `wall_s` is the time of day. A file
    and its former one have at most `most_bytes` each. `do` writes, in another thread."""

    def __init__(
        self,
        path: Path | None,
        wall_s: Callable[[], float],
        most_bytes: int = _MOST_BYTES,
        do: Do = at_once,
    ) -> None:
        self._path = path
        self._wall_s = wall_s
        self._most_bytes = most_bytes
        self._former: list[Line] = []
        self._present: list[Line] = []
        self._n_bytes = 0
        self._last = 0
        self._do = do
        self._file: AuditFile | None = None
        # What the other thread sees. It takes from the left what this one adds on the right.
        self._unwritten: deque[Line] = deque()
        self._is_asked = False
        self._oldest = 0
        if path is not None:
            self._former, _ = self._read(turned_over(path))
            self._present, is_torn = self._read(path)
            self._n_bytes = sum(len(line.written) for line in self._present)
            self._file = AuditFile(path, is_torn)

    def restore(self, entry: AuditEntryView) -> None:
        """Add an entry that is known to have been made, if it is not there."""
        if int(entry["id"]) > self._last:
            self._append(entry)
            self._write()

    def add(
        self, what: What, by: str, changes: Sequence[StepView] = (), detail: str = ""
    ) -> AuditEntryView:
        """Add an entry that is made now; returns it."""
        entry = self._added(what, by, changes, detail)
        self._write()
        return entry

    def add_each(self, what: What, by: str, details: Iterable[str]) -> None:
        """Add an entry for each of these, and write all of them at once."""
        for detail in details:
            self._added(what, by, (), detail)
        self._write()

    def _added(
        self, what: What, by: str, changes: Sequence[StepView], detail: str
    ) -> AuditEntryView:
        entry: AuditEntryView = {
            "id": str(self._last + 1),
            "at_s": round(self._wall_s(), 3),
            "by": by,
            "what": what,
            "changes": list(changes),
            "detail": detail,
        }
        self._append(entry)
        return entry

    def _append(self, entry: AuditEntryView) -> None:
        self._last = int(entry["id"])
        line = Line(self._last, _ENTRY.dump_json(entry) + b"\n")
        if self._n_bytes + len(line.written) > self._most_bytes and self._present:
            self._former, self._present, self._n_bytes = self._present, [], 0
            line = line._replace(turns=True)
        self._present.append(line)
        self._n_bytes += len(line.written)
        self._oldest = (self._former or self._present)[0].serial
        self._unwritten.append(line)

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

    def _read(self, path: Path) -> tuple[list[Line], bool]:
        """The entries of a file that can be used, and whether it ends within a line."""
        if not path.exists():
            return [], False
        try:
            with path.open("rb") as file:
                # Whoever has written more than this was not this log.
                file.seek(max(0, path.stat().st_size - 2 * self._most_bytes))
                text = file.read()
        except OSError as error:
            LOG.error("the audit log cannot be read: %s: %s", path, error.strerror)
            return [], False
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
            lines.append(Line(serial, written.rstrip(b"\n") + b"\n"))
        if unusable:
            LOG.error("%d lines of the audit log %s are no entries, and left out", unusable, path)
        return lines, bool(text) and not text.endswith(b"\n")

    def _write(self) -> None:
        """Have what is not in the file yet written, in order."""
        if self._file is None:
            self._unwritten.clear()
        elif self._unwritten and not self._is_asked:
            self._is_asked = True
            self._do(self._write_now, self._told)

    def _write_now(self) -> OSError | None:
        """In another thread."""
        assert self._file is not None
        # First: whoever adds a line from now on asks again.
        self._is_asked = False
        lines = []
        while self._unwritten:
            lines.append(self._unwritten.popleft())
        return self._file.write(lines, self._oldest)

    def _told(self, error: OSError | None) -> None:
        if error is not None:
            LOG.error("the audit log is not kept: cannot write %s: %s", self._path, error.strerror)


def _entries(lines: Sequence[Line]) -> Iterator[AuditEntryView]:
    return (_ENTRY.validate_json(line.written) for line in reversed(lines))
