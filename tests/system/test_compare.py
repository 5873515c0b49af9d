"""`weir-controller compare` on a real switch: under incast, on requests alone, and where regulation
hurts."""

import json
import subprocess
import sys
from typing import Any

import pytest

from experiments.traffic.reader import IncastSpec
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig
from traffic import incast

TURN_S = 4

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.timing]


def compare(socket: str, minutes: float) -> dict[str, Any]:
    argv = [sys.executable, "-m", "controller", "compare", "--socket", socket, "--json"]
    argv += ["--minutes", str(minutes), "--turn", str(TURN_S)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    print(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    answer["status"] = done.returncode
    return answer


def test_it_helps_under_incast() -> None:
    path = str(sandbox.RUN_DIR / "controller.sock")
    config = BedConfig(
        topology="star",
        senders=32,
        scheme="weir",
        controller={"northbound": {"socket": path}},
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        with incast(bed, IncastSpec(senders=32, rounds=100_000)) as reads:
            reads.require_progress(10, 20, "under regulation")
            told = compare(path, minutes=7 * 2 * TURN_S / 60)
    print(json.dumps(told["measures"], indent=1))
    assert told["verdict"] == "helps"
    assert told["status"] == 0
