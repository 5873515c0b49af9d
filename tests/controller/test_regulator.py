"""What is in force on a port: by scheme, through notices, in time."""

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controller.core.port_flows import NO_FLOWS, PortCounts
from controller.core.regulator import (
    KEPT_NS,
    NOTICE_LIFE_NS,
    SETTLED_AFTER_NS,
    Regulator,
    RegulatorSettings,
    Scheme,
    WindowSet,
)
from controller.core.room import CARRIED_OUT_NS
from controller.core.values import RELEASED, FlowClass, Hold, Notice, PortId
from controller.core.windows import PortLimits, WindowRules, standing_holds

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND
MSS = 1460
PORT, OTHER = PortId(1, 3), PortId(1, 4)
SECOND = 10**9
TTL_NS = 3 * SECOND
LIMITS = PortLimits(capacity_bps=10**8, rtt_ns=500_000, buffer_bytes=65_536)
RULES = WindowRules(0.9, 10, 2)


def regulator(
    scheme: Scheme,
    counts: PortCounts = NO_FLOWS,
    limits: PortLimits = LIMITS,
    paced: bool = True,
    floor_segments: int = 2,
) -> Regulator:
    """A regulator of one port, on which these flows have settled."""
    rules = RULES._replace(floor_segments=floor_segments)
    subject = Regulator(RegulatorSettings(scheme, TTL_NS, rules))
    subject.configure(PORT, limits, paced, -SETTLED_AFTER_NS)
    subject.flows_changed(PORT, counts, -SETTLED_AFTER_NS)
    subject.restart(PORT.switch, 0)
    subject.refresh(0)
    return subject


def windows(sets: list[WindowSet]) -> dict[FlowClass, int]:
    assert {window.port for window in sets} <= {PORT}
    return {window.cls: window.hold.window_bytes for window in sets}


def in_force(subject: Regulator) -> dict[FlowClass, int]:
    return {cls: subject.in_force(PORT, cls).window_bytes for cls in FlowClass}


class TestSchemes:
    def test_none_says_nothing_whatever_comes(self) -> None:
        subject = regulator(Scheme.NONE)
        assert subject.configure(OTHER, LIMITS, True, 0) == []
        assert subject.flows_changed(PORT, PortCounts(1, 32, MSS), 0) == []
        assert subject.queue_event(PORT, Notice.CN_H, 50_000, 0) == []
        assert subject.refresh(10 * SECOND) == []

    def test_sdtcp_waits_for_the_notice_and_sets_what_is_printed(self) -> None:
        subject = regulator(Scheme.SDTCP)
        assert subject.flows_changed(PORT, PortCounts(1, 4, MSS, 3, 9_000_000), 0) == []
        assert subject.queue_event(PORT, Notice.CN_L, 20_000, 0) == [
            WindowSet(PORT, BACKGROUND, Hold(3500), refresh=False)
        ]
        assert windows(subject.queue_event(PORT, Notice.CN_H, 20_000, 0)) == {
            BACKGROUND: 1460,
            BURST: 6197,
        }

    def test_sdtcp_releases_both_classes_on_cr(self) -> None:
        subject = regulator(Scheme.SDTCP, PortCounts(1, 4, MSS))
        subject.queue_event(PORT, Notice.CN_H, 20_000, 0)
        assert windows(subject.queue_event(PORT, Notice.CR, 0, 0)) == {BACKGROUND: 0, BURST: 0}
        assert subject.queue_event(PORT, Notice.CR, 0, 0) == []

    def test_weir_holds_a_port_from_the_moment_it_is_known(self) -> None:
        subject = Regulator(RegulatorSettings(Scheme.WEIR, TTL_NS, RULES))
        sets = subject.configure(PORT, LIMITS, True, 0)
        expected = standing_holds(NO_FLOWS, LIMITS, RULES, True, settled=False)
        assert {window.cls: window.hold for window in sets} == expected

    def test_weir_follows_the_number_of_flows(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 40, MSS))
        assert in_force(subject)[BURST] == 5 * MSS
        assert windows(subject.flows_changed(PORT, PortCounts(0, 200, MSS), 0)) == {BURST: 3 * MSS}
        assert windows(subject.flows_changed(PORT, NO_FLOWS, 0)) == {BURST: 5 * MSS}

    def test_weir_widens_the_windows_of_few_flows_once_they_have_settled(self) -> None:
        subject = regulator(Scheme.WEIR)
        assert subject.flows_changed(PORT, PortCounts(0, 1, MSS), 0) == []
        assert subject.flows_changed(PORT, PortCounts(0, 2, MSS), SETTLED_AFTER_NS - 1) == []
        subject.refresh(SETTLED_AFTER_NS)
        assert in_force(subject)[BURST] == 5 * MSS
        subject.refresh(2 * SETTLED_AFTER_NS)
        assert in_force(subject)[BURST] == 21 * MSS
        # What ends, goes idle or changes its class opens nothing.
        later_ns = 3 * SETTLED_AFTER_NS
        assert windows(subject.flows_changed(PORT, PortCounts(0, 2, MSS, 1), later_ns)) == {
            BURST: 42 * MSS
        }
        assert subject.flows_changed(PORT, PortCounts(0, 1, MSS), later_ns) == []
        assert windows(subject.flows_changed(PORT, PortCounts(0, 2, MSS), later_ns)) == {
            BURST: 5 * MSS
        }

    def test_weir_narrows_windows_at_once_and_widens_them_after_a_while(
        self,
    ) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 40, MSS))
        assert windows(subject.flows_changed(PORT, PortCounts(0, 200, MSS), SECOND)) == {
            BURST: 3 * MSS
        }
        assert subject.flows_changed(PORT, PortCounts(0, 40, MSS), SECOND + 1) == []
        assert subject.flows_changed(PORT, PortCounts(0, 200, MSS), SECOND + 2) == []
        assert subject.flows_changed(PORT, PortCounts(0, 40, MSS), SECOND + 3) == []
        assert subject.widens_ns == SECOND + KEPT_NS
        assert subject.widen(SECOND + KEPT_NS - 1) == []
        assert windows(subject.widen(SECOND + KEPT_NS)) == {BURST: 5 * MSS}
        assert subject.widens_ns is None
        # Segments that are longer than ever are not waited for.
        later_ns = SECOND + KEPT_NS + 1
        assert windows(subject.flows_changed(PORT, PortCounts(0, 40, 8948), later_ns))

    def test_weir_has_the_smaller_of_both_windows_in_force(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 9, MSS))
        assert in_force(subject) == {BURST: 5 * MSS, BACKGROUND: 10 * MSS}
        before = subject.in_force(PORT, BACKGROUND)
        # W = (6250 + 30000) / 10 = 3625; half of it is 1812: one whole segment, but the floor is 2.
        assert windows(subject.queue_event(PORT, Notice.CN_M, 30_000, 0)) == {BACKGROUND: 2 * MSS}
        # Rate and transit bound stay as they are.
        assert subject.in_force(PORT, BACKGROUND)[1:] == before[1:]
        # (26250 - 1460) / 9 = 2754: less than the pacer has under control.
        assert subject.queue_event(PORT, Notice.CN_H, 20_000, 0) == []

    def test_a_notice_takes_from_burst_flows_what_no_pacer_controls(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 2, MSS))
        assert in_force(subject)[BURST] == 21 * MSS
        # (6250 + 5000) / 2 = 5625, but five segments are under control; 36250 / 2 = 18125.
        assert windows(subject.queue_event(PORT, Notice.CN_H, 5000, 0)) == {BURST: 5 * MSS}
        assert windows(subject.queue_event(PORT, Notice.CN_H, 30_000, 0)) == {BURST: 12 * MSS}

    def test_without_a_pacer_a_notice_lowers_them_to_the_floor(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 9, MSS), paced=False)
        # 26250 / 9 = 2916: a segment, but the floor is two.
        assert windows(subject.queue_event(PORT, Notice.CN_H, 20_000, 0)) == {BURST: 2 * MSS}

    def test_the_floor_may_be_the_papers(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 9, MSS), paced=False, floor_segments=1)
        assert windows(subject.queue_event(PORT, Notice.CN_H, 1000, 0)) == {
            BURST: MSS,
            BACKGROUND: MSS,
        }

    def test_weir_goes_back_to_the_standing_windows_on_cr(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 9, MSS), paced=False)
        before = in_force(subject)
        subject.queue_event(PORT, Notice.CN_H, 30_000, 0)
        assert in_force(subject) != before
        assert windows(subject.queue_event(PORT, Notice.CR, 0, 0)) == before

    def test_a_notice_holds_for_flows_that_come_later(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 1, MSS))
        subject.queue_event(PORT, Notice.CN_M, 40_000, 0)
        subject.flows_changed(PORT, PortCounts(1, 32, MSS), 1)
        assert in_force(subject)[BACKGROUND] == 2 * MSS
        subject.queue_event(PORT, Notice.CR, 0, 2)
        subject.widen(SECOND)
        assert in_force(subject)[BACKGROUND] > 2 * MSS

    def test_background_flows_give_way_to_burst_flows_only(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 4, MSS))
        before = in_force(subject)[BACKGROUND]
        subject.queue_event(PORT, Notice.CN_H, 53_000, 0)
        assert in_force(subject)[BACKGROUND] < before
        subject.flows_changed(PORT, PortCounts(1, 4, MSS, idle=4), 1)
        subject.widen(SECOND)
        assert in_force(subject)[BACKGROUND] >= before

    def test_idle_flows_do_not_count_against_the_busy_ones(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 502, MSS, 500))
        # (6250 + 50000) / 2 = 28125: 19 segments, less than the standing 21.
        assert windows(subject.queue_event(PORT, Notice.CN_H, 50_000, 0)) == {BURST: 19 * MSS}

    @pytest.mark.parametrize(
        ("handshake_ns", "segments"),
        # 58982 + 12500 / 1526 = 46.8; at most 10 ms: 183982 / 1526 = 120.6; at least 50 us: 39.06
        [(1_000_000, 46), (SECOND, 120), (1, 39)],
    )
    def test_the_rtt_is_what_handshakes_took(self, handshake_ns: int, segments: int) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 1, MSS, 0, handshake_ns))
        assert in_force(subject)[BURST] == segments * MSS


class TestPorts:
    def test_limits_that_change_are_followed(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 4, MSS))
        # 0.9 x 32768 + 6250 = 35741; / 6104 = 5.9, and an initial window fits the pacer.
        assert subject.configure(PORT, PortLimits(10**8, 500_000, 131_072), True, 0)
        assert in_force(subject)[BURST] == 20 * MSS
        assert subject.configure(PORT, PortLimits(10**8, 500_000, 131_072), True, 0) == []

    def test_a_port_without_a_queue_is_left_alone(self) -> None:
        subject = Regulator(RegulatorSettings(Scheme.WEIR, TTL_NS, RULES))
        assert subject.flows_changed(PORT, PortCounts(1, 32, MSS), 0) == []
        assert subject.refresh(TTL_NS) == []
        assert windows(subject.configure(PORT, LIMITS, True, 0))[BURST] == 5 * MSS

    def test_a_queue_that_goes_takes_its_windows_along(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 32, MSS))
        subject.queue_event(PORT, Notice.CN_H, 1000, 0)
        sets = subject.withdraw(PORT, 0)
        assert {(window.cls, window.hold) for window in sets} == {
            (BURST, RELEASED),
            (BACKGROUND, RELEASED),
        }
        assert subject.refresh(TTL_NS) == []
        assert windows(subject.configure(PORT, LIMITS, True, 0))[BURST] == 5 * MSS

    def test_a_switch_that_is_gone_is_forgotten(self) -> None:
        subject = regulator(Scheme.WEIR)
        subject.forget(PORT.switch)
        assert subject.refresh(TTL_NS) == []
        assert subject.in_force(PORT, BURST) == RELEASED


class TestTime:
    def test_nothing_is_sent_twice_while_nothing_changes(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 20, MSS))
        assert subject.flows_changed(PORT, PortCounts(0, 20, MSS), 0) == []
        assert subject.refresh(TTL_NS // 3 - 1) == []

    def test_what_is_in_force_is_refreshed_every_third_of_its_life(self) -> None:
        subject = regulator(Scheme.WEIR)
        assert set(subject.refresh(TTL_NS // 3)) == {
            WindowSet(PORT, cls, subject.in_force(PORT, cls), refresh=True) for cls in FlowClass
        }
        assert subject.refresh(TTL_NS // 3) == []
        assert len(subject.refresh(2 * TTL_NS // 3)) == 2

    def test_released_windows_are_not_refreshed(self) -> None:
        subject = regulator(Scheme.SDTCP, PortCounts(1, 4, MSS))
        subject.queue_event(PORT, Notice.CN_H, 20_000, 0)
        subject.queue_event(PORT, Notice.CR, 0, 0)
        assert subject.refresh(TTL_NS) == []

    def test_the_time_to_live_is_told_in_milliseconds(self) -> None:
        assert regulator(Scheme.WEIR).ttl_ms == 3000

    def test_a_switch_that_comes_back_is_told_anew_and_its_notices_are_void(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 9, MSS))
        before = in_force(subject)
        subject.queue_event(PORT, Notice.CN_H, 30_000, 0)
        assert windows(subject.restart(PORT.switch, 1)) == before
        assert subject.restart(PORT.switch + 1, 1) == []

    @pytest.mark.parametrize("scheme", [Scheme.SDTCP, Scheme.WEIR])
    def test_a_lost_cr_does_not_hold_a_port_for_ever(self, scheme: Scheme) -> None:
        subject = regulator(scheme, PortCounts(1, 9, MSS), paced=False)
        before = in_force(subject)
        subject.queue_event(PORT, Notice.CN_H, 30_000, 0)
        held = in_force(subject)
        subject.refresh(NOTICE_LIFE_NS - 1)
        assert in_force(subject) == held
        sets = subject.refresh(NOTICE_LIFE_NS)
        assert windows([window for window in sets if not window.refresh]) == before

    def test_a_queue_that_is_seen_congested_stays_held(self) -> None:
        subject = regulator(Scheme.SDTCP, PortCounts(1, 9, MSS))
        subject.queue_event(PORT, Notice.CN_H, 30_000, 0)
        held = in_force(subject)
        assert subject.congested(PORT, Notice.CN_H, 20_000, 10 * SECOND) == []
        subject.refresh(20 * SECOND)
        assert in_force(subject) == held

    @pytest.mark.parametrize("scheme", [Scheme.SDTCP, Scheme.WEIR])
    def test_a_notice_that_was_not_heard_counts_when_the_queue_is_read(
        self, scheme: Scheme
    ) -> None:
        heard = regulator(scheme, PortCounts(1, 9, MSS), paced=False)
        heard.queue_event(PORT, Notice.CN_H, 30_000, 0)
        subject = regulator(scheme, PortCounts(1, 9, MSS), paced=False)
        assert subject.congested(PORT, Notice.CN_H, 30_000, 0)
        assert in_force(subject) == in_force(heard)
        assert subject.congested(OTHER, Notice.CN_H, 30_000, 0) == [], "nothing is known of it"


counts = st.builds(
    lambda a, b, mss, idle, rtt: PortCounts(a, b, mss if a + b else 0, min(idle, b), rtt),
    st.integers(0, 50),
    st.integers(0, 600),
    st.sampled_from([536, 1460, 8948]),
    st.integers(0, 600),
    st.integers(0, 10**8),
)


class TestRoomOfTheBuffer:
    """Flows that settle as 16 burst flows are all found to be background flows."""

    BEFORE, AFTER = PortCounts(0, 16, MSS), PortCounts(16, 0, MSS)

    @pytest.fixture
    def subject(self) -> Regulator:
        return regulator(Scheme.WEIR, self.BEFORE)

    def test_is_given_to_others_when_those_who_leave_it_have_left(self, subject: Regulator) -> None:
        wanted = standing_holds(self.AFTER, LIMITS, RULES, True)
        first = {window.cls: window.hold for window in subject.flows_changed(PORT, self.AFTER, 0)}
        least = wanted[BACKGROUND]._replace(window_bytes=2 * MSS, transit_bytes=1460)
        assert first == {BURST: wanted[BURST], BACKGROUND: least}
        # 65536 bytes take 5.2 ms at 100 Mb/s, and 10 ms are for switch and paths.
        assert subject.widens_ns == 15_242_880
        assert subject.widen(15_242_879) == []
        (widened,) = subject.widen(15_242_880)
        assert widened == WindowSet(PORT, BACKGROUND, wanted[BACKGROUND], refresh=False)
        assert subject.widens_ns is None

    def test_is_waited_for_with_their_windows_by_flows_that_come_from_nowhere_else(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 9, MSS))
        before = subject.in_force(PORT, BACKGROUND)
        subject.flows_changed(PORT, PortCounts(1, 9, MSS, idle=9), SECOND)
        waiting = subject.in_force(PORT, BACKGROUND)
        assert waiting.window_bytes > before.window_bytes
        assert waiting.transit_bytes == before.transit_bytes
        subject.widen(2 * SECOND)
        assert subject.in_force(PORT, BACKGROUND).transit_bytes > before.transit_bytes

    def test_is_waited_for_anew_by_who_is_back_and_leaves_again(self, subject: Regulator) -> None:
        subject.flows_changed(PORT, self.AFTER, 0)
        subject.flows_changed(PORT, self.BEFORE, 1_000_000)
        subject.flows_changed(PORT, self.AFTER, 15_000_000)
        assert subject.widen(15_242_880) == []
        assert subject.widens_ns == 30_242_880

    def test_that_was_left_long_ago_is_forgotten(self) -> None:
        subject = regulator(Scheme.WEIR)
        subject.flows_changed(PORT, PortCounts(0, 4, MSS), 0)
        subject.refresh(SETTLED_AFTER_NS)  # Their windows are wider now, and the bound is lower.
        subject.flows_changed(PORT, PortCounts(4, 0, MSS), SECOND)
        assert subject.widens_ns == SECOND + 15_242_880

    def test_has_new_connections_open_with_the_windows_that_are_theirs(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 0, MSS))
        subject.flows_changed(PORT, PortCounts(1, 1, MSS), 0)
        assert subject.in_force(PORT, BURST).window_bytes == 5 * MSS

    @pytest.mark.parametrize("scheme", [Scheme.SDTCP, Scheme.NONE])
    def test_is_nobodys_where_nothing_stands_any_more(
        self, subject: Regulator, scheme: Scheme
    ) -> None:
        subject.flows_changed(PORT, self.AFTER, 0)
        subject.reconfigure(RegulatorSettings(scheme, TTL_NS, RULES), 1)
        assert [subject.in_force(PORT, cls) for cls in FlowClass] == [RELEASED, RELEASED]
        assert subject.widens_ns is None

    def test_goes_back_at_once_to_who_was_about_to_leave_it(self, subject: Regulator) -> None:
        before = subject.in_force(PORT, BURST)
        subject.flows_changed(PORT, self.AFTER, 0)
        subject.flows_changed(PORT, self.BEFORE, 1_000_000)
        assert subject.in_force(PORT, BURST) == before
        assert subject.widens_ns is None

    def test_of_a_port_that_is_gone_is_nobodys(self, subject: Regulator) -> None:
        subject.flows_changed(PORT, self.AFTER, 0)
        subject.forget(PORT.switch)
        assert subject.widens_ns is None

    def test_is_not_waited_for_without_a_pacer(self) -> None:
        subject = regulator(Scheme.WEIR, self.BEFORE, paced=False)
        subject.flows_changed(PORT, self.AFTER, 0)
        assert subject.widens_ns is None


class AnyHistory(RuleBasedStateMachine):
    """Two ports in scheme weir, and a switch that does as it is told."""

    @initialize(floor=st.integers(1, 3), paced=st.booleans())
    def start(self, floor: int, paced: bool) -> None:
        self.rules = RULES._replace(floor_segments=floor)
        self.subject = Regulator(RegulatorSettings(Scheme.WEIR, TTL_NS, self.rules))
        self.paced = paced
        self.now_ns = 0
        self.counts = {PORT: NO_FLOWS, OTHER: NO_FLOWS}
        self.limits = {PORT: LIMITS, OTHER: LIMITS}
        self.held: dict[tuple[PortId, FlowClass], tuple[Hold, int]] = {}
        self.former: dict[tuple[PortId, FlowClass], list[tuple[int, Hold]]] = {}
        for port in self.counts:
            self.carry_out(self.subject.configure(port, LIMITS, paced, 0), port)

    def carry_out(self, sets: list[WindowSet], port: PortId | None = None) -> None:
        for window in sets:
            assert port in (None, window.port), "a window for a port other than the event's"
            place = window.port, window.cls
            if place in self.held:
                # It was in force until now.
                self.former.setdefault(place, []).append((self.now_ns, self.held[place][0]))
            self.held[place] = window.hold, self.now_ns

    @rule(port=st.sampled_from([PORT, OTHER]), counts=counts)
    def flows_change(self, port: PortId, counts: PortCounts) -> None:
        self.counts[port] = counts
        self.carry_out(self.subject.flows_changed(port, counts, self.now_ns), port)

    @rule(
        port=st.sampled_from([PORT, OTHER]),
        notice=st.sampled_from(Notice),
        queue_bytes=st.integers(0, 10**6),
    )
    def notice_comes(self, port: PortId, notice: Notice, queue_bytes: int) -> None:
        self.carry_out(self.subject.queue_event(port, notice, queue_bytes, self.now_ns), port)

    @rule(
        port=st.sampled_from([PORT, OTHER]),
        buffer_bytes=st.integers(10**3, 10**6),
        congested=st.none() | st.sampled_from([Notice.CN_L, Notice.CN_M, Notice.CN_H]),
    )
    def queue_is_read(self, port: PortId, buffer_bytes: int, congested: Notice | None) -> None:
        self.limits[port] = PortLimits(10**8, 500_000, buffer_bytes)
        sets = self.subject.configure(port, self.limits[port], self.paced, self.now_ns)
        self.carry_out(sets, port)
        for cls in FlowClass:
            self.former.pop((port, cls), None)  # It was right for another buffer.
        if congested is not None:
            sets = self.subject.congested(port, congested, buffer_bytes // 2, self.now_ns)
            self.carry_out(sets, port)

    @rule(periods=st.integers(1, 60))
    def time_passes(self, periods: int) -> None:
        for _ in range(periods):
            self.a_moment_passes(TTL_NS // 6)
            self.carry_out(self.subject.refresh(self.now_ns))

    @rule(ns=st.integers(10**6, 20 * 10**6))
    def a_moment_passes(self, ns: int) -> None:
        end_ns = self.now_ns + ns
        while (due_ns := self.subject.widens_ns) is not None and due_ns <= end_ns:
            self.now_ns = max(self.now_ns, due_ns)
            self.carry_out(self.subject.widen(self.now_ns))
        self.now_ns = end_ns

    @rule(port=st.sampled_from([PORT, OTHER]))
    def all_is_quiet(self, port: PortId) -> None:
        self.flows_change(port, NO_FLOWS)
        self.notice_comes(port, Notice.CR, 0)
        self.time_passes(20)
        expected = standing_holds(
            NO_FLOWS, self.limits[port], self.rules, self.paced, settled=False
        )
        assert {cls: self.held[port, cls][0] for cls in FlowClass} == expected

    @invariant()
    def what_is_held_is_right(self) -> None:
        for port, counts in self.counts.items():
            limits, mss_bytes = self.limits[port], counts.mss_bytes or MSS
            rtt_ns = min(max(counts.handshake_ns, 50_000), 10_000_000)
            rtt_ns = rtt_ns if counts.handshake_ns else limits.rtt_ns
            floor_bytes = self.rules.floor_segments * mss_bytes
            buffer_bytes = int(0.9 * limits.buffer_bytes)
            most_bytes = max(floor_bytes, buffer_bytes + 10**8 * rtt_ns // (8 * SECOND))
            holds = [self.held[port, cls] for cls in FlowClass]
            for hold, sent_ns in holds:
                assert floor_bytes <= hold.window_bytes <= most_bytes
                assert bool(hold.rate_bytes_per_s) == self.paced
                assert self.now_ns - sent_ns < TTL_NS
            assert sum(hold.transit_bytes for hold, _ in holds) <= max(2 * 1460, buffer_bytes)
            # What was let out by former bounds may be there yet, too.
            since_ns = self.now_ns - 80 * limits.buffer_bytes - CARRIED_OUT_NS
            both_bytes = sum(
                max(
                    [self.held[port, cls][0].transit_bytes]
                    + [
                        hold.transit_bytes
                        for until_ns, hold in self.former.get((port, cls), ())
                        if until_ns > since_ns
                    ]
                )
                for cls in FlowClass
            )
            assert both_bytes <= max(2 * 1460, buffer_bytes) + 1460


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
