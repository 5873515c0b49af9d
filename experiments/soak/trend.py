"""The resources of a process over time, and whether samples grow: slopes that a few outliers do
not move."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.measure.process import footprint

_MOST = 400
_NORMAL_95 = 1.96

Point = tuple[float, float]


@dataclass(frozen=True)
class Sample:
    """A process at a moment, in seconds since the beginning."""

    at_s: float
    rss_kb: int
    descriptors: int
    threads: int


def sample(pid: int, at_s: float) -> Sample:
    """Look at a running process. Raises ProcessLookupError if it has ended."""
    seen = footprint(pid)
    return Sample(at_s, seen.rss_kb, seen.descriptors, seen.threads)


def slope(points: Sequence[Point]) -> float:
    """The median of the slopes between all pairs of points (Theil 1950, Sen 1968).

    Of a long series, every n-th point. Raises ValueError where there are no two points apart.
    """
    step = max(1, len(points) // _MOST)
    x, y = np.array(points[::step], dtype=float).reshape(-1, 2).T
    first, second = np.triu_indices(len(x), 1)
    run = x[second] - x[first]
    apart = run != 0
    if not apart.any():
        raise ValueError(f"{len(points)} samples have no slope")
    return float(np.median((y[second] - y[first])[apart] / run[apart]))


def interval(points: Sequence[Point]) -> tuple[float, float]:
    """Where the slope is with a confidence of 95 % (Sen 1968, by the normal approximation of
    Kendall's statistic), if the points' rests do not depend on each other.

    Few points have the least and the greatest of the slopes between them. Raises ValueError where
    there are no two points apart.
    """
    step = max(1, len(points) // _MOST)
    x, y = np.array(points[::step], dtype=float).reshape(-1, 2).T
    first, second = np.triu_indices(len(x), 1)
    run = x[second] - x[first]
    slopes = np.sort((y[second] - y[first])[run != 0] / run[run != 0])
    if not len(slopes):
        raise ValueError(f"{len(points)} samples have no slope")
    n = len(x)
    off = _NORMAL_95 * (n * (n - 1) * (2 * n + 5) / 18) ** 0.5
    low = max(0, round((len(slopes) - off) / 2) - 1)
    return float(slopes[low]), float(slopes[len(slopes) - 1 - low])


def spread(points: Sequence[Point], slope_: float) -> float:
    """The typical distance of points from a line of this slope: the median absolute deviation."""
    x, y = np.array(points, dtype=float).T
    rests = y - slope_ * x
    return float(np.median(np.abs(rests - np.median(rests))))


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and of the last third. Raises ValueError for fewer than three."""
    if len(values) < 3:
        raise ValueError(f"{len(values)} samples have no thirds")
    third = len(values) // 3
    return float(np.median(values[:third])), float(np.median(values[-third:]))
