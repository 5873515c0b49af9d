"""How often each may ask: a token bucket for whoever is known by a key."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

_REMEMBERED = 10_000


class RateLimit:
    """`rate` a second, and twice that at once."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst = rate, max(1.0, 2 * rate)
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: Hashable) -> float:
        """0 if it may go on now, which then counts; else after how long it may."""
        now = self._clock()
        left, since = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._rate
