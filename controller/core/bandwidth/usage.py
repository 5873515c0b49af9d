"""How much of its capacity a link uses, estimated from its counters, with an error bound.

The estimate is the mean rate of the last `LONG_WINDOW_NS`. It is the mean of the last `WINDOW_NS`
instead if the two differ by more than chance explains, or if the last reading is far off.

The error bound is that of a forecast: of the mean of the next `HORIZON_NS`, if the traffic goes on
as it does. It is the error that the spread of the latest readings makes likely if they are
independent, times a factor. The factor follows the share of forecasts that missed, until that is
one in twenty, whatever the traffic is like (adaptive conformal inference: Gibbs and Candes, NeurIPS
2021). When the traffic changes, earlier readings are forgotten.

Counters are read as in PayLess (Chowdhury et al., NOMS 2014): more often while they change.
"""

from collections import deque
from math import sqrt
from typing import NamedTuple

WINDOW_NS = HORIZON_NS = 1_000_000_000
LONG_WINDOW_NS = 8_000_000_000
# Two means are different if they differ by so many standard errors.
_DIFFERENT = 2.0
_MISSES = 0.05
# The factor grows by this share at a miss, and shrinks so that one in twenty misses keeps it.
_STEP = 0.1
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 32.0
# 95 % of a normal distribution.
_NORMAL = 1.96
# Of the capacity: the error of a timer, a packet and a counter.
_LEAST_ERROR = 0.005
# The spread, of the capacity, until there are so many intervals to compute it.
_FIRST_SPREAD, _ENOUGH = 0.05, 4
# Traffic has changed if it is off by so many spreads, and by this part of the capacity, twice.
_OFF_SPREADS, _OFF = 5.0, 0.03

# Doubled from the shortest to the longest, each is a multiple of those before. So a switch that is
# read seldom is read when others are, too.
SHORTEST_PAUSE_NS, LONGEST_PAUSE_NS = 100_000_000, 1_600_000_000
# Of the capacity: a smaller change of the use does not count as one.
_NEWS = 0.02


class Use(NamedTuple):
    """The use of a link, in bit/s of whole frames, as last read at `at_ns`. If the traffic goes on
    as it does, the mean over the next HORIZON_NS is within `error_bps` with a probability of 95 %.
    """

    used_bps: float
    error_bps: float
    at_ns: int


# A time, and the counter's value then.
_Reading = tuple[int, int]


class _Forecast(NamedTuple):
    made_ns: int
    bytes_then: int
    used_bps: float
    error_bps: float


class RateEstimator:
    """Estimates the use of a link of `capacity_bps` from a counter of bytes. For steady traffic it
    is the mean of the last `window_ns`."""

    def __init__(self, capacity_bps: float, window_ns: int = LONG_WINDOW_NS) -> None:
        self.capacity_bps = capacity_bps
        self._window_ns = window_ns
        self.use: Use | None = None
        self.forecasts = self.misses = 0
        self._readings: deque[_Reading] = deque()
        # Over the intervals between them, the sum for their variance, without their mean.
        self._squares = 0.0
        # The same for the steps from each to the next, which a change of the mean hardly affects.
        self._steps = 0.0
        self._forecasts: deque[_Forecast] = deque()
        self._factor = 1.0
        # Of means over a second; over another time it is divided by the root of that.
        self._spread_bps = 0.0
        # After a reading that was off: the mean before it, and the distance that counts as off.
        self._doubted: tuple[float, float] | None = None

    def read(self, n_bytes: int, at_ns: int) -> bool:
        """Enter a reading. Returns whether the use has changed, or has not been read often enough
        since its last change."""
        before = self.use
        latest_bps = 0.0
        if self._readings:
            latest_bps = _rate_bps(self._readings[-1], (at_ns, n_bytes))
            self._notice_change(latest_bps, at_ns - self._readings[-1][0])
        self._readings.append((at_ns, n_bytes))
        if len(self._readings) < 2:
            return True
        self._squares += _square(self._readings[-2], self._readings[-1])
        if len(self._readings) > 2:
            self._steps += _step(self._readings[-3], self._readings[-2], self._readings[-1])
        since_ns = at_ns - self._window_ns
        while len(self._readings) > _ENOUGH + 1 and self._readings[1][0] <= since_ns:
            self._steps -= _step(self._readings[0], self._readings[1], self._readings[2])
            self._squares -= _square(self._readings.popleft(), self._readings[0])
        self._judge(at_ns)
        self.use = self._estimate()
        self._forecasts.append(_Forecast(at_ns, n_bytes, self.use.used_bps, self.use.error_bps))
        was_bps = before.used_bps if before else 0.0
        is_news = abs(latest_bps - was_bps) > _NEWS * self.capacity_bps
        return is_news or len(self._readings) <= _ENOUGH

    def _notice_change(self, latest_bps: float, length_ns: int) -> None:
        """If two readings in a row are off, begin anew with the second: the traffic changed during
        the first."""
        if self.use is None:
            return
        spread_bps = self._spread_bps / sqrt(length_ns / 1e9)
        off_bps = max(_OFF_SPREADS * spread_bps, _OFF * self.capacity_bps)
        mean_bps, off_bps = self._doubted or (self.use.used_bps, off_bps)
        is_off = abs(latest_bps - mean_bps) > off_bps
        if is_off and self._doubted:
            self._readings = deque((self._readings[-1],))
            self._squares = self._steps = 0.0
            self._forecasts.clear()
            self._factor = 1.0
            self._doubted = None
        else:
            self._doubted = (mean_bps, off_bps) if is_off else None

    def _short(self) -> _Reading:
        """The reading at which the last WINDOW_NS begin."""
        since_ns = self._readings[-1][0] - WINDOW_NS
        old = (reading for reading in reversed(self._readings) if reading[0] <= since_ns)
        return next(old, self._readings[0])

    def _estimate(self) -> Use:
        begin, last = self._readings[0], self._readings[-1]
        used_bps = _rate_bps(begin, last)
        degrees = len(self._readings) - 2
        if degrees + 1 < _ENOUGH:
            # That of readings a tenth of a second apart, as the first ones are.
            spread_bps = step_bps = _FIRST_SPREAD * self.capacity_bps * sqrt(0.1)
            quantile = _NORMAL
        else:
            # The variance of a mean is inverse to its interval, so each one is scaled to a second.
            spread_bps = 8 * sqrt(max(0.0, self._squares - _square(begin, last)) / degrees)
            step_bps = min(spread_bps, 8 * sqrt(max(0.0, self._steps) / degrees))
            quantile = _student(degrees)
        short = self._short()
        latest_bps = _rate_bps(short, last)
        different_bps = _DIFFERENT * step_bps / sqrt((last[0] - short[0]) / 1e9)
        if self._doubted or abs(latest_bps - used_bps) > different_bps:
            begin, used_bps = short, latest_bps
        self._spread_bps = spread_bps
        # Both the estimate and the forecast mean deviate from the long-run rate.
        uncertain = sqrt(1e9 / (last[0] - begin[0]) + 1e9 / HORIZON_NS)
        least_bps = _LEAST_ERROR * self.capacity_bps
        error_bps = max(self._factor * max(quantile * uncertain * spread_bps, least_bps), least_bps)
        return Use(used_bps, min(error_bps, self.capacity_bps), last[0])

    def _judge(self, now_ns: int) -> None:
        """Compare the forecasts whose horizon is over with what came."""
        while self._forecasts and now_ns - self._forecasts[0].made_ns >= HORIZON_NS:
            forecast = self._forecasts.popleft()
            came_bps = _rate_bps((forecast.made_ns, forecast.bytes_then), self._readings[-1])
            missed = abs(came_bps - forecast.used_bps) > forecast.error_bps
            self.forecasts += 1
            self.misses += missed
            self._factor *= 1 + _STEP if missed else (1 + _STEP) ** (-_MISSES / (1 - _MISSES))
            self._factor = min(max(self._factor, _LEAST_FACTOR), _MOST_FACTOR)


def _student(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's distribution, within 4 % from 3 degrees of freedom
    (Abramowitz and Stegun, 26.7.5)."""
    z = _NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / degrees + second / degrees**2


def _square(first: _Reading, last: _Reading) -> float:
    """The square of an interval's rate in bytes per second, times its length in seconds."""
    return (last[1] - first[1]) ** 2 * 1e9 / (last[0] - first[0])


def _step(first: _Reading, middle: _Reading, last: _Reading) -> float:
    """The square of the difference of two intervals' rates in bytes per second, over the sum of the
    inverses of their lengths in seconds."""
    lengths_s = (middle[0] - first[0]) / 1e9, (last[0] - middle[0]) / 1e9
    difference = (middle[1] - first[1]) / lengths_s[0] - (last[1] - middle[1]) / lengths_s[1]
    return difference**2 * lengths_s[0] * lengths_s[1] / sum(lengths_s)


def _rate_bps(first: _Reading, last: _Reading) -> float:
    return (last[1] - first[1]) * 8e9 / (last[0] - first[0])


class Pace:
    """When to read a switch's counters next: at multiples of a pause, so that switches are read at
    the same time, and what links lose is seen (`losses`). The latest request was sent at
    `asked_ns`."""

    def __init__(self) -> None:
        self._pause_ns = SHORTEST_PAUSE_NS
        self._due_ns = 0
        self._waits = False
        self.asked_ns: int | None = None

    def due(self, now_ns: int) -> bool:
        """Whether to read now. If so, the request counts as sent. A lost answer is not awaited."""
        asked_ns = self.asked_ns
        waits = self._waits and asked_ns is not None and now_ns - asked_ns < LONGEST_PAUSE_NS
        if now_ns < self._due_ns or waits:
            return False
        self.asked_ns, self._waits = now_ns, True
        return True

    def answered(self, changed: bool, now_ns: int) -> None:
        self._pause_ns = SHORTEST_PAUSE_NS if changed else min(2 * self._pause_ns, LONGEST_PAUSE_NS)
        asked_ns = now_ns if self.asked_ns is None else self.asked_ns
        self._due_ns = (asked_ns // self._pause_ns + 1) * self._pause_ns
        self._waits = False

    def hurry(self, now_ns: int) -> None:
        """The use may change soon: read often again."""
        self._pause_ns = SHORTEST_PAUSE_NS
        self._due_ns = min(self._due_ns, now_ns)
