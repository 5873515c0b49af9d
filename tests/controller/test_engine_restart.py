"""What a new engine makes of switches that an old one has set up."""

import pytest

from controller.core.effects import (
    Install,
    Withdraw,
)
from controller.core.engine import (
    RELEARN_AFTER_NS,
    RELEARN_FOR_NS,
)
from controller.core.entries import (
    Account,
    FlowWindow,
    Forward,
    HostWindow,
    Relearn,
    Survivor,
)
from controller.core.flow import ACK, FIN, RST, SYN, FlowKey
from controller.core.values import PortId
from engine_world import (
    MSS,
    RECEIVER,
    SECOND,
    SENDERS,
    World,
    make_engine,
    records,
    register_of,
    star,
    two_switches,
)


class TestRestart:
    """A new engine meets switches that an old one has set up."""

    def restarted(
        self, before: World, volumes: dict[FlowKey, int] | None = None, apart_ns: int = 0
    ) -> World:
        after = World(make_engine(), now_ns=before.now_ns + SECOND)
        after.places = before.places
        for switch, held in before.held.items():
            survivors = [
                Survivor(
                    entry,
                    (volumes or {}).get(entry.flow, 0) if isinstance(entry, Account) else 0,
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
        changes = [e for e in seen if isinstance(e, Install | Withdraw)]
        # Accounts are added at the other end, too, because there the segments are copied up.
        assert all(isinstance(change.entry, Account | Relearn) for change in changes)
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
        assert after.windows[2][register] == 5 * MSS

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
        assert after.entries(1, Account) == {Account(key, True), Account(key.reverse, False)}

    def test_a_new_connection_is_accounted_at_once_while_switches_relearn(self) -> None:
        before = two_switches()
        before.connect(RECEIVER, SENDERS[0])
        after = self.restarted(before)
        after.link(PortId(1, 40), PortId(2, 40))
        key = after.connect(SENDERS[1], RECEIVER, 7)
        for switch in (1, 2):
            assert Account(key, True) in after.entries(switch, Account)

    def test_what_nobody_claims_is_withdrawn_in_the_end(self) -> None:
        before = star()
        gone = FlowWindow(40, FlowKey(b"\x0a\0\0\x09", 9, RECEIVER.address, 9), 900, 3)
        before.held[1][gone.key] = gone
        after = self.restarted(before)
        assert gone in after.entries(1, FlowWindow)
        after.sleep(RELEARN_AFTER_NS + RELEARN_FOR_NS)
        assert gone not in after.entries(1, FlowWindow)

    def test_a_syn_ack_whose_syn_was_missed_is_enough(self) -> None:
        world = star()
        world.connect(SENDERS[0], RECEIVER, 1, scales=(7, 9))
        key = FlowKey(SENDERS[0].address, 2, RECEIVER.address, 80)
        world.segment(key.reverse, SYN | ACK, 9)
        opened = records(world.sleep(2 * SECOND), "connection_opened")
        assert opened[0]["src_port"] == 2
        assert opened[0]["window_scales"] == [7, 9]

    def test_a_syn_ack_that_overtook_its_syn_is_no_adoption(self) -> None:
        world = two_switches()
        key = FlowKey(SENDERS[0].address, 2, RECEIVER.address, 80)
        assert records(world.segment(key.reverse, SYN | ACK, 9), "connection_opened") == []
        opened = records(world.segment(key, SYN, 7), "connection_opened")
        assert opened[0]["adopted"] is False
        assert opened[0]["window_scales"] == [7, 9]

    @pytest.mark.parametrize("flags", [FIN | ACK, RST, RST | ACK, SYN])
    def test_ends_and_bare_syns_are_not_adopted(self, flags: int) -> None:
        world = star()
        key = FlowKey(SENDERS[0].address, 2, RECEIVER.address, 80)
        world.segment(key, flags, payload_bytes=10)
        assert len(world.engine.flow_table) == 0
