"""Started again when it fails, told systemd how it is, and why it failed is kept."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from controller.ops.event_log import read_events
from controller.ops.systemd import Notifier
from controller.runtime.supervisor import Backoff
from dummy_ovs import REPOSITORY, free_endpoint, wait_for


def test_pauses_grow_and_start_anew_after_a_run_that_lasted() -> None:
    backoff = Backoff(first_s=1, longest_s=5, lasting_s=60)
    assert [backoff.after(2) for _ in range(5)] == [1, 2, 4, 5, 5]
    assert backoff.after(61) == 1
    assert backoff.after(2) == 2


class Supervised:
    """weir-controller --supervise, and what its child says in the event log."""

    def __init__(self, directory: Path, config: str | None = None) -> None:
        self._events = directory / "events.jsonl"
        self._log = directory / "log"
        file = directory / "weir.yaml"
        listen = f'openflow: {{listen: "tcp:{free_endpoint()}"}}\n'
        file.write_text(config or listen + f'log: {{events: "{self._events}"}}')
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "controller",
                    "--supervise",
                    "--config",
                    str(file),
                ],
                cwd=REPOSITORY,
                stdout=out,
                stderr=out,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def events(self, kind: str) -> list[dict]:
        return read_events(self._events, kind)

    def child(self) -> int:
        """The process of the controller that runs now."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        wait_for(path.read_text, "a child")
        (child,) = path.read_text().split()
        return int(child)


def test_it_is_started_again_when_it_was_killed_and_ends_on_sigterm(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path)
    wait_for(lambda: supervised.events("start"), "the first start")
    os.kill(supervised.child(), signal.SIGKILL)
    wait_for(lambda: len(supervised.events("start")) == 2, "the second start")
    assert "weir-controller was ended by SIGKILL" in supervised.log
    supervised.process.send_signal(signal.SIGHUP)
    wait_for(lambda: supervised.events("reload"), "SIGHUP is passed on")
    supervised.process.terminate()
    assert supervised.process.wait(20) == 0
    assert supervised.events("stop")[-1]["reason"] == "SIGTERM"


def test_a_configuration_that_cannot_be_used_is_not_tried_again(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path, "fabric: {rtt: soon}")
    assert supervised.process.wait(20) == 2
    assert supervised.log.count("is not a quantity") == 1


def test_why_it_failed_is_kept(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    file = tmp_path / "weir.yaml"
    listen = f'openflow: {{listen: "tcp:{free_endpoint()}"}}\n'
    file.write_text(listen + f'log: {{events: "{events}"}}')
    # A bug, put into the real program from outside.
    program = (
        "import sys\n"
        "from controller.runtime import launcher\n"
        "launcher.prepare_ryu()\n"
        "from controller.core.engine import Engine\n"
        "Engine.tend = lambda *_: 1 / 0\n"
        f"sys.exit(launcher.main(['--config', {str(file)!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "_repeat failed; the controller ends" in done.stderr
    last = json.loads(events.read_text().splitlines()[-1])
    assert (last["event"], last["reason"]) == ("stop", "failure")
    assert "ZeroDivisionError" in last["cause"]


class Systemd:
    """The other end of sd_notify(3)."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "notify.sock")
        self.states: list[str] = []
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(self.path)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            self.states.append(self._sock.recv(4096).decode())


def test_systemd_is_told(tmp_path: Path) -> None:
    systemd = Systemd(tmp_path)
    file = tmp_path / "weir.yaml"
    file.write_text(f'openflow: {{listen: "tcp:{free_endpoint()}"}}')
    controller = subprocess.Popen(
        [sys.executable, "-m", "controller", "--config", str(file)],
        cwd=REPOSITORY,
        env=os.environ | {"NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "300000"},
    )
    wait_for(lambda: systemd.states.count("WATCHDOG=1") > 3, "the watchdog is fed")
    assert systemd.states[0] == "READY=1"
    controller.send_signal(signal.SIGHUP)
    wait_for(lambda: systemd.states.count("READY=1") == 2, "the reload")
    (reloading,) = (state for state in systemd.states if state.startswith("RELOADING=1\n"))
    assert "MONOTONIC_USEC=" in reloading
    controller.terminate()
    assert controller.wait(20) == 0
    wait_for(lambda: "STOPPING=1" in systemd.states, "the end")


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": "/none/such"},
        {"NOTIFY_SOCKET": "/none/such", "WATCHDOG_USEC": "x"},
        {"NOTIFY_SOCKET": "/none/such", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"},
    ],
)
def test_nobody_to_tell_is_no_reason_not_to_work(environment: dict[str, str]) -> None:
    notifier = Notifier(environment)
    notifier.ready()
    notifier.watch()
    notifier.stopping()
