"""Times at which a transfer stood still, and whether there was a reason."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

Span = tuple[float, float]


def stalls(series: Mapping[str, Any], longer_than_s: float) -> list[Span]:
    """The times (CLOCK_MONOTONIC, s) without a byte in a series of bytes (see ByteBins)."""
    bin_s = series["bin_ns"] / 1e9
    start_s = series["start_ns"] / 1e9
    found, index = [], 0
    for silent, bins in groupby(series["bytes"], lambda count: count == 0):
        n = sum(1 for _ in bins)
        if silent and n * bin_s > longer_than_s:
            found.append((start_s + index * bin_s, start_s + (index + n) * bin_s))
        index += n
    return found


def without_reason(found: Iterable[Span], hurt: Sequence[Span], slack_s: float) -> list[Span]:
    """The stalls that did not begin while packets may have been lost, or ``slack_s`` after."""
    return [
        stall
        for stall in found
        if not any(begin - slack_s <= stall[0] <= end + slack_s for begin, end in hurt)
    ]
