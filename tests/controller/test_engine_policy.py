"""What the operator's policy and what was measured make of connections and ports."""

import pytest

from controller.core.congestion.regulator import Scheme
from controller.core.flows.policy import Rule, Treatment
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.model.effects import SetWindows, TimeControl
from controller.model.entries import Exempt, FlowCounter, FlowWindow
from controller.model.flow import ACK, RST, SYN, FlowKey, Segment, SegmentFields
from controller.model.values import Port, PortId
from engine_bench import (
    MSS,
    RECEIVER,
    SECOND,
    SENDERS,
    EngineBench,
    records,
    register_of,
    star,
    two_switches,
)

PORT = PortId(1, 40)
WEB = 80


def rule(treatment: Treatment) -> Rule:
    return Rule(treatment, port=WEB)


class TestPolicy:
    def test_an_exemption_stands_on_every_switch_that_regulates(self) -> None:
        bench = star(policies=(rule(Treatment.EXEMPT), rule(Treatment.PROTECT)))
        assert bench.entries(1, Exempt) == {Exempt(b"", 0, WEB)}
        assert star(n_registers=0, policies=(rule(Treatment.EXEMPT),)).entries(1, Exempt) == set()

    def test_exempted_connections_are_known_but_count_for_no_port(self) -> None:
        bench = star(policies=(rule(Treatment.EXEMPT),))
        before = dict(bench.windows[1])
        for host in SENDERS:
            bench.connect(RECEIVER, host, src_port=host.number)
        assert len(bench.engine.flow_table) == len(SENDERS)
        assert bench.engine.flow_table.counts(PORT).flows == 0
        assert bench.windows[1] == before
        bench.sleep(2 * SECOND)
        assert bench.entries(1, FlowCounter) == set()
        bench.place(RECEIVER, PortId(1, 39))
        assert bench.engine.flow_table.counts(PortId(1, 39)).flows == 0

    def test_exempted_connections_are_forgotten_when_they_are_as_old_as_any_may_be(self) -> None:
        bench = star(policies=(rule(Treatment.EXEMPT),))
        bench.connect(SENDERS[0], RECEIVER)
        bench.now_ns += 1800 * SECOND
        bench.sleep(SECOND)
        assert len(bench.engine.flow_table) == 0

    def test_background_is_from_birth(self) -> None:
        bench = star(policies=(rule(Treatment.BACKGROUND),))
        key = bench.connect(SENDERS[0], RECEIVER)
        assert bench.engine.flow_table.counts(PORT).background == 1
        assert len(bench.entries(1, FlowWindow)) == 2
        bench.sleep(2 * SECOND)
        for _ in range(4):
            bench.now_ns += SECOND
            bench.volume(1, key, 1000)
        counts = bench.engine.flow_table.counts(PORT)
        assert (counts.background, counts.burst, counts.idle) == (1, 0, 0)
        bench.segment(key, RST)
        assert bench.engine.flow_table.counts(PORT).flows == 0
        assert bench.entries(1, FlowWindow) == set()

    def test_background_keeps_its_windows_while_its_host_is_away(self) -> None:
        bench = star(policies=(rule(Treatment.BACKGROUND),))
        bench.connect(SENDERS[0], RECEIVER)
        held = bench.entries(1, FlowWindow)
        bench.do(bench.engine.port_removed(PORT, bench.now_ns))
        assert bench.entries(1, FlowWindow) == set()
        bench.do(bench.engine.port_changed(1, Port(40, "s1-eth40", bytes(6), True), bench.now_ns))
        bench.now_ns += PORT_GRACE_NS
        bench.place(RECEIVER, PORT)
        assert len(bench.entries(1, FlowWindow)) == len(held)

    def test_treatment_is_by_connection_and_not_by_its_ends(self) -> None:
        bench = star(policies=(Rule(Treatment.BACKGROUND, port=7),))
        for src_port in (7, 8):
            bench.connect(SENDERS[0], RECEIVER, src_port)
        counts = bench.engine.flow_table.counts(PORT)
        assert (counts.background, counts.burst) == (1, 1)

    def test_protected_flows_never_become_background(self) -> None:
        bench = star(policies=(rule(Treatment.PROTECT),))
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(2 * SECOND)
        assert records(bench.volume(1, key, 10**9), "flow_classified") == []
        assert bench.engine.flow_table.counts(PORT).burst == 1


class TestStandingWindows:
    def window_bytes(self, bench: EngineBench) -> int:
        return bench.windows[1][register_of(bench, 1, 40, RECEIVER)]

    def test_flows_that_are_idle_leave_their_share_to_the_others(self) -> None:
        bench = star()
        keys = [bench.connect(host, RECEIVER) for host in SENDERS]
        bench.sleep(2 * SECOND)
        shared = self.window_bytes(bench)
        for _ in range(3):
            bench.now_ns += SECOND
            for key in keys[1:]:
                bench.volume(1, key, 1000)
        assert bench.engine.flow_table.counts(PORT).idle == len(keys) - 1
        assert self.window_bytes(bench) > shared
        bench.volume(1, keys[1], 2000)
        assert bench.engine.flow_table.counts(PORT).idle == len(keys) - 2

    def test_a_batch_of_segments_is_answered_by_one_message(self) -> None:
        bench = star()
        batch: list[SegmentFields] = []
        for host in SENDERS:
            bench.connect(host, RECEIVER, src_port=1)
        bench.sleep(2 * SECOND)
        for host in SENDERS:
            key = FlowKey(host.address, 2, RECEIVER.address, WEB)
            macs = RECEIVER.mac + host.mac, host.mac + RECEIVER.mac
            batch.append(Segment(host.number, macs[0], key.pack(), SYN, 1, 0, 0, MSS, 7))
            answer = key.reverse.pack()
            batch.append(Segment(PORT.port, macs[1], answer, SYN | ACK, 1, 2, 0, MSS, 7))
        effects = bench.do(bench.engine.segments(1, batch, bench.now_ns))
        (message,) = (effect for effect in effects if isinstance(effect, SetWindows))
        assert len(message.windows) == len(SENDERS)


class TestMeasuredRtt:
    @pytest.mark.parametrize("scheme", [Scheme.WEIR, Scheme.SDTCP])
    def test_handshakes_through_a_port_are_timed_and_reckoned_with(self, scheme: Scheme) -> None:
        bench = star(scheme)
        key = FlowKey(SENDERS[0].address, 1, RECEIVER.address, WEB)
        bench.segment(key, SYN)
        bench.now_ns += 150_000
        bench.segment(key.reverse, SYN | ACK)
        limits = bench.engine.limits(PORT)
        assert limits is not None
        assert limits.rtt_ns == 150_000
        bench.sleep(30 * SECOND)
        limits = bench.engine.limits(PORT)
        assert limits is not None
        assert limits.rtt_ns == 500_000

    def answer(self, bench: EngineBench, switch: int, took_ns: int) -> None:
        assert TimeControl(switch, bench.now_ns) in bench.engine.look_at_switches(bench.now_ns)
        bench.engine.control_timed(switch, bench.now_ns, bench.now_ns + took_ns)

    @pytest.mark.parametrize("scheme", [Scheme.WEIR, Scheme.SDTCP])
    def test_a_link_is_timed_by_discovery_and_reckoned_with(self, scheme: Scheme) -> None:
        bench = two_switches(scheme)
        ends = PortId(1, 40), PortId(2, 40)
        limits = bench.engine.limits(ends[0])
        assert limits is not None
        assert limits.rtt_ns == 500_000
        for switch in (1, 2):
            self.answer(bench, switch, 300_000)
        bench.do(bench.engine.probe_links(bench.now_ns))
        bench.now_ns += 400_000
        bench.link(*ends)
        assert bench.engine.round_trips.control_ns == {1: 300_000, 2: 300_000}
        for end in ends:
            assert bench.engine.round_trips.link_ns[end] == 200_000
            limits = bench.engine.limits(end)
            assert limits is not None
            assert limits.rtt_ns == 200_000
