"""The egress queue's record of every packet that arrived, as columns; and when packets left."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testbed.shaping import FULL_FRAME_BYTES

KINDS = ("enqueue", "drop", "CN-L", "CN-M", "CN-H", "CR")
# With so much in the queue another packet waits, even if the port is a full-size frame ahead of the
# queue's own arithmetic, as it may be.
_WAITING_BYTES = 3 * FULL_FRAME_BYTES


def _none() -> npt.NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class QueueTrace:
    """``bytes[i]`` were in the queue at ``time_ns[i]``, after what ``kind[i]`` (of KINDS) says.

    Frames of ``departure_bytes`` left the port at ``departure_ns``, as ``Departures`` has timed
    them; none in traces that were recorded without.
    """

    time_ns: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    packets: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int8]
    departure_ns: npt.NDArray[np.int64] = field(default_factory=_none)
    departure_bytes: npt.NDArray[np.int64] = field(default_factory=_none)

    def count(self, kind: str) -> int:
        """Return how many records are of ``kind``."""
        return int(np.count_nonzero(self.kind == KINDS.index(kind)))

    def times_of(self, kind: str) -> npt.NDArray[np.int64]:
        """Return when records of ``kind`` were made."""
        times: npt.NDArray[np.int64] = self.time_ns[self.kind == KINDS.index(kind)]
        return times

    def longest_bytes(self, begin_ns: int, end_ns: int) -> int:
        """Return the greatest length of the queue in that time, as far as packets arrived."""
        during = (begin_ns <= self.time_ns) & (self.time_ns <= end_ns)
        return int(self.bytes[during].max(initial=0))

    def mean_bytes(self, begin_ns: int, end_ns: int, rate_bps: float) -> float:
        """Return the mean length of the queue in that time, in bytes.

        By Little's law, every packet counts with its size for as long as it is there. The trace
        must begin while the queue is empty, and the queue must be a FIFO that drains at
        ``rate_bps``.
        """
        came = self.kind == KINDS.index("enqueue")
        arrival, sizes = self.time_ns[came], _sizes(self.bytes[came], self.packets[came])
        # A packet leaves when those of its busy period are sent: the latest of all such times that
        # could be counted from an earlier arrival.
        sent_ns = np.cumsum(sizes) * (8e9 / rate_bps)
        idle_until = np.maximum.accumulate(arrival - np.concatenate(([0.0], sent_ns[:-1])))
        departure = idle_until + sent_ns
        stay = np.minimum(departure, end_ns) - np.maximum(arrival, begin_ns)
        return float(np.sum(sizes * np.maximum(stay, 0.0)) / (end_ns - begin_ns))

    def spacing_errors_ns(self, rate_bps: float, delay_ns: int = 0) -> npt.NDArray[np.float64]:
        """Return of each gap between departures, while packets waited, how far it is from the time
        that its packet takes at ``rate_bps``.

        The port adds ``delay_ns`` to the way of every packet. Where packets waited is what the
        queue's own arithmetic says, so a port that stands still while they do is found.
        """
        if not len(self.time_ns) or len(self.departure_ns) < 2:
            return np.empty(0)
        begins_ns = self.departure_ns[:-1] - delay_ns
        known = begins_ns >= self.time_ns[0]
        waited = known & (
            self.at(np.where(known, begins_ns, self.time_ns[0]), rate_bps) >= _WAITING_BYTES
        )
        due_ns = self.departure_bytes[1:] * (8e9 / rate_bps)
        errors: npt.NDArray[np.float64] = np.abs(np.diff(self.departure_ns) - due_ns)[waited]
        return errors

    def at(self, times_ns: npt.NDArray[np.int64], rate_bps: float) -> npt.NDArray[np.float64]:
        """Return the length of the queue at each of these times, none before the first record."""
        last = np.searchsorted(self.time_ns, times_ns, side="right") - 1
        drained = (times_ns - self.time_ns[last]) * (rate_bps / 8e9)
        return np.maximum(0.0, self.bytes[last] - drained)

    def envelope(
        self, bin_ns: int, rate_bps: float
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the start of each bin, and the shortest and the longest queue in it, in bytes.

        Between two records the queue only drains, at ``rate_bps``. So it is shortest just before an
        arrival or at the end of a bin, and in a bin without arrivals the drain goes on.
        """
        if not len(self.time_ns):
            empty = np.empty(0)
            return np.empty(0, np.int64), empty, empty
        drain_per_ns = rate_bps / 8e9
        first = self.time_ns[0] // bin_ns
        count = int(self.time_ns[-1] // bin_ns - first) + 1
        starts = (first + np.arange(count)) * bin_ns
        at = self.time_ns // bin_ns - first

        def drained(
            index: npt.NDArray[np.int64], until_ns: npt.NDArray[np.int64]
        ) -> npt.NDArray[np.float64]:
            since = until_ns - self.time_ns[index]
            return np.maximum(0.0, self.bytes[index] - since * drain_per_ns)

        low, high = np.full(count, np.inf), np.zeros(count)
        np.maximum.at(high, at, self.bytes)
        previous = np.arange(len(self.time_ns) - 1)
        np.minimum.at(low, at[1:], drained(previous, self.time_ns[1:]))
        at_start = np.searchsorted(self.time_ns, starts, side="right") - 1
        known = at_start >= 0
        carried = drained(at_start[known], starts[known])
        high[known] = np.maximum(high[known], carried)
        at_end = np.searchsorted(self.time_ns, starts + bin_ns, side="left") - 1
        low = np.minimum(low, drained(at_end, starts + bin_ns))
        return starts, low, high

    def save(self, path: Path) -> None:
        """Write to ``path`` (.npz)."""
        np.savez_compressed(path, **vars(self))

    @classmethod
    def load(cls, path: Path) -> "QueueTrace":
        """Read what ``save`` wrote."""
        with np.load(path) as columns:
            return cls(**columns)


def _sizes(length: npt.NDArray[np.int64], packets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the size of each packet, from the bytes and packets in the queue after its arrival."""
    total = [0]
    for index, (held, count) in enumerate(zip(length.tolist(), packets.tolist(), strict=True)):
        total.append(total[index + 1 - count] + held)
    ends = np.array(total, dtype=np.int64)
    return ends[1:] - ends[:-1]


def parse(text: str) -> QueueTrace:
    """Parse ``netdev-egress/trace``: ``TIME_NS BYTES PACKETS KIND`` per line.

    Raises ValueError for a line of another form or an unknown kind.
    """
    words = text.split()
    if len(words) % 4:
        raise ValueError(f"a trace of {len(words)} words is not made of lines of four")
    code = {kind: index for index, kind in enumerate(KINDS)}
    unknown = set(words[3::4]) - set(code)
    if unknown:
        raise ValueError(f"unknown kinds in the trace: {', '.join(sorted(unknown))}")
    return QueueTrace(
        time_ns=np.array(words[0::4], dtype=np.int64),
        bytes=np.array(words[1::4], dtype=np.int64),
        packets=np.array(words[2::4], dtype=np.int64),
        kind=np.array([code[word] for word in words[3::4]], dtype=np.int8),
    )
