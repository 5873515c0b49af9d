"""Token buckets: how many packets may pass in a time."""

_TOKEN = 10**9


class TokenBucket:
    """`per_s` tokens a second, at most those of one second. Only `pay` may overdraw it.

    All numbers are whole, in billionths of a token, so that nothing is lost by rounding.
    """

    __slots__ = ("_at_ns", "_level", "_per_s")

    def __init__(self, per_s: int, now_ns: int = 0) -> None:
        self._per_s = per_s
        self._level = per_s * _TOKEN
        self._at_ns = now_ns

    def has_any(self, now_ns: int) -> bool:
        """Whether anything is left, be it less than a token."""
        self._fill(now_ns)
        return self._level > 0

    def take(self, now_ns: int) -> bool:
        """Take a token; returns whether there was one."""
        self._fill(now_ns)
        if self._level < _TOKEN:
            return False
        self._level -= _TOKEN
        return True

    def pay(self, tokens: int) -> None:
        """Take so many, whether they are there or have to be earned yet."""
        self._level -= tokens * _TOKEN

    def is_full(self, now_ns: int) -> bool:
        self._fill(now_ns)
        return self._level == self._per_s * _TOKEN

    def _fill(self, now_ns: int) -> None:
        if now_ns > self._at_ns:
            earned = (now_ns - self._at_ns) * self._per_s
            self._level = min(self._per_s * _TOKEN, self._level + earned)
            self._at_ns = now_ns
