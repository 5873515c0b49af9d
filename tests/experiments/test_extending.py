"""The examples of docs/extending.md do what the page says, in a copy of the tree."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import runner
from testbed import sandbox

TOP = Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs/extending.md").read_text()
MODULES = dict(re.findall(r"(?ms)^```python\n# (\S+)\n(.*?)^```$", PAGE))
(DIFF,) = re.findall(r"(?ms)^```diff\n(.*?)^```$", PAGE)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages with all examples in place."""
    copy = tmp_path_factory.mktemp("tree")
    for package in ("controller", "experiments", "mininet"):
        shutil.copytree(
            TOP / package, copy / package, ignore=shutil.ignore_patterns("__pycache__", "*.png")
        )
    for path, code in MODULES.items():
        assert not (copy / path).exists(), f"{path} is there already"
        assert (copy / path).parent.is_dir(), f"{path} has no place"
        (copy / path).write_text(code)
    subprocess.run(["git", "apply", "-"], input=DIFF, text=True, cwd=copy, check=True)
    return copy


def python(tree: Path, *words: str, statuses: tuple[int, ...] = (0,)) -> str:
    """What a program of the copy prints; it is to end with one of ``statuses``."""
    path = os.pathsep.join([str(tree), str(tree / "mininet")])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in statuses, done.stderr
    return done.stdout


def test_there_is_an_example_of_each() -> None:
    assert {str(Path(path).parent) for path in MODULES} == {
        "experiments/schemes",
        "experiments/workloads",
        "mininet/testbed/topologies",
        "experiments/bench/suites",
    }


def test_what_is_new_is_listed(tree: Path) -> None:
    run = python(tree, "-m", "experiments.cli", "run", "--help")
    for line in (
        "  tuned        TCP Reno, least timeout 10 ms",
        "  equal        TCP Reno; regulation scheme equal",
        "  echo         a byte to each sender",
        "--set senders=2 count=100",
        "  line         h1..hN and b1 at switch s1",
        "--shape switches=3     switches in a row",
    ):
        assert line in run, line
    lab = python(tree, "-m", "testbed.lab", "--help")
    assert "  line         h1..hN" in lab
    assert "--scheme {none,sdtcp,weir,equal}" in lab
    assert "tail" in python(tree, "-m", "experiments.cli", "bench", "--help")
    assert "groups: n8, n32" in python(tree, "-m", "experiments.cli", "bench", "tail", "--help")


TRIED = """
import importlib
from controller.config import reading
from controller.core.congestion.regulator import Scheme
from controller.core.congestion.windows import PortLimits, equal_holds
from controller.core.flows.port_counts import PortCounts
from experiments import runner, workloads
from experiments.bench.measuring import Comparison
from experiments.bench.suites import SUITES
from experiments.workloads.reads import Reads
from testbed.topologies import topology_of

tail = SUITES["tail"]
asked = Comparison(["tuned", "equal"])
asked.require_known(tail, ["n8"])
assert asked.within(tail.groups["n8"]) == ["tuned", "equal"]
assert callable(importlib.import_module(tail.groups["n8"].module).run)

echo = workloads.workload("echo", {"count": "7"})
assert workloads.from_record(workloads.as_record(echo)) == echo
assert echo.count == 7

for scheme in ("tuned", "equal"):
    spec = runner.RunSpec(scheme, echo, topology="line", shape={"switches": 4})
    config = runner.bed_config(spec)
    topo = topology_of(config)
    assert sorted(topo.switches()) == ["s1", "s2", "s3", "s4"]
    assert topo.roles.bottleneck == f"s4-eth{topo.roles.bottleneck_port}"
    assert config.scheme == {"tuned": "none", "equal": "equal"}[scheme]

config = reading.validate({"regulation": {"scheme": "equal"}})
assert config.regulation.scheme is Scheme.EQUAL
counts = PortCounts(background=1, burst=3, mss_bytes=1000)
(burst, background) = equal_holds(counts, PortLimits(10**8, 0, 8000)).values()
assert burst == background
assert burst.window_bytes == 2000
"""


def test_what_is_new_can_be_used(tree: Path) -> None:
    python(tree, "-c", TRIED)


@pytest.mark.netns
@pytest.mark.switch
def test_the_workload_runs(tree: Path, tmp_path: Path) -> None:
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    words = "run --scheme tuned --workload echo --set count=20 --topology line --no-background"
    command = ["-m", "experiments.cli", *words.split(), "--json", "--out", str(tmp_path)]
    # A busy machine makes the run void, which is no fault of the example's.
    flat = json.loads(python(tree, *command, statuses=(0, runner.VOID)))
    assert flat["workload"] == "echo"
    assert 0 < flat["echo_time_p50_ms"] < 1000
