"""What a process takes of the machine."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from experiments.measure.process import footprint


@dataclass(frozen=True)
class Vitals:
    """Of a process at a moment."""

    rss_kb: int
    threads: int
    descriptors: tuple[str, ...]


def vitals(pid: int) -> Vitals:
    """Raises FileNotFoundError or ProcessLookupError if it has ended."""
    kinds = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # It has just been closed.
            kinds.append(str(fd.readlink()).partition(":")[0])
    taken = footprint(pid)
    return Vitals(taken.rss_kb, taken.threads, tuple(sorted(kinds)))
