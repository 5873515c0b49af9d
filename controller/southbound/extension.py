"""Weir's extension of OpenFlow: experimenter messages and actions, packed and unpacked.

The mirror image of `include/openvswitch/weir-ext.h` of the patched switch. Bodies only: the 16
bytes of the experimenter header are `openflow.py`'s. All integers are big-endian.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple, Self

EXPERIMENTER = 0x00025D7C
VERSION = 1
ANY_PORT = 0xFFFFFFFF
MAX_WINDOW_SCALE = 14

_OFPAT_EXPERIMENTER = 0xFFFF


class ExtensionError(ValueError):
    """A message that claims to be of the extension and is not well-formed."""


class MessageType(IntEnum):
    SUBSCRIBE = 1
    QUEUE_EVENT = 2
    WINDOW_SET = 3


class Capability(IntFlag):
    """What a switch says in its answer to SUBSCRIBE."""

    TCP_RWND = 1 << 0
    TCP_RWND_REGISTER = 1 << 1
    QUEUE_EVENT = 1 << 2
    QUEUE_STATS = 1 << 3
    PACING = 1 << 4


NO_CAPABILITY = Capability(0)


class SubscribeFlag(IntFlag):
    QUEUE_EVENTS = 1 << 0


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Both the request and its answer; a request has no capabilities and no registers."""

    flags: SubscribeFlag
    port: int = ANY_PORT
    capabilities: Capability = NO_CAPABILITY
    n_registers: int = 0

    _FORMAT = struct.Struct("!B3xIIII4x")

    def pack(self) -> bytes:
        return self._FORMAT.pack(
            VERSION, self.flags, self.port, self.capabilities, self.n_registers
        )

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError. Capabilities that are not known here are kept."""
        _check_length("SUBSCRIBE", body, cls._FORMAT.size)
        version, flags, port, capabilities, n_registers = cls._FORMAT.unpack(body)
        _check_version("SUBSCRIBE", version)
        _check_zero("SUBSCRIBE", body[1:4] + body[20:24])
        if flags not in (0, SubscribeFlag.QUEUE_EVENTS):
            raise ExtensionError(f"SUBSCRIBE has unknown flags 0x{flags:08x}")
        return cls(SubscribeFlag(flags), port, Capability(capabilities), n_registers)


@dataclass(frozen=True, slots=True)
class QueueEvent:
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

    _FORMAT = struct.Struct("!BB2xIIIIIQQ")

    def pack(self) -> bytes:
        return self._FORMAT.pack(
            VERSION,
            self.event,
            self.port,
            self.queue,
            self.packets,
            self.queue_bytes,
            self.limit_bytes,
            self.time_ns,
            self.sequence,
        )

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError."""
        _check_length("QUEUE_EVENT", body, cls._FORMAT.size)
        version, event, *rest = cls._FORMAT.unpack(body)
        _check_version("QUEUE_EVENT", version)
        _check_zero("QUEUE_EVENT", body[2:4])
        if event > 3:
            raise ExtensionError(f"QUEUE_EVENT has unknown event {event}")
        return cls(event, *rest)


class Window(NamedTuple):
    """One register of a WINDOW_SET; window 0 releases, and only then may `ttl_ms` be 0."""

    register: int
    window_bytes: int
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class WindowSet:
    """Set registers, all or none of them. Rates (pacing) are not used: 0 on the wire."""

    windows: tuple[Window, ...]

    _HEAD = struct.Struct("!B7x")
    _ENTRY = struct.Struct("!IIQI4x")

    def pack(self) -> bytes:
        return self._HEAD.pack(VERSION) + b"".join(
            self._ENTRY.pack(register, window_bytes, 0, ttl_ms)
            for register, window_bytes, ttl_ms in self.windows
        )

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Raises ExtensionError."""
        if len(body) < cls._HEAD.size or (len(body) - cls._HEAD.size) % cls._ENTRY.size:
            raise ExtensionError(
                f"WINDOW_SET has {len(body)} bytes, not {cls._HEAD.size} and a multiple of "
                f"{cls._ENTRY.size}"
            )
        _check_version("WINDOW_SET", body[0])
        _check_zero("WINDOW_SET", body[1:8])
        windows = []
        for offset in range(cls._HEAD.size, len(body), cls._ENTRY.size):
            register, window_bytes, rate, ttl_ms = cls._ENTRY.unpack_from(body, offset)
            _check_zero("WINDOW_SET", body[offset + 20 : offset + 24])
            if rate:
                raise ExtensionError(f"WINDOW_SET paces register {register}, which is not known")
            if window_bytes and not ttl_ms:
                raise ExtensionError(f"WINDOW_SET of register {register} has no time to live")
            windows.append(Window(register, window_bytes, ttl_ms))
        return cls(tuple(windows))


Message = Subscribe | QueueEvent | WindowSet

_MESSAGES: dict[int, type[Message]] = {
    MessageType.SUBSCRIBE: Subscribe,
    MessageType.QUEUE_EVENT: QueueEvent,
    MessageType.WINDOW_SET: WindowSet,
}


def unpack(exp_type: int, body: bytes) -> Message:
    """A message of the extension. Raises ExtensionError."""
    if exp_type not in _MESSAGES:
        raise ExtensionError(f"unknown message type {exp_type}")
    return _MESSAGES[exp_type].unpack(body)


@dataclass(frozen=True, slots=True)
class TcpRwnd:
    """Action: lower the raw window field of a segment to this value, never raise it."""

    max_raw_window: int

    _FORMAT = struct.Struct("!HHIHH4x")
    _SUBTYPE = 1

    def pack(self) -> bytes:
        return self._FORMAT.pack(
            _OFPAT_EXPERIMENTER, 16, EXPERIMENTER, self._SUBTYPE, self.max_raw_window
        )


@dataclass(frozen=True, slots=True)
class TcpRwndRegister:
    """Action: lower the window of a segment to a register's, for a sender of this window scale."""

    register: int
    window_scale: int

    _FORMAT = struct.Struct("!HHIHBxI")
    _SUBTYPE = 2

    def pack(self) -> bytes:
        return self._FORMAT.pack(
            _OFPAT_EXPERIMENTER, 16, EXPERIMENTER, self._SUBTYPE, self.window_scale, self.register
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
        if window_scale > MAX_WINDOW_SCALE:
            raise ExtensionError(f"tcp_rwnd_register has window scale {window_scale}")
        return TcpRwndRegister(register, window_scale)
    raise ExtensionError(f"unknown action {subtype}")


def _check_length(name: str, body: bytes, expected: int) -> None:
    if len(body) != expected:
        raise ExtensionError(f"{name} has {len(body)} bytes, not {expected}")


def _check_version(name: str, version: int) -> None:
    if version != VERSION:
        raise ExtensionError(f"{name} is of version {version}; this controller speaks {VERSION}")


def _check_zero(name: str, padding: bytes) -> None:
    if any(padding):
        raise ExtensionError(f"{name} has non-zero padding")
