"""Match fields, actions and instructions of OpenFlow 1.3: what flow entries are made of.

Layouts: OpenFlow Switch Specification 1.3.5, sections 7.2.3 to 7.2.5.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

CONTROLLER = 0xFFFFFFFD
WHOLE_PACKET = 0xFFFF

_OUTPUT = struct.Struct("!HHIH6x")
_GOTO = struct.Struct("!HHB3x")

_MATCH_OXM = 1
_INSTRUCTION_GOTO, _INSTRUCTION_APPLY = 1, 4
_ACTION_OUTPUT = 0


class MalformedMessageError(ValueError):
    """A message of a switch that does not have the layout of its type."""


class Field(NamedTuple):
    """A match field: its OXM class and number, and the length of its value."""

    oxm_class: int
    number: int
    length: int
    experimenter: bytes = b""


IN_PORT = Field(0x8000, 0, 4)
ETH_DST = Field(0x8000, 3, 6)
ETH_TYPE = Field(0x8000, 5, 2)
IP_PROTO = Field(0x8000, 10, 1)
IPV4_SRC = Field(0x8000, 11, 4)
IPV4_DST = Field(0x8000, 12, 4)
TCP_SRC = Field(0x8000, 13, 2)
TCP_DST = Field(0x8000, 14, 2)
IPV6_SRC = Field(0x8000, 26, 16)
IPV6_DST = Field(0x8000, 27, 16)
# ONF EXT-109: OpenFlow 1.3 has TCP flags as an experimenter field only.
TCP_FLAGS = Field(0xFFFF, 42, 2, bytes.fromhex("4f4e4600"))

_FIELDS = {
    (field.oxm_class, field.number): field
    for field in (
        *(IN_PORT, ETH_DST, ETH_TYPE, IP_PROTO, IPV4_SRC, IPV4_DST, TCP_SRC, TCP_DST),
        *(IPV6_SRC, IPV6_DST, TCP_FLAGS),
    )
}

Match = tuple[tuple[Field, bytes, bytes | None], ...]


def pack_match(match: Match) -> bytes:
    """ofp_match, padded."""
    oxms = b"".join(_pack_oxm(*part) for part in match)
    packed = struct.pack("!HH", _MATCH_OXM, 4 + len(oxms)) + oxms
    return packed + bytes(-len(packed) % 8)


def _pack_oxm(field: Field, value: bytes, mask: bytes | None) -> bytes:
    body = field.experimenter + value + (mask or b"")
    has_mask = mask is not None
    return struct.pack("!HBB", field.oxm_class, field.number << 1 | has_mask, len(body)) + body


def unpack_match(packed: bytes) -> Match:
    """The fields in order. Raises MalformedMessageError, also for an unknown field."""
    match = []
    for oxm_class, number, has_mask, body in oxms(packed):
        field = _FIELDS.get((oxm_class, number))
        if field is None:
            raise MalformedMessageError(f"unknown match field {oxm_class:#x}/{number}")
        start = len(field.experimenter)
        expected = start + field.length * (2 if has_mask else 1)
        if len(body) != expected or body[:start] != field.experimenter:
            raise MalformedMessageError(f"match field {oxm_class:#x}/{number} has a wrong length")
        value, mask = body[start : start + field.length], body[start + field.length :]
        match.append((field, value, mask if has_mask else None))
    return tuple(match)


def oxms(packed: bytes) -> Iterator[tuple[int, int, bool, bytes]]:
    """Class, number, whether masked, and body of each field. Raises MalformedMessageError."""
    if len(packed) < 4:
        raise MalformedMessageError("a match of less than 4 bytes")
    _, length = struct.unpack_from("!HH", packed)
    if not 4 <= length <= len(packed):
        raise MalformedMessageError(f"a match of length {length} in {len(packed)} bytes")
    offset = 4
    while offset < length:
        if offset + 4 > length:
            raise MalformedMessageError("a match field is cut off")
        oxm_class, number, size = struct.unpack_from("!HBB", packed, offset)
        offset += 4
        if offset + size > length:
            raise MalformedMessageError("a match field is cut off")
        yield oxm_class, number >> 1, bool(number & 1), packed[offset : offset + size]
        offset += size


def output(port: int, max_len: int = WHOLE_PACKET) -> bytes:
    """The action OUTPUT; if `port` is the controller, `max_len` bytes of the packet go up."""
    return _OUTPUT.pack(_ACTION_OUTPUT, 16, port, max_len if port == CONTROLLER else 0)


def unpack_output(action: bytes) -> int:
    """The port of an OUTPUT. Raises MalformedMessageError for another action."""
    if len(action) == 16:
        kind, length, port, _ = _OUTPUT.unpack(action)
        if (kind, length) == (_ACTION_OUTPUT, 16):
            return int(port)
    raise MalformedMessageError("not a lone OUTPUT action")


def pack_instructions(actions: bytes, goto: int | None) -> bytes:
    packed = b""
    if actions:
        packed += struct.pack("!HH4x", _INSTRUCTION_APPLY, 8 + len(actions)) + actions
    if goto is not None:
        packed += _GOTO.pack(_INSTRUCTION_GOTO, 8, goto)
    return packed


def unpack_instructions(packed: bytes) -> tuple[bytes, int | None]:
    """Actions and next table. Raises MalformedMessageError, also for another instruction."""
    actions, goto = b"", None
    offset = 0
    while offset < len(packed):
        if offset + 8 > len(packed):
            raise MalformedMessageError("an instruction is cut off")
        kind, length, table = _GOTO.unpack_from(packed, offset)
        if length < 8 or offset + length > len(packed):
            raise MalformedMessageError("an instruction is cut off")
        if kind == _INSTRUCTION_APPLY:
            actions = packed[offset + 8 : offset + length]
        elif kind == _INSTRUCTION_GOTO and length == 8:
            goto = table
        else:
            raise MalformedMessageError(f"unexpected instruction {kind}")
        offset += length
    return actions, goto
