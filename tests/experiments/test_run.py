"""The whole way, small: command, world, switch, controller, real TCP, record, report."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.record import Run
from testbed import isolation

pytestmark = [pytest.mark.netns, pytest.mark.switch]

SENDERS, ROUNDS, BLOCK_BYTES = 4, 5, 200_000
# How fast the machine is depends on what else it does, so these checks are not for a test.
DEPEND_ON_THE_MACHINE = {"processors", "shaped rate"}


@pytest.mark.parametrize("topology", ["fig8", "star"])
def test_four_senders(topology: str, tmp_path: Path) -> None:
    try:
        isolation.require()
    except isolation.IsolationError as lacking:
        pytest.skip(str(lacking))
    options = {
        "--topology": topology, "--senders": SENDERS, "--rounds": ROUNDS, "--block": BLOCK_BYTES,
        "--out": tmp_path,
    }  # fmt: skip
    words = [str(word) for option in options.items() for word in option]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", "demo", "--json", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    flat = json.loads(done.stdout)
    assert flat == json.loads((tmp_path / "summary.json").read_text())
    assert (tmp_path / "demo.png").exists()
    assert flat["valid"] == (done.returncode == 0)
    for name in ("reno", "weir"):
        run = Run.load(tmp_path / name)
        failed = [check for check in run.checks if not check.holds]
        assert [c for c in failed if c.name not in DEPEND_ON_THE_MACHINE] == []
        assert len(run.data["rounds"]) == ROUNDS
        assert sum(run.data["burst_bytes"]["bytes"]) == ROUNDS * BLOCK_BYTES
        assert 0 < run.goodput_mbps < 100
        # The flow alone fills the link, and with it the queue: both must have been seen.
        assert run.queue.count("CN-L") >= 1
        assert run.notices("CN-L")
    assert not Run.load(tmp_path / "reno").events("window_set")
    assert Run.load(tmp_path / "weir").events("window_set")
