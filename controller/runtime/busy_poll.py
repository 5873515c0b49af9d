"""Staying awake for a while after a notice of a queue, because the next one may be near.

A processor that sleeps takes tens of microseconds to wake up, and more in a virtual machine, as
long as the answer to a notice takes. Thresholds are crossed one after the other while a queue
fills, and by many queues at once.
"""

from collections.abc import Callable

from eventlet.hubs import get_hub

_AWAKE_NS = 500_000


class BusyPoll:
    """Has Eventlet's loop look for input again and again, instead of waiting for it."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._until_ns = 0
        self._awake = False

    def keep(self) -> None:
        """Stay awake for as long again."""
        self._until_ns = self._clock_ns() + _AWAKE_NS
        if not self._awake:
            self._awake = True
            self._look_again()

    def _look_again(self) -> None:
        self._awake = self._clock_ns() < self._until_ns
        if self._awake:
            get_hub().schedule_call_global(0, self._look_again)
