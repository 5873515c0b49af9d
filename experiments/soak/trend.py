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


@dataclass(frozen=True)
class MemoryBound:
    """What the memory of a process may do: grow by ``slope_kb_per_hour``, and by chance by
    ``chance_kb`` and ``spreads`` times the spread of its samples, which cover ``least_s``."""

    chance_kb: float
    least_s: float
    slope_kb_per_hour: float = 0.0
    spreads: float = 4.0


def memory(samples: Sequence[Sample], bound: MemoryBound) -> tuple[dict[str, float], str | None]:
    """Return the figures of a process's memory, and what is wrong with it.

    Raises ValueError where the samples cover too little.
    """
    points = [(sample.at_s, float(sample.rss_kb)) for sample in samples]
    slope_kb_s = slope(points)
    watched_s = points[-1][0] - points[0][0]
    if watched_s < bound.least_s:
        raise ValueError(f"memory was watched for {watched_s:.0f} s, not {bound.least_s:g}")
    grown_kb = slope_kb_s * watched_s
    noise_kb = bound.chance_kb + bound.spreads * spread(points, slope_kb_s)
    fault = None
    if slope_kb_s * 3600 > bound.slope_kb_per_hour and grown_kb > noise_kb:
        fault = (
            f"memory grows by {slope_kb_s * 3600:.0f} kB an hour: {grown_kb:.0f} kB while it was "
            f"watched, where {noise_kb:.0f} kB may be chance"
        )
    first, last = thirds([rss_kb for _, rss_kb in points])
    figures = {
        "rss_kb_per_hour": round(slope_kb_s * 3600, 1),
        "rss_noise_kb": round(noise_kb, 1),
        "rss_first_third_kb": first,
        "rss_last_third_kb": last,
        "rss_most_kb": max(rss_kb for _, rss_kb in points),
    }
    return figures, fault
