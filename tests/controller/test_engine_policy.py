"""What the operator's policy and what was measured make of connections and ports."""

import pytest

from controller.core.congestion.regulator import Scheme
from controller.core.flows.policy import Rule, Treatment
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.model.effects import SetWindows, TimeControl
from controller.model.entries import Exempt, FlowCounter, FlowWindow
from controller.model.flow import ACK, RST, SYN, FlowKey, Segment
from controller.model.values import Port, PortId
from engine_world import (
    MSS,
    RECEIVER,
    SECOND,
    SENDERS,
    World,
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
        world = star(policies=(rule(Treatment.EXEMPT), rule(Treatment.PROTECT)))
        assert world.entries(1, Exempt) == {Exempt(b"", 0, WEB)}
        assert star(n_registers=0, policies=(rule(Treatment.EXEMPT),)).entries(1, Exempt) == set()

    def test_exempted_connections_are_known_but_count_for_no_port(self) -> None:
        world = star(policies=(rule(Treatment.EXEMPT),))
        before = dict(world.windows[1])
        for host in SENDERS:
            world.connect(RECEIVER, host, src_port=host.number)
        assert len(world.engine.flow_table) == len(SENDERS)
        assert world.engine.flow_table.counts(PORT).flows == 0
        assert world.windows[1] == before
        world.sleep(2 * SECOND)
        assert world.entries(1, FlowCounter) == set()
        world.place(RECEIVER, PortId(1, 39))
        assert world.engine.flow_table.counts(PortId(1, 39)).flows == 0

    def test_exempted_connections_are_forgotten_when_they_are_as_old_as_any_may_be(self) -> None:
        world = star(policies=(rule(Treatment.EXEMPT),))
        world.connect(SENDERS[0], RECEIVER)
        world.now_ns += 1800 * SECOND
        world.sleep(SECOND)
        assert len(world.engine.flow_table) == 0

    def test_background_is_from_birth(self) -> None:
        world = star(policies=(rule(Treatment.BACKGROUND),))
        key = world.connect(SENDERS[0], RECEIVER)
        assert world.engine.flow_table.counts(PORT).background == 1
        assert len(world.entries(1, FlowWindow)) == 2
        world.sleep(2 * SECOND)
        for _ in range(4):
            world.now_ns += SECOND
            world.volume(1, key, 1000)
        counts = world.engine.flow_table.counts(PORT)
        assert (counts.background, counts.burst, counts.idle) == (1, 0, 0)
        world.segment(key, RST)
        assert world.engine.flow_table.counts(PORT).flows == 0
        assert world.entries(1, FlowWindow) == set()

    def test_background_keeps_its_windows_while_its_host_is_away(self) -> None:
        world = star(policies=(rule(Treatment.BACKGROUND),))
        world.connect(SENDERS[0], RECEIVER)
        held = world.entries(1, FlowWindow)
        world.do(world.engine.port_removed(PORT, world.now_ns))
        assert world.entries(1, FlowWindow) == set()
        world.do(world.engine.port_changed(1, Port(40, "s1-eth40", bytes(6), True), world.now_ns))
        world.now_ns += PORT_GRACE_NS
        world.place(RECEIVER, PORT)
        assert len(world.entries(1, FlowWindow)) == len(held)

    def test_treatment_is_by_connection_and_not_by_its_ends(self) -> None:
        world = star(policies=(Rule(Treatment.BACKGROUND, port=7),))
        for src_port in (7, 8):
            world.connect(SENDERS[0], RECEIVER, src_port)
        counts = world.engine.flow_table.counts(PORT)
        assert (counts.background, counts.burst) == (1, 1)

    def test_protected_flows_never_become_background(self) -> None:
        world = star(policies=(rule(Treatment.PROTECT),))
        key = world.connect(SENDERS[0], RECEIVER)
        world.sleep(2 * SECOND)
        assert records(world.volume(1, key, 10**9), "flow_classified") == []
        assert world.engine.flow_table.counts(PORT).burst == 1


class TestStandingWindows:
    def window_bytes(self, world: World) -> int:
        return world.windows[1][register_of(world, 1, 40, RECEIVER)]

    def test_flows_that_are_idle_leave_their_share_to_the_others(self) -> None:
        world = star()
        keys = [world.connect(host, RECEIVER) for host in SENDERS]
        world.sleep(2 * SECOND)
        shared = self.window_bytes(world)
        for _ in range(3):
            world.now_ns += SECOND
            for key in keys[1:]:
                world.volume(1, key, 1000)
        assert world.engine.flow_table.counts(PORT).idle == len(keys) - 1
        assert self.window_bytes(world) > shared
        world.volume(1, keys[1], 2000)
        assert world.engine.flow_table.counts(PORT).idle == len(keys) - 2

    def test_a_batch_of_segments_is_answered_by_one_message(self) -> None:
        world = star()
        batch = []
        for host in SENDERS:
            world.connect(host, RECEIVER, src_port=1)
        world.sleep(2 * SECOND)
        for host in SENDERS:
            key = FlowKey(host.address, 2, RECEIVER.address, WEB)
            macs = RECEIVER.mac + host.mac, host.mac + RECEIVER.mac
            batch.append(Segment(host.number, macs[0], key.pack(), SYN, 1, 0, 0, MSS, 7))
            answer = key.reverse.pack()
            batch.append(Segment(PORT.port, macs[1], answer, SYN | ACK, 1, 2, 0, MSS, 7))
        effects = world.do(world.engine.segments(1, batch, world.now_ns))
        (message,) = (effect for effect in effects if isinstance(effect, SetWindows))
        assert len(message.windows) == len(SENDERS)


class TestMeasuredRtt:
    @pytest.mark.parametrize("scheme", [Scheme.WEIR, Scheme.SDTCP])
    def test_handshakes_through_a_port_are_timed_and_reckoned_with(self, scheme: Scheme) -> None:
        world = star(scheme)
        key = FlowKey(SENDERS[0].address, 1, RECEIVER.address, WEB)
        world.segment(key, SYN)
        world.now_ns += 150_000
        world.segment(key.reverse, SYN | ACK)
        limits = world.engine.limits(PORT)
        assert limits is not None
        assert limits.rtt_ns == 150_000
        world.sleep(30 * SECOND)
        limits = world.engine.limits(PORT)
        assert limits is not None
        assert limits.rtt_ns == 500_000

    def answer(self, world: World, switch: int, took_ns: int) -> None:
        asked = [e for e in world.engine.look_at_switches(world.now_ns) if e.switch == switch]
        assert TimeControl(switch, world.now_ns) in asked
        world.engine.control_timed(switch, world.now_ns, world.now_ns + took_ns)

    @pytest.mark.parametrize("scheme", [Scheme.WEIR, Scheme.SDTCP])
    def test_a_link_is_timed_by_discovery_and_reckoned_with(self, scheme: Scheme) -> None:
        world = two_switches(scheme)
        ends = PortId(1, 40), PortId(2, 40)
        limits = world.engine.limits(ends[0])
        assert limits is not None
        assert limits.rtt_ns == 500_000
        for switch in (1, 2):
            self.answer(world, switch, 300_000)
        world.do(world.engine.probe_links(world.now_ns))
        world.now_ns += 400_000
        world.link(*ends)
        assert world.engine.round_trips.control_ns == {1: 300_000, 2: 300_000}
        for end in ends:
            assert world.engine.round_trips.link_ns[end] == 200_000
            limits = world.engine.limits(end)
            assert limits is not None
            assert limits.rtt_ns == 200_000
