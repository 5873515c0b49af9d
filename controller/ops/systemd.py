"""Notifies systemd of the state of the service (sd_notify(3), type `notify`).

Nothing is sent unless systemd has set `NOTIFY_SOCKET`, and `WATCHDOG_USEC` for the watchdog.
"""

import contextlib
import os
import time
from collections.abc import Mapping

import eventlet
from eventlet.green import socket

_BEATS_PER_TIMEOUT = 3


class Notifier:
    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is of the abstract namespace (unix(7)).
        self._address = "\0" + name[1:] if name.startswith("@") else name
        timeout_us = environment.get("WATCHDOG_USEC", "")
        # It may be meant for the process that has started this one.
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._timeout_s = int(timeout_us) / 1e6 if timeout_us.isdecimal() and mine else 0.0

    def ready(self) -> None:
        self._send("READY=1")

    def reloading(self) -> None:
        """The configuration is being reloaded; `ready` must follow."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def watch(self) -> None:
        """Feed the watchdog from the main loop, if systemd asks for it."""
        while self._address and self._timeout_s:
            self._send("WATCHDOG=1")
            eventlet.sleep(self._timeout_s / _BEATS_PER_TIMEOUT)

    def _send(self, state: str) -> None:
        if self._address:
            # The controller works without systemd.
            with (
                contextlib.suppress(OSError),
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
            ):
                sock.sendto(state.encode(), self._address)
