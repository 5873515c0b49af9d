"""What a process takes of the machine."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from experiments.soak import watch


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
    threads = sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    return Vitals(watch.sample(pid, 0).rss_kb, threads, tuple(sorted(kinds)))
