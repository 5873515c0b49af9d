"""Limits the requests of each client by a token bucket."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

_REMEMBERED = 10_000


class RateLimit:
    """`rate` requests a second for each key, and twice as many at once."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst = rate, max(1.0, 2 * rate)
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: Hashable) -> float:
        """0 if a request may go on now, which is then counted; else how long to wait."""
        now = self._clock()
        left, since = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._rate
