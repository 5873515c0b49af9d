"""SDTCP Eq. (2)-(8) and the standing windows, with numbers worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.port_flows import PortCounts
from controller.core.values import FlowClass, Hold, Notice
from controller.core.windows import (
    HEADERS_BYTES,
    LEAST_TRANSIT_BYTES,
    PortLimits,
    WindowRules,
    paper_windows,
    standing_holds,
)

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND
MSS = 1460
# 100 Mbit/s x 500 us = 6250 bytes; a 64 KiB buffer.
LIMITS = PortLimits(capacity_bps=10**8, rtt_ns=500_000, buffer_bytes=65_536)
RULES = WindowRules(buffer_share=0.9, initial_window_segments=10, floor_segments=2)
# Of 0.9 x 65536 bytes of buffer, and of 12.5 MB/s, the part that is data.
DATA, RATE = 58_982 * 1460 // 1526, 12_500_000 * 1460 // 1526


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


class TestStanding:
    """Buffer and path are 58982 + 6250 = 65232 bytes; a full segment on the wire is 1526."""

    def holds(
        self, a: int, b: int, idle: int = 0, paced: bool = True, mss_bytes: int = MSS
    ) -> dict[FlowClass, Hold]:
        return standing_holds(PortCounts(a, b, mss_bytes, idle), LIMITS, RULES, paced)

    def segments(self, a: int, b: int, idle: int = 0, paced: bool = True) -> tuple[int, int]:
        holds = self.holds(a, b, idle, paced)
        assert all(hold.window_bytes % MSS == 0 for hold in holds.values())
        return holds[BURST].window_bytes // MSS, holds[BACKGROUND].window_bytes // MSS

    def test_an_empty_port_is_held_as_for_one_flow(self) -> None:
        # 65232 / 1526 = 42.7
        expected = {
            BURST: Hold(42 * MSS, RATE, DATA - MSS - 14_600),
            BACKGROUND: Hold(5 * MSS, RATE, MSS),
        }
        assert self.holds(0, 0, mss_bytes=0) == expected

    @pytest.mark.parametrize(
        ("flows", "segments"),
        [
            (2, 21),
            (4, 10),
            (6, 7),
            # From here on they do not fit together; the pacer makes them wait, for 80 ms at most,
            # even if there will be 128 of them: 1,000,000 / (128 x 1526) = 5.1
            (10, 5),
            (128, 5),
            (200, 3),
            (400, 2),
        ],
    )
    def test_burst_flows(self, flows: int, segments: int) -> None:
        assert self.segments(0, flows)[0] == segments

    @pytest.mark.parametrize(("flows", "segments"), [(0, 5), (1, 5), (4, 5), (128, 5), (200, 3)])
    def test_before_they_settle_windows_are_as_for_many(self, flows: int, segments: int) -> None:
        counts = PortCounts(0, flows, MSS if flows else 0)
        hold = standing_holds(counts, LIMITS, RULES, paced=True, settled=False)[BURST]
        assert hold.window_bytes == segments * MSS

    @pytest.mark.parametrize("settled", [False, True])
    def test_where_initial_windows_are_under_control_they_need_not_settle(
        self, settled: bool
    ) -> None:
        fast = PortLimits(10**9, 500_000, 10**6)
        hold = standing_holds(PortCounts(0, 2, MSS), fast, RULES, True, settled)[BURST]
        # (900000 + 62500) / (2 x 1526) = 315.4
        assert hold.window_bytes == 315 * MSS

    @pytest.mark.parametrize(
        ("scale", "flight_bytes"), [(0, 7300), (7, 7424), (13, 8192), (14, 16_384)]
    )
    def test_a_flight_is_as_large_as_its_window_can_be_told(
        self, scale: int, flight_bytes: int
    ) -> None:
        counts = PortCounts(0, 16, MSS, window_scale=scale)
        hold = standing_holds(counts, LIMITS, RULES, paced=True)[BURST]
        assert hold == Hold(5 * MSS, RATE, DATA - MSS - flight_bytes)

    def test_idle_flows_leave_the_port_to_the_busy_one(self) -> None:
        assert self.segments(0, 501, idle=500)[0] == 42

    @pytest.mark.parametrize(("flows", "segments"), [(4, 10), (5, 8), (20, 2), (60, 2)])
    def test_without_a_pacer_only_what_fits(self, flows: int, segments: int) -> None:
        assert self.segments(0, flows, paced=False)[0] == segments
        assert self.holds(0, flows, paced=False)[BURST][1:] == (0, 0)

    def test_a_quarter_is_kept_for_bursts_to_come(self) -> None:
        holds = self.holds(1, 0)
        kept = DATA // 4
        # The pacer passes a bound by up to a flight, but half of a part is always there.
        assert holds[BURST].transit_bytes == kept // 2
        assert holds[BACKGROUND].transit_bytes == DATA - kept - 14_600
        # 3/4 of 65232 = 48924; / 1526 = 32.06
        assert self.segments(1, 0)[1] == 32
        assert self.segments(1, 7, idle=7) == (42, 32)

    def test_a_quarter_is_what_background_flows_keep(self) -> None:
        holds = self.holds(1, 32)
        assert holds[BACKGROUND].transit_bytes == DATA // 4 // 2
        assert holds[BURST].transit_bytes == DATA - DATA // 4 - 5 * MSS
        # 65232 / 4 = 16307; / 1526 = 10.7
        assert self.segments(1, 32) == (5, 10)

    def test_a_fast_link_has_room_for_initial_windows(self) -> None:
        fast = PortLimits(10**10, 100_000, 10**6)
        hold = standing_holds(PortCounts(0, 500, MSS), fast, RULES, paced=True)[BURST]
        assert hold.window_bytes == 10 * MSS

    def test_large_segments_have_smaller_flights(self) -> None:
        # RFC 6928: at most max(2 x 8948, 14600), that is, two.
        holds = self.holds(0, 40, mss_bytes=8948)
        assert holds[BURST].window_bytes == 2 * 8948

    def test_a_rate_that_no_pacer_keeps_is_none(self) -> None:
        slow = PortLimits(100_000, 500_000, 65_536)
        hold = standing_holds(PortCounts(0, 1, MSS), slow, RULES, paced=True)[BURST]
        assert hold == Hold(38 * MSS, 0, 0)


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
rules = st.builds(
    WindowRules, st.floats(0.01, 1), st.integers(1, 100), st.integers(min_value=1, max_value=4)
)


@given(counts, limits, rules, st.booleans(), st.booleans())
def test_the_bounds_of_standing_windows(
    counts: PortCounts, limits: PortLimits, rules: WindowRules, paced: bool, settled: bool
) -> None:
    holds = standing_holds(counts, limits, rules, paced, settled)
    mss_bytes = counts.mss_bytes or MSS
    floor_bytes = rules.floor_segments * mss_bytes
    buffer_bytes = int(rules.buffer_share * limits.buffer_bytes)
    for hold in holds.values():
        assert hold.window_bytes >= floor_bytes
        assert hold.window_bytes <= max(floor_bytes, buffer_bytes + limits.bdp_bytes)
        assert hold.window_bytes % mss_bytes == 0
        assert hold.rate_bytes_per_s == 0 or 14_600 <= hold.rate_bytes_per_s <= 10**12
        assert hold.transit_bytes >= LEAST_TRANSIT_BYTES * bool(hold.rate_bytes_per_s)
        assert bool(hold.rate_bytes_per_s) == bool(hold.transit_bytes)
        wire_bytes = mss_bytes + HEADERS_BYTES
        assert hold.rate_bytes_per_s * wire_bytes <= limits.capacity_bps / 8 * mss_bytes
    # With all headers they fit, if two bounds do that a pacer takes.
    in_transit_bytes = sum(hold.transit_bytes for hold in holds.values())
    fits_bytes = buffer_bytes * mss_bytes // (mss_bytes + HEADERS_BYTES)
    assert in_transit_bytes <= max(2 * LEAST_TRANSIT_BYTES, fits_bytes)
