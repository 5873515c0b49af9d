"""SDTCP Eq. (2)-(9) with numbers worked by hand, the anticipation, refreshing and release."""

import pytest

from controller.core.flow_table import PortCounts
from controller.core.regulator import (
    PortLimits,
    Regulator,
    RegulatorSettings,
    Scheme,
    WindowSet,
    anticipated_windows,
    paper_windows,
)
from controller.core.values import FlowClass, Notice, PortId

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND
MSS = 1460
PORT = PortId(1, 3)
SECOND = 10**9
TTL_NS = 3 * SECOND
HOLD_NS = SECOND // 20

# 100 Mbit/s x 500 us = 6250 bytes; a 64 KiB buffer.
LIMITS = PortLimits(capacity_bps=10**8, rtt_ns=500_000, buffer_bytes=65_536)


def regulator(scheme: Scheme, limits: PortLimits = LIMITS) -> Regulator:
    return Regulator(RegulatorSettings(scheme, TTL_NS, 10, 0.9, HOLD_NS), limits)


def settled(counts: PortCounts) -> Regulator:
    """Weir's regulator when the last of these flows has been there for a while."""
    subject = regulator(Scheme.WEIR)
    subject.flows_changed(PORT, counts, -HOLD_NS)
    subject.end_openings(0)
    return subject


def windows(sets: list[WindowSet]) -> dict[FlowClass, int]:
    assert {window.port for window in sets} <= {PORT}
    return {window.cls: window.window_bytes for window in sets}


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


class TestAnticipation:
    """budget = 0.9 x 65536 + 6250 = 65232 bytes; a full segment on the wire is 1460 + 66 = 1526."""

    def windows(self, a: int, b: int, mss_bytes: int = MSS) -> dict[FlowClass, int]:
        return anticipated_windows(PortCounts(a, b, mss_bytes), LIMITS, 0.9, 10)

    def test_four_flows_get_their_initial_window_without_help(self) -> None:
        # 65232 / (4 x 1526) = 10.69
        assert self.windows(0, 4) == {}

    def test_five_flows_do_not(self) -> None:
        # 65232 / (5 x 1526) = 8.55
        assert self.windows(0, 5) == {BURST: 8 * MSS, BACKGROUND: 8 * MSS}

    def test_background_flows_get_as_much_as_burst_flows(self) -> None:
        # N = 20: 65232 / (20 x 1526) = 2.1
        assert self.windows(4, 16) == {BURST: 2 * MSS, BACKGROUND: 2 * MSS}

    def test_only_background_flows(self) -> None:
        assert self.windows(8, 0)[BACKGROUND] == 5 * MSS

    def test_past_the_law_one_segment_is_all_there_is(self) -> None:
        # 43 x 1526 > 65232
        assert self.windows(3, 60) == {BURST: MSS, BACKGROUND: MSS}

    def test_no_flows(self) -> None:
        assert self.windows(0, 0, 0) == {}

    def test_small_segments(self) -> None:
        # 65232 / (20 x 602) = 5.4
        assert self.windows(0, 20, 536) == {BURST: 5 * 536, BACKGROUND: 5 * 536}


class TestSchemes:
    def test_none_says_nothing_whatever_comes(self) -> None:
        subject = regulator(Scheme.NONE)
        assert subject.flows_changed(PORT, PortCounts(1, 32, MSS), 0) == []
        assert subject.queue_event(PORT, Notice.CN_H, 50_000, 65_536, 0) == []
        assert subject.refresh(10 * SECOND) == []

    def test_sdtcp_waits_for_the_notice_and_sets_what_is_printed(self) -> None:
        subject = regulator(Scheme.SDTCP)
        assert subject.flows_changed(PORT, PortCounts(1, 4, MSS), 0) == []
        assert windows(subject.queue_event(PORT, Notice.CN_L, 20_000, 0, 0)) == {BACKGROUND: 3500}
        assert windows(subject.queue_event(PORT, Notice.CN_H, 20_000, 0, 0)) == {
            BACKGROUND: 1460,
            BURST: 6197,
        }

    def test_sdtcp_releases_both_classes_on_cr(self) -> None:
        subject = regulator(Scheme.SDTCP)
        subject.flows_changed(PORT, PortCounts(1, 4, MSS), 0)
        subject.queue_event(PORT, Notice.CN_H, 20_000, 0, 0)
        assert windows(subject.queue_event(PORT, Notice.CR, 0, 0, 0)) == {BACKGROUND: 0, BURST: 0}
        assert subject.queue_event(PORT, Notice.CR, 0, 0, 0) == []

    def test_weir_sets_windows_before_any_notice(self) -> None:
        subject = regulator(Scheme.WEIR)
        sets = subject.flows_changed(PORT, PortCounts(1, 32, MSS), 0)
        assert windows(sets) == {BURST: MSS, BACKGROUND: MSS}

    def test_weir_has_the_smaller_of_both_windows_in_force(self) -> None:
        subject = settled(PortCounts(1, 9, MSS))
        # Anticipated: 65232 / (10 x 1526) = 4.3 segments for each.
        assert subject.in_force(PORT, BACKGROUND) == 4 * MSS
        # W = (6250 + 30000) / 10 = 3625; 2/3 of it 2416: one whole segment.
        assert windows(subject.queue_event(PORT, Notice.CN_L, 30_000, 0, 0)) == {BACKGROUND: MSS}
        # (36250 - 1460) / 9 = 3865: two whole segments.
        assert windows(subject.queue_event(PORT, Notice.CN_H, 30_000, 0, 0)) == {BURST: 2 * MSS}

    def test_weir_goes_back_to_the_anticipated_windows_on_cr(self) -> None:
        subject = settled(PortCounts(1, 9, MSS))
        subject.queue_event(PORT, Notice.CN_H, 30_000, 0, 0)
        assert windows(subject.queue_event(PORT, Notice.CR, 0, 0, 0)) == {
            BURST: 4 * MSS,
            BACKGROUND: 4 * MSS,
        }

    def test_weir_widens_the_windows_when_flows_end(self) -> None:
        subject = settled(PortCounts(0, 20, MSS))
        widened = windows(subject.flows_changed(PORT, PortCounts(0, 10, MSS), 0))
        assert widened == {BURST: 4 * MSS, BACKGROUND: 4 * MSS}
        released = windows(subject.flows_changed(PORT, PortCounts(0, 4, MSS), 0))
        assert released == {BURST: 0, BACKGROUND: 0}

    def test_weir_holds_nobody_once_the_last_flow_has_ended(self) -> None:
        subject = settled(PortCounts(0, 20, MSS))
        subject.queue_event(PORT, Notice.CN_H, 60_000, 0, 0)
        released = windows(subject.flows_changed(PORT, PortCounts(0, 0, 0), 0))
        assert released == {BURST: 0, BACKGROUND: 0}

    def test_the_limit_that_the_switch_tells_counts(self) -> None:
        subject = settled(PortCounts(0, 10, MSS))
        # 0.9 x 32768 + 6250 = 35741; / 15260 = 2.3
        sets = subject.queue_event(PORT, Notice.CN_L, 9_000, 32_768, 0)
        assert windows(sets) == {BURST: 2 * MSS, BACKGROUND: 2 * MSS}

    def test_a_port_may_have_limits_of_its_own(self) -> None:
        subject = settled(PortCounts(0, 20, MSS))
        subject.configure(PORT, PortLimits(10**9, 500_000, 10**6))
        released = windows(subject.flows_changed(PORT, PortCounts(0, 19, MSS), 0))
        assert released == {BURST: 0, BACKGROUND: 0}


class TestOpening:
    """While flows are being added, a port's flows are held to one segment each."""

    def test_the_hold_lasts_until_no_flow_has_been_added_for_its_time(self) -> None:
        subject = regulator(Scheme.WEIR)
        assert windows(subject.flows_changed(PORT, PortCounts(0, 1, MSS), 0)) == {
            BURST: MSS,
            BACKGROUND: MSS,
        }
        assert subject.flows_changed(PORT, PortCounts(0, 2, MSS), HOLD_NS // 2) == []
        assert subject.end_openings(HOLD_NS) == []
        assert windows(subject.end_openings(HOLD_NS * 3 // 2)) == {BURST: 0, BACKGROUND: 0}
        assert subject.end_openings(SECOND) == []

    def test_connections_without_end_do_not_hold_a_port_for_ever(self) -> None:
        subject, step_ns, held = regulator(Scheme.WEIR), HOLD_NS * 4 // 5, 0
        steps = range(1000)
        for step in steps:
            now_ns = step * step_ns
            subject.flows_changed(PORT, PortCounts(0, 1 + step % 2, MSS), now_ns)
            subject.end_openings(now_ns)
            held += subject.in_force(PORT, BURST) == MSS
        assert 0 < held < len(steps) / 3

    def test_then_the_fair_share_is_in_force(self) -> None:
        subject = regulator(Scheme.WEIR)
        subject.flows_changed(PORT, PortCounts(0, 20, MSS), 0)
        sets = subject.end_openings(HOLD_NS)
        assert windows(sets) == {BURST: 2 * MSS, BACKGROUND: 2 * MSS}

    def test_the_end_or_the_class_of_a_flow_opens_nothing(self) -> None:
        subject = settled(PortCounts(0, 4, MSS))
        assert subject.flows_changed(PORT, PortCounts(1, 3, MSS), 0) == []
        assert subject.flows_changed(PORT, PortCounts(0, 3, MSS), 0) == []

    def test_ports_open_each_for_itself(self) -> None:
        subject, other = regulator(Scheme.WEIR), PortId(1, 4)
        subject.flows_changed(PORT, PortCounts(0, 1, MSS), 0)
        subject.flows_changed(other, PortCounts(0, 1, MSS), 10)
        subject.flows_changed(PORT, PortCounts(0, 2, MSS), 20)
        assert {window.port for window in subject.end_openings(HOLD_NS + 10)} == {other}
        assert {window.port for window in subject.end_openings(HOLD_NS + 20)} == {PORT}

    def test_the_paper_knows_no_such_hold(self) -> None:
        subject = regulator(Scheme.SDTCP)
        assert subject.flows_changed(PORT, PortCounts(0, 20, MSS), 0) == []
        assert subject.end_openings(SECOND) == []


class TestTime:
    def test_nothing_is_sent_twice_while_nothing_changes(self) -> None:
        subject = settled(PortCounts(0, 20, MSS))
        assert subject.flows_changed(PORT, PortCounts(0, 20, MSS), 0) == []
        assert subject.refresh(TTL_NS // 3 - 1) == []

    def test_windows_in_force_are_refreshed_every_third_of_their_life(self) -> None:
        subject = settled(PortCounts(0, 20, MSS))
        assert set(subject.refresh(TTL_NS // 3)) == {
            WindowSet(PORT, cls, 2 * MSS, refresh=True) for cls in (BURST, BACKGROUND)
        }
        assert subject.refresh(TTL_NS // 3) == []
        assert len(subject.refresh(2 * TTL_NS // 3)) == 2

    def test_released_windows_are_not_refreshed(self) -> None:
        subject = settled(PortCounts(0, 20, MSS))
        subject.flows_changed(PORT, PortCounts(0, 1, MSS), 0)
        assert subject.refresh(TTL_NS) == []

    def test_the_time_to_live_is_told_in_milliseconds(self) -> None:
        assert regulator(Scheme.WEIR).ttl_ms == 3000

    def test_a_switch_that_comes_back_is_told_anew_and_its_notices_are_void(self) -> None:
        subject = settled(PortCounts(1, 9, MSS))
        subject.queue_event(PORT, Notice.CN_H, 30_000, 0, 0)
        assert windows(subject.restart(PORT.switch, 1)) == {BURST: 4 * MSS, BACKGROUND: 4 * MSS}
        assert subject.restart(PORT.switch + 1, 1) == []
