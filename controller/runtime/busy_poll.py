"""Busy polling for a short time after a notice of a queue, because more notices may follow.

A sleeping processor takes tens of microseconds to wake up, more in a virtual machine: as long as
the answer to a notice. While a queue fills it crosses one threshold after the other, and several
queues fill at once.
"""

from collections.abc import Callable

from eventlet.hubs import get_hub

_AWAKE_NS = 500_000


class BusyPoll:
    """Makes Eventlet's loop poll for input instead of waiting for it."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._until_ns = 0
        self._awake = False

    def keep(self) -> None:
        """Poll for the full time from now on."""
        self._until_ns = self._clock_ns() + _AWAKE_NS
        if not self._awake:
            self._awake = True
            self._look_again()

    def _look_again(self) -> None:
        self._awake = self._clock_ns() < self._until_ns
        if self._awake:
            get_hub().schedule_call_global(0, self._look_again)
