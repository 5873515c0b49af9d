"""How much of its capacity a link uses, from its counters, and how far that can be trusted.

The estimate is the mean of the last `WINDOW_NS`. Its error bound is that of a forecast: how far the
mean of the next `HORIZON_NS` has lately been from the estimate before it. The bound follows the
share of forecasts that missed it until that is one in twenty, whatever the traffic is like
(adaptive conformal inference: Gibbs and Candes, NeurIPS 2021).

Counters are asked for as PayLess does (Chowdhury et al., NOMS 2014): more often while they change,
seldom while they do not.
"""

from collections import deque
from typing import NamedTuple

WINDOW_NS = HORIZON_NS = 1_000_000_000
# What is kept: a window, the forecast's horizon after it, and a pause between two readings.
_KEPT_NS = WINDOW_NS + HORIZON_NS + 4_000_000_000
_MISSES = 0.05
# The bound grows by this share at a miss, and shrinks so that one in twenty misses keeps it.
_STEP = 0.25
# Of the capacity: what a timer, a packet and a counter are off by.
_LEAST_ERROR = 0.005
_FIRST_ERROR = 0.05
# More than the whole is not told, but kept: for how long no miss is to come after many at once.
_MOST_ERROR = 16.0

SHORTEST_PAUSE_NS, LONGEST_PAUSE_NS = 100_000_000, 2_000_000_000
# Of the capacity: by this much the use changes if it changes.
_NEWS = 0.02


class Use(NamedTuple):
    """Of a link, in bit/s of whole frames. With a probability of 95 % its mean over the next
    HORIZON_NS will be within `error_bps`. It was read last at `at_ns`."""

    used_bps: float
    error_bps: float
    at_ns: int


class _Forecast(NamedTuple):
    made_ns: int
    bytes_then: int
    used_bps: float
    error_bps: float


class Meter:
    """The use of one link of `capacity_bps`, by a counter of bytes."""

    def __init__(self, capacity_bps: float) -> None:
        self.capacity_bps = capacity_bps
        self._readings: deque[tuple[int, int]] = deque()
        self._forecasts: deque[_Forecast] = deque()
        self._error = _FIRST_ERROR
        self.forecasts = self.misses = 0

    def read(self, n_bytes: int, at_ns: int) -> bool:
        """The counter's value then, later than before; returns whether the use has changed."""
        readings = self._readings
        before = self.use
        readings.append((at_ns, n_bytes))
        while len(readings) > 2 and readings[1][0] < at_ns - _KEPT_NS:
            readings.popleft()
        self._judge(at_ns)
        use = self.use
        if use is None:
            return True
        self._forecasts.append(_Forecast(at_ns, n_bytes, use.used_bps, use.error_bps))
        latest_bps = _rate_bps(readings[-2], readings[-1])
        was_bps = before.used_bps if before else 0.0
        return abs(latest_bps - was_bps) > _NEWS * self.capacity_bps

    @property
    def use(self) -> Use | None:
        """None before two readings."""
        if len(self._readings) < 2:
            return None
        last = self._readings[-1]
        since_ns = last[0] - WINDOW_NS
        # The window begins at the last reading before it, or at the first there is.
        first = self._readings[0]
        for reading in self._readings:
            if reading[0] > since_ns:
                break
            first = reading
        if first is last:
            first = self._readings[-2]
        error_bps = min(self._error, 1.0) * self.capacity_bps
        return Use(_rate_bps(first, last), error_bps, last[0])

    def _judge(self, now_ns: int) -> None:
        """Hold the forecasts whose horizon is over against what came."""
        while self._forecasts and now_ns - self._forecasts[0].made_ns >= HORIZON_NS:
            forecast = self._forecasts.popleft()
            came_bps = _rate_bps((forecast.made_ns, forecast.bytes_then), self._readings[-1])
            missed = abs(came_bps - forecast.used_bps) > forecast.error_bps
            self.forecasts += 1
            self.misses += missed
            self._error *= 1 + _STEP if missed else (1 + _STEP) ** (-_MISSES / (1 - _MISSES))
            self._error = min(max(self._error, _LEAST_ERROR), _MOST_ERROR)


def _rate_bps(first: tuple[int, int], last: tuple[int, int]) -> float:
    return (last[1] - first[1]) * 8e9 / (last[0] - first[0])


class Pace:
    """When to read a switch's counters again."""

    def __init__(self) -> None:
        self._pause_ns = SHORTEST_PAUSE_NS
        self._due_ns = 0
        self._asked_ns: int | None = None

    def due(self, now_ns: int) -> bool:
        """Whether to ask now; if so, it is taken for asked. Lost answers are not waited for."""
        waits = self._asked_ns is not None and now_ns - self._asked_ns < LONGEST_PAUSE_NS
        if now_ns < self._due_ns or waits:
            return False
        self._asked_ns = now_ns
        return True

    def answered(self, changed: bool, now_ns: int) -> None:
        self._pause_ns = SHORTEST_PAUSE_NS if changed else min(2 * self._pause_ns, LONGEST_PAUSE_NS)
        asked_ns = now_ns if self._asked_ns is None else self._asked_ns
        self._due_ns = asked_ns + self._pause_ns
        self._asked_ns = None

    def hurry(self, now_ns: int) -> None:
        """Something is about to change."""
        self._pause_ns = SHORTEST_PAUSE_NS
        self._due_ns = min(self._due_ns, now_ns)
