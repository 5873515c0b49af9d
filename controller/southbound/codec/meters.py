"""Packs and unpacks meters of OpenFlow 1.3 that drop packets above a rate.

Layouts: OpenFlow Switch Specification 1.3.5, sections 7.3.4.4 and 7.3.5.13 to 7.3.5.15.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from controller.southbound.codec.match import MalformedMessageError
from controller.southbound.codec.openflow import HEADER, VERSION, Type

ALL_METERS = 0xFFFFFFFF
# The meter of packet-ins without a meter of their own.
CONTROLLER_METER = 0xFFFFFFFD

STATS, CONFIG, FEATURES = 9, 10, 11

_DROP = 1
_FLAGS = 1 << 1 | 1 << 2 | 1 << 3  # OFPMF_PKTPS, OFPMF_BURST, OFPMF_STATS
_METER_MOD = struct.Struct("!HHI")
_BAND = struct.Struct("!HHII4x")
_MULTIPART = struct.Struct("!8xHH4x")
_REQUEST = struct.Struct("!BBHIHH4x")
_CONFIG = struct.Struct("!HHI")
_STATS = struct.Struct("!IH6xIQQII")
_BAND_STATS = struct.Struct("!QQ")
_FEATURES = struct.Struct("!IIIBB2x")
_REPLY_MORE = 1 << 0


class MeterModCommand(IntEnum):
    ADD = 0
    MODIFY = 1
    DELETE = 2


class Meter(NamedTuple):
    """Passes `rate_pps` packets a second, and `burst` more after a pause."""

    number: int
    rate_pps: int
    burst: int


class MeterStats(NamedTuple):
    """Counts since the meter was set up, `duration_ns` ago."""

    number: int
    duration_ns: int
    packets: int
    dropped: int


def meter_mod(command: MeterModCommand, meter: Meter, xid: int) -> bytes:
    band = _BAND.pack(_DROP, _BAND.size, meter.rate_pps, meter.burst)
    body = _METER_MOD.pack(command, _FLAGS, meter.number)
    if command is not MeterModCommand.DELETE:
        body += band
    return HEADER.pack(VERSION, Type.METER_MOD, HEADER.size + len(body), xid) + body


def request(kind: int, xid: int) -> bytes:
    """Ask for the STATS or the CONFIG of all meters, or for the FEATURES that meters have."""
    body = b"" if kind == FEATURES else struct.pack("!I4x", ALL_METERS)
    length = _REQUEST.size + len(body)
    return _REQUEST.pack(VERSION, Type.MULTIPART_REQUEST, length, xid, kind, 0) + body


def multipart_kind(message: bytes) -> tuple[int, bool]:
    """What a multipart reply is about, and whether more parts follow. Raises
    MalformedMessageError."""
    if len(message) < _MULTIPART.size:
        raise MalformedMessageError(f"a multipart reply of {len(message)} bytes")
    kind, flags = _MULTIPART.unpack_from(message)
    return kind, bool(flags & _REPLY_MORE)


def unpack_features(message: bytes) -> int:
    """How many meters a switch can have. Raises MalformedMessageError."""
    if len(message) < _MULTIPART.size + _FEATURES.size:
        raise MalformedMessageError("meter features are cut off")
    return int(_FEATURES.unpack_from(message, _MULTIPART.size)[0])


def unpack_config(message: bytes) -> list[Meter]:
    """The meters in one part of a reply. A meter that `meter_mod` cannot have made has a rate of 0.
    Raises MalformedMessageError."""
    meters = []
    offset = _MULTIPART.size
    while offset < len(message):
        if offset + _CONFIG.size > len(message):
            raise MalformedMessageError("a meter is cut off")
        length, flags, number = _CONFIG.unpack_from(message, offset)
        end = offset + length
        if length < _CONFIG.size or end > len(message):
            raise MalformedMessageError(f"a meter of {length} bytes")
        rate_pps = burst = 0
        if flags == _FLAGS and length == _CONFIG.size + _BAND.size:
            kind, _, rate, burst = _BAND.unpack_from(message, offset + _CONFIG.size)
            rate_pps = rate if kind == _DROP else 0
        meters.append(Meter(number, rate_pps, burst))
        offset = end
    return meters


def unpack_stats(message: bytes) -> list[MeterStats]:
    """The counters in one part of a reply. Raises MalformedMessageError."""
    found = []
    offset = _MULTIPART.size
    while offset < len(message):
        if offset + _STATS.size > len(message):
            raise MalformedMessageError("meter statistics are cut off")
        number, length, _, packets, _, seconds, ns = _STATS.unpack_from(message, offset)
        end = offset + length
        n_bands, rest = divmod(length - _STATS.size, _BAND_STATS.size)
        if n_bands < 0 or rest or end > len(message):
            raise MalformedMessageError(f"meter statistics of {length} bytes")
        bands = message[offset + _STATS.size : end]
        dropped = sum(count for count, _ in _BAND_STATS.iter_unpack(bands))
        found.append(MeterStats(number, seconds * 10**9 + ns, packets, dropped))
        offset = end
    return found
