"""How the time of a soak passes: what is done now and then."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_TICK_S = 0.5


@dataclass
class Task:
    """Something that is done every ``every_s``, for the first time ``due_s`` after the beginning.
    It is told how many seconds have passed."""

    do: Callable[[float], object]
    every_s: float
    due_s: float = 0.0


def pass_time(seconds: float, tasks: Sequence[Task]) -> None:
    """Let time pass, and do what is due. What ``tasks`` raise ends it."""
    begun_s = time.monotonic()
    while (at_s := time.monotonic() - begun_s) < seconds:
        for task in tasks:
            if at_s >= task.due_s:
                task.due_s += task.every_s
                task.do(at_s)
        time.sleep(_TICK_S)
