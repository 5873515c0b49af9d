"""Weir's messages and actions: the bytes that the switch agrees on, and what is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.codec import extension
from controller.southbound.codec.extension import (
    ANY_PORT,
    HELD_BOUNDS_NS,
    NO_ACCOUNT,
    Answers,
    Capability,
    CreditStats,
    ExtensionError,
    QueueEvent,
    QueueStats,
    QueueStatsReply,
    QueueStatsRequest,
    Subscribe,
    SubscribeFlag,
    TcpRwnd,
    TcpRwndRegister,
    TcpStats,
    TcpStatsReply,
    TcpStatsRequest,
    Thresholds,
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
    st.just(0) | st.integers(extension.LEAST_REPEAT_US, 2**32 - 1),
)
events = st.builds(QueueEvent, st.integers(0, 3), u32, u32, u32, u32, u32, u64, u64)
ttls = st.integers(1, 2**32 - 1)
windows = st.tuples(u32, u32, ttls).map(lambda fields: Window(*fields)) | st.builds(
    Window,
    *(u32, u32, ttls, st.integers(0, ANY_PORT - 1), u32),
    *(st.integers(0, 65_535), st.integers(0, 1), st.integers(1, 255)),
)
window_sets = st.builds(WindowSet, st.lists(windows, max_size=20).map(tuple))
stats_requests = st.builds(QueueStatsRequest, u32, st.booleans())
credit_stats = st.builds(
    CreditStats,
    **{name: u64 for name in CreditStats._fields if name != "held_for"},
    held_for=st.tuples(*[u64] * 8),
)
queue_stats = st.builds(
    QueueStats,
    port=u32,
    queue=u32,
    level=st.integers(0, 3),
    limit_pkts=st.none() | st.integers(0, 2**64 - 2),
    events=st.tuples(u64, u64, u64, u64),
    credit=st.just(NO_ACCOUNT) | credit_stats,
    can_have_account=st.booleans(),
    thresholds=st.none(),
    **{
        name: u64
        for name in QueueStats._fields
        if name
        not in ("port", "queue", "level", "limit_pkts", "events", "credit", "can_have_account")
        and name != "thresholds"
    },
)
thresholds = st.builds(Thresholds, u64, u64, u64, st.booleans())
queues_with_thresholds = st.builds(
    lambda queue, levels: queue._replace(thresholds=levels), queue_stats, thresholds
)
stats_replies = st.builds(
    QueueStatsReply, st.lists(queue_stats, max_size=5).map(tuple), st.booleans()
)
replies_with_thresholds = st.builds(
    QueueStatsReply,
    st.lists(queues_with_thresholds, max_size=5).map(tuple),
    st.booleans(),
    st.just(True),
)
answers = st.builds(Answers, u64, u64, st.tuples(*[u64] * 16))
tcp_stats = st.builds(
    TcpStats, *(u32, u32, u64, u64, u64, u64, u64, u64), st.tuples(answers, answers, answers)
)
tcp_replies = st.builds(TcpStatsReply, st.lists(tcp_stats, max_size=3).map(tuple), st.booleans())
messages = st.one_of(
    *(subscribes, events, window_sets, stats_requests, stats_replies, replies_with_thresholds),
    *(st.builds(TcpStatsRequest, u32), tcp_replies),
)

TYPES = {
    Subscribe: 1,
    QueueEvent: 2,
    WindowSet: 3,
    QueueStatsRequest: 4,
    QueueStatsReply: 5,
    TcpStatsRequest: 6,
    TcpStatsReply: 7,
}
ENTRY_SIZES = {WindowSet: 24, QueueStatsReply: 320, TcpStatsReply: 488}


def entry_size(message: extension.Message) -> int | None:
    if isinstance(message, QueueStatsReply) and message.has_thresholds:
        return 344
    return ENTRY_SIZES.get(type(message))


class TestBytes:
    def test_subscribe(self) -> None:
        request = Subscribe(SubscribeFlag.QUEUE_EVENTS, ANY_PORT)
        assert request.pack().hex(" ", 4) == "02000000 00000001 ffffffff 00000000 00000000 00000000"
        answer = bytes.fromhex("02000000 00000001 ffffffff 0000004f 00000400 00000000")
        assert Subscribe.unpack(answer) == Subscribe(
            SubscribeFlag.QUEUE_EVENTS,
            ANY_PORT,
            Capability.TCP_RWND
            | Capability.TCP_RWND_REGISTER
            | Capability.QUEUE_EVENT
            | Capability.QUEUE_STATS
            | Capability.CREDIT,
            1024,
        )

    def test_subscribe_to_repeated_notices(self) -> None:
        request = Subscribe(SubscribeFlag.QUEUE_EVENTS, 3, repeat_us=11_500)
        assert request.pack().hex(" ", 4) == "02000000 00000001 00000003 00000000 00000000 00002cec"
        answer = bytes.fromhex("02000000 00000001 00000003 0000008f 00000400 00002cec")
        assert Subscribe.unpack(answer).repeat_us == 11_500
        assert Capability.REPEAT in Subscribe.unpack(answer).capabilities
        with pytest.raises(ExtensionError, match="every 99 us"):
            Subscribe.unpack(Subscribe(SubscribeFlag.QUEUE_EVENTS, 3, repeat_us=99).pack())

    def test_queue_event(self) -> None:
        body = bytes.fromhex(
            "02020000 00000003 00000000 00000040 00017a80 00024fcc0000011f71fb04cb 0000000000000011"
        )
        event = QueueEvent(2, 3, 0, 64, 0x17A80, 0x24FCC, 0x11F71FB04CB, 17)
        assert QueueEvent.unpack(body) == event
        assert event.pack() == body

    def test_tcp_stats(self) -> None:
        # As the switch's own test has it (ovs-patches, tests/ofp-print.at).
        body = bytes.fromhex("0201000000000000 00000002 00000003 0000011f71fb04cb")
        body += b"".join(n.to_bytes(8, "big") for n in range(1, 60))
        (port,) = TcpStatsReply.unpack(body).ports
        assert port[:8] == (2, 3, 1234567890123, 1, 2, 3, 4, 5)
        assert port.answers[1] == Answers(24, 25, tuple(range(26, 42)))
        assert port.answers[2].times[-1] == 59
        assert TcpStatsReply((port,), more=True).pack() == body
        with pytest.raises(ExtensionError, match="unknown flags"):
            TcpStatsReply.unpack(b"\x02\x02" + body[2:])

    def test_window_set(self) -> None:
        message = WindowSet(
            (
                Window(5, 1460, 3000),
                Window(4, 0, 0),
                Window(
                    6, 0, 500, port=3, bound_bytes=0x9C40, max_hold_ms=160, flow_class=0, weight=7
                ),
                Window(7, 0, 500, port=3, max_hold_ms=160, flow_class=1, weight=1),
            )
        )
        assert message.pack() == bytes.fromhex(
            "0200000000000000"
            "00000005 000005b4 00000bb8 ffffffff 00000000 0000 00 00"
            "00000004 00000000 00000000 ffffffff 00000000 0000 00 00"
            "00000006 00000000 000001f4 00000003 00009c40 00a0 00 07"
            "00000007 00000000 000001f4 00000003 00000000 00a0 01 01"
        )

    def test_queue_stats(self) -> None:
        assert QueueStatsRequest().pack() == bytes.fromhex("02000000 ffffffff")
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
            credit=CreditStats(
                connections=32,
                held=4,
                expected_bytes=0x5F40,
                requests=1000,
                held_requests=120,
                overdue_requests=2,
                full_requests=1,
                held_ns=0x3B9ACA00,
                max_held_ns=160_000_000,
                held_for=(1, 2, 3, 4, 5, 6, 7, 8),
                window_updates=9,
                charged_bytes=0x171A60,
                given_back_bytes=0x2000,
                expired_bytes=0x1000,
            ),
        )
        body = bytes.fromhex(
            "0201 000000000000"
            "00000003 00000000 02 01 000000000000 0000011f71fb04cb"
            "0000000005f5e100 0000000000010000 ffffffffffffffff"
            "0000000000009c40 000000000000001b 000000000000f000"
            "00000000000003e8 0000000000171a60 0000000000000002 0000000000000bd4 0000000000000007"
            "0000000000000004 0000000000000003 0000000000000001 0000000000000003 000000000000000b"
            "0000000000000020 0000000000000004 0000000000005f40"
            "00000000000003e8 0000000000000078 0000000000000002 0000000000000001"
            "000000003b9aca00 0000000009896800"
            "0000000000000001 0000000000000002 0000000000000003 0000000000000004"
            "0000000000000005 0000000000000006 0000000000000007 0000000000000008"
            "0000000000000009 0000000000171a60 0000000000002000 0000000000001000"
        )
        assert QueueStatsReply((queue,), more=True).pack() == body
        assert QueueStatsReply.unpack(body) == QueueStatsReply((queue,), more=True)

    def test_queue_of_a_port_that_cannot_have_an_account(self) -> None:
        queue = QueueStats(
            3, 0, 0, *(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), (0, 0, 0, 0), 0, can_have_account=False
        )
        body = QueueStatsReply((queue,)).pack()
        assert body[8:18] == bytes.fromhex("00000003 00000000 00 00")
        assert QueueStatsReply.unpack(body).queues == (queue,)
        with pytest.raises(ExtensionError, match="unknown flags 0x02"):
            QueueStatsReply.unpack(body[:17] + b"\x02" + body[18:])

    @pytest.mark.parametrize(
        ("entry_flags", "in_packets"), [("01", False), ("03", True), ("02", True)]
    )
    def test_queue_with_thresholds(self, entry_flags: str, in_packets: bool) -> None:
        assert QueueStatsRequest(3, thresholds=True).pack() == bytes.fromhex("02020000 00000003")
        # As the switch's own test has it (ovs-patches, tests/ofp-print.at).
        body = bytes.fromhex(
            "0202 000000000000 00000003 00000000 00" + entry_flags + "000000000000"
        )
        body += bytes(304) + b"".join(n.to_bytes(8, "big") for n in (20_000, 40_000, 60_000))
        reply = QueueStatsReply.unpack(body)
        assert reply.has_thresholds
        (queue,) = reply.queues
        assert queue.thresholds == Thresholds(20_000, 40_000, 60_000, in_packets)
        assert queue.can_have_account is (entry_flags != "02")
        assert reply.pack() == body
        # Who has not asked gets the same without.
        assert QueueStatsReply((queue,)).pack() == (
            bytes.fromhex("0200") + body[2:17] + bytes([body[17] & 1]) + body[18:328]
        )
        with pytest.raises(ExtensionError, match="unknown flags 0x04"):
            QueueStatsReply.unpack(body[:17] + b"\x04" + body[18:])
        with pytest.raises(ValueError, match="port 3 has no thresholds"):
            QueueStatsReply((queue._replace(thresholds=None),), has_thresholds=True).pack()

    def test_requests_are_counted_by_how_long_they_were_held(self) -> None:
        assert HELD_BOUNDS_NS == (10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8)
        assert len(NO_ACCOUNT.held_for) == len(HELD_BOUNDS_NS) + 1

    def test_actions(self) -> None:
        assert TcpRwnd(1460).pack() == bytes.fromhex("ffff0010 00025d7c 000105b4 00000000")
        assert TcpRwndRegister(5, 7).pack() == bytes.fromhex("ffff0010 00025d7c 00020700 00000005")
        of_syn = bytes.fromhex("ffff0010 00025d7c 0002ff00 00000005")
        assert TcpRwndRegister(5, None).pack() == of_syn
        assert extension.unpack_action(of_syn) == TcpRwndRegister(5, None)

    @pytest.mark.parametrize("scale", [15, 254])
    def test_no_scale_is_above_that_of_rfc_7323(self, scale: int) -> None:
        action = bytes.fromhex("ffff0010 00025d7c 0002") + bytes([scale]) + bytes(5)
        with pytest.raises(ExtensionError, match=f"window scale {scale}"):
            extension.unpack_action(action)


@given(messages)
def test_what_is_packed_is_unpacked(message: extension.Message) -> None:
    assert extension.unpack(TYPES[type(message)], message.pack()) == message


@given(messages, st.data())
def test_truncated_and_overlong_is_refused(message: extension.Message, data: st.DataObject) -> None:
    body = message.pack()
    cut = data.draw(st.integers(0, len(body) - 1))
    entry = entry_size(message)
    if not entry or cut < 8 or (cut - 8) % entry:
        with pytest.raises(ExtensionError):
            extension.unpack(TYPES[type(message)], body[:cut])
    with pytest.raises(ExtensionError):
        extension.unpack(TYPES[type(message)], body + b"\0")


@given(messages, st.integers(0, 255).filter(lambda version: version != 2))
def test_other_versions_are_refused(message: extension.Message, version: int) -> None:
    with pytest.raises(ExtensionError, match=f"version {version}"):
        extension.unpack(TYPES[type(message)], bytes([version]) + message.pack()[1:])


@given(st.integers(0, 8), st.binary(max_size=520))
def test_anything_else_raises_nothing_but_its_own_error(exp_type: int, body: bytes) -> None:
    try:
        message = extension.unpack(exp_type, body)
    except ExtensionError:
        return
    assert message.pack() == body


@given(
    st.builds(TcpRwndRegister, u32, st.none() | st.integers(0, 14))
    | st.builds(TcpRwnd, st.integers(0, 65_535))
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


SET = "0200000000000000"


@pytest.mark.parametrize(
    ("exp_type", "body", "reason"),
    [
        (1, "02000000 00000002 ffffffff 00000000 00000000 00000000", "flags"),
        (1, "02000001 00000001 ffffffff 00000000 00000000 00000000", "padding"),
        (2, "02040000" + "00" * 36, "event 4"),
        (3, "0200000000000001", "padding"),
        (3, SET + "00000005 000005b4 00000000 ffffffff 00000000 0000 00 00", "live"),
        (3, SET + "00000005 00000000 00000000 00000003 00000000 00a0 00 07", "live"),
        (3, SET + "00000005 000005b4 00000bb8 ffffffff 00000001 0000 00 00", "no port"),
        (3, SET + "00000005 000005b4 00000bb8 ffffffff 00000000 0001 00 00", "no port"),
        (3, SET + "00000005 000005b4 00000bb8 ffffffff 00000000 0000 01 00", "no port"),
        (3, SET + "00000005 000005b4 00000bb8 ffffffff 00000000 0000 00 01", "no port"),
        (3, SET + "00000005 00000000 00000bb8 00000003 00000000 00a0 00 00", "no weight"),
        (3, SET + "00000005 00000000 00000bb8 00000003 00000000 00a0 02 07", "class 2"),
        (4, "02000001 00000001", "padding"),
        (4, "02010000 00000001", "flags 0x01"),
        (6, "02020000 00000001", "flags 0x02"),
        (5, "0204000000000000", "flags 0x04"),
        (5, "02020000000000", "less than 8"),
        (5, "0202000000000000" + "00" * 320, "not 8 and a multiple of 344"),
        (5, SET + "00" * 344, "not 8 and a multiple of 320"),
        (5, "0200000000000001", "padding"),
        (5, SET + "00" * 8 + "04" + "00" * 311, "level 4"),
        (5, SET + "00" * 9 + "02" + "00" * 310, "flags 0x02"),
        (5, SET + "00" * 10 + "01" + "00" * 309, "padding"),
        (1, "02000000 00000001 00000003 00000000 00000000 00000063", "every 99 us"),
        (5, SET + "00" * 152, "not 8 and a multiple of 320"),
        (8, "", "type 8"),
    ],
)
def test_what_is_refused_is_said(exp_type: int, body: str, reason: str) -> None:
    with pytest.raises(ExtensionError, match=reason):
        extension.unpack(exp_type, bytes.fromhex(body))
