"""What a controller and a switch agree on: subscriptions, notices of queues, windows."""

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
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

LEAST_REPEAT_US = 100


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
        check_length("SUBSCRIBE", body, cls._FORMAT.size)
        version, flags, port, capabilities, n_registers, repeat_us = cls._FORMAT.unpack(body)
        check_version("SUBSCRIBE", version)
        check_zero("SUBSCRIBE", body[1:4])
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
        check_length("QUEUE_EVENT", body, _QUEUE_EVENT.size)
        version, event, *rest = _QUEUE_EVENT.unpack(body)
        check_version("QUEUE_EVENT", version)
        check_zero("QUEUE_EVENT", body[2:4])
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
        check_entries("WINDOW_SET", body, _WINDOW_SET.size, _WINDOW.size)
        check_version("WINDOW_SET", body[0])
        check_zero("WINDOW_SET", body[1:8])
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
