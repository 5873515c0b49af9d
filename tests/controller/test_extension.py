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
    QueueEvent,
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
windows = st.builds(Window, u32, u32, st.integers(1, 2**32 - 1))
window_sets = st.builds(WindowSet, st.lists(windows, max_size=20).map(tuple))
messages = st.one_of(subscribes, events, window_sets)

TYPES = {Subscribe: 1, QueueEvent: 2, WindowSet: 3}


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
        message = WindowSet((Window(5, 1460, 3000), Window(4, 0, 0)))
        assert message.pack() == bytes.fromhex(
            "0100000000000000"
            "00000005 000005b4 0000000000000000 00000bb8 00000000"
            "00000004 00000000 0000000000000000 00000000 00000000"
        )

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
    if not isinstance(message, WindowSet) or cut < 8 or (cut - 8) % 24:
        with pytest.raises(ExtensionError):
            extension.unpack(TYPES[type(message)], body[:cut])
    with pytest.raises(ExtensionError):
        extension.unpack(TYPES[type(message)], body + b"\0")


@given(messages, st.integers(0, 255).filter(lambda version: version != 1))
def test_other_versions_are_refused(message: extension.Message, version: int) -> None:
    with pytest.raises(ExtensionError, match=f"version {version}"):
        extension.unpack(TYPES[type(message)], bytes([version]) + message.pack()[1:])


@given(st.integers(0, 5), st.binary(max_size=120))
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
        (3, "0100000000000000" + "00000005 000005b4 0000000000000001 00000bb8 00000000", "paces"),
        (3, "0100000000000000" + "00000005 000005b4 0000000000000000 00000000 00000000", "live"),
        (4, "", "type 4"),
    ],
)
def test_what_is_refused_is_said(exp_type: int, body: str, reason: str) -> None:
    with pytest.raises(ExtensionError, match=reason):
        extension.unpack(exp_type, bytes.fromhex(body))
