"""Weir's actions: they lower the window of a segment."""

import struct
from dataclasses import dataclass

from controller.model.flow import MAX_WINDOW_SCALE
from controller.southbound.codec.extension.framing import (
    EXPERIMENTER,
    ExtensionError,
    check_length,
    check_zero,
)

_SCALE_OF_SYN = 255

_OFPAT_EXPERIMENTER = 0xFFFF


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
    check_length("action", action, 16)
    kind, length, experimenter, subtype = struct.unpack_from("!HHIH", action)
    if (kind, length, experimenter) != (_OFPAT_EXPERIMENTER, 16, EXPERIMENTER):
        raise ExtensionError("not an action of the extension")
    if subtype == TcpRwnd._SUBTYPE:
        check_zero("tcp_rwnd", action[12:16])
        return TcpRwnd(TcpRwnd._FORMAT.unpack(action)[4])
    if subtype == TcpRwndRegister._SUBTYPE:
        check_zero("tcp_rwnd_register", action[11:12])
        window_scale, register = TcpRwndRegister._FORMAT.unpack(action)[4:]
        if window_scale == _SCALE_OF_SYN:
            return TcpRwndRegister(register, None)
        if window_scale > MAX_WINDOW_SCALE:
            raise ExtensionError(f"tcp_rwnd_register has window scale {window_scale}")
        return TcpRwndRegister(register, window_scale)
    raise ExtensionError(f"unknown action {subtype}")
