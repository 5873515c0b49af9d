"""Slopes of samples that are taken over time."""

import random

import pytest

from experiments.soak.trend import interval, slope


def test_the_interval_of_a_slope_has_the_slope_19_times_of_20() -> None:
    rng = random.Random(7)
    inside = 0
    for _ in range(400):
        points = [(float(n), 2.0 * n + rng.gauss(0, 5)) for n in range(20)]
        low, high = interval(points)
        assert low <= slope(points) <= high
        inside += low <= 2.0 <= high
    assert 0.92 < inside / 400 < 0.98


def test_without_scatter_the_interval_is_the_slope() -> None:
    assert interval([(float(n), 3.0 * n) for n in range(10)]) == (3.0, 3.0)


def test_few_points_have_the_slopes_between_them() -> None:
    assert interval([(0.0, 0.0), (1.0, 1.0), (2.0, 4.0)]) == (1.0, 3.0)


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 5.0)]])
def test_points_that_are_not_apart_have_no_slope(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="have no slope"):
        interval(points)
