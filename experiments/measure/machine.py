"""Provenance of a measurement: the commit and the code of this tree, and other users of the
machine's processors."""

import hashlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

import controller
import testbed
from experiments.measure.sampling import share_of_processors
from testbed.registry import extension_files

# Less than these is not worth a word.
_NOTABLE_STEAL_SHARE = 0.02
_NOTABLE_PROCESSORS = 0.05
_MOST_NAMED = 3
_KTHREADD = 2


# What is kept of figures decides no run, so it may be put there between two of them.
_KEPT = "experiments/figures/*/*/*"


@cache
def commit() -> str | None:
    """Return the commit of this tree, with -dirty if it was changed since; None without git."""
    return _commit(Path(__file__).resolve().parents[2])


def _commit(top: Path) -> str | None:
    git = ["git", "-C", str(top)]
    changes = [*git, "status", "--porcelain", "--untracked-files=no", "--", ":/"]
    changes += [f":(top,exclude){_KEPT}.{kind}" for kind in ("csv", "json")]
    try:
        found, changed = (
            subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout
            for words in ([*git, "rev-parse", "--short=12", "HEAD"], changes)
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.strip() + "-dirty" * bool(changed)


# Of experiments: what decides a run. Figures, reports and commands only read its record.
_DECISIVE = (
    "emulation.py", "hosts", "measure", "network", "runner.py", "schemes", "statistics.py",
    "traffic", "workloads",
)  # fmt: skip


@cache
def code(*more: str) -> str:
    """Return twelve letters that stand for the code that decides what a run measures: controller,
    test bed, and of the experiments the runs', with ``more`` of their files and folders, and what
    is offered from outside the tree (``testbed.registry``).

    Commits that change nothing else, as a figure's text, have the same.
    """
    experiments = Path(__file__).resolve().parents[1]
    tops = [Path(package.__path__[0]).resolve() for package in (controller, testbed)]
    own = [experiments / name for name in (*_DECISIVE, *more)]
    return _digest([*tops, *own, *extension_files()])


def _digest(tops: Sequence[Path]) -> str:
    told = hashlib.sha256()
    for top in tops:
        files = top.rglob("*") if top.is_dir() else [top]
        for file in sorted(one for one in files if one.is_file()):
            if "__pycache__" not in file.parts:
                told.update(f"{file.relative_to(top.parent)}\0".encode())
                told.update(hashlib.sha256(file.read_bytes()).digest())
    return told.hexdigest()[:12]


@dataclass(frozen=True)
class Others:
    """The share of all processors' time that a hypervisor took, and the other processes with the
    processors that each had on average, the busiest first."""

    steal_share: float
    processes: tuple[tuple[str, float], ...]

    def in_words(self) -> str:
        """Return who used the processors; nothing if the others' use was negligible."""
        parts = []
        if self.steal_share >= _NOTABLE_STEAL_SHARE:
            parts.append(f"the hypervisor kept {self.steal_share:.0%} of the processors' time")
        for name, processors in self.processes[:_MOST_NAMED]:
            if processors >= _NOTABLE_PROCESSORS:
                parts.append(f"{name} had {processors:.2f} processors")
        return ", ".join(parts)


class OthersMeter:
    """Measures Others from its creation on. Processes that this one has started do not count as
    others."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._machine = psutil.cpu_times()
        self._processes = {who: used_s for who, _, used_s in _running()}

    def read(self) -> Others:
        """Return the use since creation. Processes that have ended are missing."""
        elapsed_s = max(1e-3, time.monotonic() - self._began_s)
        had = [
            (name, (used_s - self._processes.get(who, 0.0)) / elapsed_s)
            for who, name, used_s in _running()
        ]
        return Others(
            steal_share=share_of_processors(self._machine, "steal"),
            processes=tuple(sorted(had, key=lambda each: -each[1])),
        )


def _running() -> Iterator[tuple[tuple[int, float], str, float]]:
    """The machine's other processes: identity, name with pid, and processor time in seconds.

    The kernel's own threads work for whoever is measured, and are left out.
    """
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    for process in psutil.process_iter(["pid", "ppid", "name", "create_time", "cpu_times"]):
        told = process.info
        kernel = _KTHREADD in (told["pid"], told["ppid"])
        if told["pid"] in ours or kernel or told["cpu_times"] is None:
            continue
        used_s = told["cpu_times"].user + told["cpu_times"].system
        yield (told["pid"], told["create_time"]), f"{told['name']} ({told['pid']})", used_s
