"""How well a process keeps up with what it is to do at set times."""

import time
from array import array
from pathlib import Path

import numpy as np

from experiments.statistics import percentile

LATE_NS = 5_000_000
"""What begins later than this was late. A 100 Mb/s link carries 60 kB in that time."""


class Keeping:
    """How well a process keeps up.

    ``late_ns`` has, for each moment at which something was due, how much later the first of it
    began. ``turn_ns`` has the times from one look at the sockets to the next, less those in which
    nothing had to be done: what came in the rest waited to be read.
    """

    def __init__(self) -> None:
        self.late_ns = array("q")
        self.turn_ns = array("q")
        self._since_ns = time.monotonic_ns()
        self._scheduled = _scheduled()

    def as_record(self) -> dict[str, int | float]:
        """Return milliseconds, and how much of the time it ran and waited for a processor."""
        passed_ns = time.monotonic_ns() - self._since_ns
        ran, waited = (
            (now - then) / passed_ns
            for now, then in zip(_scheduled(), self._scheduled, strict=True)
        )
        late, turn = (np.array(values, float) / 1e6 for values in (self.late_ns, self.turn_ns))
        return {
            "moments": len(late),
            "late_moments": int((late > LATE_NS / 1e6).sum()),
            "late_p50_ms": percentile(late, 50),
            "late_p99_ms": percentile(late, 99),
            "late_max_ms": float(late.max()),
            "turn_p99_ms": percentile(turn, 99),
            "turn_max_ms": float(turn.max()),
            "ran_share": ran,
            "waited_share": waited,
        }


def _scheduled() -> tuple[int, int]:
    """Return how long this process has run, and has waited to run, in ns."""
    ran, waited, _ = Path("/proc/self/schedstat").read_text().split()
    return int(ran), int(waited)
