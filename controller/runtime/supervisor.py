"""Restarts a controller that has failed, for machines without a service manager.

The supervisor only waits for its child, so nothing from the network can bring it down.
"""

import logging
import signal
import subprocess
import threading
import time
from collections.abc import Sequence

LOG = logging.getLogger("weir.supervisor")

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_ENDING = (signal.SIGTERM, signal.SIGINT)


class Backoff:
    """How long to wait before a restart: longer each time, until a run has lasted."""

    def __init__(self, first_s: float = 1.0, longest_s: float = 30.0, lasting_s: float = 60.0):
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s
        self._lasting_s = lasting_s

    def after(self, ran_s: float) -> float:
        """The pause, in seconds, after a run of that length has failed."""
        if ran_s >= self._lasting_s:
            self._next_s = self._first_s
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return pause_s


class Supervisor:
    """`final` are the exit statuses after which there is no restart."""

    def __init__(
        self, command: Sequence[str], final: Sequence[int], backoff: Backoff | None = None
    ) -> None:
        self._command = list(command)
        self._final = frozenset(final)
        self._backoff = backoff or Backoff()
        self._child: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()

    def run(self) -> int:
        """Run until the controller ends for good or a signal comes; returns its exit status."""
        for number in _PASSED_ON:
            signal.signal(number, self._pass_on)
        while True:
            started_s = time.monotonic()
            self._child = subprocess.Popen(self._command)
            if self._ending.is_set():
                self._child.terminate()
            status = self._child.wait()
            if status in self._final or self._ending.is_set():
                return status if status >= 0 else 128 - status
            pause_s = self._backoff.after(time.monotonic() - started_s)
            LOG.error(
                "weir-controller %s after %.0f s; it is started again in %.0f s",
                *(_how(status), time.monotonic() - started_s, pause_s),
            )
            if self._ending.wait(pause_s):
                return status if status >= 0 else 128 - status

    def _pass_on(self, number: int, _frame: object) -> None:
        if number in _ENDING:
            self._ending.set()
        if self._child is not None:
            self._child.send_signal(number)


def _how(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"failed with status {status}"
