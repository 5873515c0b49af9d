"""A new configuration for a controller at work: in virtual time, and with the real process."""

from pathlib import Path

import pytest

from controller.config import reading, reload
from controller.config.errors import ConfigError
from controller.core.congestion.regulator import RegulatorSettings, Scheme
from controller.core.congestion.windows import CreditRules, WindowRules
from controller.core.engine import EngineSettings
from controller.core.flows.policy import Rule, Treatment
from controller.model.entries import Exempt, FlowCounter, FlowWindow, HostWindow
from controller.model.flow import ACK, FIN
from controller.model.values import PortId
from controller.ops.event_log import read_events
from dummy_ovs import Controller, free_endpoint, wait_for
from engine_bench import (
    CONNECTIONS,
    CREDIT,
    LIMITS,
    RECEIVER,
    SECOND,
    SENDERS,
    EngineBench,
    records,
    star,
)

PORT = PortId(1, 40)
WEB = 80


def settings(
    scheme: Scheme = Scheme.WEIR,
    policies: tuple[Rule, ...] = (),
    buffer_share: float = 0.9,
    credit: CreditRules = CREDIT,
    accounts: bool = True,
) -> EngineSettings:
    """Those of the bench, but for this."""
    return EngineSettings(
        CONNECTIONS,
        RegulatorSettings(
            scheme, 3 * SECOND, WindowRules(buffer_share, 2), credit, accounts=accounts
        ),
        LIMITS,
        (),
        4 * SECOND,
        policies=policies,
    )


def reconfigure(bench: EngineBench, new: EngineSettings) -> list:
    return bench.do(bench.engine.reconfigure(new, bench.now_ns))


def held(bench: EngineBench) -> dict[int, int]:
    """The windows in force, by register."""
    return {register: size for register, size in bench.windows[1].items() if size}


def incast(bench: EngineBench) -> None:
    for host in SENDERS:
        bench.connect(host, RECEIVER)
    bench.sleep(2 * SECOND)


class TestPolicies:
    def test_an_exemption_is_installed_and_withdrawn(self) -> None:
        bench = star()
        rule = Rule(Treatment.EXEMPT, port=WEB)
        reconfigure(bench, settings(policies=(rule,)))
        assert bench.entries(1, Exempt) == {Exempt(b"", 0, WEB)}
        other = Rule(Treatment.EXEMPT, port=443)
        reconfigure(bench, settings(policies=(other,)))
        assert bench.entries(1, Exempt) == {Exempt(b"", 0, 443)}
        reconfigure(bench, settings())
        assert bench.entries(1, Exempt) == set()

    def test_connections_that_are_exempt_now_are_let_go_and_counted_again_later(self) -> None:
        bench = star()
        incast(bench)
        assert bench.entries(1, FlowCounter)
        reconfigure(bench, settings(policies=(Rule(Treatment.EXEMPT, port=WEB),)))
        assert len(bench.engine.flow_table) == len(SENDERS)
        assert bench.engine.flow_table.counts(PORT).flows == 0
        assert bench.entries(1, FlowCounter) == set()
        reconfigure(bench, settings())
        assert bench.engine.flow_table.counts(PORT).burst == len(SENDERS)
        bench.sleep(3 * SECOND)
        assert len(bench.entries(1, FlowCounter)) == 2 * len(SENDERS)

    def test_many_are_treated_some_at_a_time(self) -> None:
        bench = star()
        n = 6000
        for number in range(n):
            bench.connect(SENDERS[number % 32], RECEIVER, src_port=1000 + number)
        reconfigure(bench, settings(policies=(Rule(Treatment.EXEMPT, port=WEB),)))
        left = bench.engine.flow_table.counts(PORT).flows
        assert 0 < left < n, "nobody waits until all are done"
        bench.sleep(SECOND)
        assert bench.engine.flow_table.counts(PORT).flows == 0
        assert len(bench.engine.flow_table) == n

    def test_background_from_now_on_and_no_longer(self) -> None:
        bench = star()
        key = bench.connect(SENDERS[0], RECEIVER)
        reconfigure(bench, settings(policies=(Rule(Treatment.BACKGROUND, port=WEB),)))
        assert bench.engine.flow_table.counts(PORT).background == 1
        assert len(bench.entries(1, FlowWindow)) == 2
        reconfigure(bench, settings())
        counts = bench.engine.flow_table.counts(PORT)
        assert (counts.background, counts.burst) == (0, 1)
        assert bench.entries(1, FlowWindow) == set()
        bench.segment(key, FIN | ACK)
        bench.segment(key.reverse, FIN | ACK)
        assert len(bench.engine.flow_table) == 0

    def test_those_whom_it_does_not_concern_keep_what_was_counted(self) -> None:
        bench = star()
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(2 * SECOND)
        bench.volume(1, key, 5_000_000)
        assert bench.engine.flow_table.counts(PORT).background == 1
        assert not reconfigure(bench, settings(policies=(Rule(Treatment.PROTECT, port=443),)))
        assert bench.engine.flow_table.counts(PORT).background == 1

    def test_the_event_log_does_not_take_it_for_another_connection(self) -> None:
        bench = star()
        incast(bench)
        effects = reconfigure(bench, settings(policies=(Rule(Treatment.PROTECT, port=WEB),)))
        for event in ("connection_opened", "connection_closed"):
            assert records(effects, event) == []


class TestRegulation:
    def test_other_rules_are_in_force_at_once(self) -> None:
        bench = star()
        incast(bench)
        before = held(bench)
        reconfigure(bench, settings(buffer_share=0.5))
        assert held(bench).keys() == before.keys()
        assert sum(held(bench).values()) < sum(before.values())
        reconfigure(bench, settings())
        assert held(bench) == before

    def test_accounts_end_and_begin(self) -> None:
        """Without them ports have the windows that they have where no switch keeps any."""
        plain, bench = star(), star(keeps_accounts=True)
        incast(plain)
        incast(bench)
        assert held(bench) == {}
        reconfigure(bench, settings(accounts=False))
        assert held(bench) == held(plain) != {}
        reconfigure(bench, settings())
        assert held(bench) == {}

    def test_regulation_ends_and_begins(self) -> None:
        bench = star()
        incast(bench)
        before = held(bench)
        reconfigure(bench, settings(Scheme.NONE))
        assert held(bench) == {}
        bench.sleep(5 * SECOND)
        assert held(bench) == {}
        reconfigure(bench, settings())
        assert held(bench) == before

    def test_regulation_begins_where_there_was_never_any(self) -> None:
        bench = star(Scheme.NONE)
        incast(bench)
        assert not bench.windows
        assert bench.entries(1, HostWindow) == set()
        reconfigure(bench, settings())
        regulated = star()
        incast(regulated)
        assert sorted(held(bench).values()) == sorted(held(regulated).values())
        entries, expected = (w.entries(1, HostWindow) for w in (bench, regulated))
        assert {(e.port, e.address) for e in entries} == {(e.port, e.address) for e in expected}

    def test_a_switch_that_comes_later_has_the_new_policy(self) -> None:
        bench = star()
        rule = Rule(Treatment.EXEMPT, port=WEB)
        reconfigure(bench, settings(policies=(rule,)))
        bench.switch_up(2)
        assert bench.entries(2, Exempt) == {Exempt(b"", 0, WEB)}


# What can change


PLAIN = "openflow: {listen: 'tcp:h:1'}\n"


def test_the_difference_is_told_by_key_and_what_cannot_change_stays() -> None:
    old = reading.parse(PLAIN + "log: {level: debug, events: here}")
    new = reading.parse(
        "openflow: {listen: 'tcp:h:2'}\n"
        "fabric: {rtt: 1 ms}\n"
        "regulation: {scheme: none}\n"
        "policies: [{port: 80, treatment: exempt}]\n"
        "log: {events: there}"
    )
    change = reload.merge(old, new)
    assert change.changed == ["regulation.scheme", "policies", "log.level"]
    assert change.kept == ["openflow.listen", "fabric.rtt", "log.events"]
    assert change.config == reading.parse(
        PLAIN + "regulation: {scheme: none}\n"
        "policies: [{port: 80, treatment: exempt}]\n"
        "log: {events: here}"
    )


def test_nothing_new_is_no_change() -> None:
    old = reading.parse(PLAIN)
    assert reload.merge(old, reading.parse(PLAIN)) == (old, [], [])


def test_what_does_not_fit_together_is_refused() -> None:
    old = reading.parse("openflow: {listen: 'ssl:h:1'}\ntls: {key: k, certificate: c, ca: a}")
    with pytest.raises(ConfigError, match=r"openflow\.listen: .* needs tls"):
        reload.merge(old, reading.parse(PLAIN))


# The real process


class Running:
    def __init__(self, directory: Path) -> None:
        self._endpoint = free_endpoint()
        self._events = directory / "events.jsonl"
        self.controller = Controller(directory, self._written(""))
        self.controller.start()

    def _written(self, more: str) -> str:
        head = f'openflow: {{listen: "tcp:{self._endpoint}"}}\nlog: {{events: "{self._events}"}}\n'
        return head + more

    def reload(self, more: str) -> dict:
        before = len(self._reloads())
        self.controller.reconfigure(self._written(more))
        wait_for(lambda: len(self._reloads()) > before, "the reload")
        return self._reloads()[-1]

    def _reloads(self) -> list[dict]:
        return read_events(self._events, "reload")


def test_sighup(tmp_path: Path) -> None:
    running = Running(tmp_path)
    log = running.controller
    assert running.reload("regulation: {scheme: none}")["changed"] == ["regulation.scheme"]
    refused = running.reload("regulation: {scheme: wier}\nfabric: {rtt: x}")
    assert "regulation.scheme: 'wier' is not one of" in refused["error"]
    assert "nothing has changed" in log.log
    assert "fabric.rtt" in log.log
    refused = running.reload("regulation: {scheme: none, max_hold: 0 s}")
    assert "regulation.max_hold: '0 s' is out of range; write more than 0 s" in refused["error"]
    # The file that was refused has left no trace: this is compared with what was there before.
    done = running.reload("regulation: {scheme: none}\nfabric: {rtt: 1 ms}")
    assert (done["changed"], done["kept"]) == ([], ["fabric.rtt"])
    assert "fabric.rtt cannot be changed while the controller runs" in log.log
    assert log.stop() == 0
    assert "Traceback" not in log.log


def test_settings_are_those_of_the_world() -> None:
    """So that a reload with them changes nothing."""
    bench = star()
    incast(bench)
    assert reconfigure(bench, settings()) == []
