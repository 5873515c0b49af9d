"""Paired differences: Wilcoxon's signed-rank test, and the estimator and interval that belong to it
(M. Hollander, D. A. Wolfe, E. Chicken, Nonparametric Statistical Methods, sections 3.1 to 3.3).

They take nothing for granted but that differences are as likely above their centre as below, so a
turn that a noisy neighbour spoilt does not decide.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from math import ceil
from statistics import NormalDist, median
from typing import NamedTuple

_EXACT = 50
"""Up to so many differences, the distribution is exact; above, it is normal to three digits."""


class Difference(NamedTuple):
    """`centre` is the estimate, `low` and `high` hold the true one with the confidence that was
    asked for; they are infinite if there are too few differences for that. `p_below`, `p_above`:
    how likely differences like these are if the true centre is 0 or more, or 0 or less."""

    centre: float
    low: float
    high: float
    p_below: float
    p_above: float
    number: int


def difference(values: Sequence[float], confidence: float = 0.95) -> Difference:
    """Of at least one value."""
    walsh = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    cut = _cut(len(values), (1 - confidence) / 2)
    low, high = (walsh[cut - 1], walsh[-cut]) if cut else (float("-inf"), float("inf"))
    rank_sum, number = _rank_sum([value for value in values if value])
    return Difference(
        median(walsh),
        low,
        high,
        p_below=_at_most(number, rank_sum),
        p_above=_at_most(number, number * (number + 1) / 2 - rank_sum),
        number=len(values),
    )


def _rank_sum(values: Sequence[float]) -> tuple[float, int]:
    """Of the positive ones, by absolute value; equal ones share their ranks."""
    by_size = sorted(values, key=abs)
    total, at = 0.0, 0
    while at < len(by_size):
        end = at
        while end < len(by_size) and abs(by_size[end]) == abs(by_size[at]):
            end += 1
        rank = (at + 1 + end) / 2
        total += rank * sum(value > 0 for value in by_size[at:end])
        at = end
    return total, len(values)


@cache
def _counts(number: int) -> tuple[int, ...]:
    """How many of the 2^n sets of ranks have each sum."""
    counts = [1]
    for rank in range(1, number + 1):
        longer = counts + [0] * rank
        for total, count in enumerate(counts):
            longer[total + rank] += count
        counts = longer
    return tuple(counts)


def _at_most(number: int, rank_sum: float) -> float:
    """How likely the sum of ranks is at most this, if the centre is 0."""
    if not number:
        return 1.0
    if number <= _EXACT:
        counts = _counts(number)
        # A half rank, of ties, counts as the next whole one, which makes the test careful.
        return float(sum(counts[: ceil(rank_sum) + 1]) / 2**number)
    return _normal(number).cdf(rank_sum + 0.5)


def _normal(number: int) -> NormalDist:
    mean = number * (number + 1) / 4
    return NormalDist(mean, (mean * (2 * number + 1) / 6) ** 0.5)


def _cut(number: int, tail: float) -> int:
    """The k such that the k-th smallest and largest Walsh averages are the interval; 0 if none."""
    if number > _EXACT:
        return max(0, int(_normal(number).inv_cdf(tail)))
    cut = 0
    for share in _tails(number):
        if share > tail:
            break
        cut += 1
    return cut


def _tails(number: int) -> Iterator[float]:
    total = 0
    for count in _counts(number):
        total += count
        yield total / 2**number
