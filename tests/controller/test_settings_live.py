"""Settings of a real controller, changed by its commands: in force, kept, and who it was."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.client import AskError, Client
from dummy_ovs import REPOSITORY, Controller, free_endpoint, wait_for

HOLD = "regulation.max_hold"

# A controller whose core ends like this when settings are changed.
BROKEN = """
import os, signal, sys
from controller.runtime import launcher
launcher.prepare_ryu()
from controller.core.engine import Engine
def reconfigure(*_):
    {ends}
Engine.reconfigure = reconfigure
sys.exit(launcher.main(sys.argv[1:]))
"""


class Running:
    """A controller with a state directory."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "controller.sock"
        self.client = Client(str(self.socket))
        self._listen = free_endpoint()
        self.controller = Controller(directory, self.config("regulation: {max_hold: 100 ms}"))
        self.controller.start()

    def config(self, more: str) -> str:
        return (
            f"openflow: {{listen: 'tcp:{self._listen}'}}\n"
            f"northbound: {{socket: {self.socket}}}\n{more}\n"
        )

    def command(self, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "controller", *arguments, "--socket", self.socket],
            cwd=REPOSITORY,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def restart(self) -> None:
        assert self.controller.stop() == 0
        self.controller.start()

    def setting(self, key: str = HOLD) -> dict[str, Any]:
        told = self.client.ask("settings")["settings"]
        found: dict[str, Any] = next(one for one in told if one["key"] == key)
        return found

    def audit(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.client.ask("audit")["entries"]
        return entries


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(state))
    monkeypatch.setenv("SUDO_USER", "ada")
    running = Running(tmp_path)
    yield running
    assert running.controller.stop() == 0
    assert "Traceback" not in running.controller.log


def test_a_change_over_restarts_and_reloads(running: Running) -> None:
    told = running.command("set", f"{HOLD}=20ms", "log.level=debug")
    assert f"{HOLD} is now 20 ms, and was 100 ms" in told
    assert "settings were changed by user ada" in running.controller.log
    assert running.setting()["value"] == "20 ms"
    running.restart()
    assert (running.setting()["value"], running.setting()["configured"]) == ("20 ms", "100 ms")
    # The log is the one that was asked for, from the beginning.
    assert "DEBUG" in running.controller.log
    more = "regulation: {max_hold: 50 ms, window_ttl: 5 s}\nfabric: {rtt: 1 ms}"
    running.controller.reconfigure(running.config(more))
    wait_for(lambda: running.audit()[0]["what"] == "reload", "the reload")
    assert (running.setting()["value"], running.setting()["configured"]) == ("20 ms", "50 ms")
    assert running.setting("regulation.window_ttl")["value"] == "5 s"
    assert f"{HOLD} is now 50 ms, and was 20 ms" in running.command("undo")
    running.client.ask("off", {})
    running.client.ask("on", {"by": "somebody else"})
    running.controller.reconfigure(running.config("regulation: {max_hold: 50 h}"))
    wait_for(lambda: len(running.audit()) == 6, "the reload that is refused")
    assert running.audit()[0]["detail"].startswith("refused")
    running.controller.reconfigure(running.config(more))
    wait_for(lambda: len(running.audit()) == 7, "the reload")
    uid = f"uid {os.getuid()}"
    assert [(one["what"], one["by"]) for one in running.audit()][::-1] == [
        ("settings", "user ada"),
        ("reload", "signal SIGHUP"),
        ("undo", "user ada"),
        ("off", uid),
        ("on", "somebody else"),
        ("reload", "signal SIGHUP"),
        ("reload", "signal SIGHUP"),
    ]
    assert running.audit()[3]["detail"] == "everything until it is turned on again"
    running.restart()
    assert len(running.audit()) == 7
    assert "ada: settings regulation.max_hold from 100 ms to 20 ms" in running.command("audit")


def test_broken_files_stop_nobody(running: Running, tmp_path: Path) -> None:
    running.command("set", f"{HOLD}=20ms")
    assert running.controller.stop() == 0
    for name in ("settings.json", "audit.jsonl"):
        (tmp_path / "state" / name).write_text('{"version": 1, "chang')
    running.controller.start()
    assert running.setting()["value"] == "100 ms"
    assert "what was changed at work is not known" in running.controller.log
    assert "1 lines of the audit log" in running.controller.log
    assert json.loads(running.command("set", "--json", f"{HOLD}=30ms"))["kept"]
    with pytest.raises(AskError, match="2000 ms is not within"):
        running.client.ask("change", {"changes": {HOLD: "2 s"}})
    assert running.setting()["value"] == "30 ms"


@pytest.mark.parametrize(
    ("ends", "told", "status", "why"),
    [
        (
            "raise ZeroDivisionError('no port')",
            "the settings could not be put in force (ZeroDivisionError: no port), and the",
            1,
            "ZeroDivisionError: no port",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "has ended, or is none; whether it has done this is not known",
            -signal.SIGKILL,
            "the controller ended before it was kept",
        ),
    ],
)
def test_what_the_core_did_not_take_over_is_not_in_force(
    running: Running, tmp_path: Path, ends: str, told: str, status: int, why: str
) -> None:
    running.command("set", f"{HOLD}=20ms")
    assert running.controller.stop() == 0
    (tmp_path / "broken").mkdir()
    program = "-c", BROKEN.format(ends=ends)
    broken = Controller(tmp_path / "broken", running.config(""), program)
    broken.start()
    with pytest.raises(AskError) as error:
        running.client.change("change", {"changes": {HOLD: "30 ms"}})
    assert told in str(error.value)
    assert broken.wait() == status
    running.controller.start()
    assert running.setting()["value"] == "20 ms"
    entry = running.audit()[0]
    assert (entry["what"], entry["changes"]) == ("settings", [])
    assert entry["detail"] == f"failed, not in force: {HOLD} from 20 ms to 30 ms; {why}"
