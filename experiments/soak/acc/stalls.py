"""Whether any connection stands still: the kernel's own view of all of them, again and again."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

STALL_S = 3.0
"""A connection with data on its way of which nothing is acknowledged for longer has stalled."""

# "connected" without those that wait for their numbers to be forgotten.
SS = (
    "ss", "-tinHO", "state", "connected", "exclude", "time-wait", "exclude", "syn-recv",
)  # fmt: skip
_ENDS = re.compile(r"^(\S+)\s+\d+\s+\d+\s+(\S+)\s+(\S+)")
_ACKED = re.compile(r" bytes_acked:(\d+)")
_UNACKED = re.compile(r" unacked:(\d+)")


@dataclass(frozen=True)
class Connection:
    """One that has something on its way: so many bytes of what it has sent are acknowledged, and
    what else the kernel says."""

    state: str
    ends: tuple[str, str]
    acked_bytes: int
    rest: str


def waiting(shown: str) -> Iterator[Connection]:
    """Yield the connections in what ``SS`` shows that wait for an acknowledgement."""
    for line in shown.splitlines():
        found, acked = _ENDS.match(line), _ACKED.search(line)
        if found and _UNACKED.search(line):
            state, local, remote = found.groups()
            rest = " ".join(line[found.end() :].split())
            yield Connection(state, (local, remote), int(acked[1]) if acked else 0, rest)


class Stalls:
    """Watches the connections of a host. ``longest_s`` is for how long one has stood still; what is
    longer than ``STALL_S`` goes to ``complain``."""

    def __init__(self, host: str, complain: Callable[[str], None]) -> None:
        self.longest_s = 0.0
        self.seen = 0
        self._host, self._complain = host, complain
        self._since: dict[tuple[str, str], tuple[int, float]] = {}
        self._told: set[tuple[str, str]] = set()

    def see(self, now_s: float, shown: str) -> None:
        """Take what ``SS`` shows at this moment."""
        before, self._since = self._since, {}
        for one in waiting(shown):
            self.seen += 1
            acked_bytes, since_s = before.get(one.ends, (-1, now_s))
            if acked_bytes != one.acked_bytes:
                since_s = now_s
            self._since[one.ends] = (one.acked_bytes, since_s)
            still_s = now_s - since_s
            self.longest_s = max(self.longest_s, still_s)
            if still_s > STALL_S and one.ends not in self._told:
                self._told.add(one.ends)
                self._complain(
                    f"{self._host}: {' to '.join(one.ends)} ({one.state}) has stood still for "
                    f"{still_s:.1f} s: {one.rest}"
                )
        self._told &= self._since.keys()
