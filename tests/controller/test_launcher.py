"""The command: its help, its errors, its end."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from certificates import Authority
from controller import __version__
from dummy_ovs import REPOSITORY, Controller, free_endpoint, wait_for


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "controller", *arguments],
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
    authority = Authority(tmp_path)
    pair = authority.issue("certificate")
    for name in ("", "api-"):
        shutil.copy(pair.key, tmp_path / f"{name}key.pem")
        shutil.copy(pair.certificate, tmp_path / f"{name}certificate.pem")
    file = tmp_path / "weir.yaml"
    file.write_text(example.replace("/etc/weir", str(tmp_path)))
    done = run("--config", str(file), "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_run_is_what_it_does_without_a_command(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text("openflow: {listen: 'tcp:127.0.0.1:6653'}")
    for arguments in (("run", "--config"), ("--config",)):
        done = run(*arguments, str(file), "--check")
        assert (done.returncode, done.stdout) == (0, f"{file} is valid\n")


def test_a_mistyped_command_is_told() -> None:
    for word, hint in (("port", "did you mean ports?"), ("xyzzy", "there are run, check")):
        done = run(word)
        assert done.returncode == 2
        assert done.stderr.startswith(f"weir-controller: there is no command '{word}'; {hint}")


def test_version() -> None:
    assert run("--version").stdout == f"weir-controller {__version__}\n"


def test_the_check_tells_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text("fabric: {rtt: soon}")
    done = run("--config", str(file), "--check")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{file}: fabric.rtt: 'soon' is not a quantity" in done.stderr


def test_the_check_looks_into_the_files_that_are_named(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text("tls: {key: /none/key, certificate: /none/such, ca: /none/such}")
    done = run("--config", str(file), "--check")
    assert done.returncode == 2
    told = "tls.key: /none/key: No such file or directory; make it, or name another"
    assert done.stderr == f"weir-controller: {told}\n"


def test_without_a_word_on_how_to_listen_it_does_not_start() -> None:
    done = run()
    assert done.returncode == 2
    assert done.stderr.startswith("weir-controller: without --config: openflow.listen: ssl:")
    assert "tcp:127.0.0.1:6653" in done.stderr


def test_a_configuration_that_is_not_there() -> None:
    done = run("--config", "/none/such.yaml")
    assert done.returncode == 2
    assert (
        done.stderr
        == "weir-controller: /none/such.yaml: No such file or directory; name another file\n"
    )


def test_an_event_log_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    log = "log: {events: /none/such/events.jsonl}"
    file.write_text(f"openflow: {{listen: 'tcp:{free_endpoint()}'}}\n{log}")
    done = run("--config", str(file))
    assert done.returncode == 2
    assert "log.events: cannot write /none/such/events.jsonl: No such file" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    events = tmp_path / "events.jsonl"
    config = f'{{openflow: {{listen: "tcp:{free_endpoint()}"}}, log: {{events: "{events}"}}}}'
    controller = Controller(tmp_path, config)
    controller.start()
    wait_for(lambda: events.exists() and "start" in events.read_text(), "the start")
    assert controller.stop(number) == 0
    last = json.loads(events.read_text().splitlines()[-1])
    assert (last["event"], last["reason"]) == ("stop", number.name)
    assert "Traceback" not in controller.log
