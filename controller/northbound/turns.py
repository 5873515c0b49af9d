"""Who computes when: readers one after the other, a short time each, the main loop in between.

Regulation runs in the main loop of the same thread. However many readers there are and however
much they ask for, between two of its rounds there is one turn of one of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eventlet.semaphore import Semaphore

TURN_NS = 500_000


class Turns:
    """`pause` lets the main loop go round once; the clock is any that goes steadily."""

    def __init__(self, clock_ns: Callable[[], int], pause: Callable[[], object]) -> None:
        self._clock_ns = clock_ns
        self._pause = pause
        self._one_at_a_time = Semaphore(1)
        self._began_ns = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have the turn, for as long as it takes, but call `breathe` meanwhile. Never wait for a
        peer in here."""
        self._begin()
        try:
            yield
        finally:
            self._one_at_a_time.release()

    def breathe(self) -> None:
        """If the turn has been long enough, let the others have theirs."""
        if self._clock_ns() - self._began_ns >= TURN_NS:
            self._one_at_a_time.release()
            try:
                self._pause()
            finally:
                self._begin()

    def _begin(self) -> None:
        self._one_at_a_time.acquire()
        self._began_ns = self._clock_ns()
