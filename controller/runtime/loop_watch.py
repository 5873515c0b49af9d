"""How long the main loop works between two looks at its input. Meanwhile nobody is answered."""

import time
from collections.abc import Callable
from typing import Protocol


class Hub(Protocol):
    """Eventlet's hub, as far as it is looked at: `do_poll` waits for input."""

    do_poll: Callable[[float], object]


def watch_turns(
    hub: Hub,
    observe: Callable[[int], object],
    clock_ns: Callable[[], int] = time.thread_time_ns,
) -> Callable[[], int]:
    """Have each turn of the loop observed, in ns from when it has got input until it looks again.
    Returns what tells how long the present one has lasted.

    The clock is the thread's processor time: for what else the machine does the loop cannot help.
    """
    wait, begun_ns = hub.do_poll, clock_ns()

    def do_poll(seconds: float) -> object:
        nonlocal begun_ns
        observe(clock_ns() - begun_ns)
        found = wait(seconds)
        begun_ns = clock_ns()
        return found

    hub.do_poll = do_poll
    return lambda: clock_ns() - begun_ns
