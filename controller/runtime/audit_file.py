"""The file of the audit log: lines are appended, and it is turned over when it is full.

It may be used in any one thread at a time, and never logs.
"""

import io
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """A line as it is written. If it `turns`, the file is turned over first."""

    serial: int
    written: bytes
    turns: bool = False


def turned_over(path: Path) -> Path:
    """The former file."""
    return path.with_name(f"{path.name}.1")


class AuditFile:
    """The file at a path. `is_torn` says whether it ends within a line."""

    def __init__(self, path: Path, is_torn: bool) -> None:
        self._path = path
        self._is_torn = is_torn
        self._unwritten: list[Line] = []

    def write(self, lines: Iterable[Line], oldest: int) -> OSError | None:
        """Append these lines, after those that could not be written before; those before `oldest`
        no longer count. Returns why that failed: then what is left is written the next time."""
        self._unwritten += lines
        self._unwritten = [line for line in self._unwritten if line.serial >= oldest]
        try:
            while self._unwritten:
                self._write_up_to_a_turn()
        except OSError as error:
            return error
        return None

    def _write_up_to_a_turn(self) -> None:
        """Raises OSError."""
        first, *rest = self._unwritten
        if first.turns:
            if self._path.exists():
                self._path.replace(turned_over(self._path))
                self._is_torn = False
            # Even if it cannot be written now, it has been turned over.
            first = self._unwritten[0] = first._replace(turns=False)
        written = [first, *itertools.takewhile(lambda line: not line.turns, rest)]
        # Without a buffer, which would be written when it is closed, whatever has failed.
        with self._path.open("ab", buffering=0) as file:
            self._append(file, b"".join(line.written for line in written))
        del self._unwritten[: len(written)]

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
