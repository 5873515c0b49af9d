"""Whether a series of samples goes anywhere: slopes that a few outliers do not move."""

from collections.abc import Sequence
from itertools import combinations
from statistics import median

_MOST = 400

Point = tuple[float, float]


def slope(points: Sequence[Point]) -> float:
    """The median of the slopes between all pairs of points (Theil 1950, Sen 1968).

    Of a long series, every n-th point. Raises ValueError for fewer than two points.
    """
    step = max(1, len(points) // _MOST)
    slopes = [
        (y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points[::step], 2) if x1 != x2
    ]
    if not slopes:
        raise ValueError(f"{len(points)} samples have no slope")
    return median(slopes)


def spread(points: Sequence[Point], slope_: float) -> float:
    """How far points usually are from a line of this slope: the median absolute deviation."""
    rests = [y - slope_ * x for x, y in points]
    middle = median(rests)
    return median(abs(rest - middle) for rest in rests)


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and of the last third. Raises ValueError for fewer than three."""
    if len(values) < 3:
        raise ValueError(f"{len(values)} samples have no thirds")
    third = len(values) // 3
    return median(values[:third]), median(values[-third:])
