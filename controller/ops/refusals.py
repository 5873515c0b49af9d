"""Logs refused connections: once for each host and reason, then a count.

Who is refused tries again, every few seconds for as long as nobody mends it. So the lines of the
same host and reason come at ever longer intervals.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

LOG = logging.getLogger("weir.refused")

_FIRST_QUIET_NS = 10 * 10**9
_LONGEST_QUIET_NS = 600 * 10**9
_REMEMBERED = 1024


class _Said(NamedTuple):
    """There is no other line until then; so often there would have been one."""

    until_ns: int
    quiet_ns: int
    unsaid: int


class Refusals:
    """`who` names the kind of peer that is refused, for the log."""

    def __init__(self, who: str, clock_ns: Callable[[], int]) -> None:
        self._who = who
        self._clock_ns = clock_ns
        self._said: dict[tuple[str, str], _Said] = {}

    def tell(self, address: tuple[str, int], reason: str) -> None:
        key, now_ns = (address[0], reason), self._clock_ns()
        said = self._said.get(key, _Said(now_ns, 0, 0))
        if now_ns < said.until_ns:
            self._said[key] = said._replace(unsaid=said.unsaid + 1)
            return
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        quiet_ns = min(2 * said.quiet_ns, _LONGEST_QUIET_NS) if said.unsaid else _FIRST_QUIET_NS
        self._said[key] = _Said(now_ns + quiet_ns, quiet_ns, 0)
        again = f" (and {said.unsaid} times since the last such line)" if said.unsaid else ""
        LOG.warning("refused the %s at %s:%d: %s%s", self._who, *address[:2], reason, again)
