"""One switch's conversation: what it is asked, what becomes an event, what is told."""

import logging
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.entries import FlowCounter, Forward, HeldEntry, TunnelCounter
from controller.model.flow import FlowKey
from controller.model.values import Port, TunnelKind
from controller.southbound.codec import discovery, extension, match, openflow
from controller.southbound.codec.extension import Capability, QueueEvent
from controller.southbound.codec.openflow import Type
from controller.southbound.switch import events, pipeline
from controller.southbound.switch.encoding import encode
from packets import ACK, SYN, arp, ethernet, segment
from scripted_switch import H1, H2, ORIGIN, PATCHED, SECRET, ScriptedSwitch, stats_of


class TestStart:
    def test_it_asks_before_it_does(self) -> None:
        kinds = ScriptedSwitch().kinds()
        questions = [Type.MULTIPART_REQUEST] * 3
        assert kinds == [Type.EXPERIMENTER, *questions, Type.BARRIER_REQUEST]

    def test_ready_comes_with_what_the_switch_can_and_holds(self) -> None:
        switch = ScriptedSwitch()
        (entry,) = encode(Forward(H1.mac, 3))
        (ready,) = switch.become_ready(stats_of(entry, 99))
        assert ready == events.Ready(
            1024,
            [HeldEntry(Forward(H1.mac, 3), 0, 3 * 10**9)],
            has_meters=True,
        )

    def test_the_fixed_entries_are_installed(self) -> None:
        switch = ScriptedSwitch()
        switch.become_ready()
        assert switch.kinds().count(Type.FLOW_MOD) == len(pipeline.STATIC)

    def test_events_before_are_held_back_in_order(self) -> None:
        switch = ScriptedSwitch()
        assert switch.packet_in(0, 1, arp(1, H1, H2)) == []
        ready, held = switch.become_ready()
        assert isinstance(ready, events.Ready)
        assert isinstance(held, events.NeighbourMessageReceived)

    def test_stale_entries_go_once_the_new_ones_are_in(self) -> None:
        switch = ScriptedSwitch()
        (entry,) = encode(Forward(H1.mac, 3))
        old = openflow.FlowEntry(3, 77, pipeline.COOKIE | 0xFFFF0006, entry.match, entry.actions)
        (ready,) = switch.become_ready(stats_of(old))
        assert isinstance(ready, events.Ready)
        assert ready.held == []
        sent = len(switch.got)
        switch.barrier()
        (deletion,) = switch.got[sent:]
        head = struct.unpack_from("!QQBBHHH", deletion, 8)
        assert (head[0], head[2], head[3], head[6]) == (old.cookie, 3, 4, 77)

    def test_a_stale_entry_that_was_overwritten_is_not_deleted(self) -> None:
        switch = ScriptedSwitch()
        (entry,) = encode(Forward(H1.mac, 3))
        old = openflow.FlowEntry(
            entry.table, entry.priority, entry.cookie, entry.match, b"", pipeline.Table.FORWARD
        )
        switch.become_ready(stats_of(old))
        switch.session.install(Forward(H1.mac, 3))
        sent = len(switch.got)
        switch.barrier()
        assert switch.got[sent:] == []


class TestCapabilities:
    def test_a_switch_says_whether_it_keeps_accounts_and_tells_its_queues(self) -> None:
        for extra in (Capability.CREDIT, Capability.QUEUE_STATS, Capability(0)):
            switch = ScriptedSwitch()
            switch.subscribe_answer(PATCHED | extra)
            switch.say_flows()
            (ready,) = switch.barrier()
            assert isinstance(ready, events.Ready)
            assert ready.keeps_accounts is (extra is Capability.CREDIT)
            assert ready.tells_queues is (extra is Capability.QUEUE_STATS)

    def test_an_unpatched_switch_is_told_of_once(self, caplog: pytest.LogCaptureFixture) -> None:
        switch = ScriptedSwitch()
        for _ in range(3):
            switch.reconnect()
            switch.refuse_subscription()
            switch.say_flows()
            (ready,) = switch.barrier()
            assert ready == events.Ready(0, [])
        meters, record = caplog.records
        assert meters.getMessage().startswith("has no meters")
        assert record.getMessage().startswith("lacks Weir's extension")
        assert vars(record)["weir_about"] == {"switch": "0000000000000007"}
        assert "forwarding and monitoring of connections go on" in record.getMessage()

    def test_another_version_of_the_extension_is_not_used(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        switch = ScriptedSwitch()
        other = extension.Subscribe(
            extension.SubscribeFlag.QUEUE_EVENTS, capabilities=PATCHED, n_registers=1024
        )
        switch.say_experimenter(1, b"\1" + other.pack()[1:])
        switch.say_flows()
        assert switch.barrier() == [events.Ready(0, [])]
        assert "is of version 1; this controller speaks 2" in caplog.text
        assert "lacks Weir's extension" in caplog.text

    def test_half_an_extension_is_not_used(self, caplog: pytest.LogCaptureFixture) -> None:
        switch = ScriptedSwitch()
        switch.subscribe_answer(Capability.TCP_RWND | Capability.QUEUE_EVENT)
        switch.say_flows()
        assert switch.barrier() == [events.Ready(0, [])]
        assert "it cannot lower TCP windows" in caplog.text
        assert "congested" not in caplog.text

    def test_a_patched_switch_is_not_complained_of(self, caplog: pytest.LogCaptureFixture) -> None:
        ScriptedSwitch().become_ready()
        assert caplog.records == []

    def test_other_refusals_are_told(self, caplog: pytest.LogCaptureFixture) -> None:
        switch = ScriptedSwitch()
        switch.become_ready()
        switch.session.transmit([1], bytes(60))
        switch.say(Type.ERROR, struct.pack("!HH", 2, 10) + switch.got[-1][:64])
        assert "refused a message of type 13 with error type 2 code 10" in caplog.text
        assert switch.session.counters["refused"] == 1


class TestEvents:
    @pytest.fixture
    def switch(self) -> ScriptedSwitch:
        switch = ScriptedSwitch()
        switch.become_ready()
        return switch

    def test_a_copied_segment(self, switch: ScriptedSwitch) -> None:
        (event,) = switch.packet_in(0, 5, segment(H1, H2, (1, 80), SYN))
        assert isinstance(event, events.SegmentsCopied)
        ((in_port, macs, key, flags, *_),) = event.segments
        assert (in_port, macs, flags) == (5, H2.mac + H1.mac, SYN)
        assert key == H1.address + H2.address + bytes([0, 1, 0, 80])

    def test_a_segment_without_destination_is_a_frame(self, switch: ScriptedSwitch) -> None:
        frame = segment(H1, H2, (1, 80), ACK)
        assert switch.packet_in(pipeline.Table.FORWARD, 5, frame) == [
            events.FrameMissed(5, H1.mac, H2.mac, frame)
        ]

    def test_arp(self, switch: ScriptedSwitch) -> None:
        (event,) = switch.packet_in(0, 5, arp(1, H1, H2))
        assert isinstance(event, events.NeighbourMessageReceived)

    def test_discovery(self, switch: ScriptedSwitch) -> None:
        frame = discovery.pack(ORIGIN, H1.mac, 4, SECRET)
        assert switch.packet_in(0, 5, frame) == [events.LinkDiscovered(5, ORIGIN)]

    def test_forged_discovery_is_counted(self, switch: ScriptedSwitch) -> None:
        for _ in range(3):
            assert switch.packet_in(0, 5, discovery.pack(ORIGIN, H1.mac, 4, b"guess")) == []
        assert sum(switch.session.counters.values()) == 3

    def test_counters_of_accounts(self, switch: ScriptedSwitch) -> None:
        key = FlowKey(H1.address, 1, H2.address, 80)
        (entry,) = encode(FlowCounter(key, True, None))
        switch.session.read_flow_counters()
        assert switch.say_flows(stats_of(entry, 5000)) == [
            events.FlowCountersRead([(key.pack(), 5000, 1)], False)
        ]

    def test_what_comes_in_within_tunnels(self, switch: ScriptedSwitch) -> None:
        flow_entries = encode(TunnelCounter(3))
        switch.session.read_tunnels()
        told = switch.say_flows(*(stats_of(entry, 9) for entry in flow_entries))
        assert told == [
            events.TunnelsCounted(
                [(3, kind, version, 1) for version in (4, 6) for kind in TunnelKind]
            )
        ]

    @pytest.mark.parametrize("reason", [0, 2])
    def test_an_idle_account(self, switch: ScriptedSwitch, reason: int) -> None:
        key = FlowKey(H1.address, 1, H2.address, 80)
        (entry,) = encode(FlowCounter(key, True, None))
        body = struct.pack("!QHBBIIHHQQ", entry.cookie, 100, reason, 1, 9, 0, 300, 0, 1, 1)
        told = switch.say(Type.FLOW_REMOVED, body + match.pack_match(entry.match))
        assert told == ([events.FlowCounterExpired(key.pack())] if reason == 0 else [])

    def test_ports(self, switch: ScriptedSwitch) -> None:
        def port(number: int) -> bytes:
            return struct.pack("!I4x6s2x16sII24x", number, H1.mac, b"eth", 0, openflow.PORT_LIVE)

        described = Port(3, "eth", H1.mac, True)
        assert switch.say(Type.PORT_STATUS, bytes([0]) + bytes(7) + port(3)) == [
            events.PortChanged(described)
        ]
        assert switch.say(Type.PORT_STATUS, bytes([1]) + bytes(7) + port(3)) == [
            events.PortRemoved(3)
        ]
        assert switch.say(Type.PORT_STATUS, bytes([2]) + bytes(7) + port(0xFFFFFFFE)) == []

    def test_notices_and_their_gaps(
        self, switch: ScriptedSwitch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def missed(sequence: int, port: int = 3) -> int:
            notice = QueueEvent(0, port, 0, 14, 20_000, 65_536, 1, sequence)
            (event,) = switch.say_experimenter(2, notice.pack())
            assert isinstance(event, events.QueueNotice)
            assert event.notice == notice
            return event.missed

        # The first one may be any: the queue is older than the subscription.
        assert [missed(5), missed(6), missed(9), missed(1), missed(2)] == [0, 0, 2, 0, 0]
        assert missed(1, port=4) == 0
        record = caplog.records[0]
        assert record.getMessage() == "notices were lost: number 9 follows number 6"
        assert vars(record)["weir_about"] == {"switch": "0000000000000007", "port": 3}

    def test_the_counters_of_ports_come_as_they_are_told(self, switch: ScriptedSwitch) -> None:
        def port(number: int, tx_bytes: int) -> bytes:
            counters = struct.pack("!8Q", 9, 8, 7, tx_bytes, *bytes(4)) + bytes(32)
            return struct.pack("!I4x", number) + counters + struct.pack("!II", 3, 5)

        def told(*ports: bytes, more: int = 0, xid: int | None = None) -> list[events.Event]:
            body = struct.pack("!HH4x", 4, more) + b"".join(ports)
            return switch.say(Type.MULTIPART_REPLY, body, switch.asked(4) if xid is None else xid)

        switch.session.read_ports()
        uncounted, local = port(3, 2**64 - 1), port(0xFFFFFFFE, 5)
        first = openflow.PortStats(1, 1500, 3_000_000_005, 8, 9, 7)
        second = openflow.PortStats(2, 7, 3_000_000_005, 8, 9, 7)
        assert told(port(1, 1500), uncounted, local, more=1) == [
            events.PortsCounted([first], more=True)
        ]
        assert told(port(2, 7)) == [events.PortsCounted([second], more=False)]
        assert told(port(2, 7), xid=1) == []
        assert told(port(2, 7)[:-1]) == []
        assert switch.session.counters["MalformedMessageError in a message of type 19"] == 1

    def test_what_becomes_of_connections_is_asked_of_those_that_tell(
        self, switch: ScriptedSwitch
    ) -> None:
        switch.session.capabilities |= extension.Capability.TCP_STATS
        switch.session.read_queues()
        _, exp_type, body = openflow.unpack_experimenter(switch.got[-1])
        assert extension.unpack(exp_type, body) == extension.TcpStatsRequest()
        xid = int.from_bytes(switch.got[-1][4:8], "big")

        none = extension.Answers(0, 0, (0,) * 16)
        ports = [
            extension.TcpStats(port, *(0, 0, 0, 0, 0, 0, 0), (none, none, none)) for port in (1, 2)
        ]

        def answer(xid: int, *ports: extension.TcpStats, more: bool) -> list[events.Event]:
            return switch.say_experimenter(7, extension.TcpStatsReply(ports, more).pack(), xid)

        assert answer(xid, ports[0], more=True) == []
        assert answer(xid + 1, ports[1], more=False) == []
        assert answer(xid, ports[1], more=False) == [events.ConnectionsSampled(ports)]
        assert answer(xid, more=False) == []

    def test_queues_come_as_a_whole(self, switch: ScriptedSwitch) -> None:
        def queue(port: int) -> extension.QueueStats:
            numbers = (1, 10**8, 65_536, None, 3000, 2, 0, 0, 0, 0, 0, 0)
            return extension.QueueStats(port, 0, 1, *numbers, (1, 0, 0, 0), 1)

        def answer(xid: int, *ports: int, more: bool = False) -> list[events.Event]:
            reply = extension.QueueStatsReply(tuple(map(queue, ports)), more)
            return switch.say_experimenter(5, reply.pack(), xid)

        def ask() -> int:
            switch.session.read_queues()
            _, exp_type, body = openflow.unpack_experimenter(switch.got[-1])
            assert extension.unpack(exp_type, body) == extension.QueueStatsRequest()
            return int.from_bytes(switch.got[-1][4:8], "big")

        first = ask()
        assert answer(first, 1, 2, more=True) == []
        assert answer(first, 3) == [events.QueuesRead([queue(1), queue(2), queue(3)])]
        # The end of an answer is lost; the next one is whole again. What comes late is not used.
        second = ask()
        assert answer(second, 1, more=True) == []
        third = ask()
        assert answer(second, 2) == []
        assert answer(third) == [events.QueuesRead([])]
        assert answer(third) == []

    @pytest.mark.parametrize("told", [True, False])
    def test_thresholds_are_asked_of_those_that_tell_them(
        self, switch: ScriptedSwitch, told: bool
    ) -> None:
        if told:
            switch.session.capabilities |= extension.Capability.THRESHOLDS
        switch.session.read_queues()
        _, exp_type, body = openflow.unpack_experimenter(switch.got[-1])
        assert extension.unpack(exp_type, body) == extension.QueueStatsRequest(thresholds=told)
        numbers = (1, 10**8, 65_536, None, 3000, 2, 0, 0, 0, 0, 0, 0)
        levels = extension.Thresholds(20_000, 40_000, 60_000)
        queue = extension.QueueStats(1, 0, 1, *numbers, (1, 0, 0, 0), 1, thresholds=levels)
        reply = extension.QueueStatsReply((queue,), has_thresholds=told)
        xid = int.from_bytes(switch.got[-1][4:8], "big")
        (read,) = switch.say_experimenter(5, reply.pack(), xid)
        assert isinstance(read, events.QueuesRead)
        assert [one.thresholds for one in read.queues] == [levels if told else None]

    def test_the_control_channel_is_timed_by_its_last_question(
        self, switch: ScriptedSwitch
    ) -> None:
        switch.session.time_control(5)
        first = int.from_bytes(switch.got[-1][4:8], "big")
        assert switch.barrier() == [events.ControlTimed(5)]
        switch.session.time_control(7)
        assert switch.say(Type.BARRIER_REPLY, b"", first) == []
        assert switch.barrier() == [events.ControlTimed(7)]
        assert switch.barrier() == []

    def test_unknown_experimenters_are_told_of_once_each(
        self, switch: ScriptedSwitch, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(3):
            switch.say_experimenter(1, b"", experimenter=0xABC)
            switch.say_experimenter(1, b"", experimenter=0xDEF)
        assert len(caplog.records) == 2
        assert switch.session.counters["experimenter message of 0x00000abc"] == 3

    def test_what_is_of_no_use_is_remembered_within_bounds(
        self, switch: ScriptedSwitch, caplog: pytest.LogCaptureFixture
    ) -> None:
        for experimenter in range(10_000):
            switch.say_experimenter(1, b"", experimenter=experimenter)
        assert sum(switch.session.counters.values()) == 10_000
        assert len(switch.session.counters) < 100
        assert len(switch.told) < 200
        assert len(caplog.records) < 100

    def test_an_answer_without_end_does_not_pile_up(self, switch: ScriptedSwitch) -> None:
        (entry,) = encode(Forward(H1.mac, 3))
        for _ in range(100):
            switch.say_flows(stats_of(entry))
        assert not switch.session._resync._held

    def test_what_the_extension_refuses_is_told_by_name(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        switch = ScriptedSwitch()
        switch.become_ready()
        switch.session.set_windows([extension.Window(4, 0, 3000, 7, 0, 160, 0, 7)])
        request = switch.got[-1][:64]
        for code, name in ((6, "BAD_CLASS"), (77, "error type 65535 code 77")):
            switch.say(Type.ERROR, struct.pack("!HHI", 0xFFFF, code, 0x25D7C) + request)
            assert f"refused a message of type 4 with {name}" in caplog.text

    def test_a_switch_of_another_release_is_told_of(self, caplog: pytest.LogCaptureFixture) -> None:
        switch = ScriptedSwitch()
        (subscribe,) = (
            message
            for message in switch.got
            if message[1] == Type.EXPERIMENTER and openflow.unpack_experimenter(message)[1] == 1
        )
        switch.say(Type.ERROR, struct.pack("!HHI", 0xFFFF, 1, 0x25D7C) + subscribe)
        switch.say_flows()
        assert switch.barrier() == [events.Ready(0, [])]
        assert "does not speak version 2 of Weir's extension" in caplog.text
        assert "refused" not in caplog.text

    def test_malformed_notices_are_counted(self, switch: ScriptedSwitch) -> None:
        assert switch.say_experimenter(2, b"short") == []
        assert sum(switch.session.counters.values()) == 1


class TestWishes:
    def test_windows_are_one_message(self) -> None:
        switch = ScriptedSwitch()
        switch.subscribe_answer(PATCHED | Capability.CREDIT)
        windows = (
            extension.Window(4, 0, 3000, 7, 0, 160, 0, 7),
            extension.Window(5, 1460, 3000),
            extension.Window(6, 0, 0),
        )
        switch.session.set_windows(iter(windows))
        experimenter, exp_type, body = openflow.unpack_experimenter(switch.got[-1])
        assert (experimenter, exp_type) == (0x25D7C, 3)
        assert extension.unpack(3, body) == extension.WindowSet(windows)

    def test_a_frame_leaves_by_several_ports_at_once(self) -> None:
        switch = ScriptedSwitch()
        switch.session.transmit([1, 2], b"frame")
        actions = match.output(1) + match.output(2)
        assert switch.got[-1].endswith(actions + b"frame")


@given(st.sampled_from(list(Type)), st.binary(max_size=120))
def test_whatever_a_switch_sends_nothing_escapes(kind: Type, body: bytes) -> None:
    logging.disable(logging.CRITICAL)
    try:
        switch = ScriptedSwitch()
        switch.become_ready()
        switch.say(kind, body)
    finally:
        logging.disable(logging.NOTSET)


@given(st.integers(0, 3), st.sampled_from([0x0800, 0x86DD, 0x0806, 0x88CC]), st.binary(max_size=99))
def test_whatever_frame_comes_up_nothing_escapes(table: int, eth_type: int, body: bytes) -> None:
    logging.disable(logging.CRITICAL)
    try:
        switch = ScriptedSwitch()
        switch.become_ready()
        switch.packet_in(table, 1, ethernet(H2.mac, H1.mac, eth_type, body))
    finally:
        logging.disable(logging.NOTSET)


class TestBeforeReady:
    def test_no_port_change_is_lost_among_frames(self, caplog: pytest.LogCaptureFixture) -> None:
        switch = ScriptedSwitch()
        for _ in range(5000):
            switch.packet_in(0, 1, arp(1, H1, H2))
        port = (9).to_bytes(4, "big") + bytes(4) + H1.mac + bytes(2 + 16 + 32)
        switch.say(Type.PORT_STATUS, b"\x01" + bytes(7) + port)
        ready, gone, *frames = switch.become_ready()
        assert isinstance(ready, events.Ready)
        assert gone == events.PortRemoved(9)
        assert 0 < len(frames) < 5000
        assert switch.session.counters["held back too long"] == 5000 - len(frames)
        assert [r for r in caplog.records if "some of it was dropped" in r.getMessage()]

    def test_of_a_queue_the_last_notice_counts_and_tells_of_the_others(self) -> None:
        switch = ScriptedSwitch()
        for sequence in (1, 2, 5):
            notice = QueueEvent(3, 1, 0, 40, 60_000, 65_536, 10, sequence)
            switch.say_experimenter(2, notice.pack())
        _, told = switch.become_ready()
        assert isinstance(told, events.QueueNotice)
        assert (told.notice.sequence, told.missed) == (5, 4)
