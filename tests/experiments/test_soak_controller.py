"""The soak of the controller: its verdicts, its fake switches, and a short one."""

import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.entries import FlowCounter, Forward
from controller.model.flow import FlowKey
from controller.southbound.codec import extension, openflow, packet_in
from controller.southbound.codec.openflow import HEADER, Type
from controller.southbound.switch import pipeline
from controller.southbound.switch.encoding import counted_flow, decode, encode
from experiments import cli
from experiments.soak import SUMMARY, trend
from experiments.soak.controller_verdict import Minute, judge, unexpected
from experiments.soak.fake_switch import CAPABILITIES, Switch
from experiments.soak.hosts import Call, Host, Place
from experiments.soak.hosts import packet_in as copied
from experiments.soak.trend import Sample

LOG = "2026-01-01 00:00:00,000 {level:7} {rest}"


def samples(rss_kb: list[float], descriptors: int = 20) -> list[Sample]:
    return [Sample(2.0 * n, int(kb), descriptors, 1) for n, kb in enumerate(rss_kb)]


def minutes(p99_us: list[float]) -> list[Minute]:
    return [Minute(60.0 * n, p99 / 4, p99, 1000, 5000, 5000, 0) for n, p99 in enumerate(p99_us, 1)]


@given(st.floats(-5, 5), st.floats(-100, 100), st.integers(3, 40))
def test_the_slope_of_a_line_is_its_own(slope: float, offset: float, n: int) -> None:
    points = [(float(x), slope * x + offset) for x in range(n)]
    assert trend.slope(points) == pytest.approx(slope, abs=1e-6)
    assert trend.spread(points, slope) == pytest.approx(0, abs=1e-6)


def test_outliers_do_not_move_a_slope() -> None:
    rng = random.Random(1)
    points = [(float(x), 2.0 * x + (1e6 if rng.random() < 0.2 else 0)) for x in range(300)]
    assert trend.slope(points) == pytest.approx(2.0, rel=0.01)


def test_a_controller_that_stays_as_it_is_passes() -> None:
    rng = random.Random(1)
    noisy = [100_000 + rng.uniform(-300, 300) for _ in range(1350)]
    figures, faults = judge(samples(noisy), minutes([300.0, 280, 350] * 15))
    assert faults == []
    assert abs(figures["rss_kb_per_hour"]) < 512


def test_warming_up_is_no_leak() -> None:
    warming = [min(100_000.0, 60_000 + 100 * n) for n in range(1350)]
    assert judge(samples(warming), minutes([300.0] * 45))[1] == []


def test_memory_that_grows_fails() -> None:
    _, faults = judge(samples([100_000 + 2 * n for n in range(1350)]), minutes([300.0] * 45))
    (fault,) = faults
    assert fault.startswith("memory grows by 3600 kB an hour")


def test_delays_that_rise_fail() -> None:
    _, faults = judge(samples([100_000] * 1350), minutes([300.0 + 50 * n for n in range(45)]))
    assert any("control delay's p99 rises" in fault for fault in faults)


def test_what_stays_open_fails() -> None:
    leaking = [Sample(2.0 * n, 100_000, 20 + n // 100, 1) for n in range(1350)]
    _, faults = judge(leaking, minutes([300.0] * 45))
    assert any(fault.startswith("descriptors grow") for fault in faults)


@pytest.mark.parametrize(
    ("counted", "truth", "vanished", "wrong"),
    [
        (5000, 5000, 0, False),
        (5060, 5000, 0, False),
        (5200, 5000, 0, True),
        (5200, 5000, 200, False),
        (4800, 5000, 200, True),
    ],
)
def test_a_view_that_is_not_the_truth_fails(
    counted: int, truth: int, vanished: int, wrong: bool
) -> None:
    minute = Minute(60.0, 100, 200, 1000, counted, truth, vanished)
    assert (minute.fault is not None) is wrong


def test_too_short_to_tell() -> None:
    assert judge([], [])[1][0].startswith("too short to tell")


def test_only_what_was_done_on_purpose_may_be_complained_of() -> None:
    expected = LOG.format(level="WARNING", rest="weir.app: switch=0000000000000003 disconnected")
    information = LOG.format(level="INFO", rest="weir.app: switch=0000000000000003 is ready")
    error = LOG.format(level="ERROR", rest="weir.session: switch=0000000000000003 refused")
    assert unexpected([expected, information, error]) == [error]


def call(ipv6: bool) -> Call:
    client, server = Host(1, Place(1, 7), up=True), Host(2, Place(2, 9), up=True)
    return Call(client, server, (20_000, 80), ipv6, 77)


@pytest.mark.parametrize("ipv6", [False, True])
@pytest.mark.parametrize("flags", [0x02, 0x12, 0x11, 0x04])
def test_segments_are_read_as_they_were_meant(ipv6: bool, flags: int) -> None:
    opened = call(ipv6)
    message = openflow.unpack_packet_in(copied(7, opened.segment(True, flags)))
    assert message.in_port == 7
    segment = packet_in.parse(message.data)
    assert isinstance(segment, packet_in.TcpSegment)
    assert (segment.flags, segment.sequence) == (flags, 77)
    assert (segment.src_port, segment.dst_port) == (20_000, 80)


class TestSwitch:
    @pytest.fixture
    def switch(self) -> Switch:
        return Switch(7, 2)

    def answer(self, switch: Switch, message: bytes) -> list[tuple[int, bytes]]:
        switch.outgoing.clear()
        switch.receive(message)
        found, data = [], bytes(switch.outgoing)
        while data:
            _, kind, length, _ = HEADER.unpack_from(data)
            found.append((kind, data[:length]))
            data = data[length:]
        return found

    def test_it_holds_what_it_is_told_and_tells_it_back(self, switch: Switch) -> None:
        flow = FlowKey(b"\x0a\0\0\1", 1, b"\x0a\0\0\2", 2)
        (counter,), (forward,) = (
            encode(FlowCounter(flow, True, None)),
            encode(Forward(b"\2" * 6, 1)),
        )
        for entry in (counter, forward):
            switch.receive(openflow.flow_mod(openflow.FlowModCommand.ADD, entry, 1))
        switch.counters = lambda match: (3, 333) if match else (0, 0)
        asked = openflow.flow_stats_request(
            pipeline.Table.COUNT, pipeline.FLOW_COUNTER_COOKIE, pipeline.FLOW_COUNTER_COOKIE_MASK, 5
        )
        ((kind, reply),) = self.answer(switch, asked)
        assert kind == Type.MULTIPART_REPLY
        ((stats,), more) = openflow.unpack_flow_stats(reply)
        assert not more
        assert counted_flow(stats.match) == flow
        assert decode(stats) == (FlowCounter(flow, True, None), 1)
        assert (stats.packet_count, stats.byte_count) == (3, 333)
        switch.receive(openflow.flow_mod(openflow.FlowModCommand.DELETE_STRICT, counter, 1))
        assert len(switch.entries) == 1

    def test_many_entries_come_in_parts(self, switch: Switch) -> None:
        for number in range(1000):
            (entry,) = encode(Forward(b"\2\0\0\0" + number.to_bytes(2, "big"), 1))
            switch.receive(openflow.flow_mod(openflow.FlowModCommand.ADD, entry, 1))
        asked = openflow.flow_stats_request(
            openflow.ALL_TABLES, pipeline.COOKIE, pipeline.COOKIE_MASK, 5
        )
        parts = [openflow.unpack_flow_stats(reply) for _, reply in self.answer(switch, asked)]
        assert [more for _, more in parts] == [True] * (len(parts) - 1) + [False]
        assert sum(len(entries) for entries, _ in parts) == 1000

    def test_it_says_that_it_can_everything(self, switch: Switch) -> None:
        body = extension.Subscribe(extension.SubscribeFlag.QUEUE_EVENTS).pack()
        asked = openflow.experimenter(
            extension.EXPERIMENTER, extension.MessageType.SUBSCRIBE, body, 1
        )
        ((_, reply),) = self.answer(switch, asked)
        _, kind, told = openflow.unpack_experimenter(reply)
        answer = extension.unpack(kind, told)
        assert isinstance(answer, extension.Subscribe)
        assert extension.Capability.TCP_RWND_REGISTER in answer.capabilities

    @pytest.mark.parametrize("wanted", [True, False])
    @pytest.mark.parametrize("can", [True, False])
    def test_thresholds_are_told_to_who_asks_if_it_can(self, can: bool, wanted: bool) -> None:
        not_all = CAPABILITIES & ~extension.Capability.THRESHOLDS
        switch = Switch(7, 2, capabilities=CAPABILITIES if can else not_all)
        body = extension.QueueStatsRequest(thresholds=wanted).pack()
        asked = openflow.experimenter(
            extension.EXPERIMENTER, extension.MessageType.QUEUE_STATS_REQUEST, body, 1
        )
        ((kind, reply),) = self.answer(switch, asked)
        if wanted and not can:
            assert kind == Type.ERROR
            return
        _, exp_type, told = openflow.unpack_experimenter(reply)
        answer = extension.unpack(exp_type, told)
        assert isinstance(answer, extension.QueueStatsReply)
        assert answer.has_thresholds is wanted
        assert [queue.thresholds is not None for queue in answer.queues] == [wanted, wanted]

    def test_messages_may_come_in_pieces(self, switch: Switch) -> None:
        barrier = openflow.barrier_request(9)
        assert self.answer(switch, barrier[:5]) == []
        assert self.answer(switch, barrier[5:]) == [
            (Type.BARRIER_REPLY, struct.pack("!BBHI", 4, Type.BARRIER_REPLY, 8, 9))
        ]

    def test_a_port_that_changes_is_told(self, switch: Switch) -> None:
        switch.outgoing.clear()
        switch.set_port(2, up=False)
        _, port = openflow.unpack_port_status(bytes(switch.outgoing))
        assert (port.number, port.up) == (2, False)


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["soak", "controller", "--minutes", "0"], "--minutes must be more than 0, not 0"),
        (["soak", "controller", "--rate", "-3"], "--rate must be more than 0, not -3"),
    ],
)
def test_wrong_words(argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.timing
@pytest.mark.netns
def test_a_short_soak(tmp_path: Path) -> None:
    """Too short to tell whether memory grows; everything that happens in one, happens."""
    command = [sys.executable, "-m", "experiments.cli", "soak", "controller", "--seed", "1"]
    done = subprocess.run(
        [*command, "--minutes", "0.25", "--rate", "200", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert [fault for fault in summary["faults"] if "too short to tell" not in fault] == []
    assert summary["done.opened"] > 1000, done.stderr
    assert summary["done.flaps"] and summary["done.hosts replaced"]


def test_long_turns_of_the_main_loop_are_counted_after_the_warm_up() -> None:
    minutes = [
        Minute(60.0 * n, 100, 200, 1000, 5000, 5000, 0, long_turns, 30.0)
        for n, long_turns in enumerate([2] * 39 + [3], 1)
    ]
    figures, faults = judge(samples([100_000.0] * 1350), minutes)
    assert faults == []
    assert (figures["long_turns"], figures["longest_turn_ms"]) == (1, 30.0)
