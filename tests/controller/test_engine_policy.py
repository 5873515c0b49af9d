"""What the operator's policy and what was measured make of connections and ports."""

import pytest

from controller.core.effects import TimeControl
from controller.core.entries import Account, Exempt, FlowWindow
from controller.core.policy import Rule, Treatment
from controller.core.regulator import Scheme
from controller.core.values import PortId
from engine_world import RECEIVER, SECOND, SENDERS, World, records, star, two_switches

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
        assert world.entries(1, Account) == set()
        world.place(RECEIVER, PortId(1, 39))
        assert world.engine.flow_table.counts(PortId(1, 39)).flows == 0

    def test_background_is_from_birth(self) -> None:
        world = star(policies=(rule(Treatment.BACKGROUND),))
        world.connect(SENDERS[0], RECEIVER)
        assert world.engine.flow_table.counts(PORT).background == 1
        assert len(world.entries(1, FlowWindow)) == 2

    def test_protected_flows_never_become_background(self) -> None:
        world = star(policies=(rule(Treatment.PROTECT),))
        key = world.connect(SENDERS[0], RECEIVER)
        world.sleep(2 * SECOND)
        assert records(world.volume(1, key, 10**9), "flow_classified") == []
        assert world.engine.flow_table.counts(PORT).burst == 1


class TestMeasuredRtt:
    def answer(self, world: World, switch: int, took_ns: int) -> None:
        asked = [e for e in world.engine.look_at_switches(world.now_ns) if e.switch == switch]
        assert TimeControl(switch, world.now_ns) in asked
        world.engine.control_timed(switch, world.now_ns, world.now_ns + took_ns)

    @pytest.mark.parametrize(
        ("scheme", "rtt_ns"), [(Scheme.WEIR, 200_000), (Scheme.SDTCP, 500_000)]
    )
    def test_a_link_is_timed_by_discovery_and_weir_reckons_with_it(
        self, scheme: Scheme, rtt_ns: int
    ) -> None:
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
            assert limits.rtt_ns == rtt_ns
