"""Soak: the patched switch under sanitizers while everything about it changes at random.

Queues are set, changed and removed, ports and bridges come and go, controllers connect, talk
nonsense and vanish, window registers are set by the thousand, and TCP and UDP run through all of
it. Whatever AddressSanitizer, LeakSanitizer or UndefinedBehaviorSanitizer have to say, a switch
that hangs or ends, a descriptor that stays open and memory that keeps growing are findings.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed import isolation

SUMMARY = "soak.json"


@dataclass(frozen=True)
class SoakSpec:
    """``prefix`` is a switch built by ``ovs-patches/build --sanitize``; ``seed`` decides the order
    of changes (how they meet the traffic is the scheduler's)."""

    prefix: str
    minutes: float
    seed: int


def run(spec: SoakSpec, out: Path) -> int:
    """Soak in a new world; the exit status is 0 if there was nothing to find, 1 if there was.

    ``out`` gets soak.json, the reports of the sanitizers (report.*), what was done (changes.log),
    memory over time (memory.csv) and the switch's log. Progress goes to stderr.
    """
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("report.*"), *out.glob("*.log"), out / SUMMARY):
        old.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "experiments.soak.inside", "--spec", json.dumps(asdict(spec))]
    return isolation.run([*argv, "--out", str(out.resolve())])
