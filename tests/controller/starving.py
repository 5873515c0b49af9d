"""A process that hardly gets a processor."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def starved(tell: Callable[[int], object], stopped_s: float, running_s: float) -> Iterator[None]:
    """It is stopped for so long, again and again, and runs for so long in between. `tell` sends it
    a signal."""
    ended = threading.Event()

    def starve() -> None:
        while not ended.wait(running_s):
            tell(signal.SIGSTOP)
            ended.wait(stopped_s)
            tell(signal.SIGCONT)

    thread = threading.Thread(target=starve)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
