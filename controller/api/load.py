"""How busy the controller is, from what it tells of itself once a second. Pure."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

_MINUTE_S = 60.0


class LoopLate(BaseModel):
    """How late the main loop gave timers their turn over the last minute, in seconds, as bounds
    of a histogram; null: not known, or later than its last bound."""

    p99: float | None = None
    worst: float | None = None


class LoadTold(NamedTuple):
    """`load` is the share of a core."""

    load: float | None
    loop_late_s: LoopLate


NO_LOAD = LoadTold(None, LoopLate())


class _Told(NamedTuple):
    at_s: float
    uptime_s: float
    cpu_s: float
    bounds_s: Sequence[float]
    cumulative: Sequence[int]


class Load:
    """Takes one answer after another. Times are of a clock that does not jump."""

    def __init__(self) -> None:
        self._minute: deque[_Told] = deque()

    def take(self, row: Mapping[str, Any], now_s: float) -> LoadTold:
        """An answer to the method `controller`."""
        late = row["delays"]["main_loop"]
        told = _Told(now_s, row["uptime_s"], row["cpu_s"], late["bounds_s"], late["cumulative"])
        if self._minute and told.uptime_s < self._minute[-1].uptime_s:
            self._minute.clear()  # The controller was started again.
        self._minute.append(told)
        while self._minute[0].at_s < now_s - _MINUTE_S:
            self._minute.popleft()
        if len(self._minute) < 2:
            return NO_LOAD
        before, first = self._minute[-2], self._minute[0]
        seconds = told.uptime_s - before.uptime_s
        load = (told.cpu_s - before.cpu_s) / seconds if seconds > 0 else None
        counts = [b - a for a, b in zip(first.cumulative, told.cumulative, strict=True)]
        return LoadTold(load, _late(told.bounds_s, counts))


def _late(bounds_s: Sequence[float], cumulative: Sequence[int]) -> LoopLate:
    """From how many times were within each bound, and last how many there were."""
    total = cumulative[-1]
    if not total:
        return LoopLate()
    # Timers later than the last bound have none.
    bounds: list[float | None] = [*bounds_s, None]
    return LoopLate(
        p99=next(b for b, n in zip(bounds, cumulative, strict=True) if n >= 0.99 * total),
        worst=next(b for b, n in zip(bounds, cumulative, strict=True) if n >= total),
    )
