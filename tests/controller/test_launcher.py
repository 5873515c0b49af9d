"""The command: its help, its errors, its end."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controller import __version__
from dummy_ovs import REPOSITORY, Controller, free_endpoint, wait_for


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "controller.launcher", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_help_teaches() -> None:
    done = run("--help")
    assert done.returncode == 0
    for word in ("link_capacity: 1 Gbit/s", "ovs-vsctl set-controller", "SIGTERM", "unpatched"):
        assert word in done.stdout


def test_the_example_in_the_help_is_valid(tmp_path: Path) -> None:
    text = run("--help").stdout
    example = text[text.index("    openflow:") : text.index("Connect a switch")]
    file = tmp_path / "weir.yaml"
    file.write_text(example)
    done = run("--config", str(file), "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_version() -> None:
    assert run("--version").stdout == f"weir-controller {__version__}\n"


def test_the_check_tells_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text("fabric: {rtt: soon}")
    done = run("--config", str(file), "--check")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{file}: fabric.rtt: 'soon' is not a quantity" in done.stderr


def test_a_configuration_that_is_not_there() -> None:
    done = run("--config", "/none/such.yaml")
    assert done.returncode == 2
    assert done.stderr == "weir-controller: /none/such.yaml: No such file or directory\n"


def test_an_event_log_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text("log: {events: /none/such/events.jsonl}")
    done = run("--config", str(file))
    assert done.returncode == 2
    assert "/none/such/events.jsonl" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    events = tmp_path / "events.jsonl"
    config = f'{{openflow: {{listen: "{free_endpoint()}"}}, log: {{events: "{events}"}}}}'
    controller = Controller(tmp_path, config)
    controller.start()
    wait_for(lambda: events.exists() and "start" in events.read_text(), "the start")
    assert controller.stop(number) == 0
    last = json.loads(events.read_text().splitlines()[-1])
    assert (last["event"], last["reason"]) == ("stop", number.name)
    assert "Traceback" not in controller.log
