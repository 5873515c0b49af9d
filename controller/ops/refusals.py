"""Logs refused connections: once for each host and reason, then a count.

Who is refused tries again, every few seconds for as long as nobody mends it. So the lines of the
same host and reason come at ever longer intervals. A host that is refused for ever new reasons does
not get a line for each.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

LOG = logging.getLogger("weir.refused")

_FIRST_QUIET_NS = 10 * 10**9
_LONGEST_QUIET_NS = 600 * 10**9
_HOSTS = 1024
_REASONS = 8
_MORE = "for too many different reasons, which are not told any more"


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
        self._hosts: dict[str, dict[str, _Said]] = {}

    def tell(self, address: tuple[str, int], reason: str) -> None:
        host, port = address[:2]
        now_ns = self._clock_ns()
        of_host = self._of_host(host, now_ns)
        if reason not in of_host and len(of_host) >= _REASONS:
            reason = _MORE
        said = of_host.get(reason, _Said(now_ns, 0, 0))
        if now_ns < said.until_ns:
            of_host[reason] = said._replace(unsaid=said.unsaid + 1)
            return
        quiet_ns = min(2 * said.quiet_ns, _LONGEST_QUIET_NS) if said.unsaid else _FIRST_QUIET_NS
        of_host[reason] = _Said(now_ns + quiet_ns, quiet_ns, 0)
        again = f" (and {said.unsaid} times since the last such line)" if said.unsaid else ""
        # Not as arguments: to the log, lines of the same text are alike, and it leaves some out.
        LOG.warning(f"refused the {self._who} at {host}:{port}: {reason}{again}")

    def _of_host(self, host: str, now_ns: int) -> dict[str, _Said]:
        """What was said of a host, without what is long ago."""
        if host not in self._hosts and len(self._hosts) >= _HOSTS:
            self._hosts.clear()
        of_host = self._hosts.setdefault(host, {})
        if len(of_host) >= _REASONS:
            for reason, said in list(of_host.items()):
                if now_ns >= said.until_ns + said.quiet_ns:
                    del of_host[reason]
        return of_host
