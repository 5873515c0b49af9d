"""Match fields, actions and instructions of OpenFlow 1.3: the parts of flow entries.

Layouts: OpenFlow Switch Specification 1.3.5, sections 7.2.3 to 7.2.5.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from controller.model.vlans import ETH_VLAN, number_of, vlan_numbered

CONTROLLER = 0xFFFFFFFD
WHOLE_PACKET = 0xFFFF

_OUTPUT = struct.Struct("!HHIH6x")
_GOTO = struct.Struct("!HHB3x")
_WRITE_METADATA = struct.Struct("!HH4xQQ")
_METER = struct.Struct("!HHI")
# Open vSwitch's include/openflow/nicira-ext.h and lib/ofp-actions.c, of 3.1.0.
_FIN_TIMEOUT = struct.Struct("!HHIHHH2x")
_REG_LOAD = struct.Struct("!HHIHHIQ")
_MULTIPATH = struct.Struct("!HHIHHH2xHHI2xHI")
# One member, padded to 8 bytes.
_BUNDLE_LOAD = struct.Struct("!HHIHHHHIHHI4xH6x")
_RESUBMIT = struct.Struct("!HHIHHB3x")
_OUTPUT_REG = struct.Struct("!HHIHHIH6x")
_PUSH_VLAN = struct.Struct("!HHH2x")
_POP_VLAN = struct.Struct("!HH4x")
_SET_VLAN_VID = struct.Struct("!HHIH6x")
# NXAST_CONTROLLER2 with the properties NXAC2PT_MAX_LEN and NXAC2PT_METER_ID, each padded to 8 bytes
# and in the order in which the switch gives them back.
_METERED_COPY = struct.Struct("!HHIH6xHHH2xHHI")
_WHOLE_METERED_COPY = struct.Struct("!HHIH6xHHI")

_MATCH_OXM = 1
_INSTRUCTION_GOTO, _INSTRUCTION_METADATA, _INSTRUCTION_APPLY, _INSTRUCTION_METER = 1, 2, 4, 6
_ACTION_OUTPUT, _ACTION_PUSH_VLAN, _ACTION_POP_VLAN, _ACTION_SET_FIELD = 0, 17, 18, 25
_ACTION_EXPERIMENTER = 0xFFFF
_NICIRA = 0x2320
_NXAST_REG_LOAD, _NXAST_MULTIPATH, _NXAST_FIN_TIMEOUT, _NXAST_CONTROLLER2 = 7, 10, 19, 37
_NXAST_BUNDLE_LOAD, _NXAST_RESUBMIT_TABLE, _NXAST_OUTPUT_REG = 13, 14, 15
_BY_ETH_SRC = _ACTIVE_BACKUP = 0
_SAME_IN_PORT = 0xFFF8
_PROPERTY_MAX_LEN, _PROPERTY_METER_ID = 0, 5
_HASH_SYMMETRIC_L3L4_UDP = 3
_ALL_ONES = (1 << 64) - 1


class MalformedMessageError(ValueError):
    """A message that does not have the layout of its type."""


class Field(NamedTuple):
    """A match field: its OXM class and number, and the length of its value."""

    oxm_class: int
    number: int
    length: int
    experimenter: bytes = b""


IN_PORT = Field(0x8000, 0, 4)
METADATA = Field(0x8000, 2, 8)
ETH_DST = Field(0x8000, 3, 6)
ETH_TYPE = Field(0x8000, 5, 2)
VLAN_VID = Field(0x8000, 6, 2)
IP_PROTO = Field(0x8000, 10, 1)
IPV4_SRC = Field(0x8000, 11, 4)
IPV4_DST = Field(0x8000, 12, 4)
TCP_SRC = Field(0x8000, 13, 2)
TCP_DST = Field(0x8000, 14, 2)
UDP_DST = Field(0x8000, 16, 2)
IPV6_SRC = Field(0x8000, 26, 16)
IPV6_DST = Field(0x8000, 27, 16)
ICMPV6_TYPE = Field(0x8000, 29, 1)
# Nicira's registers, which Open vSwitch knows beside those of OpenFlow 1.5.
REG0 = Field(0x0001, 0, 4)
REG1 = Field(0x0001, 1, 4)
# The port as Open vSwitch's own actions know it; what it is set to, later tables match.
NXM_IN_PORT = Field(0x0000, 0, 2)
# ONF EXT-109: OpenFlow 1.3 has TCP flags as an experimenter field only.
TCP_FLAGS = Field(0xFFFF, 42, 2, bytes.fromhex("4f4e4600"))

_FIELDS = {
    (field.oxm_class, field.number): field
    for field in (
        *(IN_PORT, ETH_DST, ETH_TYPE, VLAN_VID, IP_PROTO),
        *(IPV4_SRC, IPV4_DST, TCP_SRC, TCP_DST, UDP_DST),
        *(IPV6_SRC, IPV6_DST, TCP_FLAGS, METADATA, ICMPV6_TYPE, REG0, REG1),
    )
}

Match = tuple[tuple[Field, bytes, bytes | None], ...]


def exact(field: Field, value: int | bytes) -> tuple[Field, bytes, None]:
    """The part of a match for this value of a field."""
    return field, value if isinstance(value, bytes) else value.to_bytes(field.length, "big"), None


def prefix(field: Field, network: bytes, bits: int) -> tuple[Field, bytes, bytes | None]:
    """The part of a match for addresses of a network. A mask of ones only is left out, as Open
    vSwitch does when it reports the entry."""
    host_bits = 8 * len(network) - bits
    mask = ((1 << 8 * len(network)) - 1 >> host_bits << host_bits).to_bytes(len(network), "big")
    return field, network, mask if host_bits else None


# OFPVID_PRESENT: without a tag the field is 0, with one that only carries a priority it is this.
_VLAN_PRESENT = 0x1000
_VLAN_IDENTIFIER = 0x0FFF
NO_TAG: Match = (exact(VLAN_VID, 0),)
PRIORITY_TAG: Match = (exact(VLAN_VID, _VLAN_PRESENT),)
ANY_TAG: Match = ((VLAN_VID, *(2 * (_VLAN_PRESENT.to_bytes(2, "big"),))),)


def in_vlan(vlan: bytes) -> Match:
    """Frames in a VLAN; if it is empty, those that are in none: without a tag, or with one that
    only carries a priority."""
    if vlan:
        return (exact(VLAN_VID, _VLAN_PRESENT | number_of(vlan)),)
    return ((VLAN_VID, bytes(2), _VLAN_IDENTIFIER.to_bytes(2, "big")),)


def vlan_in(values: dict[Field, bytes]) -> bytes:
    """The VLAN of a match; empty without one."""
    return vlan_numbered(number_of(values[VLAN_VID]) & _VLAN_IDENTIFIER)


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


def metered_copy(max_len: int, meter: int) -> bytes:
    """The action to copy up `max_len` bytes of a packet through a meter, which drops copies only,
    never the packet."""
    head = _ACTION_EXPERIMENTER, _NICIRA, _NXAST_CONTROLLER2
    if max_len == WHOLE_PACKET:
        return _WHOLE_METERED_COPY.pack(
            head[0], _WHOLE_METERED_COPY.size, *head[1:], _PROPERTY_METER_ID, 8, meter
        )
    return _METERED_COPY.pack(
        *(head[0], _METERED_COPY.size, *head[1:]),
        *(_PROPERTY_MAX_LEN, 8, max_len),
        *(_PROPERTY_METER_ID, 8, meter),
    )


def fin_timeout(idle_timeout_s: int) -> bytes:
    """The action fin_timeout (ovs-actions(7)): after a FIN or RST, the entry's idle timeout is
    reduced to this."""
    return _FIN_TIMEOUT.pack(
        *(_ACTION_EXPERIMENTER, 16, _NICIRA, _NXAST_FIN_TIMEOUT), idle_timeout_s, 0
    )


def unpack_output(action: bytes) -> int:
    """The port of an OUTPUT. Raises MalformedMessageError for another action."""
    return _unpack_output(action)[0]


def unpack_outputs(actions: bytes) -> tuple[list[int], list[int]]:
    """The ports of some OUTPUTs, those before a pop_vlan and those after it. Raises
    MalformedMessageError for other actions."""
    before: list[int] = []
    after: list[int] | None = None
    offset = 0
    while offset < len(actions):
        if after is None and actions[offset : offset + _POP_VLAN.size] == pop_vlan():
            after = []
            offset += _POP_VLAN.size
            continue
        port, _ = _unpack_output(actions[offset : offset + _OUTPUT.size])
        (before if after is None else after).append(port)
        offset += _OUTPUT.size
    return before, after or []


def copied_bytes(actions: bytes) -> int | None:
    """How many bytes of a packet these actions copy up; None if that is not all they do."""
    try:
        port, max_len = _unpack_output(actions)
    except MalformedMessageError:
        return None
    return max_len if port == CONTROLLER else None


def _unpack_output(action: bytes) -> tuple[int, int]:
    if len(action) == 16:
        kind, length, port, max_len = _OUTPUT.unpack(action)
        if (kind, length) == (_ACTION_OUTPUT, 16):
            return port, max_len
    raise MalformedMessageError("not a lone OUTPUT action")


def load(field: Field, shift: int, n_bits: int, value: int) -> bytes:
    """The action reg_load: write `value` to `n_bits` of a register, from bit `shift` on."""
    place = shift << 6 | n_bits - 1
    size = _REG_LOAD.size
    return _REG_LOAD.pack(
        *(_ACTION_EXPERIMENTER, size, _NICIRA, _NXAST_REG_LOAD, place, _oxm_head(field), value)
    )


def unpack_load(action: bytes) -> int:
    """The value of a reg_load. Raises MalformedMessageError for another action."""
    if len(action) == _REG_LOAD.size:
        kind, _, vendor, subtype, _, _, value = _REG_LOAD.unpack(action)
        if (kind, vendor, subtype) == (_ACTION_EXPERIMENTER, _NICIRA, _NXAST_REG_LOAD):
            return int(value)
    raise MalformedMessageError("not a lone reg_load action")


def multipath(field: Field, n_bits: int) -> bytes:
    """The action multipath: set the lowest `n_bits` of a register to a hash of addresses, protocol
    and ports that is the same for both directions."""
    return _MULTIPATH.pack(
        *(_ACTION_EXPERIMENTER, _MULTIPATH.size, _NICIRA, _NXAST_MULTIPATH),
        *(_HASH_SYMMETRIC_L3L4_UDP, 0, 0, (1 << n_bits) - 1, 0),
        *(n_bits - 1, _oxm_head(field)),
    )


def load_if_live(field: Field, port: int) -> bytes:
    """The action bundle_load: set a register of 32 bits to `port` if that has a carrier, else to
    0xffff. Raises struct.error if the number of the port has more than 16 bits."""
    return _BUNDLE_LOAD.pack(
        *(_ACTION_EXPERIMENTER, _BUNDLE_LOAD.size, _NICIRA, _NXAST_BUNDLE_LOAD),
        *(_ACTIVE_BACKUP, _BY_ETH_SRC, 0, _oxm_head(NXM_IN_PORT), 1),
        *(8 * field.length - 1, _oxm_head(field), port),
    )


def unpack_load_if_live(actions: bytes) -> int:
    """The port of a bundle_load, the first of some actions. Raises MalformedMessageError for
    another action."""
    if len(actions) >= _BUNDLE_LOAD.size:
        kind, _, vendor, subtype, *_, port = _BUNDLE_LOAD.unpack_from(actions)
        if (kind, vendor, subtype) == (_ACTION_EXPERIMENTER, _NICIRA, _NXAST_BUNDLE_LOAD):
            return int(port)
    raise MalformedMessageError("no bundle_load")


def resubmit(table: int) -> bytes:
    """The action resubmit: look the packet up in a table, which may be the one that it is in."""
    return _RESUBMIT.pack(
        *(_ACTION_EXPERIMENTER, _RESUBMIT.size, _NICIRA, _NXAST_RESUBMIT_TABLE),
        *(_SAME_IN_PORT, table),
    )


def output_to(field: Field) -> bytes:
    """The action output_reg: out of the port whose number is in the lowest 16 bits of a field."""
    return _OUTPUT_REG.pack(
        *(_ACTION_EXPERIMENTER, _OUTPUT_REG.size, _NICIRA, _NXAST_OUTPUT_REG),
        *(15, _oxm_head(field), 0),
    )


def push_vlan(vlan: bytes) -> bytes:
    """The actions that give a frame the tag of a VLAN."""
    return _PUSH_VLAN.pack(_ACTION_PUSH_VLAN, _PUSH_VLAN.size, ETH_VLAN) + set_vlan(vlan)


def set_vlan(vlan: bytes) -> bytes:
    """The action that puts a frame that has a tag into a VLAN."""
    vid = _VLAN_PRESENT | number_of(vlan)
    return _SET_VLAN_VID.pack(_ACTION_SET_FIELD, _SET_VLAN_VID.size, _oxm_head(VLAN_VID), vid)


def unpack_set_vlan(actions: bytes) -> bytes:
    """The VLAN that the last of some actions puts a frame into. Raises MalformedMessageError if it
    does not."""
    if len(actions) >= _SET_VLAN_VID.size:
        kind, _, head, vid = _SET_VLAN_VID.unpack_from(actions, len(actions) - _SET_VLAN_VID.size)
        if (kind, head) == (_ACTION_SET_FIELD, _oxm_head(VLAN_VID)):
            return vlan_numbered(vid & _VLAN_IDENTIFIER)
    raise MalformedMessageError("no action that puts frames into a VLAN")


def pop_vlan() -> bytes:
    """The action that removes the tag of a frame."""
    return _POP_VLAN.pack(_ACTION_POP_VLAN, _POP_VLAN.size)


def _oxm_head(field: Field) -> int:
    return field.oxm_class << 16 | field.number << 9 | field.length


class Instructions(NamedTuple):
    """An entry drops what is beyond the `meter`, applies `actions` (packed), sets `metadata`, and
    continues in the table `goto`."""

    actions: bytes
    goto: int | None
    metadata: int | None = None
    meter: int | None = None


def pack_instructions(
    actions: bytes, goto: int | None, metadata: int | None = None, meter: int | None = None
) -> bytes:
    packed = b"" if meter is None else _METER.pack(_INSTRUCTION_METER, _METER.size, meter)
    if actions:
        packed += struct.pack("!HH4x", _INSTRUCTION_APPLY, 8 + len(actions)) + actions
    if metadata is not None:
        size = _WRITE_METADATA.size
        packed += _WRITE_METADATA.pack(_INSTRUCTION_METADATA, size, metadata, _ALL_ONES)
    if goto is not None:
        packed += _GOTO.pack(_INSTRUCTION_GOTO, 8, goto)
    return packed


def unpack_instructions(packed: bytes) -> Instructions:
    """Raises MalformedMessageError, also for an instruction that is none of ours."""
    actions, goto, metadata, meter = b"", None, None, None
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
        elif kind == _INSTRUCTION_METER and length == _METER.size:
            _, _, meter = _METER.unpack_from(packed, offset)
        elif kind == _INSTRUCTION_METADATA and length == _WRITE_METADATA.size:
            _, _, metadata, mask = _WRITE_METADATA.unpack_from(packed, offset)
            if mask != _ALL_ONES:
                raise MalformedMessageError(f"metadata under the mask {mask:#x}")
        else:
            raise MalformedMessageError(f"unexpected instruction {kind}")
        offset += length
    return Instructions(actions, goto, metadata, meter)
