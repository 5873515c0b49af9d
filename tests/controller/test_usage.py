"""The use of a link is what its counters say, and off by more than is said in 1 of 20 cases."""

import itertools
import math
import random

import pytest

from controller.core.bandwidth.usage import LONGEST_PAUSE_NS, SHORTEST_PAUSE_NS, Pace, RateEstimator

MS, S = 10**6, 10**9
CAPACITY = 100e6


def feed(estimator: RateEstimator, rates_bps: list[float], every_ns: int = 100 * MS) -> None:
    """A reading each `every_ns`, between which a rate holds."""
    n_bytes, at_ns = 0.0, 0
    estimator.read(0, 0)
    for rate_bps in rates_bps:
        n_bytes += rate_bps * every_ns / 8e9
        at_ns += every_ns
        estimator.read(int(n_bytes), at_ns)


def test_nothing_is_known_before_two_readings() -> None:
    estimator = RateEstimator(CAPACITY)
    assert estimator.use is None
    estimator.read(5, 0)
    assert estimator.use is None


def test_a_steady_rate_is_told_with_a_small_error() -> None:
    estimator = RateEstimator(CAPACITY)
    feed(estimator, [40e6] * 600)
    assert estimator.use is not None
    assert estimator.use.used_bps == pytest.approx(40e6, rel=1e-6)
    assert estimator.use.error_bps <= 0.01 * CAPACITY
    assert estimator.use.at_ns == 60 * S
    assert estimator.misses == 0


def test_it_is_the_mean_of_all_of_a_window() -> None:
    estimator = RateEstimator(CAPACITY)
    feed(estimator, [40e6, 60e6] * 20)
    assert estimator.use is not None
    assert estimator.use.used_bps == pytest.approx(50e6, rel=1e-6)


@pytest.mark.parametrize("kind", ["noise", "on and off", "walk", "rare bursts"])
def test_the_bound_holds_in_19_of_20_cases_whatever_the_traffic(kind: str) -> None:
    rng = random.Random(kind)
    rates, level = [], 50e6
    for n in range(6000):
        if kind == "noise":
            level = rng.uniform(20e6, 80e6)
        elif kind == "on and off":
            level = 80e6 if n // 37 % 2 else 5e6
        elif kind == "walk":
            level = min(max(level + rng.gauss(0, 3e6), 0), CAPACITY)
        else:
            level = 90e6 if rng.random() < 0.01 else 10e6
        rates.append(level)
    estimator = RateEstimator(CAPACITY)
    feed(estimator, rates)
    assert estimator.forecasts > 3000
    assert estimator.misses / estimator.forecasts < 0.07


@pytest.mark.parametrize(("spread_bps", "most_bps"), [(0, 0.5e6), (1e6, 2e6), (10e6, 15e6)])
def test_the_bound_is_no_wider_than_the_traffic_needs(spread_bps: float, most_bps: float) -> None:
    rng = random.Random(1)
    errors = []
    for turn in range(20):
        estimator = RateEstimator(CAPACITY)
        level = rng.uniform(20e6, 80e6)
        before = rng.uniform(20e6, 80e6)
        feed(estimator, [before] * 40 + [rng.gauss(level, spread_bps) for _ in range(30)])
        assert estimator.use is not None
        assert estimator.use.used_bps == pytest.approx(level, abs=max(1e6, spread_bps)), turn
        errors.append(estimator.use.error_bps)
    assert sorted(errors)[len(errors) // 2] <= most_bps


def test_of_steady_traffic_more_than_the_last_second_counts() -> None:
    rng = random.Random(2)
    off = []
    for _ in range(50):
        estimator = RateEstimator(CAPACITY)
        feed(estimator, [rng.gauss(50e6, 5e6) for _ in range(100)])
        assert estimator.use is not None
        off.append((estimator.use.used_bps - 50e6) ** 2)
    # The mean of a second would be off by 1.6 Mb/s.
    assert math.sqrt(sum(off) / len(off)) < 0.8e6


def test_of_a_drift_the_last_second_counts() -> None:
    estimator = RateEstimator(CAPACITY)
    feed(estimator, [20e6 + n * 0.5e6 for n in range(120)])
    assert estimator.use is not None
    assert estimator.use.used_bps == pytest.approx(20e6 + (119 - 4.5) * 0.5e6, rel=1e-3)


def test_a_change_is_followed_at_once() -> None:
    estimator = RateEstimator(CAPACITY)
    feed(estimator, [10e6] * 50 + [60e6] * 3)
    assert estimator.use is not None
    assert estimator.use.used_bps == pytest.approx(60e6, rel=0.01)


def test_what_was_half_before_a_change_does_not_count() -> None:
    estimator = RateEstimator(CAPACITY)
    n_bytes, at_ns = 0, 0
    estimator.read(0, 0)
    # Read seldom while nothing is there, and often from then on.
    for rate_bps, length_ns in [(0, 2 * S)] * 5 + [(30e6, 2 * S)] + [(60e6, 100 * MS)] * 10:
        n_bytes += round(rate_bps * length_ns / 8e9)
        at_ns += length_ns
        estimator.read(n_bytes, at_ns)
    assert estimator.use is not None
    assert estimator.use.used_bps == pytest.approx(60e6, rel=1e-6)
    assert estimator.use.error_bps <= 0.01 * CAPACITY


def test_after_a_change_there_is_news_until_the_spread_is_known() -> None:
    estimator = RateEstimator(CAPACITY)
    feed(estimator, [20e6] * 100)
    n_bytes, at_ns, news = int(2.5e6 * 10), 10 * S, []
    for _ in range(10):
        n_bytes, at_ns = n_bytes + int(80e6 / 8 / 10), at_ns + 100 * MS
        news.append(estimator.read(n_bytes, at_ns))
    assert estimator.use is not None
    assert estimator.use.used_bps == pytest.approx(80e6, rel=1e-6)
    # Two that are odd, of which the second is the first of four intervals.
    assert news == [True] * 4 + [False] * 6


def test_counters_are_read_often_while_they_change_and_seldom_while_not() -> None:
    pace = Pace()
    now_ns, asked = 0, []
    for _ in range(10_000):
        if pace.due(now_ns):
            asked.append(now_ns)
            pace.answered(changed=now_ns < 2 * S, now_ns=now_ns + MS)
        now_ns += MS
    pauses = [b - a for a, b in itertools.pairwise(asked)]
    assert set(pauses[:19]) == {SHORTEST_PAUSE_NS}
    assert pauses[-1] == LONGEST_PAUSE_NS
    assert max(pauses) == LONGEST_PAUSE_NS
    assert len(pauses) < 30


def test_switches_are_read_at_the_same_time() -> None:
    paces, asked = [Pace(), Pace()], [set[int](), set[int]()]
    for now_ns in range(0, 30 * S, 50 * MS):
        for number, pace in enumerate(paces):
            # The second one changes, and is read more often, for a while.
            if now_ns >= number * 730 * MS and pace.due(now_ns):
                asked[number].add(now_ns)
                pace.answered(number == 1 and now_ns < 5 * S, now_ns + MS)
    slow, fast = ({at_ns for at_ns in times if at_ns >= 800 * MS} for times in asked)
    assert slow < fast
    assert {at_ns for at_ns in slow ^ fast if at_ns > 10 * S} == set()


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever() -> None:
    pace = Pace()
    assert pace.due(0)
    assert not pace.due(S)
    assert pace.due(LONGEST_PAUSE_NS)


def test_it_can_be_hurried() -> None:
    pace = Pace()
    for at_ns in (0, 3 * S, 6 * S):
        assert pace.due(at_ns)
        pace.answered(changed=False, now_ns=at_ns)
    assert not pace.due(6 * S + 300 * MS)
    pace.hurry(6 * S + 300 * MS)
    assert pace.due(6 * S + 300 * MS)
