"""What a switch has counted: of its egress queues, and of TCP connections through them."""

import struct
from dataclasses import dataclass
from typing import NamedTuple, Self

from controller.southbound.codec.extension.framing import (
    ANY_PORT,
    VERSION,
    ExtensionError,
    check_entries,
    check_length,
    check_version,
    check_zero,
)

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
    check_length(name, body, _STATS_REQUEST.size)
    version, flags, port = _STATS_REQUEST.unpack(body)
    check_version(name, version)
    check_zero(name, body[2:4])
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
        check_entries("QUEUE_STATS reply", body, _REPLY.size, size)
        queues = tuple(
            cls._unpack_entry(body, offset, has_thresholds)
            for offset in range(_REPLY.size, len(body), size)
        )
        return cls(queues, bool(flags & _MORE), has_thresholds)

    @classmethod
    def _unpack_entry(cls, body: bytes, offset: int, has_thresholds: bool) -> QueueStats:
        check_zero("QUEUE_STATS reply", body[offset + 10 : offset + 16])
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
        check_entries("TCP_STATS reply", body, _REPLY.size, cls._ENTRY.size)
        ports = []
        for entry in cls._ENTRY.iter_unpack(body[_REPLY.size :]):
            answers = [
                Answers(entry[at], entry[at + 1], entry[at + 2 : at + cls._ANSWERS])
                for at in range(8, len(entry), cls._ANSWERS)
            ]
            ports.append(TcpStats._make((*entry[:8], tuple(answers))))
        return cls(tuple(ports), bool(flags & _MORE))


def _unpack_head(name: str, body: bytes, known: int) -> int:
    """Check what a reply with statistics starts with, and return its flags; `known` are those that
    there may be."""
    if len(body) < _REPLY.size:
        raise ExtensionError(f"{name} has {len(body)} bytes, less than {_REPLY.size}")
    version, flags = _REPLY.unpack_from(body)
    check_version(name, version)
    check_zero(name, body[2:8])
    if flags & ~known:
        raise ExtensionError(f"{name} has unknown flags 0x{flags:02x}")
    return int(flags)
