"""The scripts of docs/experiments.md do what the page says."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import sandbox

TOP = Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs/experiments.md").read_text()
RUNS, SWEEP, NETWORKS = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE)

# Before the sweep: what is void is not done again, since others take this machine's processors.
HURRIED = """
from experiments.figures import sweep
sweep.MOST_VOID = 0
"""


def ran(script: str, folder: Path, *words: str) -> str:
    """Run ``script`` as a file, as its reader would; return what it prints."""
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    file = folder / "script.py"
    file.write_text(script)
    done = subprocess.run(
        [sys.executable, str(file), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_script_is_short() -> None:
    assert len([line for line in RUNS.splitlines() if line]) <= 20


@pytest.mark.netns
@pytest.mark.switch
@pytest.mark.slow
def test_a_loop_over_schemes(tmp_path: Path) -> None:
    said = ran(RUNS, tmp_path, str(tmp_path / "out"))
    for scheme in ("reno", "cubic", "weir"):
        found = re.search(rf"(?m)^{scheme}: ([\d.]+) Mb/s, \d+ ms, (\d+) timeouts$", said)
        assert found is not None, said
        assert 0 < float(found[1]) < 100
        assert (tmp_path / "out" / scheme / "record.json").exists()


@pytest.mark.netns
@pytest.mark.switch
@pytest.mark.long
def test_a_sweep(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran(HURRIED + SWEEP, tmp_path, str(out))
    with (out / "summary.csv").open() as lines:
        points = {
            (row["line"], float(row["x"]))
            for row in csv.DictReader(lines)
            if row["metric"] == "goodput_mbps"
        }
    assert points == {(line, x) for line in ("reno", "weir") for x in (16.0, 64.0)}
    again = ran(HURRIED + SWEEP, tmp_path, str(out))
    assert "8 of 8 runs are there already" in again


@pytest.mark.netns
@pytest.mark.switch
def test_a_network_for_each_turn_of_a_loop(tmp_path: Path) -> None:
    said = ran(NETWORKS, tmp_path)
    assert [line.split()[0] for line in said.splitlines()] == ["reno", "cubic"]
    assert said.count("rtt min/avg/max") == 2
