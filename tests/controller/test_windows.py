"""SDTCP Eq. (2)-(8) and the standing windows, with numbers worked by hand."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.congestion.windows import (
    CreditRules,
    PortLimits,
    WindowRules,
    account_holds,
    lowered_hold,
    paper_windows,
    standing_holds,
)
from controller.core.flows.port_counts import PortCounts
from controller.model.values import Credit, FlowClass, Hold, Notice

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND
MSS = 1460
# 100 Mbit/s x 500 us = 6250 bytes; a 64 KiB buffer.
LIMITS = PortLimits(capacity_bps=10**8, rtt_ns=500_000, buffer_bytes=65_536)
RULES = WindowRules(buffer_share=0.9, floor_segments=2)


def test_the_bandwidth_delay_product_is_in_bytes() -> None:
    assert LIMITS.bdp_bytes == 6250


class TestPaper:
    """total = 6250 + 20000 = 26250 bytes; N = 5, so W = 5250 (Eq. 3)."""

    counts = PortCounts(background=1, burst=4, mss_bytes=MSS)
    total_bytes = 6250 + 20_000

    def test_cn_l_takes_two_thirds_of_the_fair_share(self) -> None:
        assert paper_windows(Notice.CN_L, self.counts, self.total_bytes) == {BACKGROUND: 3500}

    def test_cn_m_takes_half(self) -> None:
        assert paper_windows(Notice.CN_M, self.counts, self.total_bytes) == {BACKGROUND: 2625}

    def test_cn_h_leaves_a_segment_to_background_and_the_rest_to_burst(self) -> None:
        # (26250 - 1 x 1460) / 4 = 6197.5
        expected = {BACKGROUND: 1460, BURST: 6197}
        assert paper_windows(Notice.CN_H, self.counts, self.total_bytes) == expected

    def test_no_window_is_below_one_segment(self) -> None:
        counts = PortCounts(background=10, burst=30, mss_bytes=MSS)
        assert paper_windows(Notice.CN_L, counts, self.total_bytes) == {BACKGROUND: MSS}
        assert paper_windows(Notice.CN_M, counts, self.total_bytes) == {BACKGROUND: MSS}
        # (26250 - 14600) / 30 = 388
        expected = {BACKGROUND: MSS, BURST: MSS}
        assert paper_windows(Notice.CN_H, counts, self.total_bytes) == expected

    def test_without_background_flows_only_cn_h_sets_anything(self) -> None:
        counts = PortCounts(background=0, burst=5, mss_bytes=MSS)
        assert paper_windows(Notice.CN_L, counts, self.total_bytes) == {}
        assert paper_windows(Notice.CN_M, counts, self.total_bytes) == {}
        assert paper_windows(Notice.CN_H, counts, self.total_bytes) == {BURST: 5250}

    def test_without_burst_flows_burst_gets_no_window(self) -> None:
        counts = PortCounts(background=2, burst=0, mss_bytes=MSS)
        assert paper_windows(Notice.CN_H, counts, self.total_bytes) == {BACKGROUND: MSS}
        # 2/3 x 26250 / 2 = 8750
        assert paper_windows(Notice.CN_L, counts, self.total_bytes) == {BACKGROUND: 8750}

    @pytest.mark.parametrize("notice", [Notice.CN_L, Notice.CN_M, Notice.CN_H])
    def test_without_flows_there_is_nobody_to_slow_down(self, notice: Notice) -> None:
        assert paper_windows(notice, PortCounts(0, 0, 0), self.total_bytes) == {}


def test_with_an_account_a_class_has_its_weight_and_no_window() -> None:
    assert account_holds(CreditRules(max_hold_ms=160, burst_weight=7, background_weight=1)) == {
        BURST: Hold(0, Credit(bound_bytes=0, max_hold_ms=160, weight=7)),
        BACKGROUND: Hold(0, Credit(bound_bytes=0, max_hold_ms=160, weight=1)),
    }


class TestStanding:
    """Buffer and path are 58982 + 6250 = 65232 bytes; a full segment on the wire is 1526."""

    def holds(
        self, a: int, b: int, idle: int = 0, mss_bytes: int = MSS
    ) -> Mapping[FlowClass, Hold]:
        return standing_holds(PortCounts(a, b, mss_bytes, idle), LIMITS, RULES)

    def segments(self, a: int, b: int, idle: int = 0) -> tuple[int, int]:
        holds = self.holds(a, b, idle)
        assert all(hold.window_bytes % MSS == 0 for hold in holds.values())
        assert all(hold.credit is None for hold in holds.values())
        return holds[BURST].window_bytes // MSS, holds[BACKGROUND].window_bytes // MSS

    def test_an_empty_port_is_held_as_for_one_flow(self) -> None:
        # 65232 / 1526 = 42.7
        expected = {BURST: Hold(42 * MSS), BACKGROUND: Hold(2 * MSS)}
        assert self.holds(0, 0, mss_bytes=0) == expected

    @pytest.mark.parametrize(
        ("flows", "segments"),
        [(2, 21), (4, 10), (5, 8), (6, 7), (20, 2), (60, 2)],
    )
    def test_burst_flows_have_what_fits_but_never_less_than_the_floor(
        self, flows: int, segments: int
    ) -> None:
        assert self.segments(0, flows)[0] == segments

    def test_idle_flows_leave_the_port_to_the_busy_one(self) -> None:
        assert self.segments(0, 501, idle=500)[0] == 42

    def test_a_quarter_is_kept_for_bursts_to_come(self) -> None:
        # 3/4 of 65232 = 48924; / 1526 = 32.06
        assert self.segments(1, 0)[1] == 32
        assert self.segments(1, 7, idle=7) == (42, 32)

    def test_a_quarter_is_what_background_flows_keep(self) -> None:
        # 65232 / 4 = 16307; / 1526 = 10.7
        assert self.segments(1, 32) == (2, 10)

    def test_the_floor_is_of_segments_as_they_are(self) -> None:
        assert self.holds(0, 40, mss_bytes=8948)[BURST].window_bytes == 2 * 8948


class TestLowered:
    counts = PortCounts(1, 9, MSS)

    @pytest.mark.parametrize(
        ("told_bytes", "segments"), [(5 * MSS, 5), (5 * MSS - 1, 4), (MSS, 2), (11 * MSS, 10)]
    )
    def test_to_whole_segments_within_the_floor_and_what_stands(
        self, told_bytes: int, segments: int
    ) -> None:
        lowered = lowered_hold(Hold(10 * MSS), told_bytes, self.counts, RULES)
        assert lowered == Hold(segments * MSS)


counts = st.builds(
    lambda a, b, mss, idle: PortCounts(a, b, mss if a + b else 0, min(idle, b)),
    st.integers(0, 2000),
    st.integers(0, 2000),
    st.integers(88, 9000),
    st.integers(0, 2000),
)
limits = st.builds(
    PortLimits, st.integers(10**5, 10**12), st.integers(0, 10**7), st.integers(1, 2**30)
)
rules = st.builds(WindowRules, st.floats(0.01, 1), st.integers(min_value=1, max_value=4))


@given(counts, limits, rules)
def test_the_bounds_of_standing_windows(
    counts: PortCounts, limits: PortLimits, rules: WindowRules
) -> None:
    holds = standing_holds(counts, limits, rules)
    mss_bytes = counts.mss_bytes or MSS
    floor_bytes = rules.floor_segments * mss_bytes
    buffer_bytes = int(rules.buffer_share * limits.buffer_bytes)
    for hold in holds.values():
        assert hold.credit is None
        assert hold.window_bytes >= floor_bytes
        assert hold.window_bytes <= max(floor_bytes, buffer_bytes + limits.bdp_bytes)
        assert hold.window_bytes % mss_bytes == 0
