"""Weir's messages and actions: the bytes that the switch agrees on, and what is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.southbound import extension
from controller.southbound.extension import (
    ANY_PORT,
    Capability,
    ExtensionError,
    PacketInReason,
    QueueEvent,
    QueueStats,
    QueueStatsReply,
    QueueStatsRequest,
    Subscribe,
    SubscribeFlag,
    TcpRwnd,
    TcpRwndRegister,
    Window,
    WindowSet,
)

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)

subscribes = st.builds(
    Subscribe,
    st.sampled_from([SubscribeFlag(0), SubscribeFlag.QUEUE_EVENTS]),
    u32,
    u32.map(Capability),
    u32,
)
events = st.builds(QueueEvent, st.integers(0, 3), u32, u32, u32, u32, u32, u64, u64)
ttls = st.integers(1, 2**32 - 1)
windows = st.builds(Window, u32, u32, ttls, u64, st.just(0)) | st.builds(
    Window, u32, u32, ttls, st.integers(1, 2**64 - 1), u32
)
window_sets = st.builds(WindowSet, st.lists(windows, max_size=20).map(tuple))
stats_requests = st.builds(QueueStatsRequest, u32)
queue_stats = st.builds(
    QueueStats,
    port=u32,
    queue=u32,
    level=st.integers(0, 3),
    limit_pkts=st.none() | st.integers(0, 2**64 - 2),
    events=st.tuples(u64, u64, u64, u64),
    **{
        name: u64
        for name in QueueStats._fields
        if name not in ("port", "queue", "level", "limit_pkts", "events")
    },
)
stats_replies = st.builds(
    QueueStatsReply, st.lists(queue_stats, max_size=5).map(tuple), st.booleans()
)
messages = st.one_of(subscribes, events, window_sets, stats_requests, stats_replies)

TYPES = {Subscribe: 1, QueueEvent: 2, WindowSet: 3, QueueStatsRequest: 4, QueueStatsReply: 5}
ENTRY_SIZES = {WindowSet: 24, QueueStatsReply: 152}


class TestBytes:
    def test_subscribe(self) -> None:
        request = Subscribe(SubscribeFlag.QUEUE_EVENTS, ANY_PORT)
        assert request.pack().hex(" ", 4) == "01000000 00000001 ffffffff 00000000 00000000 00000000"
        answer = bytes.fromhex("01000000 00000001 ffffffff 00000007 00000400 00000000")
        assert Subscribe.unpack(answer) == Subscribe(
            SubscribeFlag.QUEUE_EVENTS,
            ANY_PORT,
            Capability.TCP_RWND | Capability.TCP_RWND_REGISTER | Capability.QUEUE_EVENT,
            1024,
        )

    def test_queue_event(self) -> None:
        body = bytes.fromhex(
            "01020000 00000003 00000000 00000040 00017a80 00024fcc0000011f71fb04cb 0000000000000011"
        )
        event = QueueEvent(2, 3, 0, 64, 0x17A80, 0x24FCC, 0x11F71FB04CB, 17)
        assert QueueEvent.unpack(body) == event
        assert event.pack() == body

    def test_window_set(self) -> None:
        message = WindowSet(
            (
                Window(5, 1460, 3000),
                Window(4, 0, 0),
                Window(6, 0, 500, rate=11_280_576, transit_bytes=0x9C40),
            )
        )
        assert message.pack() == bytes.fromhex(
            "0100000000000000"
            "00000005 000005b4 0000000000000000 00000bb8 00000000"
            "00000004 00000000 0000000000000000 00000000 00000000"
            "00000006 00000000 0000000000ac20c0 000001f4 00009c40"
        )

    def test_queue_stats(self) -> None:
        assert QueueStatsRequest().pack() == bytes.fromhex("01000000 ffffffff")
        queue = QueueStats(
            port=3,
            queue=0,
            level=2,
            time_ns=0x11F71FB04CB,
            rate_bps=100_000_000,
            limit_bytes=65_536,
            limit_pkts=None,
            queue_bytes=0x9C40,
            queue_pkts=27,
            max_queue_bytes=0xF000,
            tx_pkts=1000,
            tx_bytes=0x171A60,
            dropped_pkts=2,
            dropped_bytes=3028,
            marked_pkts=7,
            events=(4, 3, 1, 3),
            sequence=11,
        )
        body = bytes.fromhex(
            "0101 000000000000"
            "00000003 00000000 02 00000000000000 0000011f71fb04cb"
            "0000000005f5e100 0000000000010000 ffffffffffffffff"
            "0000000000009c40 000000000000001b 000000000000f000"
            "00000000000003e8 0000000000171a60 0000000000000002 0000000000000bd4 0000000000000007"
            "0000000000000004 0000000000000003 0000000000000001 0000000000000003 000000000000000b"
        )
        assert QueueStatsReply((queue,), more=True).pack() == body
        assert QueueStatsReply.unpack(body) == QueueStatsReply((queue,), more=True)

    def test_packet_in_reasons_are_those_of_notices(self) -> None:
        assert [reason - PacketInReason.CN_L for reason in PacketInReason] == [0, 1, 2, 3]

    def test_actions(self) -> None:
        assert TcpRwnd(1460).pack() == bytes.fromhex("ffff0010 00025d7c 000105b4 00000000")
        assert TcpRwndRegister(5, 7).pack() == bytes.fromhex("ffff0010 00025d7c 00020700 00000005")


@given(messages)
def test_what_is_packed_is_unpacked(message: extension.Message) -> None:
    assert extension.unpack(TYPES[type(message)], message.pack()) == message


@given(messages, st.data())
def test_truncated_and_overlong_is_refused(message: extension.Message, data: st.DataObject) -> None:
    body = message.pack()
    cut = data.draw(st.integers(0, len(body) - 1))
    entry = ENTRY_SIZES.get(type(message))
    if not entry or cut < 8 or (cut - 8) % entry:
        with pytest.raises(ExtensionError):
            extension.unpack(TYPES[type(message)], body[:cut])
    with pytest.raises(ExtensionError):
        extension.unpack(TYPES[type(message)], body + b"\0")


@given(messages, st.integers(0, 255).filter(lambda version: version != 1))
def test_other_versions_are_refused(message: extension.Message, version: int) -> None:
    with pytest.raises(ExtensionError, match=f"version {version}"):
        extension.unpack(TYPES[type(message)], bytes([version]) + message.pack()[1:])


@given(st.integers(0, 6), st.binary(max_size=170))
def test_anything_else_raises_nothing_but_its_own_error(exp_type: int, body: bytes) -> None:
    try:
        message = extension.unpack(exp_type, body)
    except ExtensionError:
        return
    assert message.pack() == body


@given(
    st.builds(TcpRwndRegister, u32, st.integers(0, 14)) | st.builds(TcpRwnd, st.integers(0, 65_535))
)
def test_actions_round_trip(action: TcpRwnd | TcpRwndRegister) -> None:
    assert extension.unpack_action(action.pack()) == action


@given(
    st.binary(max_size=24)
    | st.binary(min_size=6, max_size=6).map(
        lambda tail: bytes.fromhex("ffff001000025d7c") + b"\0\2" + tail
    )
)
def test_any_action_raises_nothing_but_its_own_error(action: bytes) -> None:
    with contextlib.suppress(ExtensionError):
        assert extension.unpack_action(action).pack() == action


@pytest.mark.parametrize(
    ("exp_type", "body", "reason"),
    [
        (1, "01000000 00000002 ffffffff 00000000 00000000 00000000", "flags"),
        (1, "01000001 00000001 ffffffff 00000000 00000000 00000000", "padding"),
        (2, "01040000" + "00" * 36, "event 4"),
        (3, "0100000000000000" + "00000005 00000000 0000000000003908 00000000 00000000", "live"),
        (3, "0100000000000000" + "00000005 000005b4 0000000000000000 00000000 00000000", "live"),
        (3, "0100000000000000" + "00000005 000005b4 0000000000000000 00000bb8 00009c40", "transit"),
        (4, "01000001 00000001", "padding"),
        (5, "0102000000000000", "flags"),
        (5, "0100000000000001", "padding"),
        (5, "0100000000000000" + "00" * 8 + "04" + "00" * 143, "level 4"),
        (5, "0100000000000000" + "00" * 9 + "01" + "00" * 142, "padding"),
        (6, "", "type 6"),
    ],
)
def test_what_is_refused_is_said(exp_type: int, body: str, reason: str) -> None:
    with pytest.raises(ExtensionError, match=reason):
        extension.unpack(exp_type, bytes.fromhex(body))
