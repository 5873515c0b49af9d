"""Distributions of sizes are what was published, and what is drawn from them is as they say."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.traffic.sizes import FOLDER, Sizes
from experiments.traffic.wire import Wire

SHARES = st.floats(0, 1)
MEASURED = sorted(path.stem for path in FOLDER.glob("*.csv"))


def share_above(sizes: Sizes, size_bytes: float) -> tuple[float, float]:
    """Which share of flows is larger, and which share of all bytes these have."""
    flows = carried = 0.0
    for (low, below), (high, above) in pairwise(sizes.points):
        if high <= size_bytes:
            continue
        part = (high - max(low, size_bytes)) / (high - low) if high > low else 1.0
        share = (above - below) * part
        flows += share
        carried += share * (max(low, size_bytes) + high) / 2
    return flows, carried / sizes.mean_bytes


@pytest.mark.parametrize(
    ("name", "packets", "within", "above_bytes", "flows", "carried"),
    [
        # pFabric, section 5.1, and its authors' scripts: "over 95 % of all bytes are from 30 % of
        # the flows that are 1-20 MB"; the mean that they reckon with is a little less than what
        # straight lines between their points give.
        ("web-search", 1138, 0.003, 1_000_000, 0.30, 0.95),
        # "95 % of all bytes are in the 3.6 % flows that are larger than 35 MB".
        ("data-mining", 5117, 0.0002, 35_000_000, 0.036, 0.95),
    ],
)
def test_published_figures(
    name: str, packets: int, within: float, above_bytes: int, flows: float, carried: float
) -> None:
    sizes = Sizes.measured(name)
    assert sizes.mean_bytes == pytest.approx(packets * 1460, rel=within)
    assert share_above(sizes, above_bytes) == pytest.approx((flows, carried), rel=0.015)


def test_most_flows_of_data_mining_are_small() -> None:
    assert 0.79 < 1 - share_above(Sizes.measured("data-mining"), 10_000)[0] < 0.81


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_drawn_has_the_mean_and_the_shares(name: str) -> None:
    """Since the few largest decide, a draw in each of so many equal parts."""
    sizes, draw = Sizes.measured(name), random.Random(1)
    count = 100_000
    drawn = [sizes.at((k + draw.random()) / count) for k in range(count)]
    assert sum(drawn) / count == pytest.approx(sizes.mean_bytes, rel=0.001)
    for size, share in sizes.points[1:]:
        assert sum(one <= size for one in drawn) / count == pytest.approx(share, abs=0.0005)
    above = [one for one in drawn if one > 1_000_000]
    assert (len(above) / count, sum(above) / sum(drawn)) == pytest.approx(
        share_above(sizes, 1_000_000), rel=0.002
    )


@given(st.sampled_from(MEASURED), SHARES, SHARES)
def test_larger_shares_have_larger_sizes(name: str, one: float, other: float) -> None:
    sizes = Sizes.measured(name)
    low, high = sorted((one, other))
    assert 1 <= sizes.at(low) <= sizes.at(high) <= sizes.points[-1][0]


@given(st.sampled_from(MEASURED), st.floats(0.001, 3), st.integers(1, 10**9), SHARES)
def test_scaled_and_cut(name: str, factor: float, largest: int, share: float) -> None:
    """Each flow is as it was, times the factor, but for those that would be too large."""
    sizes = Sizes.measured(name)
    changed = sizes.scaled(factor).at_most(largest)
    expected = min(max(1.0, sizes.at(share) * factor), largest)
    # A size is a whole number, before and after.
    assert changed.at(share) == pytest.approx(expected, abs=1 + factor)


@given(st.sampled_from(MEASURED), st.integers(1, 10**9))
def test_the_mean_of_what_is_cut(name: str, largest: int) -> None:
    sizes = Sizes.measured(name)
    count = 4000
    brute = sum(min(sizes.at((k + 0.5) / count), largest) for k in range(count)) / count
    assert sizes.at_most(largest).mean_bytes == pytest.approx(brute, rel=0.01)


def test_all_alike() -> None:
    sizes = Sizes.fixed(1000)
    assert {sizes.at(share) for share in (0, 0.3, 1)} == {1000}
    assert sizes.mean_bytes == 1000
    assert share_above(sizes, 999) == (1, 1)
    assert share_above(sizes, 1000) == (0, 0)


@pytest.mark.parametrize(
    "points", [[(1, 0), (2, 0.5)], [(2, 0), (1, 1)], [(0, 0), (1, 1)], [(1, 0.5), (2, 1)]]
)
def test_what_is_no_distribution_is_refused(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="rise from a share of 0 to 1"):
        Sizes(points)


def test_an_unknown_one_is_told() -> None:
    with pytest.raises(ValueError, match="'none': there are data-mining, web-search"):
        Sizes.measured("none")


def test_frames() -> None:
    wire = Wire()
    assert wire.segment_bytes == 1448
    assert [wire.frames_bytes(size) for size in (1, 1448, 1449, 2896)] == [67, 1514, 1581, 3028]
    assert Wire(timestamps=False).segment_bytes == 1460
    assert Wire(9000).segment_bytes == 8948


def test_the_ideal_time() -> None:
    """A full frame takes 121 us at 100 Mb/s; before it, a round trip for the request."""
    assert Wire().ideal_ns(1448, 100_000_000, 300_000, 1) == 300_000 + 121_120
