"""The demonstration on a busy machine: runs are repeated, and it is said who was in the way."""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

import recorded
from experiments import demo, runner
from experiments.measure.machine import Others, OthersMeter
from experiments.measure.record import QUEUE, RECORD
from experiments.measure.validity import Check
from experiments.workloads.reads import Reads

SPEC = runner.RunSpec("reno", Reads(2, 2))
GOOD = Check("processors", "40% idle", "at least 10%", True)
BUSY = Check("processors", "1% idle", "at least 10%", False)
WRONG = Check("qdiscs as asked", "s1-eth1 has none", "no difference", False)


class Runner:
    """Does runs whose checks are these, one after the other; the last stays."""

    def __init__(self, *checks: Check) -> None:
        self.checks = list(checks)
        self.runs = 0

    def run(self, spec: runner.RunSpec, out: Path) -> int:
        self.runs += 1
        check = self.checks.pop(0) if len(self.checks) > 1 else self.checks[0]
        out.mkdir(parents=True, exist_ok=True)
        data = recorded.data(spec.scheme, checks=[asdict(check)])
        (out / RECORD).write_text(json.dumps(data))
        recorded.queue().save(out / QUEUE)
        return 0 if check.holds else runner.VOID


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def show(*checks: Check) -> tuple[int, int, str]:
        """The demonstration's exit status, how many runs there were, and what it said."""
        done = Runner(*checks)
        monkeypatch.setattr(runner, "run", done.run)
        monkeypatch.setattr(demo, "SCHEMES", ("reno",))
        status = demo.demo({"n2": SPEC}, tmp_path, as_json=False)
        said = capsys.readouterr()
        return status, done.runs, said.err + said.out

    return show


def test_a_valid_run_is_done_once(shown) -> None:
    status, runs, said = shown(GOOD)
    assert (status, runs) == (0, 1)
    assert "busy" not in said


def test_a_run_on_a_busy_machine_is_repeated(shown) -> None:
    status, runs, said = shown(BUSY, BUSY, GOOD)
    assert (status, runs) == (0, 3)
    assert "void (processors); " in said
    assert "valid: all 1 checks hold" in said


def test_in_the_end_it_says_what_to_do(shown) -> None:
    status, runs, said = shown(BUSY)
    assert (status, runs) == (runner.VOID, demo.ATTEMPTS)
    assert said.rstrip().endswith("weir-experiment demo --senders 8 --rounds 10")


def test_what_a_quiet_machine_would_not_mend_is_not_repeated(shown) -> None:
    status, runs, said = shown(WRONG)
    assert (status, runs) == (runner.VOID, 1)
    assert "s1-eth1 has none" in said
    assert "--senders 8" not in said


@pytest.mark.timing
def test_a_busy_process_is_named_and_ours_are_not() -> None:
    spin = "import time\nt = time.monotonic()\nwhile time.monotonic() < t + 2: pass"
    # A child of its own parent, which ends at once, is nobody's child here.
    detached = f"import os\nif not os.fork():\n    exec({spin!r})"
    meter = OthersMeter()
    subprocess.run([sys.executable, "-c", detached], check=True)
    ours = subprocess.Popen([sys.executable, "-c", spin])
    time.sleep(1)
    processes = dict(meter.read().processes)
    busy = {name for name, processors in processes.items() if processors > 0.2}
    assert any(name.startswith("python") for name in busy)
    assert f"({ours.pid})" not in "".join(processes)
    ours.kill()
    ours.wait()


def test_in_words() -> None:
    others = Others(0.34, (("cc1 (12)", 0.8), ("sh (13)", 0.01)))
    said = "the hypervisor kept 34% of the processors' time, cc1 (12) had 0.80 processors"
    assert others.in_words() == said
    assert Others(0.0, (("sh (13)", 0.01),)).in_words() == ""
