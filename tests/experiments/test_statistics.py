"""Bands, against brute force over every resample."""

import itertools
import random
from collections import Counter

import numpy as np
import pytest

from experiments.statistics import Band, difference_band, median_band


def every_median(values: list[float]) -> Counter[float]:
    """Count the medians of all n**n resamples."""
    return Counter(
        float(np.median(resample)) for resample in itertools.product(values, repeat=len(values))
    )


def quantile(counted: Counter[float], share: float) -> float:
    total, seen = sum(counted.values()), 0
    for value in sorted(counted):
        seen += counted[value]
        if seen >= share * total - 1e-9:
            return value
    raise AssertionError(share)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_a_band_is_that_of_all_resamples(n: int) -> None:
    draw = random.Random(n)
    values = [round(draw.expovariate(0.1), 3) for _ in range(n)]
    counted = every_median(values)
    for level in (0.5, 0.9, 0.95):
        band = median_band(values, level)
        tail = (1 - level) / 2
        assert band.median == pytest.approx(float(np.median(values)))
        assert band.low == pytest.approx(quantile(counted, tail))
        assert band.high == pytest.approx(quantile(counted, 1 - tail))


def test_a_difference_is_that_of_all_pairs_of_resamples() -> None:
    of, to = [3.0, 9.0, 4.0], [1.0, 2.0, 7.0, 2.5]
    pairs: Counter[float] = Counter()
    for (own, times), (other, times_too) in itertools.product(
        every_median(of).items(), every_median(to).items()
    ):
        pairs[own - other] += times * times_too
    band = difference_band(of, to)
    assert band.median == 4.0 - 2.25
    assert band.low == pytest.approx(quantile(pairs, 0.025))
    assert band.high == pytest.approx(quantile(pairs, 0.975))


def test_a_band_of_equal_values_has_no_width() -> None:
    assert median_band([5.0] * 4) == Band(5.0, 5.0, 5.0)


def test_many_values_have_nearly_the_band_of_theory_and_always_the_same() -> None:
    # Of a large sample, the bootstrap's standard error of the median is about 1.2533 s / sqrt(n).
    values = np.random.default_rng(7).normal(100.0, 10.0, 200)
    band = median_band(values)
    half = 1.96 * 1.2533 * 10.0 / 200**0.5
    assert band.high - band.low == pytest.approx(2 * half, rel=0.5)
    assert median_band(values) == band


def test_no_values_have_no_band() -> None:
    with pytest.raises(ValueError, match="no values"):
        median_band([])


def test_bands_overlap_where_they_touch() -> None:
    assert Band(2, 1, 3).overlaps(Band(4, 3, 5))
    assert not Band(2, 1, 3).overlaps(Band(4, 3.1, 5))
