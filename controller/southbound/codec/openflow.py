"""Packs and unpacks the messages of OpenFlow 1.3 that the controller uses after the handshake.

By `struct`, because Ryu's message objects cost ten to a hundred times as much. Layouts: OpenFlow
Switch Specification 1.3.5, section 7.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from controller.model.values import Port
from controller.southbound.codec.match import (
    CONTROLLER,
    IN_PORT,
    REG0,
    Field,
    Instructions,
    MalformedMessageError,
    Match,
    oxms,
    pack_instructions,
    pack_match,
    unpack_match,
)

VERSION = 4
HEADER = struct.Struct("!BBHI")

ANY = 0xFFFFFFFF
MAX_PORT = 0xFFFFFF00
NO_BUFFER = 0xFFFFFFFF
ALL_TABLES = 0xFF

SEND_FLOW_REMOVED = 1 << 0
REASON_IDLE_TIMEOUT = 0
PORT_DELETED = 1
PORT_LIVE = 4

ERROR_BAD_REQUEST = 1

_FLOW_MOD = struct.Struct("!BBHIQQBBHHHIIIH2x")
_PACKET_OUT = struct.Struct("!BBHIIIH6x")
# The key of a tunnel, and both its ends over IPv4 and over IPv6; those are Nicira's fields.
_TUNNEL_FIELDS = frozenset({(0x8000, 38), (1, 31), (1, 32), (1, 109), (1, 110)})
_PACKET_IN = struct.Struct("!8xIHBBQ")
_FLOW_REMOVED = struct.Struct("!8xQHBBIIHHQQ")
_FLOW_STATS_REQUEST = struct.Struct("!BBHIHH4xB3xII4xQQ")
_FLOW_STATS = struct.Struct("!HBxIIHHHH4xQQQ")
_MULTIPART = struct.Struct("!8xHH4x")
_PORT = struct.Struct("!I4x6s2x16sII16xI4x")
_PORT_STATS_REQUEST = struct.Struct("!BBHIHH4xI4x")
_PORT_STATS = struct.Struct("!I4xQQQQ64xII")
_ERROR = struct.Struct("!8xHH")
_EXPERIMENTER_ERROR, _ERROR_OF_EXPERIMENTER = 0xFFFF, struct.Struct("!8xHHI")
_EXPERIMENTER = struct.Struct("!8xII")

_HELLO_ELEMENT = struct.Struct("!HH")

_MULTIPART_FLOW = 1
MULTIPART_PORTS = 4
# OpenFlow 1.3.5 section A.3.5.6: a counter that the switch does not keep.
_NOT_COUNTED = 2**64 - 1
_PORT_DESC = (13).to_bytes(2, "big")
_REPLY_MORE = 1 << 0


class Type(IntEnum):
    HELLO = 0
    ERROR = 1
    ECHO_REQUEST = 2
    ECHO_REPLY = 3
    EXPERIMENTER = 4
    FEATURES_REPLY = 6
    PACKET_IN = 10
    FLOW_REMOVED = 11
    PORT_STATUS = 12
    PACKET_OUT = 13
    FLOW_MOD = 14
    MULTIPART_REQUEST = 18
    MULTIPART_REPLY = 19
    BARRIER_REQUEST = 20
    BARRIER_REPLY = 21
    ROLE_REQUEST = 24
    ROLE_REPLY = 25
    METER_MOD = 29


class FlowModCommand(IntEnum):
    ADD = 0
    DELETE_STRICT = 4


class Place(NamedTuple):
    """What identifies a flow entry on its switch: adding another one at its place replaces it.

    A match that cannot be unpacked stands for itself.
    """

    table: int
    priority: int
    match: frozenset[tuple[Field, bytes, bytes | None]] | bytes


@dataclass(frozen=True, slots=True)
class FlowEntry:
    """A flow entry to be sent: it drops what is beyond the `meter`, applies `actions` (packed),
    sets `metadata`, and continues in the table `goto`."""

    table: int
    priority: int
    cookie: int
    match: Match
    actions: bytes = b""
    goto: int | None = None
    idle_timeout_s: int = 0
    hard_timeout_s: int = 0
    flags: int = 0
    metadata: int | None = None
    meter: int | None = None

    @property
    def instructions(self) -> Instructions:
        return Instructions(self.actions, self.goto, self.metadata, self.meter)

    @property
    def place(self) -> Place:
        return Place(self.table, self.priority, frozenset(self.match))


class FlowStats(NamedTuple):
    """A flow entry in a reply; match and instructions are still packed."""

    table: int
    priority: int
    cookie: int
    duration_ns: int
    packet_count: int
    byte_count: int
    match: bytes
    instructions: bytes

    @property
    def place(self) -> Place:
        try:
            return Place(self.table, self.priority, frozenset(unpack_match(self.match)))
        except ValueError:
            return Place(self.table, self.priority, self.match)


class PortStats(NamedTuple):
    """What has left by a port, and come in by it, in the `duration_ns` that it has existed. What
    the switch does not count is None."""

    port: int
    tx_bytes: int
    duration_ns: int
    tx_packets: int | None = None
    rx_packets: int | None = None
    rx_bytes: int | None = None


class PacketIn(NamedTuple):
    """`register` is the packet's register 0, or 0 if the switch did not send it. It has come out of
    a tunnel if `by_tunnel`."""

    table: int
    cookie: int
    in_port: int
    data: bytes
    register: int = 0
    by_tunnel: bool = False


class FlowRemoved(NamedTuple):
    cookie: int
    reason: int
    table: int
    byte_count: int
    match: bytes


class Error(NamedTuple):
    """`request` is the beginning of the refused message, at least 64 bytes of it. `experimenter` is
    the one that has defined the code, None for OpenFlow."""

    kind: int
    code: int
    request: bytes
    experimenter: int | None = None


# Messages to a switch; the transaction id is the last argument


def flow_mod(command: FlowModCommand, entry: FlowEntry, xid: int) -> bytes:
    tail = pack_match(entry.match)
    if command is FlowModCommand.ADD:
        tail += pack_instructions(*entry.instructions)
    return (
        _FLOW_MOD.pack(
            VERSION,
            Type.FLOW_MOD,
            _FLOW_MOD.size + len(tail),
            xid,
            entry.cookie,
            0,
            entry.table,
            command,
            entry.idle_timeout_s,
            entry.hard_timeout_s,
            entry.priority,
            NO_BUFFER,
            ANY,
            ANY,
            entry.flags,
        )
        + tail
    )


def delete_read_back(stats: FlowStats, xid: int) -> bytes:
    """Delete exactly the entry that was read back."""
    return (
        _FLOW_MOD.pack(
            VERSION,
            Type.FLOW_MOD,
            _FLOW_MOD.size + len(stats.match),
            xid,
            stats.cookie,
            ANY << 32 | ANY,
            stats.table,
            FlowModCommand.DELETE_STRICT,
            0,
            0,
            stats.priority,
            NO_BUFFER,
            ANY,
            ANY,
            0,
        )
        + stats.match
    )


def packet_out(actions: bytes, data: bytes, xid: int) -> bytes:
    length = _PACKET_OUT.size + len(actions) + len(data)
    head = _PACKET_OUT.pack(
        VERSION, Type.PACKET_OUT, length, xid, NO_BUFFER, CONTROLLER, len(actions)
    )
    return head + actions + data


def flow_stats_request(table: int, cookie: int, cookie_mask: int, xid: int) -> bytes:
    match = pack_match(())
    return (
        _FLOW_STATS_REQUEST.pack(
            VERSION,
            Type.MULTIPART_REQUEST,
            _FLOW_STATS_REQUEST.size + len(match),
            xid,
            _MULTIPART_FLOW,
            0,
            table,
            ANY,
            ANY,
            cookie,
            cookie_mask,
        )
        + match
    )


def port_stats_request(xid: int) -> bytes:
    """Ask for the counters of all ports."""
    size = _PORT_STATS_REQUEST.size
    kind = Type.MULTIPART_REQUEST
    return _PORT_STATS_REQUEST.pack(VERSION, kind, size, xid, MULTIPART_PORTS, 0, ANY)


def barrier_request(xid: int) -> bytes:
    return HEADER.pack(VERSION, Type.BARRIER_REQUEST, HEADER.size, xid)


def experimenter(experimenter_id: int, exp_type: int, body: bytes, xid: int) -> bytes:
    head = HEADER.pack(VERSION, Type.EXPERIMENTER, 16 + len(body), xid)
    return head + struct.pack("!II", experimenter_id, exp_type) + body


# Messages from a switch, header included. All raise MalformedMessageError.


def unpack_packet_in(message: bytes) -> PacketIn:
    _, _, _, table, cookie = _unpack(_PACKET_IN, message)
    start = _PACKET_IN.size
    match, end = _take_match(message, start)
    in_port, register, by_tunnel = None, 0, False
    for oxm_class, number, _, body in oxms(match):
        if (oxm_class, number) == IN_PORT[:2] and len(body) == IN_PORT.length:
            in_port = int.from_bytes(body, "big")
        elif (oxm_class, number) == REG0[:2] and len(body) == REG0.length:
            register = int.from_bytes(body, "big")
        elif (oxm_class, number) in _TUNNEL_FIELDS:
            by_tunnel = True
    if in_port is None:
        raise MalformedMessageError("a packet-in without in_port")
    return PacketIn(table, cookie, in_port, message[end + 2 :], register, by_tunnel)


def unpack_flow_removed(message: bytes) -> FlowRemoved:
    cookie, _, reason, table, _, _, _, _, _, byte_count = _unpack(_FLOW_REMOVED, message)
    match, _ = _take_match(message, _FLOW_REMOVED.size)
    return FlowRemoved(cookie, reason, table, byte_count, match)


def unpack_flow_stats(message: bytes) -> tuple[list[FlowStats], bool]:
    """The flow entries of one part of a reply, and whether more parts follow."""
    kind, flags = _unpack(_MULTIPART, message)
    if kind != _MULTIPART_FLOW:
        raise MalformedMessageError(f"a multipart reply of type {kind}")
    entries = []
    offset = _MULTIPART.size
    while offset < len(message):
        (length, table, duration_s, duration_ns, priority, _, _, _, cookie, n_packets, n_bytes) = (
            _unpack(_FLOW_STATS, message, offset)
        )
        end = offset + length
        match, instructions_at = _take_match(message, offset + _FLOW_STATS.size)
        if not instructions_at <= end <= len(message):
            raise MalformedMessageError("flow statistics are cut off")
        entries.append(
            FlowStats(
                table,
                priority,
                cookie,
                duration_s * 10**9 + duration_ns,
                n_packets,
                n_bytes,
                match,
                message[instructions_at:end],
            )
        )
        offset = end
    return entries, bool(flags & _REPLY_MORE)


def unpack_port_stats(message: bytes) -> tuple[list[PortStats], bool]:
    """The counters in one part of a reply, and whether more parts follow. Ports without counters
    and the switch's own ports are left out."""
    kind, flags = _unpack(_MULTIPART, message)
    if kind != MULTIPART_PORTS:
        raise MalformedMessageError(f"a multipart reply of type {kind}")
    if (len(message) - _MULTIPART.size) % _PORT_STATS.size:
        raise MalformedMessageError("port statistics are cut off")
    counted = []
    for offset in range(_MULTIPART.size, len(message), _PORT_STATS.size):
        port, rx, tx, rx_bytes, tx_bytes, duration_s, duration_ns = _unpack(
            _PORT_STATS, message, offset
        )
        if port < MAX_PORT and tx_bytes != _NOT_COUNTED:
            at_ns = duration_s * 10**9 + duration_ns
            others = _counter(tx), _counter(rx), _counter(rx_bytes)
            counted.append(PortStats(port, tx_bytes, at_ns, *others))
    return counted, bool(flags & _REPLY_MORE)


def _counter(value: int) -> int | None:
    return None if value == _NOT_COUNTED else value


def unpack_port_status(message: bytes) -> tuple[int, Port]:
    """The reason and the port."""
    if len(message) != 16 + _PORT.size:
        raise MalformedMessageError(f"a port status of {len(message)} bytes")
    number, mac, name, config, state, speed_kbps = _PORT.unpack_from(message, 16)
    # OFPPC_PORT_DOWN and OFPPS_LINK_DOWN are both bit 0.
    text = name.rstrip(b"\0").decode(errors="replace")
    up, live = not (config | state) & 1, bool(state & PORT_LIVE)
    return message[8], Port(number, text, mac, up, speed_kbps * 1000, live)


def unpack_error(message: bytes) -> Error:
    kind, code = _unpack(_ERROR, message)
    if kind != _EXPERIMENTER_ERROR:
        return Error(kind, code, message[_ERROR.size :])
    *_, experimenter = _unpack(_ERROR_OF_EXPERIMENTER, message)
    return Error(kind, code, message[_ERROR_OF_EXPERIMENTER.size :], experimenter)


def unpack_experimenter(message: bytes) -> tuple[int, int, bytes]:
    """Experimenter id, experimenter type, body."""
    experimenter_id, exp_type = _unpack(_EXPERIMENTER, message)
    return experimenter_id, exp_type, message[_EXPERIMENTER.size :]


_HANDSHAKE = {Type.ERROR, Type.ECHO_REQUEST, Type.ECHO_REPLY, Type.FEATURES_REPLY}


def is_of_handshake(message: bytes) -> bool:
    """Whether Ryu needs a message for its handshake or echo. Raises MalformedMessageError.

    Ryu's parsers loop for ever on elements or statistics of length 0, so one message could stop the
    controller. Messages that Ryu does not need are kept from it.
    """
    kind = message[1]
    if kind == Type.HELLO:
        _check_hello(message)
        return True
    if kind == Type.MULTIPART_REPLY:
        return message[HEADER.size : HEADER.size + 2] == _PORT_DESC
    return kind in _HANDSHAKE


def _check_hello(message: bytes) -> None:
    """OpenFlow 1.3.5 section A.5.1: elements have a length, and start at multiples of 8."""
    offset = HEADER.size
    while offset < len(message):
        _, length = _unpack(_HELLO_ELEMENT, message, offset)
        if length < _HELLO_ELEMENT.size:
            raise MalformedMessageError(f"a HELLO with an element of {length} bytes")
        offset += length


def _unpack(layout: struct.Struct, message: bytes, offset: int = 0) -> tuple[int, ...]:
    try:
        return layout.unpack_from(message, offset)
    except struct.error:
        raise MalformedMessageError(
            f"a message of {len(message)} bytes ends within its fields"
        ) from None


def _take_match(message: bytes, offset: int) -> tuple[bytes, int]:
    """The packed match at `offset` with its padding, and where it ends."""
    if offset + 4 > len(message):
        raise MalformedMessageError("a match is cut off")
    length = int.from_bytes(message[offset + 2 : offset + 4], "big")
    end = offset + (length + 7) // 8 * 8
    if length < 4 or end > len(message):
        raise MalformedMessageError("a match is cut off")
    return message[offset:end], end
