"""How much of its capacity a link uses, from its counters, and how far that can be trusted.

The estimate is the mean of the last `WINDOW_NS`. Its error bound is that of a forecast, of the mean
of the next `HORIZON_NS` if the traffic goes on as it does: what the spread of the latest readings
makes likely if they are independent, times a factor that follows the share of forecasts that missed
until that is one in twenty, whatever the traffic is like (adaptive conformal inference: Gibbs and
Candes, NeurIPS 2021). Where the traffic has become another, what was before does not count.

Counters are asked for as PayLess does (Chowdhury et al., NOMS 2014): more often while they change,
seldom while they do not.
"""

from collections import deque
from itertools import islice, pairwise
from math import sqrt
from statistics import pstdev
from typing import NamedTuple

WINDOW_NS = HORIZON_NS = 1_000_000_000
# What is kept: a window, the forecast's horizon after it, and a pause between two readings.
_KEPT_NS = WINDOW_NS + HORIZON_NS + 4_000_000_000
_MISSES = 0.05
# The factor grows by this share at a miss, and shrinks so that one in twenty misses keeps it.
_STEP = 0.1
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 32.0
# 95 % of a normal distribution, and the estimate is as uncertain as what it forecasts.
_SPREADS = 1.96 * sqrt(2)
# Of the capacity: what a timer, a packet and a counter are off by.
_LEAST_ERROR = 0.005
# And before there are so many intervals to tell the spread of.
_FIRST_SPREAD, _ENOUGH = 0.05, 4
# Traffic is another if it is off by that many spreads, and by a part of the capacity, twice.
_OFF_SPREADS, _OFF = 5.0, 0.03

SHORTEST_PAUSE_NS, LONGEST_PAUSE_NS = 100_000_000, 2_000_000_000
# Of the capacity: by this much the use changes if it changes.
_NEWS = 0.02


class Use(NamedTuple):
    """Of a link, in bit/s of whole frames. If the traffic goes on as it does, the mean over the
    next HORIZON_NS is within `error_bps` with a probability of 95 %. It was read last at
    `at_ns`."""

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
        self.use: Use | None = None
        self.forecasts = self.misses = 0
        self._readings: deque[tuple[int, int]] = deque()
        self._forecasts: deque[_Forecast] = deque()
        self._factor = 1.0
        # Of the rates of the latest intervals.
        self._spread_bps = 0.0
        # The mean and what is off it, before a reading that was.
        self._doubted: tuple[float, float] | None = None

    def read(self, n_bytes: int, at_ns: int) -> bool:
        """The counter's value then, later than before; returns whether the use has changed."""
        before = self.use
        latest_bps = 0.0
        if self._readings:
            latest_bps = _rate_bps(self._readings[-1], (at_ns, n_bytes))
            self._notice_change(latest_bps)
        self._readings.append((at_ns, n_bytes))
        while len(self._readings) > 2 and self._readings[1][0] < at_ns - _KEPT_NS:
            self._readings.popleft()
        if len(self._readings) < 2:
            return True
        self._judge(at_ns)
        self.use = self._estimate()
        self._forecasts.append(_Forecast(at_ns, n_bytes, self.use.used_bps, self.use.error_bps))
        was_bps = before.used_bps if before else 0.0
        return abs(latest_bps - was_bps) > _NEWS * self.capacity_bps

    def _notice_change(self, latest_bps: float) -> None:
        """Twice in a row as it never was: begin anew with these two."""
        if self.use is None:
            return
        off_bps = max(_OFF_SPREADS * self._spread_bps, _OFF * self.capacity_bps)
        mean_bps, off_bps = self._doubted or (self.use.used_bps, off_bps)
        is_off = abs(latest_bps - mean_bps) > off_bps
        if is_off and self._doubted:
            self._readings = deque((self._readings[-2], self._readings[-1]))
            self._forecasts.clear()
            self._doubted = None
        else:
            self._doubted = (mean_bps, off_bps) if is_off else None

    def _window(self) -> list[tuple[int, int]]:
        """From the last reading before the window, or the first there is, to the last."""
        since_ns = self._readings[-1][0] - WINDOW_NS
        begin = 0
        for number, (at_ns, _) in enumerate(self._readings):
            if at_ns > since_ns:
                break
            begin = number
        begin = min(begin, len(self._readings) - 2)
        return list(islice(self._readings, begin, None))

    def _estimate(self) -> Use:
        window = self._window()
        used_bps = _rate_bps(window[0], window[-1])
        rates = [_rate_bps(a, b) for a, b in pairwise(window)]
        few = len(rates) < _ENOUGH
        self._spread_bps = _FIRST_SPREAD * self.capacity_bps if few else pstdev(rates)
        # Of a mean over a horizon of such intervals.
        length_ns = (window[-1][0] - window[0][0]) / len(rates)
        spread_bps = self._spread_bps * sqrt(min(1.0, length_ns / HORIZON_NS))
        least_bps = _LEAST_ERROR * self.capacity_bps
        error_bps = max(self._factor * max(_SPREADS * spread_bps, least_bps), least_bps)
        return Use(used_bps, min(error_bps, self.capacity_bps), window[-1][0])

    def _judge(self, now_ns: int) -> None:
        """Hold the forecasts whose horizon is over against what came."""
        while self._forecasts and now_ns - self._forecasts[0].made_ns >= HORIZON_NS:
            forecast = self._forecasts.popleft()
            came_bps = _rate_bps((forecast.made_ns, forecast.bytes_then), self._readings[-1])
            missed = abs(came_bps - forecast.used_bps) > forecast.error_bps
            self.forecasts += 1
            self.misses += missed
            self._factor *= 1 + _STEP if missed else (1 + _STEP) ** (-_MISSES / (1 - _MISSES))
            self._factor = min(max(self._factor, _LEAST_FACTOR), _MOST_FACTOR)


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
