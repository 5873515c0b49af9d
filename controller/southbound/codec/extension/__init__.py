"""Packs and unpacks Weir's extension of OpenFlow: experimenter messages and actions.

It mirrors `include/openflow/weir-ext.h` of the patched switch. Messages are without the 16 bytes
of the experimenter header, which are `openflow.py`'s. All integers are big-endian.
"""

from enum import IntEnum

from controller.southbound.codec.extension.actions import (
    TcpRwnd,
    TcpRwndRegister,
    unpack_action,
)
from controller.southbound.codec.extension.control import (
    LEAST_REPEAT_US,
    NO_CAPABILITY,
    Capability,
    ErrorCode,
    QueueEvent,
    Subscribe,
    SubscribeFlag,
    Window,
    WindowSet,
)
from controller.southbound.codec.extension.framing import (
    ANY_PORT,
    EXPERIMENTER,
    VERSION,
    ExtensionError,
)
from controller.southbound.codec.extension.statistics import (
    ANSWER_BOUNDS_NS,
    ANSWER_SIZES,
    HELD_BOUNDS_NS,
    NO_ACCOUNT,
    Answers,
    CreditStats,
    QueueStats,
    QueueStatsReply,
    QueueStatsRequest,
    TcpStats,
    TcpStatsReply,
    TcpStatsRequest,
    Thresholds,
)

__all__ = [
    "ANSWER_BOUNDS_NS", "ANSWER_SIZES", "ANY_PORT", "EXPERIMENTER", "HELD_BOUNDS_NS",
    "LEAST_REPEAT_US", "NO_ACCOUNT", "NO_CAPABILITY", "VERSION", "Answers", "Capability",
    "CreditStats", "ErrorCode", "ExtensionError", "Message", "MessageType", "QueueEvent",
    "QueueStats", "QueueStatsReply", "QueueStatsRequest", "Subscribe", "SubscribeFlag",
    "TcpRwnd", "TcpRwndRegister", "TcpStats", "TcpStatsReply", "TcpStatsRequest", "Thresholds",
    "Window", "WindowSet", "unpack", "unpack_action",
]  # fmt: skip


class MessageType(IntEnum):
    SUBSCRIBE = 1
    QUEUE_EVENT = 2
    WINDOW_SET = 3
    QUEUE_STATS_REQUEST = 4
    QUEUE_STATS_REPLY = 5
    TCP_STATS_REQUEST = 6
    TCP_STATS_REPLY = 7


Message = (
    Subscribe
    | QueueEvent
    | WindowSet
    | QueueStatsRequest
    | QueueStatsReply
    | TcpStatsRequest
    | TcpStatsReply
)

_MESSAGES: dict[int, type[Message]] = {
    MessageType.SUBSCRIBE: Subscribe,
    MessageType.QUEUE_EVENT: QueueEvent,
    MessageType.WINDOW_SET: WindowSet,
    MessageType.QUEUE_STATS_REQUEST: QueueStatsRequest,
    MessageType.QUEUE_STATS_REPLY: QueueStatsReply,
    MessageType.TCP_STATS_REQUEST: TcpStatsRequest,
    MessageType.TCP_STATS_REPLY: TcpStatsReply,
}


def unpack(exp_type: int, body: bytes) -> Message:
    """A message of the extension. Raises ExtensionError."""
    if exp_type not in _MESSAGES:
        raise ExtensionError(f"unknown message type {exp_type}")
    return _MESSAGES[exp_type].unpack(body)
