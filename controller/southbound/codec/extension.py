"""Packs and unpacks Weir's extension of OpenFlow: experimenter messages and actions.

It mirrors `include/openflow/weir-ext.h` of the patched switch. Messages are without the 16 bytes
of the experimenter header, which are `openflow.py`'s. All integers are big-endian.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple, Self

from controller.model.flow import MAX_WINDOW_SCALE

EXPERIMENTER = 0x00025D7C
VERSION = 2
ANY_PORT = 0xFFFFFFFF
LEAST_REPEAT_US = 100

_SCALE_OF_SYN = 255

_OFPAT_EXPERIMENTER = 0xFFFF


class ExtensionError(ValueError):
    """A malformed message of the extension."""


class MessageType(IntEnum):
    SUBSCRIBE = 1
    QUEUE_EVENT = 2
    WINDOW_SET = 3
    QUEUE_STATS_REQUEST = 4
    QUEUE_STATS_REPLY = 5
    TCP_STATS_REQUEST = 6
    TCP_STATS_REPLY = 7


class ErrorCode(IntEnum):
    """The codes of errors with experimenter EXPERIMENTER."""

    BAD_VERSION = 1
    BAD_FLAGS = 2
    BAD_EVENT = 3
    BAD_REGISTER = 4
    BAD_TTL = 5
    BAD_CLASS = 6
    BAD_INTERVAL = 7


class Capability(IntFlag):
    """What a switch can do, by its answer to SUBSCRIBE."""

    TCP_RWND = 1 << 0
    TCP_RWND_REGISTER = 1 << 1
    QUEUE_EVENT = 1 << 2
    QUEUE_STATS = 1 << 3
    CREDIT = 1 << 6
    REPEAT = 1 << 7
    TCP_STATS = 1 << 8
    THRESHOLDS = 1 << 9


NO_CAPABILITY = Capability(0)


class SubscribeFlag(IntFlag):
    QUEUE_EVENTS = 1 << 0


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The request and its answer; a request has no capabilities and no registers.

    While the queue of the port is congested, its notice is repeated every `repeat_us`; 0 leaves
    that to the queue's configuration. The switch uses the shortest interval that a controller
    wants.
    """

    flags: SubscribeFlag
    port: int = ANY_PORT
    capabilities: Capability = NO_CAPABILITY
    n_registers: int = 0
    repeat_us: int = 0

    _FORMAT = struct.Struct("!B3xIIIII")

    def pack(self) -> bytes:
        return self._FORMAT.pack(
            *(VERSION, self.flags, self.port),
            *(self.capabilities, self.n_registers, self.repeat_us),
        )

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError. Unknown capabilities are kept."""
        _check_length("SUBSCRIBE", body, cls._FORMAT.size)
        version, flags, port, capabilities, n_registers, repeat_us = cls._FORMAT.unpack(body)
        _check_version("SUBSCRIBE", version)
        _check_zero("SUBSCRIBE", body[1:4])
        if flags not in (0, SubscribeFlag.QUEUE_EVENTS):
            raise ExtensionError(f"SUBSCRIBE has unknown flags 0x{flags:08x}")
        if 0 < repeat_us < LEAST_REPEAT_US:
            raise ExtensionError(f"SUBSCRIBE asks for notices every {repeat_us} us")
        return cls(SubscribeFlag(flags), port, Capability(capabilities), n_registers, repeat_us)


_QUEUE_EVENT = struct.Struct("!BB2xIIIIIQQ")


class QueueEvent(NamedTuple):
    """A notice of an egress queue: 0 CN-L, 1 CN-M, 2 CN-H, 3 CR (SDTCP section 3.2).

    `time_ns` is the switch's CLOCK_MONOTONIC; `sequence` starts at 1 and rises by 1 for each notice
    of the queue. `queue_bytes`, `packets` are its length, `limit_bytes` what it can hold.
    """

    event: int
    port: int
    queue: int
    packets: int
    queue_bytes: int
    limit_bytes: int
    time_ns: int
    sequence: int

    def pack(self) -> bytes:
        return _QUEUE_EVENT.pack(VERSION, *self)

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError."""
        _check_length("QUEUE_EVENT", body, _QUEUE_EVENT.size)
        version, event, *rest = _QUEUE_EVENT.unpack(body)
        _check_version("QUEUE_EVENT", version)
        _check_zero("QUEUE_EVENT", body[2:4])
        if event > 3:
            raise ExtensionError(f"QUEUE_EVENT has unknown event {event}")
        return cls(event, *rest)


class Window(NamedTuple):
    """One register of a WINDOW_SET.

    The register's segments are in the account of credit of `port`; ANY_PORT stands for no account.
    Then the fields after it are 0, and without a window the register is released. Only a released
    register may have a `ttl_ms` of 0.

    The account gives credit for up to `bound_bytes` of frames, queued and expected; 0 leaves that
    to the switch. A request is held for `max_hold_ms` at most. `flow_class` is 0 or 1; `weight`, at
    least 1, is its share in the account.
    """

    register: int
    window_bytes: int
    ttl_ms: int
    port: int = ANY_PORT
    bound_bytes: int = 0
    max_hold_ms: int = 0
    flow_class: int = 0
    weight: int = 0


_WINDOW_SET = struct.Struct("!B7x")
_WINDOW = struct.Struct("!IIIIIHBB")


class WindowSet(NamedTuple):
    """Sets registers, all or none of them."""

    windows: tuple[Window, ...]

    def pack(self) -> bytes:
        return _WINDOW_SET.pack(VERSION) + b"".join(
            _WINDOW.pack(*window) for window in self.windows
        )

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError."""
        _check_entries("WINDOW_SET", body, _WINDOW_SET.size, _WINDOW.size)
        _check_version("WINDOW_SET", body[0])
        _check_zero("WINDOW_SET", body[1:8])
        windows = tuple(map(Window._make, _WINDOW.iter_unpack(body[_WINDOW_SET.size :])))
        for window in windows:
            _check_window(window)
        return cls(windows)


def _check_window(window: Window) -> None:
    name = f"WINDOW_SET of register {window.register}"
    has_account = window.port != ANY_PORT
    if (window.window_bytes or has_account) and not window.ttl_ms:
        raise ExtensionError(f"{name} has no time to live")
    if not has_account and any(window[4:]):
        raise ExtensionError(f"{name} has credit but no port")
    if has_account and not window.weight:
        raise ExtensionError(f"{name} has no weight")
    if window.flow_class > 1:
        raise ExtensionError(f"{name} has unknown class {window.flow_class}")


_STATS_REQUEST = struct.Struct("!BB2xI")
# Of a request: thresholds are wanted. Of a reply: every entry has them.
_THRESHOLDS = 1 << 1


@dataclass(frozen=True, slots=True)
class QueueStatsRequest:
    """Asks for the egress queue of a port, or of all ports that have one.

    Only a switch with Capability.THRESHOLDS may be asked for `thresholds`: others refuse the
    request.
    """

    port: int = ANY_PORT
    thresholds: bool = False

    def pack(self) -> bytes:
        return _STATS_REQUEST.pack(VERSION, _THRESHOLDS if self.thresholds else 0, self.port)

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError."""
        flags, port = _unpack_request("QUEUE_STATS request", body, _THRESHOLDS)
        return cls(port, bool(flags))


@dataclass(frozen=True, slots=True)
class TcpStatsRequest:
    """Asks what has become of the TCP connections through the egress queue of a port, or of all."""

    port: int = ANY_PORT

    def pack(self) -> bytes:
        return _STATS_REQUEST.pack(VERSION, 0, self.port)

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError."""
        _, port = _unpack_request("TCP_STATS request", body, known=0)
        return cls(port)


def _unpack_request(name: str, body: bytes, known: int) -> tuple[int, int]:
    """Flags and port; `known` are the flags that there may be."""
    _check_length(name, body, _STATS_REQUEST.size)
    version, flags, port = _STATS_REQUEST.unpack(body)
    _check_version(name, version)
    _check_zero(name, body[2:4])
    if flags & ~known:
        raise ExtensionError(f"{name} has unknown flags 0x{flags:02x}")
    return flags, port


HELD_BOUNDS_NS = tuple(1000 * us for us in (100, 300, 1000, 3000, 10_000, 30_000, 100_000))


class CreditStats(NamedTuple):
    """The account of credit of a port; all zero if there never was one.

    The first three fields are of now. The others count since the account was opened, except
    `max_held_ns`, the longest time. A request is a segment that asks for data. `expected_bytes`
    counts frames, the other bytes are payload.
    """

    connections: int = 0
    held: int = 0
    """Segments that are held now."""
    expected_bytes: int = 0
    """What senders have credit for and have not sent yet."""
    requests: int = 0
    held_requests: int = 0
    overdue_requests: int = 0
    """Requests that were held for as long as is allowed."""
    full_requests: int = 0
    """Requests that were not held because memory was short."""
    held_ns: int = 0
    max_held_ns: int = 0
    held_for: tuple[int, ...] = (0,) * (len(HELD_BOUNDS_NS) + 1)
    """How many segments were held for less than each of HELD_BOUNDS_NS but not less than the one
    before, and last, how many for longer than all."""
    window_updates: int = 0
    charged_bytes: int = 0
    """What was expected of senders."""
    given_back_bytes: int = 0
    """What of it they did not need."""
    expired_bytes: int = 0
    """What of it they did not send in time."""


NO_ACCOUNT = CreditStats()


class Thresholds(NamedTuple):
    """The lengths of a queue that cause CN-L, CN-M and CN-H: in bytes with overhead, or
    `in_packets`."""

    low: int
    mid: int
    high: int
    in_packets: bool = False


class QueueStats(NamedTuple):
    """An egress queue, at `time_ns` (the switch's CLOCK_MONOTONIC), and its counters.

    Counters and `max_queue_bytes` start with the queue. Bytes of the queue and its limit include
    the configured overhead of every packet; the other bytes are of frames.
    """

    port: int
    queue: int
    level: int
    """0 if the queue is not congested, otherwise 1, 2, 3 after CN-L, CN-M, CN-H."""
    time_ns: int
    rate_bps: int
    limit_bytes: int
    limit_pkts: int | None
    """None if only bytes are limited."""
    queue_bytes: int
    queue_pkts: int
    max_queue_bytes: int
    tx_pkts: int
    tx_bytes: int
    dropped_pkts: int
    dropped_bytes: int
    marked_pkts: int
    events: tuple[int, ...]
    """How many CN-L, CN-M, CN-H and CR, in this order."""
    sequence: int
    """Of the latest notice, 0 if there was none."""
    credit: CreditStats = NO_ACCOUNT
    can_have_account: bool = True
    """False for ports of PMD threads, even if the switch keeps accounts."""
    thresholds: Thresholds | None = None
    """None if the reply has none."""


_NO_LIMIT = 2**64 - 1
_REPLY = struct.Struct("!BB6x")
_MORE = 1 << 0
_CAN_HAVE_ACCOUNT, _IN_PACKETS = 1 << 0, 1 << 1


@dataclass(frozen=True, slots=True)
class QueueStatsReply:
    """Answers a request; while `more` is set, further messages follow. Queues have thresholds if
    the reply `has_thresholds`, otherwise they are left out."""

    queues: tuple[QueueStats, ...]
    more: bool = False
    has_thresholds: bool = False

    _ENTRY = struct.Struct("!IIBB6x38Q")
    _LEVELS = struct.Struct("!3Q")

    def pack(self) -> bytes:
        flags = (_MORE if self.more else 0) | (_THRESHOLDS if self.has_thresholds else 0)
        return _REPLY.pack(VERSION, flags) + b"".join(map(self._pack_entry, self.queues))

    def _pack_entry(self, queue: QueueStats) -> bytes:
        levels, flags = b"", _CAN_HAVE_ACCOUNT if queue.can_have_account else 0
        if self.has_thresholds:
            if queue.thresholds is None:
                raise ValueError(f"the queue of port {queue.port} has no thresholds")
            levels = self._LEVELS.pack(*queue.thresholds[:3])
            flags |= _IN_PACKETS if queue.thresholds.in_packets else 0
        entry = self._ENTRY.pack(
            *queue[:3],
            flags,
            *queue[3:6],
            _NO_LIMIT if queue.limit_pkts is None else queue.limit_pkts,
            *queue[7:15],
            *queue.events,
            queue.sequence,
            *queue.credit[:9],
            *queue.credit.held_for,
            *queue.credit[10:],
        )
        return entry + levels

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError."""
        flags = _unpack_head("QUEUE_STATS reply", body, _MORE | _THRESHOLDS)
        has_thresholds = bool(flags & _THRESHOLDS)
        size = cls._ENTRY.size + (cls._LEVELS.size if has_thresholds else 0)
        _check_entries("QUEUE_STATS reply", body, _REPLY.size, size)
        queues = tuple(
            cls._unpack_entry(body, offset, has_thresholds)
            for offset in range(_REPLY.size, len(body), size)
        )
        return cls(queues, bool(flags & _MORE), has_thresholds)

    @classmethod
    def _unpack_entry(cls, body: bytes, offset: int, has_thresholds: bool) -> QueueStats:
        _check_zero("QUEUE_STATS reply", body[offset + 10 : offset + 16])
        entry = cls._ENTRY.unpack_from(body, offset)
        (level, flags), fields = entry[2:4], (*entry[:3], *entry[4:])
        limit_pkts = fields[6]
        if level > 3:
            raise ExtensionError(f"QUEUE_STATS reply has unknown level {level}")
        if flags & ~(_CAN_HAVE_ACCOUNT | (_IN_PACKETS if has_thresholds else 0)):
            raise ExtensionError(f"QUEUE_STATS reply has unknown flags 0x{flags:02x}")
        thresholds = None
        if has_thresholds:
            low, mid, high = cls._LEVELS.unpack_from(body, offset + cls._ENTRY.size)
            thresholds = Thresholds(low, mid, high, bool(flags & _IN_PACKETS))
        limit = None if limit_pkts == _NO_LIMIT else limit_pkts
        counted = fields[20:]
        credit = CreditStats._make((*counted[:9], counted[9:17], *counted[17:]))
        return QueueStats._make(
            (
                *(*fields[:6], limit, *fields[7:15], fields[15:19], fields[19]),
                *(credit, bool(flags & _CAN_HAVE_ACCOUNT), thresholds),
            )
        )


ANSWER_SIZES = (10_000, 100_000)
ANSWER_BOUNDS_NS = tuple(100_000 << i for i in range(15))


class Answers(NamedTuple):
    """Answers of one class of sizes: how many, how long they took from the request's arrival to the
    departure of the last byte, in all, and how many took less than each of ANSWER_BOUNDS_NS but not
    less than the one before; last, how many took longer than all."""

    number: int
    ns: int
    times: tuple[int, ...]


class TcpStats(NamedTuple):
    """What has become of a sample of the TCP connections whose data leave through a port, at
    `time_ns` (the switch's CLOCK_MONOTONIC).

    `connections` are in the sample now; the others count since the egress queue was set up.
    Segments are those with payload, `new_bytes` what was not sent before. A timeout is a
    retransmission after at least 100 ms without data.
    """

    port: int
    connections: int
    time_ns: int
    segments: int
    new_bytes: int
    retransmitted: int
    timeouts: int
    timeout_ns: int
    answers: tuple[Answers, ...]
    """By size: of less than each of ANSWER_SIZES, and longer ones."""


@dataclass(frozen=True, slots=True)
class TcpStatsReply:
    """Answers a request; while `more` is set, further messages follow."""

    ports: tuple[TcpStats, ...]
    more: bool = False

    _ENTRY = struct.Struct("!II60Q")
    _ANSWERS = 2 + len(ANSWER_BOUNDS_NS) + 1

    def pack(self) -> bytes:
        return _REPLY.pack(VERSION, _MORE if self.more else 0) + b"".join(
            self._ENTRY.pack(
                *port[:8],
                *(n for size in port.answers for n in (size.number, size.ns, *size.times)),
            )
            for port in self.ports
        )

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError."""
        flags = _unpack_head("TCP_STATS reply", body, _MORE)
        _check_entries("TCP_STATS reply", body, _REPLY.size, cls._ENTRY.size)
        ports = []
        for entry in cls._ENTRY.iter_unpack(body[_REPLY.size :]):
            answers = [
                Answers(entry[at], entry[at + 1], entry[at + 2 : at + cls._ANSWERS])
                for at in range(8, len(entry), cls._ANSWERS)
            ]
            ports.append(TcpStats._make((*entry[:8], tuple(answers))))
        return cls(tuple(ports), bool(flags & _MORE))


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


@dataclass(frozen=True, slots=True)
class TcpRwnd:
    """Action: lower the raw window field of a segment to this value; never raise it."""

    max_raw_window: int

    _FORMAT = struct.Struct("!HHIHH4x")
    _SUBTYPE = 1

    def pack(self) -> bytes:
        return self._FORMAT.pack(
            _OFPAT_EXPERIMENTER, 16, EXPERIMENTER, self._SUBTYPE, self.max_raw_window
        )


@dataclass(frozen=True, slots=True)
class TcpRwndRegister:
    """Action: lower the window of a segment to a register's, for a sender with this window scale.

    Without a scale, the account of credit uses the one in the sender's SYN.
    """

    register: int
    window_scale: int | None

    _FORMAT = struct.Struct("!HHIHBxI")
    _SUBTYPE = 2

    def pack(self) -> bytes:
        scale = _SCALE_OF_SYN if self.window_scale is None else self.window_scale
        return self._FORMAT.pack(
            _OFPAT_EXPERIMENTER, 16, EXPERIMENTER, self._SUBTYPE, scale, self.register
        )


def unpack_action(action: bytes) -> TcpRwnd | TcpRwndRegister:
    """An action of the extension, its header included. Raises ExtensionError."""
    _check_length("action", action, 16)
    kind, length, experimenter, subtype = struct.unpack_from("!HHIH", action)
    if (kind, length, experimenter) != (_OFPAT_EXPERIMENTER, 16, EXPERIMENTER):
        raise ExtensionError("not an action of the extension")
    if subtype == TcpRwnd._SUBTYPE:
        _check_zero("tcp_rwnd", action[12:16])
        return TcpRwnd(TcpRwnd._FORMAT.unpack(action)[4])
    if subtype == TcpRwndRegister._SUBTYPE:
        _check_zero("tcp_rwnd_register", action[11:12])
        window_scale, register = TcpRwndRegister._FORMAT.unpack(action)[4:]
        if window_scale == _SCALE_OF_SYN:
            return TcpRwndRegister(register, None)
        if window_scale > MAX_WINDOW_SCALE:
            raise ExtensionError(f"tcp_rwnd_register has window scale {window_scale}")
        return TcpRwndRegister(register, window_scale)
    raise ExtensionError(f"unknown action {subtype}")


def _unpack_head(name: str, body: bytes, known: int) -> int:
    """Check what a reply with statistics starts with, and return its flags; `known` are those that
    there may be."""
    if len(body) < _REPLY.size:
        raise ExtensionError(f"{name} has {len(body)} bytes, less than {_REPLY.size}")
    version, flags = _REPLY.unpack_from(body)
    _check_version(name, version)
    _check_zero(name, body[2:8])
    if flags & ~known:
        raise ExtensionError(f"{name} has unknown flags 0x{flags:02x}")
    return int(flags)


def _check_length(name: str, body: bytes, expected: int) -> None:
    if len(body) != expected:
        raise ExtensionError(f"{name} has {len(body)} bytes, not {expected}")


def _check_entries(name: str, body: bytes, head: int, entry: int) -> None:
    if len(body) < head or (len(body) - head) % entry:
        raise ExtensionError(f"{name} has {len(body)} bytes, not {head} and a multiple of {entry}")


def _check_version(name: str, version: int) -> None:
    if version != VERSION:
        raise ExtensionError(f"{name} is of version {version}; this controller speaks {VERSION}")


def _check_zero(name: str, padding: bytes) -> None:
    if any(padding):
        raise ExtensionError(f"{name} has non-zero padding")
