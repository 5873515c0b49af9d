"""The entries that put all that enters by a port into the port's account of credit."""

import pytest

from controller.core.congestion.regulator import Scheme
from controller.core.congestion.windows import CreditRules, account_holds
from controller.core.flows.policy import Rule, Treatment
from controller.model.effects import Install, Withdraw
from controller.model.entries import Exempt, HeldEntry, HostWindow, PortWindow
from controller.model.values import FlowClass, Notice, Port, PortId
from engine_bench import (
    CREDIT,
    QUEUE,
    RECEIVER,
    SECOND,
    SENDERS,
    EngineBench,
    make_engine,
    records,
    register_of,
    star,
    two_switches,
)
from test_reload import reconfigure, settings

EVERY_PORT = range(1, 41)


def ports_of(bench: EngineBench, switch: int = 1) -> dict[int, int]:
    """The ports with such an entry, and their registers."""
    entries = bench.entries(switch, PortWindow)
    return {entry.port: entry.register for entry in entries}


class TestAccounts:
    def test_every_port_with_a_queue_has_its_account_before_there_is_any_connection(self) -> None:
        bench = star(keeps_accounts=True)
        assert bench.holds[1] == {
            (PortId(1, port), cls): hold
            for port in EVERY_PORT
            for cls, hold in account_holds(CREDIT).items()
        }

    def test_connections_and_notices_set_nothing(self) -> None:
        bench = star(keeps_accounts=True)
        for host in SENDERS:
            bench.connect(RECEIVER, host)
            assert records(bench.last, "window_set") == []
        port = PortId(1, 40)
        assert records(bench.notice(port, Notice.CN_H, 60_000), "window_set") == []
        assert bench.engine.regulation.notice(port) is Notice.CN_H

    def test_they_are_told_in_the_event_log(self) -> None:
        bench = star(keeps_accounts=True, queue=None)
        effects = bench.do(bench.engine.queues_read(1, {40: QUEUE}, bench.now_ns))
        (sent,) = records(effects, "window_set")
        assert sent["windows"] == [
            {
                "port": 40,
                "class": cls,
                "register": register,
                "window_bytes": 0,
                "credit": {"bound_bytes": 0, "max_hold_ms": 160, "weight": weight},
            }
            for register, (cls, weight) in enumerate((("burst", 7), ("background", 1)))
        ]

    def test_other_rules_are_in_force_at_once(self) -> None:
        bench = star(keeps_accounts=True)
        other = CreditRules(20, 3, 1)
        reconfigure(bench, settings(credit=other))
        hold = bench.engine.regulation.in_force(PortId(1, 40), FlowClass.BACKGROUND)
        assert hold == account_holds(other)[FlowClass.BACKGROUND]


class TestWhere:
    def test_every_port_with_a_queue_is_covered_before_there_is_any_connection(self) -> None:
        bench = star(keeps_accounts=True)
        assert ports_of(bench).keys() == set(EVERY_PORT)
        assert len(set(ports_of(bench).values())) == len(EVERY_PORT)
        assert all(register % 2 == 0 for register in ports_of(bench).values())

    def test_its_register_is_that_of_the_hosts_there(self) -> None:
        bench = star(keeps_accounts=True)
        bench.connect(SENDERS[0], RECEIVER)
        assert ports_of(bench)[40] == register_of(bench, 1, 40, RECEIVER)
        assert ports_of(bench)[1] == register_of(bench, 1, 1, SENDERS[0])

    def test_links_are_covered_as_the_hosts_behind_them(self) -> None:
        bench = two_switches(keeps_accounts=True)
        bench.connect(SENDERS[0], RECEIVER)
        assert ports_of(bench)[40] == register_of(bench, 1, 40, RECEIVER)

    def test_not_where_the_switch_keeps_no_accounts(self) -> None:
        assert ports_of(star()) == {}

    def test_not_where_the_switch_has_no_registers(self) -> None:
        assert ports_of(star(keeps_accounts=True, n_registers=0)) == {}

    @pytest.mark.parametrize("scheme", [Scheme.SDTCP, Scheme.NONE])
    def test_not_in_other_schemes(self, scheme: Scheme) -> None:
        assert ports_of(star(scheme, keeps_accounts=True)) == {}

    def test_not_where_there_is_no_queue(self) -> None:
        assert ports_of(star(keeps_accounts=True, queue=None)) == {}

    def test_as_far_as_there_are_registers(self) -> None:
        assert len(ports_of(star(keeps_accounts=True, n_registers=4))) == 2

    def test_exemptions_stand_beside_them(self) -> None:
        """They come first in the flow table: see test_pipeline.py."""
        rule = Rule(Treatment.EXEMPT, port=80)
        bench = star(keeps_accounts=True, policies=(rule,))
        assert bench.entries(1, Exempt) == {Exempt(b"", 0, 80)}
        assert ports_of(bench).keys() == set(EVERY_PORT)


class TestLife:
    def test_it_comes_and_goes_with_the_queue(self) -> None:
        bench = star(keeps_accounts=True, queue=None)
        bench.do(bench.engine.queues_read(1, {40: QUEUE}, bench.now_ns))
        assert ports_of(bench) == {40: 0}
        bench.do(bench.engine.queues_read(1, {}, bench.now_ns))
        assert ports_of(bench) == {}

    def test_it_comes_and_goes_with_the_port(self) -> None:
        bench = star(keeps_accounts=True)
        bench.do(bench.engine.port_removed(PortId(1, 40), bench.now_ns))
        assert 40 not in ports_of(bench)
        port = Port(40, "s1-eth40", bytes(6), True)
        bench.do(bench.engine.port_changed(1, port, bench.now_ns))
        bench.sleep(SECOND)
        assert 40 in ports_of(bench)

    def test_a_register_that_becomes_free_is_for_another_port(self) -> None:
        bench = star(keeps_accounts=True, n_registers=2)
        assert ports_of(bench) == {1: 0}
        bench.do(bench.engine.port_removed(PortId(1, 1), bench.now_ns))
        bench.sleep(SECOND)
        assert ports_of(bench) == {2: 0}

    @pytest.mark.parametrize("scheme", [Scheme.SDTCP, Scheme.NONE])
    def test_it_goes_with_the_scheme_and_comes_back_with_it(self, scheme: Scheme) -> None:
        bench = star(keeps_accounts=True)
        before = ports_of(bench)
        reconfigure(bench, settings(scheme))
        assert ports_of(bench) == {}
        reconfigure(bench, settings())
        assert ports_of(bench) == before

    def test_it_comes_with_a_scheme_that_regulates_where_there_was_none(self) -> None:
        bench = star(Scheme.NONE, keeps_accounts=True)
        reconfigure(bench, settings())
        assert ports_of(bench).keys() == set(EVERY_PORT)

    def test_a_switch_that_loses_its_controller_keeps_it(self) -> None:
        bench = star(keeps_accounts=True)
        held = bench.entries(1, PortWindow)
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.sleep(10 * SECOND)
        effects = bench.switch_up(1, *(HeldEntry(entry, 0, 0) for entry in held))
        assert bench.entries(1, PortWindow) == held
        changed = [e.entry for e in effects if isinstance(e, Install | Withdraw)]
        assert not any(isinstance(entry, PortWindow) for entry in changed)

    def test_a_switch_that_comes_back_without_it_has_it_again(self) -> None:
        bench = star(keeps_accounts=True)
        held = bench.entries(1, PortWindow)
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.switch_up(1)
        assert bench.entries(1, PortWindow) == held

    def test_a_switch_that_comes_back_without_accounts_has_it_no_more(self) -> None:
        bench = star(keeps_accounts=True)
        held = bench.entries(1, PortWindow)
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.keeps_accounts = False
        bench.switch_up(1, *(HeldEntry(entry, 0, 0) for entry in held))
        assert ports_of(bench) == {}

    def test_a_switch_that_was_gone_for_long_has_it_again(self) -> None:
        bench = star(keeps_accounts=True)
        held = bench.entries(1, PortWindow)
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.sleep(120 * SECOND)
        assert bench.engine.tables.entries(PortWindow) == []
        bench.switch_up(1, *(HeldEntry(entry, 0, 0) for entry in held))
        bench.sleep(20 * SECOND)
        assert bench.entries(1, PortWindow) == held


class TestRestart:
    """A new engine meets a switch that an old one has set up."""

    def restarted(
        self, held: list[PortWindow], scheme: Scheme = Scheme.WEIR, keeps_accounts: bool = True
    ) -> tuple[EngineBench, list[Install | Withdraw]]:
        bench = EngineBench(make_engine(scheme), keeps_accounts=keeps_accounts)
        effects = bench.switch_up(1, *(HeldEntry(entry, 0, SECOND) for entry in held))
        effects = effects + bench.sleep(15 * SECOND)
        return bench, [e for e in effects if isinstance(e, Install | Withdraw)]

    def test_what_is_as_it_should_be_is_left_alone_whatever_its_register(self) -> None:
        held = [PortWindow(port, 2 * (100 - port)) for port in EVERY_PORT]
        bench, changes = self.restarted(held)
        assert bench.entries(1, PortWindow) == set(held)
        assert not any(isinstance(change.entry, PortWindow) for change in changes)

    def test_it_shares_the_register_with_the_hosts_of_its_port(self) -> None:
        bench = EngineBench(make_engine(), keeps_accounts=True)
        window = HostWindow(40, RECEIVER.address, 8, 7)
        bench.switch_up(1, HeldEntry(window, 0, SECOND), HeldEntry(PortWindow(40, 8), 0, SECOND))
        assert ports_of(bench)[40] == 8
        assert bench.entries(1, HostWindow) == {window}

    @pytest.mark.parametrize(
        ("scheme", "keeps_accounts"),
        [(Scheme.SDTCP, True), (Scheme.NONE, True), (Scheme.WEIR, False)],
    )
    def test_what_is_not_wanted_is_withdrawn(self, scheme: Scheme, keeps_accounts: bool) -> None:
        bench, changes = self.restarted([PortWindow(40, 8)], scheme, keeps_accounts)
        assert Withdraw(1, PortWindow(40, 8)) in changes
        assert ports_of(bench) == {}

    def test_an_audit_puts_it_right(self) -> None:
        bench = star(keeps_accounts=True)
        lost, changed = PortWindow(40, ports_of(bench)[40]), PortWindow(39, ports_of(bench)[39])
        foreign = PortWindow(77, 6)
        held = [e for e in bench.held[1].values() if e not in (lost, changed)]
        bench.engine.tables.begin_audit(1)
        told = [*held, PortWindow(39, 1022), foreign]
        effects = bench.engine.audit_read(1, told, bench.now_ns)
        effects += bench.engine.audited(1, 0, 0, bench.now_ns)
        assert {Install(1, lost), Install(1, changed), Withdraw(1, foreign)} == {
            e for e in effects if isinstance(e, Install | Withdraw)
        }
