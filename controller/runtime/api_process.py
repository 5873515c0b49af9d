"""Runs the process that serves HTTP, and restarts it when it fails.

The process reads its settings from its standard input, and later how to log if that changes. It
ends when that is closed, so it never outlives the controller. The sockets that it inherits stay
open here, for the next process.
"""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from eventlet.green.subprocess import Popen

from controller.api.settings import LogSettings, Settings
from controller.config.sections.log import Log
from controller.config.sections.northbound import Northbound
from controller.northbound.server import Hatch, ListenError
from controller.rpc import handover
from controller.runtime.supervisor import Backoff

LOG = logging.getLogger("weir.northbound")

_COMMAND = (sys.executable, "-m", "controller.api")
_WAITING = 512
_LOOK_S = 0.2
_END_S = 3.0


class ApiProcess:
    """The process that serves the API and the metrics, or only one of them."""

    def __init__(self, section: Northbound, log: Log) -> None:
        """Raises ListenError."""
        self._metrics = None if section.metrics is None else _listen(*section.metrics)
        self._here, self._there = handover.pair()
        self._settings = Settings(
            hatch=self._there.fileno(),
            metrics=None if self._metrics is None else self._metrics.fileno(),
            api=None if section.api is None else section.api.settings(),
            log=_log_settings(log),
        )
        self._told = self._settings.log
        self._child: Popen | None = None
        self._ended = False

    @property
    def hatch(self) -> Hatch:
        """Where its connections come from."""
        return Hatch(self._here)

    def log_as(self, log: Log) -> None:
        """Have the process log so, at once and whenever it is started again."""
        self._settings = self._settings.model_copy(update={"log": _log_settings(log)})

    def run(self, sleep: Callable[[float], object]) -> None:
        """Keep it running until `stop`."""
        backoff = Backoff()
        while not self._ended:
            started_s = time.monotonic()
            how = self._run_once(sleep)
            if self._ended:
                return
            pause_s = backoff.after(time.monotonic() - started_s)
            LOG.error(
                "the process of the API and the metrics %s; it is started again in %.0f s",
                *(how, pause_s),
            )
            sleep(pause_s)

    def _run_once(self, sleep: Callable[[float], object]) -> str:
        """Start it and wait for its end; returns how it ended."""
        try:
            child = self._start()
        except OSError as error:
            # Such as no memory for another process: there may be some later.
            return f"could not be started: {error.strerror or error}"
        while child.poll() is None and not self._ended:
            self._tell(child)
            sleep(_LOOK_S)
        return f"has ended with status {child.returncode}"

    def _start(self) -> Popen:
        """Raises OSError."""
        kept = [self._there, *([] if self._metrics is None else [self._metrics])]
        self._child = Popen(
            _COMMAND, stdin=subprocess.PIPE, pass_fds=[one.fileno() for one in kept]
        )
        self._told = self._settings.log
        _write(self._child, self._settings)
        return self._child

    def _tell(self, child: Popen) -> None:
        """Hand on how to log, if that has changed."""
        if self._told != self._settings.log:
            self._told = self._settings.log
            # Without the process, the next one gets it when it is started.
            with contextlib.suppress(BrokenPipeError):
                _write(child, self._told)

    def stop(self) -> None:
        """End it."""
        self._ended = True
        if self._child is not None and self._child.poll() is None:
            self._child.stdin.close()
            try:
                self._child.wait(timeout=_END_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()

    def close(self) -> None:
        """Close the sockets that it inherits."""
        for one in (self._metrics, self._here, self._there):
            if one is not None:
                one.close()


def _log_settings(log: Log) -> LogSettings:
    return LogSettings(level=log.levels.get("northbound", log.level), as_json=log.format == "json")


def _write(child: Popen, line: Settings | LogSettings) -> None:
    """Raises OSError."""
    child.stdin.write(line.model_dump_json().encode() + b"\n")
    child.stdin.flush()


def _listen(host: str, port: int) -> socket.socket:
    """The listener for Prometheus. The controller opens it, and does not start if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_WAITING)
    except OSError as error:
        raise ListenError(
            f"cannot serve metrics on {host}:{port}: {os.strerror(error.errno or 0)}; "
            "set northbound.metrics to another HOST:PORT, or to off"
        ) from error
    LOG.info("metrics at http://%s:%d/metrics", host, port)
    return listening
