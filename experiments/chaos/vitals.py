"""The resources that a process uses."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from experiments.measure.process import footprint


@dataclass(frozen=True)
class Vitals:
    """The resources of a process at one moment."""

    rss_kb: int
    threads: int
    descriptors: tuple[str, ...]


def vitals(pid: int) -> Vitals:
    """Read them. Raises FileNotFoundError or ProcessLookupError if the process has ended."""
    kinds = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # It has just been closed.
            kinds.append(str(fd.readlink()).partition(":")[0])
    taken = footprint(pid)
    return Vitals(taken.rss_kb, taken.threads, tuple(sorted(kinds)))
