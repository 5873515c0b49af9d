"""Scheme `sdtcp` through time: by the letter of Algorithm 1 it sticks, otherwise it does not."""

import pytest

from controller.core.congestion.egress_ports import EgressQueue
from controller.core.congestion.regulation import Features
from controller.core.congestion.regulator import RegulatorSettings, Scheme
from controller.core.congestion.windows import PortLimits, WindowRules, notice_interval_us
from controller.model.effects import RepeatNotices
from controller.model.flow import ACK, RST, SYN, FlowKey
from controller.model.values import FlowClass, Notice, Port, PortId
from engine_bench import (
    CREDIT,
    LIMITS,
    MSS,
    RECEIVER,
    SECOND,
    SENDERS,
    EngineBench,
    make_engine,
    star,
)

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND
PORT = PortId(1, 40)
MB = 10**6
# Q(t) at L and at H: 30 % and 80 % of 64 KiB.
L_BYTES, H_BYTES = 19_661, 52_429
BDP_BYTES = LIMITS.bdp_bytes


def windows(bench: EngineBench) -> dict[FlowClass, int]:
    return {cls: bench.engine.regulation.in_force(PORT, cls).window_bytes for cls in FlowClass}


def beside_a_background_flow(repeat_notices: bool) -> EngineBench:
    """A lone flow makes the queue pass L, M and H within its first second, and keeps it above H.
    Then it is known for a background flow, and then 31 readers connect."""
    bench = star(Scheme.SDTCP, repeat_notices=repeat_notices)
    key = bench.connect(SENDERS[0], RECEIVER)
    for notice, queue_bytes in (
        (Notice.CN_L, L_BYTES),
        (Notice.CN_M, 39_322),
        (Notice.CN_H, H_BYTES),
    ):
        bench.notice(PORT, notice, queue_bytes)
    # So far it is the only burst flow, and has all of Eq. (2).
    assert windows(bench) == {BURST: BDP_BYTES + H_BYTES, BACKGROUND: 0}
    bench.sleep(2 * SECOND)
    bench.volume(1, key, 10**7)
    for host in SENDERS[1:]:
        bench.connect(host, RECEIVER)
    return bench


class TestLetterAndOurs:
    def test_by_the_letter_nothing_is_ever_told_again(self) -> None:
        bench = beside_a_background_flow(repeat_notices=False)
        # Every one of 31 readers is still allowed what one flow was, and the background flow more.
        assert windows(bench) == {BURST: BDP_BYTES + H_BYTES, BACKGROUND: 0}

    def test_with_repeated_notices_windows_follow_the_flows(self) -> None:
        bench = beside_a_background_flow(repeat_notices=True)
        # Eq. (7) and (8): a = 1, b = 31.
        expected = (BDP_BYTES + H_BYTES - MSS) // 31
        assert windows(bench) == {BURST: expected, BACKGROUND: MSS}

    def test_and_the_queue(self) -> None:
        bench = beside_a_background_flow(repeat_notices=True)
        bench.notice(PORT, Notice.CN_H, 52_000)
        assert windows(bench)[BURST] == (BDP_BYTES + 52_000 - MSS) // 31
        # What is in flight beyond H is not shared out.
        bench.notice(PORT, Notice.CN_H, 60_000)
        assert windows(bench)[BURST] == (BDP_BYTES + 52_000 - MSS) // 31
        # Eq. (5) has something to say to background flows only: 2/3 of what all have.
        bench.notice(PORT, Notice.CN_L, 20_000)
        assert windows(bench) == {
            BURST: (BDP_BYTES + 52_000 - MSS) // 31,
            BACKGROUND: max(2 * (BDP_BYTES + 20_000) // (3 * 32), MSS),
        }
        bench.notice(PORT, Notice.CR, 0)
        assert windows(bench) == {BURST: 0, BACKGROUND: 0}

    def test_who_ends_leaves_the_rest_more(self) -> None:
        bench = beside_a_background_flow(repeat_notices=True)
        for host in SENDERS[16:]:
            key = next(
                flow
                for flow in bench.engine.flow_table.flows(PORT, BURST)
                if flow.src == host.address
            )
            bench.segment(key, RST)
        bench.sleep(SECOND)
        assert windows(bench)[BURST] == (BDP_BYTES + H_BYTES - MSS) // 15


class TestLoneBackgroundFlow:
    def test_at_h_it_is_asked_for_half_since_nobody_would_have_the_rest(self) -> None:
        bench = star(Scheme.SDTCP)
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(2 * SECOND)
        bench.volume(1, key, 10**7)
        bench.notice(PORT, Notice.CN_H, H_BYTES)
        assert windows(bench) == {BURST: 0, BACKGROUND: (BDP_BYTES + H_BYTES) // 2}
        bench.connect(SENDERS[1], RECEIVER)
        assert windows(bench) == {BURST: BDP_BYTES + H_BYTES - MSS, BACKGROUND: MSS}

    def test_by_the_letter_it_is_left_one_segment(self) -> None:
        bench = star(Scheme.SDTCP, repeat_notices=False)
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(2 * SECOND)
        bench.volume(1, key, 10**7)
        bench.notice(PORT, Notice.CN_H, H_BYTES)
        assert windows(bench) == {BURST: 0, BACKGROUND: MSS}


class TestWhoCounts:
    def test_who_sends_nothing_leaves_the_others_no_less(self) -> None:
        """Eq. (8) divides by who sends towards the port; others only acknowledge, or are idle."""
        bench = star(Scheme.SDTCP)
        keys = [bench.connect(host, RECEIVER) for host in SENDERS[:8]]
        bench.sleep(2 * SECOND)
        for volume in range(1, 6):
            for key in keys[:4]:
                bench.volume(1, key, volume * 1000)
            for key in keys[4:]:
                bench.volume(1, key, 0)
            bench.sleep(SECOND)
        assert bench.engine.flow_table.counts(PORT).idle == 4
        bench.notice(PORT, Notice.CN_H, H_BYTES)
        assert windows(bench)[BURST] == (BDP_BYTES + H_BYTES) // 4

    def test_nor_does_a_background_flow_that_has_gone_quiet(self) -> None:
        """Eq. (3) and (5) share out among those that send; one that has stopped is in BGT still."""
        bench = star(Scheme.SDTCP)
        keys = [bench.connect(host, RECEIVER) for host in SENDERS[:2]]
        bench.sleep(2 * SECOND)
        for volume in range(2, 6):
            bench.volume(1, keys[0], 2 * MB)
            bench.volume(1, keys[1], volume * MB)
            bench.sleep(SECOND)
        counts = bench.engine.flow_table.counts(PORT)
        assert (counts.background, counts.idle_background) == (2, 1)
        bench.notice(PORT, Notice.CN_L, L_BYTES)
        assert windows(bench)[BACKGROUND] == (BDP_BYTES + L_BYTES) * 2 // 3


class TestRtt:
    def timed(self, took_ns: int, bench: EngineBench, number: int) -> None:
        key = FlowKey(SENDERS[number].address, 9, RECEIVER.address, 80)
        bench.segment(key, SYN)
        bench.now_ns += took_ns
        bench.segment(key.reverse, SYN | ACK)

    def rtt_ns(self, bench: EngineBench) -> int:
        limits = bench.engine.limits(PORT)
        assert limits is not None
        return limits.rtt_ns

    def test_c_times_rtt_is_of_the_least_handshake(self) -> None:
        bench = star(Scheme.SDTCP)
        self.timed(900_000, bench, 0)
        self.timed(300_000, bench, 1)
        self.timed(700_000, bench, 2)
        assert self.rtt_ns(bench) == 300_000
        bench.notice(PORT, Notice.CN_H, H_BYTES)
        # 100 Mb/s x 300 us = 3750 bytes.
        assert windows(bench)[BURST] == (3750 + H_BYTES) // 3

    def test_what_waited_in_the_queue_is_not_the_rtt(self) -> None:
        bench = star(Scheme.SDTCP)
        self.timed(300_000, bench, 0)
        bench.notice(PORT, Notice.CN_H, H_BYTES)
        bench.sleep(30 * SECOND // 2)
        self.timed(5_000_000, bench, 1)
        bench.sleep(SECOND)
        assert self.rtt_ns(bench) == 300_000
        bench.notice(PORT, Notice.CR, 0)
        self.timed(5_000_000, bench, 2)
        assert self.rtt_ns(bench) == 300_000, "it may have waited all the same"
        bench.sleep(25 * SECOND)
        self.timed(2_000_000, bench, 3)
        assert self.rtt_ns(bench) == 2_000_000, "the path is another one"


class TestIntervals:
    def test_two_round_trips_through_the_full_queue(self) -> None:
        # 64 KiB at 100 Mb/s are 5243 us.
        assert notice_interval_us(LIMITS) == 11_485
        assert notice_interval_us(PortLimits(10**11, 50_000, 2**17)) == 1000

    def test_a_switch_is_asked_when_a_port_has_a_queue(self) -> None:
        bench = star(Scheme.SDTCP)
        assert bench.intervals_us == {PortId(1, n): 11_485 for n in range(1, 41)}

    @pytest.mark.parametrize(
        ("scheme", "repeat_notices"),
        [(Scheme.SDTCP, False), (Scheme.WEIR, True), (Scheme.NONE, True)],
    )
    def test_by_the_letter_and_in_other_schemes_it_is_not(
        self, scheme: Scheme, repeat_notices: bool
    ) -> None:
        bench = star(scheme, repeat_notices=repeat_notices)
        assert bench.intervals_us == {}

    def test_it_is_asked_again_on_a_new_connection_and_if_it_matters(self) -> None:
        bench = star(Scheme.SDTCP)
        bench.intervals_us.clear()
        bench.sleep(3 * SECOND)
        assert bench.intervals_us == {}
        bench.queue = EgressQueue(10**8, 70_000)
        bench.sleep(SECOND)
        assert bench.intervals_us == {}, "that is nearly the same"
        bench.queue = EgressQueue(10**8, 262_144)
        bench.sleep(SECOND)
        assert set(bench.intervals_us.values()) == {2 * (500_000 + 20_971_520) // 1000}
        bench.intervals_us.clear()
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.switch_up(1)
        assert len(bench.intervals_us) == 40

    def test_another_scheme_wants_none(self) -> None:
        bench = star(Scheme.SDTCP)
        settings = RegulatorSettings(Scheme.NONE, 3 * SECOND, WindowRules(0.9, 2), CREDIT)
        bench.engine._regulation.reconfigure(settings, bench.now_ns)
        effects = bench.do(bench.engine.refresh_windows(bench.now_ns))
        assert any(isinstance(effect, RepeatNotices) for effect in effects)
        assert set(bench.intervals_us.values()) == {0}

    def test_a_switch_that_cannot_is_not_asked(self) -> None:
        bench = EngineBench(make_engine(Scheme.SDTCP))
        features = Features(1024, tells_queues=True)
        ports = [Port(1, "s1-eth1", bytes(6), True)]
        bench.do(bench.engine.switch_up(1, ports, features, (), bench.now_ns))
        assert bench.engine.limits(PortId(1, 1)) is not None
        assert bench.intervals_us == {}


def test_the_queues_of_a_switch_are_not_those_of_an_unpatched_one_in_its_place() -> None:
    bench = star()
    port_id = PortId(1, 1)
    assert bench.engine.regulation.queue(port_id) is not None
    bench.do(bench.engine.switch_down(1, bench.now_ns))
    ports = [Port(1, "s1-eth1", bytes(6), True)]
    bench.do(bench.engine.switch_up(1, ports, Features(0), (), bench.now_ns))
    assert bench.engine.regulation.queue(port_id) is None
