"""Work that waits for a disk, one piece after the other, in another thread: regulation goes on."""

import logging
from collections.abc import Callable
from typing import TypeVar

import eventlet
from eventlet import tpool
from eventlet.queue import Queue

from controller.ops.failure import fatal

LOG = logging.getLogger("weir.app")

T = TypeVar("T")

# One is for this; Eventlet may look up names in another.
_THREADS = 2
_MOST_CLOSE_S = 10.0


def at_once(work: Callable[[], T], done: Callable[[T], object]) -> None:
    """Do it here and now, where nothing else has to go on."""
    done(work())


class Background:
    """Does what it is given in order. `fail` is called if something raises an exception."""

    def __init__(self, fail: Callable[[], object]) -> None:
        self.fail = fail
        tpool.set_num_threads(_THREADS)
        # Now: later its sockets might get the number of one that was closed, and is still read.
        tpool.setup()
        self._works: Queue = Queue()
        self._runs = eventlet.spawn(self._run)

    def do(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        """Have `work` done in the other thread, and `done` get what it returns in this one. `work`
        must neither log nor touch what green threads use."""
        self._works.put((work, done))

    @fatal
    def _run(self) -> None:
        while True:
            work, done = self._works.get()
            try:
                done(tpool.execute(work))
            finally:
                self._works.task_done()

    def close(self) -> None:
        """Wait until all is done; not for ever, so that a controller with a broken disk ends."""
        with eventlet.Timeout(_MOST_CLOSE_S, False):
            self._works.join()
        if self._works.unfinished_tasks:
            LOG.error("what was to be written is lost: a disk does not answer")
        self._runs.kill()
