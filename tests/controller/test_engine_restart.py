"""What a new engine makes of switches that an old one has set up."""

import pytest

from controller.core.flows.relearning import RELEARN_AFTER_NS, RELEARN_FOR_NS
from controller.model.effects import (
    Install,
    Withdraw,
)
from controller.model.entries import (
    ControllerAnswers,
    FlowCounter,
    FlowWindow,
    Forward,
    ForwardVia,
    HeldEntry,
    HostWindow,
    Relearn,
)
from controller.model.flow import ACK, FIN, RST, SYN, FlowKey
from controller.model.values import Port, PortId
from engine_bench import (
    MSS,
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
from packets import Host


class TestRestart:
    """A new engine meets switches that an old one has set up."""

    def restarted(
        self, before: EngineBench, volumes: dict[FlowKey, int] | None = None, apart_ns: int = 0
    ) -> EngineBench:
        after = EngineBench(make_engine(), now_ns=before.now_ns + SECOND)
        after.places = before.places
        for switch, held in before.held.items():
            survivors = [
                HeldEntry(
                    entry,
                    (volumes or {}).get(entry.flow, 0) if isinstance(entry, FlowCounter) else 0,
                    5 * SECOND,
                )
                for entry in held.values()
            ]
            after.switch_up(switch, *survivors)
            if apart_ns:
                after.sleep(apart_ns)
        return after

    def test_nothing_that_works_is_touched(self) -> None:
        before = two_switches()
        for host in SENDERS:
            before.connect(RECEIVER, host, src_port=host.number)
        before.sleep(2 * SECOND)
        before.link(PortId(1, 40), PortId(2, 40))
        kept = {switch: dict(held) for switch, held in before.held.items()}
        after = self.restarted(before)
        seen = after.link(PortId(1, 40), PortId(2, 40))
        for _ in range(4):
            seen += after.sleep(2 * SECOND)
            seen += after.link(PortId(1, 40), PortId(2, 40))
        changed = [type(e.entry) for e in seen if isinstance(e, Install | Withdraw)]
        # Counters are added at the other end, too, because there the segments are copied up.
        assert set(changed) <= {FlowCounter, Relearn, ControllerAnswers}
        for switch in kept:
            assert kept[switch].items() <= after.held[switch].items()

    def test_connections_with_an_account_are_back_at_once_and_so_are_the_windows(self) -> None:
        before = two_switches()
        for host in SENDERS:
            before.connect(RECEIVER, host, src_port=host.number)
        before.sleep(2 * SECOND)
        register = register_of(before, 2, 1, RECEIVER)
        after = self.restarted(before)
        after.link(PortId(1, 40), PortId(2, 40))
        assert len(after.engine.flow_table) == 32
        assert after.engine.flow_table.counts(PortId(2, 1)).burst == 32
        # 65232 / (32 x 1526) = 1.3, but the floor is two.
        assert after.windows[2][register] == 2 * MSS

    def test_switches_may_return_as_late_as_open_vswitch_tries_again(self) -> None:
        before = two_switches()
        for host in SENDERS:
            before.connect(RECEIVER, host, src_port=host.number)
        before.sleep(2 * SECOND)
        held = {switch: dict(entries) for switch, entries in before.held.items()}
        after = self.restarted(before, apart_ns=8 * SECOND)
        after.link(PortId(1, 40), PortId(2, 40))
        assert len(after.engine.flow_table) == 32
        for switch, entries in held.items():
            assert {
                k: e for k, e in entries.items() if isinstance(e, Forward | HostWindow)
            }.items() <= (after.held[switch].items())

    def test_background_flows_stay_what_they_are(self) -> None:
        before = star()
        key = before.connect(SENDERS[0], RECEIVER)
        before.sleep(2 * SECOND)
        before.volume(1, key, 2 * 10**6)
        exceptions = before.entries(1, FlowWindow)
        after = self.restarted(before, {key: 2 * 10**6})
        counts = after.engine.flow_table.counts(PortId(1, 40))
        assert (counts.background, counts.burst) == (1, 0)
        after.sleep(10 * SECOND)
        assert after.entries(1, FlowWindow) == exceptions

    def test_a_scale_that_is_not_its_hosts_is_remembered(self) -> None:
        before = star()
        before.connect(SENDERS[0], RECEIVER, 1, scales=(7, 7))
        before.connect(SENDERS[0], RECEIVER, 2, scales=(7, None))
        before.sleep(2 * SECOND)
        exceptions = before.entries(1, FlowWindow)
        assert {entry.window_scale for entry in exceptions} == {0}
        after = self.restarted(before)
        after.sleep(10 * SECOND)
        assert after.entries(1, FlowWindow) == exceptions

    def test_young_connections_are_relearnt_from_their_segments(self) -> None:
        before = star()
        key = before.connect(SENDERS[0], RECEIVER, scales=(7, 9))
        after = self.restarted(before)
        effects = after.sleep(RELEARN_AFTER_NS)
        assert Install(1, Relearn(1)) in effects
        assert len(after.engine.flow_table) == 0
        after.segment(key, ACK)
        assert len(after.engine.flow_table) == 0, "a bare ACK may be a dead connection's last word"
        opened = records(after.segment(key, ACK, payload_bytes=100), "connection_opened")
        assert opened[0]["adopted"] is True
        assert opened[0]["window_scales"] == [7, 9]
        assert after.entries(1, FlowCounter) == {
            FlowCounter(key, True),
            FlowCounter(key.reverse, False),
        }

    def test_a_new_connection_is_accounted_at_once_while_switches_relearn(self) -> None:
        before = two_switches()
        before.connect(RECEIVER, SENDERS[0])
        after = self.restarted(before)
        after.link(PortId(1, 40), PortId(2, 40))
        after.sleep(RELEARN_AFTER_NS)
        key = after.connect(SENDERS[1], RECEIVER, 7)
        for switch in (1, 2):
            assert FlowCounter(key, True) in after.entries(switch, FlowCounter)
        after.sleep(RELEARN_FOR_NS)
        key = after.connect(SENDERS[1], RECEIVER, 8)
        for switch in (1, 2):
            assert FlowCounter(key, True) not in after.entries(switch, FlowCounter)

    def test_what_has_ended_before_it_was_known_is_not_brought_back(self) -> None:
        before = two_switches()
        key = before.connect(RECEIVER, SENDERS[0])
        before.sleep(2 * SECOND)
        after = self.restarted(before)
        after.segment(key, RST)
        after.link(PortId(1, 40), PortId(2, 40))
        assert len(after.engine.flow_table) == 0

    @pytest.mark.parametrize("end", ["reset", "expiry"])
    def test_what_has_ended_is_not_brought_back_by_what_a_switch_held(self, end: str) -> None:
        bench = two_switches()
        key = bench.connect(RECEIVER, SENDERS[0])
        bench.sleep(2 * SECOND)
        # Its switch loses the channel for a moment.
        held = bench.held[2].values()
        bench.do(bench.engine.switch_down(2, bench.now_ns))
        bench.switch_up(2, *(HeldEntry(entry, 0, SECOND) for entry in held))
        if end == "reset":
            bench.segment(key, RST)
        else:
            bench.do(bench.engine.flow_counter_expired(2, key.pack(), bench.now_ns))
        bench.link(PortId(1, 40), PortId(2, 40))
        bench.sleep(SECOND)  # By then new ports are taken for edges, and so a host comes.
        bench.place(Host(200), PortId(2, 39))
        assert Host(200).mac in bench.engine.fabric.hosts
        assert len(bench.engine.flow_table) == 0

    def test_what_nobody_claims_is_withdrawn_in_the_end(self) -> None:
        before = star()
        gone = FlowWindow(40, FlowKey(b"\x0a\0\0\x09", 9, RECEIVER.address, 9), 900, 3)
        before.held[1][gone.key] = gone
        after = self.restarted(before)
        assert gone in after.entries(1, FlowWindow)
        after.sleep(RELEARN_AFTER_NS + RELEARN_FOR_NS)
        assert gone not in after.entries(1, FlowWindow)

    def test_a_syn_ack_whose_syn_was_missed_is_enough(self) -> None:
        bench = star()
        bench.connect(SENDERS[0], RECEIVER, 1, scales=(7, 9))
        key = FlowKey(SENDERS[0].address, 2, RECEIVER.address, 80)
        bench.segment(key.reverse, SYN | ACK, 9)
        opened = records(bench.sleep(2 * SECOND), "connection_opened")
        assert opened[0]["src_port"] == 2
        assert opened[0]["window_scales"] == [7, 9]

    def test_a_syn_ack_that_overtook_its_syn_is_no_adoption(self) -> None:
        bench = two_switches()
        key = FlowKey(SENDERS[0].address, 2, RECEIVER.address, 80)
        assert records(bench.segment(key.reverse, SYN | ACK, 9), "connection_opened") == []
        opened = records(bench.segment(key, SYN, 7), "connection_opened")
        assert opened[0]["adopted"] is False
        assert opened[0]["window_scales"] == [7, 9]

    @pytest.mark.parametrize("flags", [FIN | ACK, RST, RST | ACK, SYN])
    def test_ends_and_bare_syns_are_not_adopted(self, flags: int) -> None:
        bench = star()
        key = FlowKey(SENDERS[0].address, 2, RECEIVER.address, 80)
        bench.segment(key, flags, payload_bytes=10)
        assert len(bench.engine.flow_table) == 0


def kept(bench: EngineBench, switch: int) -> list[HeldEntry]:
    return [HeldEntry(entry, 0, 5 * SECOND) for entry in bench.held[switch].values()]


class TestReturn:
    """A switch is lost to an engine for a while, and goes on forwarding."""

    def test_what_the_switch_has_seen_the_end_of_is_over(self) -> None:
        bench = two_switches()
        over, on = (bench.connect(RECEIVER, SENDERS[0], src_port=n) for n in (1, 2))
        bench.sleep(2 * SECOND)
        bench.do(bench.engine.switch_down(2, bench.now_ns))
        survivors = [s for s in kept(bench, 2) if getattr(s.entry, "flow", None) != over]
        assert len(survivors) == len(bench.held[2]) - 1
        effects = bench.switch_up(2, *survivors)
        (closed,) = records(effects, "connection_closed")
        assert (closed["src_port"], closed["reason"]) == (1, "expired")
        bench.sleep(2 * RELEARN_AFTER_NS)
        assert bench.entries(2, FlowCounter) == {
            FlowCounter(on, True),
            FlowCounter(on.reverse, False),
        }

    def test_an_account_that_it_was_never_told_of_is_installed(self) -> None:
        bench = star()
        key = bench.connect(SENDERS[0], RECEIVER)
        survivors = kept(bench, 1)
        bench.sleep(SECOND - 1)
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.switch_up(1, *survivors)
        bench.segment(key, ACK, payload_bytes=100)
        assert len(bench.engine.flow_table) == 1

    def test_a_switch_that_starts_empty_is_told_everything_again(self) -> None:
        bench = two_switches()
        bench.connect(RECEIVER, SENDERS[0])
        bench.sleep(2 * SECOND)
        before = dict(bench.held[2])
        bench.do(bench.engine.switch_down(2, bench.now_ns))
        bench.switch_up(2)
        assert bench.held[2] == before
        assert len(bench.engine.flow_table) == 1

    def test_one_that_starts_empty_has_forgotten_what_it_was_about_to_tell(self) -> None:
        bench = two_switches()
        over, on = (bench.connect(RECEIVER, SENDERS[0], src_port=n) for n in (1, 2))
        bench.sleep(2 * SECOND)
        survivors = kept(bench, 2)
        for came_back_with in (survivors, []):
            bench.do(bench.engine.switch_down(2, bench.now_ns))
            bench.sleep(SECOND)
            bench.switch_up(2, *came_back_with)
            bench.sleep(10 * SECOND)
            bench.volume(2, on, bench.now_ns // SECOND * MSS)
        table = bench.engine.flow_table
        assert [flow.key for flow in table.connections] == [on.pack()]
        dormant = table.find(over.pack())
        assert dormant is not None and dormant.dormant

    def test_a_young_connection_may_have_ended_unseen(self) -> None:
        bench = two_switches()
        bench.sleep(SECOND)
        silent, goes_on = (bench.connect(RECEIVER, SENDERS[0], src_port=n) for n in (1, 2))
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        seen = bench.sleep(2 * SECOND)
        dormant = [record["src_port"] for record in records(seen, "connection_dormant")]
        assert dormant == [1, 2]
        bench.switch_up(1, *kept(bench, 1))
        assert Install(1, Relearn(1)) in bench.sleep(RELEARN_AFTER_NS)
        bench.segment(goes_on, ACK, payload_bytes=100)
        assert [flow.key for flow in bench.engine.flow_table.connections] == [goes_on.pack()]
        assert bench.engine.flow_table.n_dormant == 1
        bench.segment(silent, RST)
        assert bench.engine.flow_table.n_dormant == 0


class TestGone:
    """A switch never comes back."""

    def test_nothing_is_left_of_one_that_nobody_leads_to(self) -> None:
        bench = two_switches()
        bench.connect(RECEIVER, SENDERS[0])
        bench.do(bench.engine.switch_down(2, bench.now_ns))
        bench.sleep(61 * SECOND)
        assert ForwardVia(RECEIVER.mac, 2) in bench.entries(1, ForwardVia), (
            "it may be forwarding yet"
        )
        port = Port(40, "s1-eth40", b"\2\1\0\0\1\0", up=False)
        bench.do(bench.engine.port_changed(1, port, bench.now_ns))
        bench.sleep(SECOND)
        known = bench.entries(1, Forward) | bench.entries(1, ForwardVia)
        assert RECEIVER.mac not in {entry.mac for entry in known}
        assert all(switch == 1 for switch, _ in bench.engine._tables.entries(object))  # type: ignore[type-var]
        bench.switch_up(2)
        assert ForwardVia(SENDERS[0].mac, 1) in bench.entries(2, ForwardVia), "it is furnished anew"
