"""Do no harm: a regulated fabric is as fast as an unregulated one for programs that need no
regulation.

Real programs (``tools/prepare apps``) on one switch with a buffer of 64 KiB, without regulation and
with Weir's, in turns. The bounds are generous, since machines are noisy; ``make bench-apps`` has
the figures.
"""

import json
import os
from dataclasses import asdict
from statistics import median
from typing import Any

import pytest

from experiments.bench import sandboxed
from experiments.bench.apps.figures import order
from experiments.bench.apps.matrix import BASELINE, KEY
from experiments.bench.apps.turn import TurnSpec

TURNS = 3
# Where these find harm, all turns together have to find it: one of three is often disturbed.
MORE_TURNS = 4
LEAST_SHARE = 0.8
# The workloads are between two hosts each time. More would only take longer to be made.
SENDERS = 2
# That a scheme passes which regulates nothing shows that a failure is none of the machine's:
# WEIR_TEST_SCHEME=none
SCHEME = os.environ.get("WEIR_TEST_SCHEME", "weir")

pytestmark = [
    pytest.mark.netns,
    pytest.mark.switch,
    pytest.mark.slow,
    pytest.mark.timing,
    pytest.mark.timeout(900),
]


def play(scheme: str, label: str) -> dict[str, Any]:
    """Play the workloads that tell most under a scheme; return what came of each."""
    names = [workload.name for workload in KEY]
    spec = TurnSpec("star", scheme, names, label, senders=SENDERS)
    turn = sandboxed.result("experiments.bench.apps.turn", json.dumps(asdict(spec)))
    played: dict[str, Any] = turn["played"]
    failed = {name: one["error"] for name, one in played.items() if "error" in one}
    assert not failed
    return played


def harm(name: str, without: list[dict[str, Any]], regulated: list[dict[str, Any]]) -> list[str]:
    """Say what regulation has harmed of a workload."""
    own, other = (
        [round(turn[name]["result"]["throughput"], 1) for turn in turns]
        for turns in (regulated, without)
    )
    timeouts = [turn[name]["timeouts"] for turn in regulated]
    found = []
    if median(own) < LEAST_SHARE * median(other):
        found.append(f"{name}: throughput {own}, without regulation {other}")
    if any(timeouts):
        found.append(f"{name}: timeouts {timeouts}")
    return found


def test_programs_are_not_harmed() -> None:
    """redis over 50 connections, HTTP with a connection for each request, bulk both ways at once:
    no timeout, and nearly the throughput that they have without regulation."""
    turns: dict[str, list[dict[str, Any]]] = {"without": [], "regulated": []}
    schemes = {"without": BASELINE, "regulated": SCHEME}
    found: list[str] = []
    for number in range(TURNS + MORE_TURNS):
        if number == TURNS and not found:
            break
        for kind in order(list(schemes), number):
            turns[kind].append(play(schemes[kind], f"{kind} {number + 1}"))
        found = [fault for workload in KEY for fault in harm(workload.name, **turns)]
    assert not found, "\n".join(found)
