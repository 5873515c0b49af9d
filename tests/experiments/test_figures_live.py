"""Figures of each kind, measured quickly: over what is swept, over time, by a benchmark."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.figures import results
from testbed import sandbox

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.long]

# The command, but that it does not repeat what is void: others take this machine's processors.
HURRIED = """
import sys
from experiments import cli
from experiments.figures import sweep
sweep.MOST_VOID = 0
sys.exit(cli.main(sys.argv[1:]))
"""


def measured(tmp_path: Path, *words: str) -> dict[str, Any]:
    """Measure a figure quickly, and return what is told of it."""
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    argv = [sys.executable, "-c", HURRIED, "run", *words, "--quick", "--json"]
    done = subprocess.run(
        [*argv, "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["failed"] == []
    assert told["wanted"] == told["there"] + told["done"]
    return told


def test_a_sweep_and_its_page(tmp_path: Path) -> None:
    told = measured(tmp_path, "sdtcp-fig9", "--scheme", "reno,weir", "--senders", "5,20")
    assert told["wanted"] == 4
    goodputs = {
        (point["line"], point["x"]): point["median"]
        for point in told["points"]
        if point["metric"] == "goodput_mbps"
    }
    assert goodputs.keys() == {(line, x) for line in ("reno", "weir") for x in (5.0, 20.0)}
    assert all(0 < mbps < 100 for mbps in goodputs.values())
    again = measured(tmp_path, "sdtcp-fig9", "--scheme", "reno,weir", "--senders", "5,20")
    assert (again["there"], again["done"]) == (4, 0)
    argv = [sys.executable, "-m", "experiments.cli", "report", str(tmp_path)]
    subprocess.run([*argv, "--out", str(tmp_path / "r")], check=True, capture_output=True)
    assert "sdtcp-fig9" in (tmp_path / "r/index.html").read_text()


def test_a_queue_over_time(tmp_path: Path) -> None:
    measured(tmp_path, "sdtcp-fig12", "--scheme", "reno")
    cells = [cell for cell in results.load(tmp_path).cells if cell.metric == "queue_packets"]
    assert len(cells) > 5
    assert all(cell.t is not None for cell in cells)
    assert 20 < max(cell.band.median for cell in cells) < 50, "the buffer holds 43 packets"


def test_flows_at_set_times(tmp_path: Path) -> None:
    told = measured(tmp_path, "sdtcp-fig15", "--scheme", "weir")
    found = {point["metric"]: point["median"] for point in told["points"]}
    assert 0.2 < found["jain_mean"] <= 1


def test_a_benchmark_s_figure(tmp_path: Path) -> None:
    told = measured(tmp_path, "sdtcp-fig16")
    found = {(point["metric"], point["x"]): point["median"] for point in told["points"]}
    assert found["delay_p50_us", 1500] < 10_000
    assert 0 < found["cpu_pct", 600] <= found["cpu_pct", 1500] < 100
    assert found["channel_mbps", 1500] > found["channel_mbps", 600] > 0
    assert (tmp_path / "bench/1.json").exists()
