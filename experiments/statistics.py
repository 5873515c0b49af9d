"""The statistics that figures are made with."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Values = Sequence[float] | npt.NDArray[np.float64]


def percentile(values: Values, percent: float) -> float:
    """Return the least of ``values`` that ``percent`` of all do not exceed (nearest rank).

    Raises ValueError if there are no values.
    """
    if not len(values):
        raise ValueError("no values")
    # 99.9 % of 1,000 are 999, and a little more in floating point.
    rank = math.ceil(len(values) * percent / 100 - 1e-9)
    return float(np.sort(np.asarray(values))[max(rank, 1) - 1])


def jain(shares: Values) -> float:
    """Return Jain's fairness index of what each one got: 1 if all got the same, 1/n if one got all.

    Jain, Chiu and Hawe, "A Quantitative Measure of Fairness", DEC-TR-301, 1984.
    """
    got = np.asarray(shares, dtype=float)
    squares = (got**2).sum()
    return float(got.sum() ** 2 / (len(got) * squares)) if squares else 1.0


def wilson(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Return the interval in which the probability lies of what was seen so many times: of 95 %
    confidence, for 1.96 standard deviations.

    Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA, 1927.
    Raises ValueError unless there are trials, and no more successes than these.
    """
    if not 0 <= successes <= trials or not trials:
        raise ValueError(f"{successes} of {trials} is no share")
    share, slack = successes / trials, z * z / trials
    middle = share + slack / 2
    half = math.sqrt(slack * (share * (1 - share) + slack / 4))
    return max(0.0, (middle - half) / (1 + slack)), min(1.0, (middle + half) / (1 + slack))


@dataclass(frozen=True)
class Band:
    """A ``median`` of repeats, and the interval from ``low`` to ``high`` around it."""

    median: float
    low: float
    high: float

    def overlaps(self, other: "Band") -> bool:
        """Whether the two intervals have something in common."""
        return self.low <= other.high and other.low <= self.high


def median_band(values: Values, level: float = 0.95) -> Band:
    """Return the median of repeats and its bootstrap interval (percentiles) of this ``level``.

    Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics, 1979. All
    resamples are counted, none is drawn, up to 8 values; 20,000 are drawn of more, always the same.
    The interval of a few values cannot be wider than these: of n it covers the median with a
    probability of 1 - 2 ** (1 - n) at most, 0.94 for five. Raises ValueError if there are no
    values.
    """
    medians, weights = _resampled_medians(values)
    return _band(float(np.median(values)), medians, weights, level)


def difference_band(of: Values, to: Values, level: float = 0.95) -> Band:
    """Return the difference of the medians, ``of`` less ``to``, and its bootstrap interval.

    Both are resampled, independently of each other; see ``median_band``.
    """
    own, own_weights = _resampled_medians(of)
    other, other_weights = _resampled_medians(to)
    differences = np.subtract.outer(own, other).ravel()
    weights = np.multiply.outer(own_weights, other_weights).ravel()
    return _band(float(np.median(of) - np.median(to)), differences, weights, level)


_MOST_COUNTED = 8
_DRAWN = 20_000


def _resampled_medians(
    values: Values,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the medians of resamples, each value once, and their probabilities."""
    given = np.sort(np.asarray(values, dtype=float))
    n = len(given)
    if not n:
        raise ValueError("no values")
    if n > _MOST_COUNTED:
        drawn = np.random.default_rng(0).choice(given, (_DRAWN, n))
        medians, counts = np.unique(np.median(drawn, axis=1), return_counts=True)
        return medians, np.asarray(counts / _DRAWN, dtype=np.float64)
    resamples, weights = _resamples(n)
    medians, which = np.unique(np.median(given[resamples], axis=1), return_inverse=True)
    return medians, np.asarray(np.bincount(which.ravel(), weights), dtype=np.float64)


@cache
def _resamples(n: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Return the resamples of ``n`` values, as sorted indices, and how probable each is."""
    chosen = list(itertools.combinations_with_replacement(range(n), n))
    ways = [
        math.factorial(n) / math.prod(map(math.factorial, Counter(one).values())) for one in chosen
    ]
    return np.array(chosen), np.array(ways) / n**n


def _band(
    median: float,
    values: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    level: float,
) -> Band:
    """Return the band between the quantiles of weighted ``values``: the least value whose
    cumulated weight reaches the quantile."""
    order = np.argsort(values)
    cumulated = np.cumsum(weights[order])
    tail = (1 - level) / 2
    # The sum of all weights is a little off 1 in floating point.
    low, high = np.searchsorted(cumulated, (tail - 1e-12, 1 - tail - 1e-12))
    return Band(median, float(values[order][low]), float(values[order][high]))
