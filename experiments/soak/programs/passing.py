"""How the time of a soak passes: what is done now and then."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_TICK_S = 0.5


@dataclass
class Task:
    """Something that is done every ``every_s``, for the first time ``due_s`` after the beginning.
    It is told how many seconds have passed. ``is_done`` says whether it has done all that it has
    to: a slow machine may take longer for that than the time that is to pass."""

    do: Callable[[float], object]
    every_s: float
    due_s: float = 0.0
    is_done: Callable[[], bool] = lambda: True


def pass_time(seconds: float, tasks: Sequence[Task]) -> None:
    """Let time pass until all tasks are done, and do what is due. What ``tasks`` raise ends it."""
    begun_s = time.monotonic()
    while (at_s := time.monotonic() - begun_s) < seconds or not all(
        task.is_done() for task in tasks
    ):
        for task in tasks:
            if at_s >= task.due_s:
                task.due_s += task.every_s
                task.do(at_s)
        time.sleep(_TICK_S)
