"""Logs refused connections: once for each host and reason, then a count."""

import logging
from collections.abc import Callable

LOG = logging.getLogger("weir.refused")

_QUIET_NS = 10 * 10**9
_REMEMBERED = 1024


class Refusals:
    """`who` names the kind of peer that is refused, for the log."""

    def __init__(self, who: str, clock_ns: Callable[[], int]) -> None:
        self._who = who
        self._clock_ns = clock_ns
        self._said: dict[tuple[str, str], tuple[int, int]] = {}

    def tell(self, address: tuple[str, int], reason: str) -> None:
        key, now_ns = (address[0], reason), self._clock_ns()
        until_ns, unsaid = self._said.get(key, (now_ns, 0))
        if now_ns < until_ns:
            self._said[key] = until_ns, unsaid + 1
            return
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[key] = now_ns + _QUIET_NS, 0
        again = f" (and {unsaid} times since the last such line)" if unsaid else ""
        LOG.warning("refused the %s at %s:%d: %s%s", self._who, *address[:2], reason, again)
