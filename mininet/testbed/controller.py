"""weir-controller as a node of Mininet: generated configuration, logs, start, kill, restart."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mininet import node
from testbed.command import wait_until
from testbed.ovs import prefer

PORT = 6653
_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 10.0
_LISTEN = "0A"


class ControllerError(RuntimeError):
    """The controller does not start or does not stay; the text holds the end of its log."""


class QueueConfig(NamedTuple):
    """An egress buffer that differs from the others: switch and port by their OpenFlow numbers."""

    switch: int
    port: int
    egress_buffer_bytes: int


def configuration(
    *,
    scheme: str,
    rate_bps: int,
    limit_bytes: int,
    queues: Iterable[QueueConfig],
    events: Path,
    sections: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the controller's configuration for this network, as its configuration file has it.

    ``sections`` overrides single keys, as in ``{"regulation": {"window_ttl": "1 s"}}``.
    """
    config: dict[str, dict[str, Any]] = {
        "openflow": {"listen": f"tcp:127.0.0.1:{PORT}"},
        "fabric": {
            "link_capacity": rate_bps,
            "egress_buffer": limit_bytes,
            "queues": [
                {"switch": q.switch, "port": q.port, "egress_buffer": q.egress_buffer_bytes}
                for q in queues
            ],
        },
        "regulation": {"scheme": scheme},
        "log": {"events": str(events), "connections": True},
    }
    for section, keys in (sections or {}).items():
        config.setdefault(section, {}).update(keys)
    return config


class Controller(node.Controller):
    """Runs ``weir-controller`` with ``config`` in ``run_dir``; can be killed and started again.

    ``env`` is added to its environment.
    """

    def __init__(
        self, name: str, *, config: Mapping[str, Any], run_dir: Path, **params: Any
    ) -> None:
        super().__init__(name, ip="127.0.0.1", port=PORT, **params)
        self.config_file = run_dir / "controller.yaml"
        self.log = run_dir / "controller.log"
        self.env: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        run_dir.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(yaml.safe_dump(dict(config), sort_keys=False))

    def checkListening(self) -> None:  # noqa: N802  (Mininet's name)
        """The port is free: nothing else lives in this network namespace."""

    def launch(self) -> None:
        """Start it, and do not wait."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "controller",
                    "--config",
                    str(self.config_file),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | self.env,
                start_new_session=True,
            )
        # It has a machine of its own: here hosts and switches would keep it waiting.
        prefer(self.process.pid)

    def start(self) -> None:
        """Start it unless it is launched already, and wait until it listens. Raises ControllerError
        with the log's end."""
        if self.process is None:
            self.launch()
        process = self.process
        assert process is not None
        try:
            wait_until(
                lambda: process.poll() is not None or listening(PORT),
                timeout_s=_START_TIMEOUT_S,
                what="weir-controller listens",
            )
        except TimeoutError as late:
            raise ControllerError(f"{late}\n{self._log_end()}") from late
        self.require_running()

    def terminate(self) -> None:
        """Ask it to end, and do not wait."""
        if self.process is not None:
            self.process.terminate()

    def stop(self, *_args: Any, **_kwargs: Any) -> None:
        """Ask it to end and wait; kill it if it does not."""
        self.terminate()
        if self.process is not None:
            try:
                self.process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None

    def kill(self) -> None:
        """End it at once with SIGKILL, as a crash would."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        """Start it again after ``kill``, with the same configuration."""
        self.kill()
        wait_until(
            lambda: not listening(PORT), timeout_s=_STOP_TIMEOUT_S, what="the port is free again"
        )
        self.start()

    def require_running(self) -> None:
        """Raise ControllerError if it has ended by itself."""
        if self.process is None or self.process.poll() is not None:
            status = None if self.process is None else self.process.returncode
            raise ControllerError(f"weir-controller ended (status {status})\n{self._log_end()}")

    def errors(self) -> list[str]:
        """Return the lines of its log that report an error."""
        return errors_in(self.log.read_text(errors="replace"))

    def _log_end(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def errors_in(log: str) -> list[str]:
    """Return the lines of a controller's log whose level is ERROR or worse."""
    return [line for line in log.splitlines() if {"ERROR", "CRITICAL"} & set(line.split()[2:3])]


def listening(port: int, table: str | None = None) -> bool:
    """Whether a TCP socket of this namespace listens on ``port``; found without connecting."""
    text = Path("/proc/net/tcp").read_text() if table is None else table
    rows = (line.split() for line in text.splitlines()[1:])
    return any(row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port for row in rows)
