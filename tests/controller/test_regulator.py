"""What is in force on a port: by scheme, through notices, in time."""

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controller.core.congestion.regulator import (
    KEPT_NS,
    NOTICE_LIFE_NS,
    HoldUpdate,
    Regulator,
    RegulatorSettings,
    Scheme,
)
from controller.core.congestion.windows import (
    CreditRules,
    PortLimits,
    WindowRules,
    account_holds,
    standing_holds,
)
from controller.core.flows.port_counts import NO_FLOWS, PortCounts
from controller.model.values import RELEASED, FlowClass, Hold, Notice, PortId

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND
MSS = 1460
PORT, OTHER = PortId(1, 3), PortId(1, 4)
SECOND = 10**9
TTL_NS = 3 * SECOND
LIMITS = PortLimits(capacity_bps=10**8, rtt_ns=500_000, buffer_bytes=65_536)
RULES = WindowRules(0.9, 2)
CREDIT = CreditRules(160, 7, 1)


def settings(scheme: Scheme, floor_segments: int = 2) -> RegulatorSettings:
    rules = RULES._replace(floor_segments=floor_segments)
    return RegulatorSettings(scheme, TTL_NS, rules, CREDIT)


def regulator(
    scheme: Scheme,
    counts: PortCounts = NO_FLOWS,
    has_account: bool = False,
    floor_segments: int = 2,
) -> Regulator:
    """A regulator of one port, on which there are these flows."""
    subject = Regulator(settings(scheme, floor_segments))
    subject.configure(PORT, LIMITS, has_account, 0)
    subject.flows_changed(PORT, counts, 0)
    subject.restart(PORT.switch, 0)
    return subject


def windows(sets: list[HoldUpdate]) -> dict[FlowClass, int]:
    assert {window.port for window in sets} <= {PORT}
    return {window.cls: window.hold.window_bytes for window in sets}


def in_force(subject: Regulator) -> dict[FlowClass, int]:
    return {cls: subject.in_force(PORT, cls).window_bytes for cls in FlowClass}


class TestSchemes:
    def test_none_says_nothing_whatever_comes(self) -> None:
        subject = regulator(Scheme.NONE)
        assert subject.configure(OTHER, LIMITS, False, 0) == []
        assert subject.flows_changed(PORT, PortCounts(1, 32, MSS), 0) == []
        assert subject.queue_event(PORT, Notice.CN_H, 50_000, 0) == []
        assert subject.refresh(10 * SECOND) == []

    def test_sdtcp_waits_for_the_notice_and_sets_what_is_printed(self) -> None:
        subject = regulator(Scheme.SDTCP)
        assert subject.flows_changed(PORT, PortCounts(1, 4, MSS), 0) == []
        assert subject.queue_event(PORT, Notice.CN_L, 20_000, 0) == [
            HoldUpdate(PORT, BACKGROUND, Hold(3500), refresh=False)
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
        subject = Regulator(settings(Scheme.WEIR))
        sets = subject.configure(PORT, LIMITS, False, 0)
        expected = standing_holds(NO_FLOWS, LIMITS, RULES)
        assert {window.cls: window.hold for window in sets} == expected

    def test_weir_follows_the_number_of_flows(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 4, MSS))
        assert in_force(subject)[BURST] == 10 * MSS
        assert windows(subject.flows_changed(PORT, PortCounts(0, 6, MSS), 0)) == {BURST: 7 * MSS}
        assert windows(subject.flows_changed(PORT, NO_FLOWS, SECOND)) == {BURST: 42 * MSS}

    def test_weir_narrows_windows_at_once_and_widens_them_after_a_while(
        self,
    ) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 4, MSS))
        assert windows(subject.flows_changed(PORT, PortCounts(0, 6, MSS), SECOND)) == {
            BURST: 7 * MSS
        }
        assert subject.flows_changed(PORT, PortCounts(0, 4, MSS), SECOND + 1) == []
        assert subject.flows_changed(PORT, PortCounts(0, 6, MSS), SECOND + 2) == []
        assert subject.flows_changed(PORT, PortCounts(0, 4, MSS), SECOND + 3) == []
        assert subject.widens_ns == SECOND + KEPT_NS
        assert subject.widen(SECOND + KEPT_NS - 1) == []
        assert windows(subject.widen(SECOND + KEPT_NS)) == {BURST: 10 * MSS}
        assert subject.widens_ns is None
        # Segments that are longer than ever are not waited for.
        later_ns = SECOND + KEPT_NS + 1
        assert windows(subject.flows_changed(PORT, PortCounts(0, 4, 8948), later_ns))

    def test_what_waits_to_be_widened_goes_with_its_switch(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 6, MSS))
        subject.flows_changed(PORT, PortCounts(0, 4, MSS), 1)
        assert subject.widens_ns == KEPT_NS
        subject.forget(PORT.switch)
        assert subject.widens_ns is None
        assert subject.widen(KEPT_NS) == []

    def test_weir_has_the_smaller_of_both_windows_in_force(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 9, MSS))
        assert in_force(subject) == {BURST: 4 * MSS, BACKGROUND: 10 * MSS}
        # W = (6250 + 30000) / 10 = 3625; half of it is 1812: one whole segment, but the floor is 2.
        assert windows(subject.queue_event(PORT, Notice.CN_M, 30_000, 0)) == {BACKGROUND: 2 * MSS}
        # (56250 - 1460) / 9 = 6087: no less than what stands.
        assert subject.queue_event(PORT, Notice.CN_H, 50_000, 0) == []

    def test_a_notice_lowers_burst_flows_to_the_floor(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 9, MSS))
        # 26250 / 9 = 2916: a segment, but the floor is two.
        assert windows(subject.queue_event(PORT, Notice.CN_H, 20_000, 0)) == {BURST: 2 * MSS}

    def test_the_floor_may_be_the_papers(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 9, MSS), floor_segments=1)
        assert windows(subject.queue_event(PORT, Notice.CN_H, 1000, 0)) == {
            BURST: MSS,
            BACKGROUND: MSS,
        }

    def test_weir_goes_back_to_the_standing_windows_on_cr(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(1, 9, MSS))
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
        # 0.9 x 131072 + 6250 = 124214; / 6104 = 20.3
        assert subject.configure(PORT, PortLimits(10**8, 500_000, 131_072), False, 0)
        assert in_force(subject)[BURST] == 20 * MSS
        assert subject.configure(PORT, PortLimits(10**8, 500_000, 131_072), False, 0) == []

    def test_a_port_without_a_queue_is_left_alone(self) -> None:
        subject = Regulator(settings(Scheme.WEIR))
        assert subject.flows_changed(PORT, PortCounts(1, 32, MSS), 0) == []
        assert subject.refresh(TTL_NS) == []
        assert windows(subject.configure(PORT, LIMITS, False, 0))[BURST] == 2 * MSS

    def test_a_queue_that_goes_takes_its_windows_along(self) -> None:
        subject = regulator(Scheme.WEIR, PortCounts(0, 32, MSS))
        subject.queue_event(PORT, Notice.CN_H, 1000, 0)
        sets = subject.withdraw(PORT, 0)
        assert {(window.cls, window.hold) for window in sets} == {
            (BURST, RELEASED),
            (BACKGROUND, RELEASED),
        }
        assert subject.refresh(TTL_NS) == []
        assert windows(subject.configure(PORT, LIMITS, False, 0))[BURST] == 2 * MSS

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
            HoldUpdate(PORT, cls, subject.in_force(PORT, cls), refresh=True) for cls in FlowClass
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
        subject = regulator(scheme, PortCounts(1, 9, MSS))
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
        heard = regulator(scheme, PortCounts(1, 9, MSS))
        heard.queue_event(PORT, Notice.CN_H, 30_000, 0)
        subject = regulator(scheme, PortCounts(1, 9, MSS))
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


class TestAccounts:
    """Where the switch keeps an account of credit for the port."""

    HOLDS = account_holds(CREDIT)

    @pytest.fixture
    def subject(self) -> Regulator:
        return regulator(Scheme.WEIR, PortCounts(1, 32, MSS), has_account=True)

    def test_weir_puts_both_classes_into_it_from_the_moment_the_port_is_known(self) -> None:
        subject = Regulator(settings(Scheme.WEIR))
        sets = subject.configure(PORT, LIMITS, True, 0)
        assert {window.cls: window.hold for window in sets} == self.HOLDS

    def test_nothing_changes_with_flows_limits_and_measured_times(self, subject: Regulator) -> None:
        for counts in (
            PortCounts(0, 1, MSS),
            PortCounts(500, 1000, 8948, 300, 9_000_000),
            NO_FLOWS,
        ):
            assert subject.flows_changed(PORT, counts, SECOND) == []
        assert subject.configure(PORT, PortLimits(10**10, 10_000, 10**6), True, SECOND) == []
        assert subject.widens_ns is None

    @pytest.mark.parametrize("notice", [Notice.CN_L, Notice.CN_M, Notice.CN_H])
    def test_nothing_changes_with_notices_but_they_are_to_be_seen(
        self, subject: Regulator, notice: Notice
    ) -> None:
        assert subject.queue_event(PORT, notice, 50_000, 0) == []
        assert subject.notice(PORT) is notice
        assert subject.flows_changed(PORT, PortCounts(9, 90, MSS), 1) == []
        assert subject.queue_event(PORT, Notice.CR, 0, 2) == []
        assert subject.notice(PORT) is None

    def test_a_notice_that_nothing_confirms_is_forgotten(self, subject: Regulator) -> None:
        subject.queue_event(PORT, Notice.CN_H, 50_000, 0)
        assert all(window.refresh for window in subject.refresh(NOTICE_LIFE_NS))
        assert subject.notice(PORT) is None

    def test_it_is_kept_open_while_the_port_is_regulated(self, subject: Regulator) -> None:
        assert set(subject.refresh(TTL_NS // 3)) == {
            HoldUpdate(PORT, cls, hold, refresh=True) for cls, hold in self.HOLDS.items()
        }
        assert {(window.cls, window.hold) for window in subject.withdraw(PORT, SECOND)} == {
            (BURST, RELEASED),
            (BACKGROUND, RELEASED),
        }

    def test_a_switch_that_comes_back_is_told_of_it_anew(self, subject: Regulator) -> None:
        sets = subject.restart(PORT.switch, 1)
        assert {window.cls: window.hold for window in sets} == self.HOLDS

    def test_a_switch_may_come_back_with_or_without_it(self, subject: Regulator) -> None:
        sets = subject.configure(PORT, LIMITS, False, 1)
        expected = standing_holds(PortCounts(1, 32, MSS), LIMITS, RULES)
        assert {window.cls: window.hold for window in sets} == expected
        sets = subject.configure(PORT, LIMITS, True, 2)
        assert {window.cls: window.hold for window in sets} == self.HOLDS

    def test_other_rules_are_told_at_once(self, subject: Regulator) -> None:
        other = CreditRules(20, 3, 1)
        changed = RegulatorSettings(Scheme.WEIR, TTL_NS, RULES, other)
        sets = subject.reconfigure(changed, 1)
        assert {window.cls: window.hold for window in sets} == account_holds(other)
        assert subject.reconfigure(changed, 2) == []

    def test_sdtcp_goes_by_windows_alone(self, subject: Regulator) -> None:
        sets = subject.reconfigure(settings(Scheme.SDTCP), 1)
        assert {window.hold for window in sets} == {RELEASED}
        subject.flows_changed(PORT, PortCounts(1, 4, MSS), 1)
        assert subject.queue_event(PORT, Notice.CN_L, 20_000, 2) == [
            HoldUpdate(PORT, BACKGROUND, Hold(3500), refresh=False)
        ]

    def test_none_lets_go_of_it(self, subject: Regulator) -> None:
        sets = subject.reconfigure(settings(Scheme.NONE), 1)
        assert {window.hold for window in sets} == {RELEASED}


class AnyHistory(RuleBasedStateMachine):
    """Two ports in scheme weir, and a switch that does as it is told."""

    @initialize(floor=st.integers(1, 3), has_account=st.booleans())
    def start(self, floor: int, has_account: bool) -> None:
        self.window_rules = RULES._replace(floor_segments=floor)
        self.subject = Regulator(settings(Scheme.WEIR, floor))
        self.has_account = has_account
        self.now_ns = 0
        self.counts = {PORT: NO_FLOWS, OTHER: NO_FLOWS}
        self.limits = {PORT: LIMITS, OTHER: LIMITS}
        # A handshake that may have waited in the queue is not the RTT: which one is, the regulator
        # knows; here, that it is one of them.
        self.longest_ns = {PORT: LIMITS.rtt_ns, OTHER: LIMITS.rtt_ns}
        self.held: dict[tuple[PortId, FlowClass], tuple[Hold, int]] = {}
        for port in self.counts:
            self.carry_out(self.subject.configure(port, LIMITS, has_account, 0), port)

    def carry_out(self, sets: list[HoldUpdate], port: PortId | None = None) -> None:
        for window in sets:
            assert port in (None, window.port), "a window for a port other than the event's"
            self.held[window.port, window.cls] = window.hold, self.now_ns

    @rule(port=st.sampled_from([PORT, OTHER]), counts=counts)
    def flows_change(self, port: PortId, counts: PortCounts) -> None:
        self.counts[port] = counts
        self.longest_ns[port] = max(self.longest_ns[port], min(counts.handshake_ns, 10_000_000))
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
        sets = self.subject.configure(port, self.limits[port], self.has_account, self.now_ns)
        self.carry_out(sets, port)
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
        self.time_passes(60)
        self.longest_ns[port] = LIMITS.rtt_ns
        expected = standing_holds(NO_FLOWS, self.limits[port], self.window_rules)
        if self.has_account:
            expected = account_holds(CREDIT)
        assert {cls: self.held[port, cls][0] for cls in FlowClass} == expected

    @invariant()
    def what_is_held_is_right(self) -> None:
        for port, counts in self.counts.items():
            limits, mss_bytes = self.limits[port], counts.mss_bytes or MSS
            floor_bytes = self.window_rules.floor_segments * mss_bytes
            buffer_bytes = int(0.9 * limits.buffer_bytes)
            bdp_bytes = 10**8 * self.longest_ns[port] // (8 * SECOND)
            most_bytes = max(floor_bytes, buffer_bytes + bdp_bytes)
            for cls in FlowClass:
                hold, sent_ns = self.held[port, cls]
                assert self.now_ns - sent_ns < TTL_NS
                if self.has_account:
                    assert hold == account_holds(CREDIT)[cls]
                else:
                    assert floor_bytes <= hold.window_bytes <= most_bytes
                    assert hold.credit is None


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = hypothesis_settings(max_examples=60, stateful_step_count=40)
