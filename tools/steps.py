"""Runs steps side by side, and says of each in a line what came of it and how long it took."""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PROCESSORS = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Step:
    """A command; those of one ``lane`` run one after the other."""

    name: str
    argv: tuple[str | Path, ...]
    lane: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


def say(name: str, outcome: str, seconds: float | None = None, detail: str = "") -> None:
    """Print the line of a step."""
    took = "" if seconds is None else f"{seconds:6.1f} s"
    print(f"{name:<16} {outcome:<7} {took:>9}   {detail}".rstrip(), flush=True)


def run(step: Step) -> bool:
    """Run a step; what it has printed is shown only if it fails."""
    begun_s = time.monotonic()
    done = subprocess.run(
        step.argv,
        cwd=TOP,
        env=os.environ | step.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    passed = done.returncode == 0
    shown = "" if passed else f"\n{done.stdout.rstrip()}"
    say(step.name, "ok" if passed else "FAILED", time.monotonic() - begun_s, shown)
    return passed


def run_all(steps: Iterable[Step]) -> bool:
    """Run all steps, also after one that failed; whether all passed."""
    lanes: dict[str, list[Step]] = {}
    for step in steps:
        lanes.setdefault(step.lane or step.name, []).append(step)
    with ThreadPoolExecutor(PROCESSORS) as pool:
        passed = list(pool.map(_run_lane, lanes.values()))
    return all(passed)


def _run_lane(steps: list[Step]) -> bool:
    passed = list(map(run, steps))
    return all(passed)


def fail(message: str) -> int:
    """Say what is wrong with the command line; the exit status."""
    print(message, file=sys.stderr)
    return 2
