"""A cooperative scheduler: readers compute one after the other, in slices of a short time each.

Regulation runs in the main loop of the same thread. However many readers there are and however
much they ask for, the main loop has a round before every slice.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eventlet import getcurrent
from eventlet.semaphore import Semaphore

SLICE_NS = 500_000


class Scheduler:
    """`pause` lets the main loop go round once; the clock is any that goes steadily."""

    def __init__(self, clock_ns: Callable[[], int], pause: Callable[[], object]) -> None:
        self._clock_ns = clock_ns
        self._pause = pause
        self._free = Semaphore(1)
        self._owner: object | None = None
        self._began_ns = 0

    @contextmanager
    def slice(self) -> Iterator[None]:
        """Compute while no other reader does. Call `checkpoint` often; never wait for a peer."""
        try:
            self._begin()
            yield
        finally:
            self._end()

    def checkpoint(self) -> None:
        """End the slice if it was long enough, and go on in another one after all who wait."""
        if self._clock_ns() - self._began_ns >= SLICE_NS:
            self._end()
            self._begin()

    def _begin(self) -> None:
        self._free.acquire()
        self._owner = getcurrent()
        self._pause()
        self._began_ns = self._clock_ns()

    def _end(self) -> None:
        # A reader that is killed while it waits has no slice to end.
        if self._owner is getcurrent():
            self._owner = None
            self._free.release()
