"""Bytes over time."""

import time

BIN_NS = 50_000_000


class ByteBins:
    """Counts bytes in bins of ``BIN_NS`` of the monotonic clock; bin k begins at k * BIN_NS."""

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}

    def add(self, count: int) -> int:
        """Count bytes that came now; return the time, in ns."""
        now_ns = time.monotonic_ns()
        index = now_ns // BIN_NS
        self.bins[index] = self.bins.get(index, 0) + count
        return now_ns

    def as_record(self) -> dict[str, int | list[int]]:
        """Return the series without gaps: when it begins, the length of a bin, bytes per bin."""
        if not self.bins:
            return {"start_ns": 0, "bin_ns": BIN_NS, "bytes": []}
        first, last = min(self.bins), max(self.bins)
        values = [self.bins.get(index, 0) for index in range(first, last + 1)]
        return {"start_ns": first * BIN_NS, "bin_ns": BIN_NS, "bytes": values}
