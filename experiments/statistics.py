"""The statistics that figures are made with."""

import math
from collections.abc import Sequence

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
