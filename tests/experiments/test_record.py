"""Figures follow from what was recorded, and from nothing else."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measure.record import QUEUE, RECORD, Run, binned, bytes_between
from experiments.statistics import percentile
from recorded import BLOCK_BYTES, MS, START_NS, data, queue, run


def test_goodput_is_all_blocks_over_the_time_from_first_to_last() -> None:
    assert run().goodput_mbps == pytest.approx(2 * BLOCK_BYTES * 8 / 0.3 / 1e6)


def test_background_counts_while_the_rounds_go_on() -> None:
    assert run().background_mbps == pytest.approx(600 * 8 / 0.3 / 1e6)


def test_block_times() -> None:
    assert run().times_ms == [100, 150]


def test_timeouts_of_all_hosts() -> None:
    assert run().timeouts == 3


def test_notices() -> None:
    assert len(run().notices("CN-L", "CN-M", "CN-H")) == 1
    assert len(run().notices("CR")) == 1


@given(
    st.integers(0, 10**6), st.integers(1, 9), st.lists(st.integers(0, 9)), st.integers(1, 40),
    st.integers(0, 10**6),
)  # fmt: skip
def test_wider_bins_keep_all_bytes_at_their_time(
    start_ns: int, bin_ns: int, counts: list[int], width_ns: int, origin_ns: int
) -> None:
    first, total = binned(
        {"start_ns": start_ns, "bin_ns": bin_ns, "bytes": counts}, width_ns, origin_ns
    )
    assert total.sum() == sum(counts)
    for index, count in enumerate(total):
        begin_ns = origin_ns + (first + index) * width_ns
        assert count == sum(
            one
            for number, one in enumerate(counts)
            if begin_ns <= start_ns + number * bin_ns < begin_ns + width_ns
        )


def test_a_run_is_read_back_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(json.dumps(data()))
    queue().save(tmp_path / QUEUE)
    read = Run.load(tmp_path)
    assert read.goodput_mbps == run().goodput_mbps
    assert read.queue.count("drop") == 1


def test_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(json.dumps(data(format=0)))
    with pytest.raises(ValueError, match="format 0, not 3: run it again"):
        Run.load(tmp_path)


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 2), (75, 3), (99, 4), (100, 4)])
def test_percentile(percent: float, expected: float) -> None:
    assert percentile([4, 1, 3, 2], percent) == expected


@given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(0.1, 100))
def test_percentile_is_the_least_value_that_so_many_do_not_exceed(
    values: list[float], percent: float
) -> None:
    found = percentile(values, percent)
    enough = percent / 100 * len(values) * (1 - 1e-9)
    assert sum(value <= found for value in values) >= enough
    assert sum(value < found for value in values) < percent / 100 * len(values) * (1 + 1e-9)


def test_a_share_that_floating_point_has_not_exactly_is_that_share() -> None:
    assert percentile(range(1, 1001), 99.9) == 999


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@given(
    st.lists(st.integers(0, 10**7), max_size=20), st.integers(-500, 1500), st.integers(-500, 1500)
)
def test_bytes_between_agrees_with_a_count_per_millisecond(
    counts: list[int], first_ms: int, last_ms: int
) -> None:
    series = {"start_ns": START_NS, "bin_ns": 50 * MS, "bytes": counts}
    per_ms = [count / 50 for count in counts for _ in range(50)]
    expected = sum(per_ms[max(0, first_ms) : max(0, last_ms)])
    found = bytes_between(series, START_NS + first_ms * MS, START_NS + last_ms * MS)
    assert found == pytest.approx(expected)
