"""TCP goes over a protected link while its path is lossy, and by its path otherwise."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.core.bandwidth.protection import ProtectionSettings
from controller.core.flows.relearning import RELEARN_AFTER_NS, RELEARN_FOR_NS
from controller.model.effects import Effect, Install, Withdraw
from controller.model.entries import HeldEntry, HostWindow, LinkPort, NextHop, ProtectedHop
from controller.model.values import Port, PortId, datapath_id
from engine_bench import RECEIVER, SECOND, SENDERS, records
from lossy_fabric import (
    ACC1,
    ACC2,
    DOWN1,
    DOWN2,
    E1,
    E2,
    PEERS,
    PPS,
    SETTINGS,
    UP1,
    UP2,
    Protected,
    S,
)


@pytest.fixture
def bench() -> Protected:
    return Protected().start()


def test_a_clean_path_is_left_alone(bench: Protected) -> None:
    seen = bench.run(60)
    assert not bench.protects
    for event in ("protection_on", "protection_off", "link_lossy", "link_clean"):
        assert records(seen, event) == []


@pytest.mark.parametrize("port", [UP1, DOWN2, UP2, DOWN1], ids=["there", "there", "back", "back"])
def test_a_lossy_path_is_protected_in_both_directions_within_5_s(
    bench: Protected, port: PortId
) -> None:
    bench.run(20)
    bench.loss[port] = 0.01
    seen = bench.run(5)
    assert bench.protects
    told = records(seen, "protection_on")
    assert [(one["switch"], one["destination"], one["port"]) for one in told] == [
        (E1, datapath_id(E2), str(ACC1)),
        (E2, datapath_id(E1), str(ACC2)),
    ]
    there = port in (UP1, DOWN2)
    assert told[0 if there else 1]["loss"] == pytest.approx(0.01, rel=0.9)
    assert told[1 if there else 0]["loss"] == pytest.approx(0.0, abs=1e-4)
    (lossy,) = records(seen, "link_lossy")
    assert (lossy["port"], lossy["peer"]) == (str(port), str(PEERS[port]))
    assert bench.engine.protection.protected_from(E1) == 1
    assert bench.engine.protection.protected_from(S) == 0


def test_losses_of_several_links_add_up(bench: Protected) -> None:
    bench.loss = {UP1: 0.0008, DOWN2: 0.0008}
    seen = bench.run(70)
    assert bench.protects
    assert records(seen, "link_lossy") == []


def test_the_loss_of_a_path_is_told_once_all_of_its_links_are_measured(bench: Protected) -> None:
    def told() -> tuple[list[float | None], float | None]:
        ends = SENDERS[0].address, RECEIVER.address
        path = bench.engine.path_bandwidth(*ends, bench.now_ns)
        return [state.loss.loss if state.loss else None for state in path.links], path.loss

    assert told() == ([None] * 4, None)
    bench.loss = {UP1: 0.01, DOWN2: 0.02}
    bench.pps[DOWN2] = 10.0
    bench.run(15)
    assert told() == ([None, pytest.approx(0.01, rel=0.1), None, None], None)
    bench.pps[DOWN2] = float(PPS)
    bench.run(15)
    links, loss = told()
    assert links == [None, pytest.approx(0.01, rel=0.1), pytest.approx(0.02, rel=0.1), None]
    assert loss == pytest.approx(0.0298, rel=0.1)
    path = bench.engine.path_bandwidth(SENDERS[0].address, RECEIVER.address, bench.now_ns)
    errors = [state.loss.error for state in path.links if state.loss]
    assert path.loss_error == pytest.approx(sum(errors))


def test_it_ends_a_hold_after_the_loss(bench: Protected) -> None:
    bench.loss[UP1] = 0.01
    bench.run(15)
    assert bench.protects
    bench.loss[UP1] = 0.0
    seen = bench.run(30)
    assert bench.protects
    assert records(seen, "link_clean") == []
    seen = bench.run(30)
    assert not bench.protects
    (clean,) = records(seen, "link_clean")
    assert (clean["port"], clean["loss"]) == (str(UP1), 0)
    assert [one["reason"] for one in records(seen, "protection_off")] == ["loss", "loss"]
    assert records(seen, "protection_on") == []


def test_a_loss_around_the_thresholds_does_not_flap(bench: Protected) -> None:
    bench.loss[UP1] = 0.01
    seen = bench.run(15)
    for n in range(20):
        bench.loss[UP1] = 0.0016 if n % 2 else 0.0
        seen += bench.run(15)
    assert bench.protects
    assert len(records(seen, "protection_on")) == 2
    assert len(records(seen, "link_lossy")) == 1


def test_a_loss_between_the_thresholds_changes_nothing(bench: Protected) -> None:
    bench.loss[UP1] = 0.0005
    bench.run(120)
    assert not bench.protects
    bench.loss[UP1] = 0.01
    bench.run(10)
    bench.loss[UP1] = 0.0005
    bench.run(150)
    assert bench.protects


def test_few_packets_prove_nothing(bench: Protected) -> None:
    bench.pps = dict.fromkeys(PEERS, 5.0)
    bench.loss[UP1] = 0.05
    bench.run(60)
    assert not bench.protects


@pytest.mark.parametrize("switch", [E1, E2])
def test_without_a_carrier_tcp_is_back_on_its_path_at_once(bench: Protected, switch: int) -> None:
    bench.loss[UP1] = 0.01
    bench.run(15)
    bench.acc_up = False
    seen = bench.set_acc(switch, up=False)
    assert not bench.protects
    assert [one["reason"] for one in records(seen, "protection_off")] == ["link", "link"]
    bench.run(3)
    assert not bench.protects
    bench.acc_up = True
    bench.set_acc(switch, up=True)
    bench.discover()
    assert bench.protects, "the path is as lossy as before"


def test_a_link_that_keeps_failing_is_used_once_it_has_lasted(bench: Protected) -> None:
    bench.loss[UP1] = 0.01
    bench.run(15)
    for _ in range(5):
        bench.acc_up = False
        bench.set_acc(E1, up=False)
        bench.acc_up = True
        bench.set_acc(E1, up=True)
        bench.discover()
        bench.run(0.5)
    assert not bench.protects
    bench.run(30)
    assert bench.protects


def test_a_protected_port_that_is_removed_is_not_used(bench: Protected) -> None:
    bench.loss[UP1] = 0.01
    bench.run(15)
    bench.do(bench.engine.port_removed(ACC2, bench.now_ns))
    assert not bench.protects


def test_paths_do_not_lead_over_protected_links(bench: Protected) -> None:
    assert {hop.port for hop in bench.entries(E1, NextHop)} == {UP1.port}
    assert {hop.port for hop in bench.entries(E2, NextHop)} == {UP2.port}
    assert {LinkPort(UP1.port), LinkPort(ACC1.port)} <= bench.entries(E1, LinkPort)
    assert LinkPort(ACC2.port) in bench.entries(E2, LinkPort)
    assert not bench.engine.fabric.multipath
    bench.connect(SENDERS[0], RECEIVER)
    path = bench.engine.path_bandwidth(SENDERS[0].address, RECEIVER.address, bench.now_ns)
    assert [state.link for state in path.links[1:]] == [UP1, DOWN2, PortId(E2, 1)]


def test_a_link_with_one_protected_end_is_a_link_like_others() -> None:
    bench = Protected(replace(SETTINGS, ports=("acc1",))).start()
    assert {hop.port for hop in bench.entries(E1, NextHop)} == {ACC1.port}
    bench.loss[UP1] = 0.01
    bench.run(15)
    assert not bench.protects


def test_connections_are_regulated_where_they_were(bench: Protected) -> None:
    bench.connect(SENDERS[0], RECEIVER)
    bench.run(1)
    kept = {switch: bench.entries(switch, HostWindow) for switch in (E1, E2, S)}
    assert kept[E2]
    bench.loss[UP1] = 0.01
    bench.run(15)
    assert bench.protects
    assert {switch: bench.entries(switch, HostWindow) for switch in (E1, E2, S)} == kept
    counts = bench.engine.flow_table.counts
    assert counts(UP1).active_flows == 1
    assert counts(ACC1).active_flows == 0


def test_no_hosts_are_behind_a_protected_port(bench: Protected) -> None:
    bench.acc_up = False
    bench.set_acc(E1, up=False)
    bench.set_acc(E1, up=True)
    bench.now_ns += 60 * SECOND
    assert not bench.engine.fabric.is_edge(ACC1, bench.now_ns)
    bench.place(SENDERS[1], ACC1)
    assert SENDERS[1].mac not in bench.engine.fabric.hosts


def test_without_names_nothing_is_protected() -> None:
    bench = Protected(ProtectionSettings()).start()
    bench.loss[DOWN1] = 0.01
    seen = bench.run(15)
    assert not bench.protects
    assert records(seen, "link_lossy")
    assert {hop.port for hop in bench.entries(E1, NextHop)} == {ACC1.port}, "a link like others"


class TestReconfiguration:
    def use(self, bench: Protected, settings: ProtectionSettings) -> list[Effect]:
        bench.engine.protection.reconfigure(settings)
        return bench.do(bench.engine.tend(bench.now_ns))

    def test_names_that_are_taken_away(self, bench: Protected) -> None:
        bench.loss[UP1] = 0.01
        bench.run(15)
        seen = self.use(bench, ProtectionSettings())
        assert not bench.protects
        assert [one["reason"] for one in records(seen, "protection_off")] == ["settings"] * 2
        assert {hop.port for hop in bench.entries(E1, NextHop)} == {ACC1.port}
        self.use(bench, SETTINGS)
        bench.run(15)
        assert bench.protects
        assert {hop.port for hop in bench.entries(E1, NextHop)} == {UP1.port}

    def test_other_thresholds(self, bench: Protected) -> None:
        bench.loss[UP1] = 0.004
        bench.run(20)
        assert bench.protects
        self.use(bench, replace(SETTINGS, on_loss=0.05, off_loss=0.02, hold_ns=5 * SECOND))
        bench.run(6)
        assert not bench.protects


class TestRestart:
    """A new engine meets switches that an old one has set up."""

    def protecting(self) -> Protected:
        before = Protected().start()
        before.loss[UP1] = 0.01
        before.run(15)
        assert before.protects
        return before

    def survivors(self, before: Protected, switch: int) -> list[HeldEntry]:
        return [HeldEntry(entry, 0, 5 * SECOND) for entry in before.held[switch].values()]

    def restarted(
        self, before: Protected, settings: ProtectionSettings = SETTINGS
    ) -> tuple[Protected, list[Effect]]:
        after = Protected(settings, now_ns=before.now_ns + SECOND)
        after.places = before.places
        seen: list[Effect] = []
        for switch in (E1, E2, S):
            seen += after.adopt(switch, *self.survivors(before, switch))
        return after, seen

    def changes(self, seen: list[Effect]) -> list[Effect]:
        return [
            effect
            for effect in seen
            if isinstance(effect, Install | Withdraw) and isinstance(effect.entry, ProtectedHop)
        ]

    def test_tcp_stays_protected_while_the_loss_is_measured_again(self) -> None:
        after, seen = self.restarted(self.protecting())
        after.loss[UP1] = 0.01
        seen += after.run(60)
        assert after.protects
        assert self.changes(seen) == []

    def test_it_ends_a_hold_after_the_start_if_there_is_no_loss(self) -> None:
        after, seen = self.restarted(self.protecting())
        seen += after.run(29)
        assert after.protects
        assert self.changes(seen) == []
        after.run(3)
        assert not after.protects

    def test_a_carrier_that_is_lost_before_the_link_is_seen(self) -> None:
        after, _ = self.restarted(self.protecting())
        after.set_acc(E1, up=False)
        assert after.hops[E1] == set()

    def test_a_link_that_is_not_there_any_more(self) -> None:
        after, _ = self.restarted(self.protecting())
        after.acc_up = False
        assert after.protects
        after.run(14)
        assert not after.protects

    def test_a_port_that_is_down(self) -> None:
        before = self.protecting()
        after = Protected(now_ns=before.now_ns + SECOND)
        after.acc_up = False
        after.switch_up(E1, *self.survivors(before, E1))
        assert after.entries(E1, ProtectedHop) == set()

    def test_a_controller_that_protects_nothing(self) -> None:
        after, _ = self.restarted(self.protecting(), ProtectionSettings())
        assert not after.protects

    @pytest.mark.parametrize("ends_ns", [0, RELEARN_AFTER_NS + RELEARN_FOR_NS + 20 * SECOND])
    def test_a_switch_that_was_away_when_it_ended(self, ends_ns: int) -> None:
        bench = self.protecting()
        bench.cut = {E1}
        bench.do(bench.engine.switch_down(E1, bench.now_ns))
        bench.set_acc(E2, up=False)
        assert bench.hops[E2] == set()
        assert bench.hops[E1] == {ProtectedHop(E2, 40)}, "nobody can tell it"
        bench.run(ends_ns / SECOND)
        bench.acc_up = False
        bench.switch_up(E1, *self.survivors(bench, E1))
        assert bench.hops[E1] == set()

    def test_a_switch_that_has_lost_its_entries_gets_them_again(self) -> None:
        bench = self.protecting()
        bench.do(bench.engine.switch_down(E1, bench.now_ns))
        bench.adopt(E1)
        bench.discover()
        bench.run(2)
        assert bench.protects

    def test_an_audit_removes_what_is_not_wanted_and_restores_what_is(self) -> None:
        bench = self.protecting()
        tables = bench.engine.tables
        stale = ProtectedHop(99, 7)
        tables.begin_audit(E1)
        held = [entry for entry in bench.held[E1].values() if not isinstance(entry, ProtectedHop)]
        effects = bench.engine.audit_read(E1, [*held, stale], bench.now_ns)
        effects += bench.engine.audited(E1, 0, 0, bench.now_ns)
        assert self.changes(effects) == [Withdraw(E1, stale), Install(E1, ProtectedHop(E2, 40))]


def test_parallel_protected_links_are_used_one_at_a_time() -> None:
    bench = Protected().start()
    second = PortId(E1, 38), PortId(E2, 38)
    for switch, number in second:
        port = Port(number, f"acc{switch}b", bytes(6), up=True)
        bench.do(bench.engine.port_changed(switch, port, bench.now_ns))
    bench.link(*second)
    bench.loss[UP1] = 0.01
    discover: Callable[[], list[Effect]] = bench.discover
    bench.discover = lambda: discover() + bench.link(*second)  # type: ignore[method-assign]
    bench.run(15)
    assert bench.hops[E1] == {ProtectedHop(E2, 38)}
    assert bench.hops[E2] == {ProtectedHop(E1, 38)}
    port = Port(38, "acc2b", bytes(6), up=False)
    bench.do(bench.engine.port_changed(E2, port, bench.now_ns))
    assert bench.protects
