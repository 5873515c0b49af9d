"""Runs the HTTP API as a process of its own, and restarts it when it fails.

The process reads its settings from its standard input and ends when that is closed, so it never
outlives the controller.
"""

import logging
import subprocess
import sys
import time
from collections.abc import Callable

from eventlet.green.subprocess import Popen

from controller.config.schema import ApiSection, Log
from controller.runtime.supervisor import Backoff

LOG = logging.getLogger("weir.northbound")

_COMMAND = (sys.executable, "-m", "controller.api")
_LOOK_S = 0.2
_END_S = 3.0


class Gateway:
    """The API process. It asks the controller at the Unix socket `socket`."""

    def __init__(self, section: ApiSection, socket: str, log: Log) -> None:
        self._settings = section.settings(socket, log).model_dump_json().encode() + b"\n"
        self._child: Popen | None = None
        self._ended = False

    def run(self, sleep: Callable[[float], object]) -> None:
        """Keep it running until `stop`."""
        backoff = Backoff()
        while not self._ended:
            started_s = time.monotonic()
            self._start()
            assert self._child is not None
            while self._child.poll() is None and not self._ended:
                sleep(_LOOK_S)
            if self._ended:
                return
            pause_s = backoff.after(time.monotonic() - started_s)
            LOG.error(
                "the HTTP API has ended with status %d; it is started again in %.0f s",
                *(self._child.returncode, pause_s),
            )
            sleep(pause_s)

    def _start(self) -> None:
        self._child = Popen(_COMMAND, stdin=subprocess.PIPE)
        self._child.stdin.write(self._settings)
        self._child.stdin.flush()

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
