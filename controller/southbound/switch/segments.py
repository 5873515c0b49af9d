"""A fast path for the most frequent packet-in: a TCP segment that a switch copied up.

Almost all copied segments have the same layout: OpenFlow 1.3, a match of in_port alone or with
register 0, one VLAN tag or none, IPv4 without options or IPv6 without extension headers. They are
unpacked from the receive buffer by one `struct` layout each, into plain tuples. Everything else is
left to `packet_in.py`, which reads field by field. Both agree on every frame.
"""

import struct
from typing import NamedTuple

from controller.model.flow import SegmentFields
from controller.model.values import N_PATH_IDS
from controller.model.vlans import ETH_VLAN, TAG_BYTES, vlan_of
from controller.southbound.codec.ethernet import ETH_IPV4, ETH_IPV6, MalformedFrameError
from controller.southbound.codec.match import REG0
from controller.southbound.codec.openflow import VERSION, Type
from controller.southbound.codec.packet_in import TcpSegment, tcp_options
from controller.southbound.switch.pipeline import Table, path_id_of

_MISSES = int(Table.FORWARD)
_HEAD = VERSION << 8 | Type.PACKET_IN


class _Layout(NamedTuple):
    """Packet-ins with the same match, of frames with a tag or without. `tcp_at` is where TCP begins
    over IPv4 and over IPv6. A tag is unpacked as a part of the Ethernet addresses."""

    match: int
    ipv4: struct.Struct
    ipv6: struct.Struct
    tcp_at: tuple[int, int]


def _layout(match: int, more_bytes: int, tag_bytes: int) -> _Layout:
    """`match` is the beginning of the match; `more_bytes` is how much it is longer than in_port."""
    gap, macs, more_bytes = f"{6 + more_bytes}x", f"{12 + tag_bytes}s", more_bytes + tag_bytes
    return _Layout(
        match,
        struct.Struct(f"!HH11xB8xQI{gap}{macs}HBxH2xH1xB2x12sIIBB6x"),
        struct.Struct(f"!4x28xI{gap}{macs}HB3xHB1x36sIIBB6x"),
        (76 + more_bytes, 96 + more_bytes),
    )


_IN_PORT_ALONE, _IN_PORT_ALONE_TAGGED = (
    _layout(0x0001000C80000004, 0, tag_bytes) for tag_bytes in (0, TAG_BYTES)
)
_WITH_REGISTER, _WITH_REGISTER_TAGGED = (
    _layout(0x0001001480000004, 8, tag_bytes) for tag_bytes in (0, TAG_BYTES)
)
_TAG = ETH_VLAN.to_bytes(2, "big")
_TAG_AT, _TAG_AFTER_REGISTER_AT = 54, 62
_MATCH_LENGTH_AT, _REGISTER_AT, _REGISTER_END = 27, 36, 44
_REGISTER_HEAD = (REG0.oxm_class << 16 | REG0.number << 9 | REG0.length).to_bytes(4, "big")
_PATH_IDS = {
    _REGISTER_HEAD + register.to_bytes(4, "big"): path_id_of(register)
    for register in range(2 * N_PATH_IDS)
}
_TCP_BYTES = 20
_PROTO_TCP = 6
_TIMESTAMPS = b"\x01\x01\x08\x0a"  # Two times no-operation, then RFC 7323 section 3.2.
_MSS, _SACK_AND_TIMESTAMPS = b"\x02\x04", b"\x04\x02\x08\x0a"
_CACHE_LIMIT = 4096

_Options = tuple[int | None, int | None]
_NO_OPTIONS: _Options = (None, None)
_known: dict[bytes, _Options] = {}
_known_timed: dict[bytes, _Options] = {}


def take(buffer: bytes, offset: int, most_bytes: int = 1 << 30) -> tuple[list[SegmentFields], int]:
    """The copied segments that begin at `offset`, as far as they are usual ones, and their end. The
    last begins within `most_bytes`."""
    segments: list[SegmentFields] = []
    has_register = buffer[offset + _MATCH_LENGTH_AT : offset + _MATCH_LENGTH_AT + 1] == b"\x14"
    tag_at = offset + (_TAG_AFTER_REGISTER_AT if has_register else _TAG_AT)
    has_tag = buffer[tag_at : tag_at + 2] == _TAG
    if has_tag:
        layout = _WITH_REGISTER_TAGGED if has_register else _IN_PORT_ALONE_TAGGED
    else:
        layout = _WITH_REGISTER if has_register else _IN_PORT_ALONE
    match_as_usual, ipv4, ipv6, (tcp_at_ipv4, tcp_at_ipv6) = layout
    append, unpack = segments.append, ipv4.unpack_from
    known_timed, path_ids = _known_timed, _PATH_IDS
    path_id: int | None = None
    last = min(len(buffer) - ipv4.size, offset + most_bytes)
    while offset <= last:
        # fmt: off
        (head, length, table, match, in_port, macs, eth_type, version, total_bytes,
         fragment, protocol, key, sequence, acknowledgment, data_offset, flags,
        ) = unpack(buffer, offset)
        # fmt: on
        if head != _HEAD or match != match_as_usual or table >= _MISSES:
            break
        if eth_type == ETH_IPV4 and version == 0x45:
            if fragment & 0x1FFF or protocol != _PROTO_TCP:
                break
            tcp = tcp_at_ipv4
            total_bytes -= 20
        elif eth_type == ETH_IPV6 and version >> 4 == 6 and offset + ipv6.size <= len(buffer):
            # fmt: off
            (in_port, macs, _, _, total_bytes, protocol,
             key, sequence, acknowledgment, data_offset, flags,
            ) = ipv6.unpack_from(buffer, offset)
            # fmt: on
            if protocol != _PROTO_TCP:
                break
            tcp = tcp_at_ipv6
        else:
            break
        header_bytes = data_offset >> 4 << 2
        if (
            header_bytes < _TCP_BYTES
            or header_bytes > total_bytes
            or length < tcp + header_bytes
            or offset + length > len(buffer)
        ):
            break
        start = offset + tcp + _TCP_BYTES
        if header_bytes == 32 and buffer[start : start + 4] == _TIMESTAMPS:
            options: _Options | None = _NO_OPTIONS
        elif header_bytes == _TCP_BYTES:
            options = _NO_OPTIONS
        else:
            options = None
            if header_bytes == 40:
                # Linux's SYN: only the timestamps, bytes 8 to 16, change from one to the next.
                timed = buffer[start : start + 8] + buffer[start + 16 : start + 20]
                options = known_timed.get(timed)
            if options is None:
                options = _options(buffer[start : start + header_bytes - _TCP_BYTES])
        if options is None:
            break
        if has_register:
            register = buffer[offset + _REGISTER_AT : offset + _REGISTER_END]
            path_id = path_ids.get(register)
            if path_id is None and register[:4] != _REGISTER_HEAD:
                break
        if has_tag:
            if macs[12:14] != _TAG:
                break
            key = vlan_of(macs[12:]) + key
            macs = macs[:12]
        payload_bytes = total_bytes - header_bytes
        mss_bytes, window_scale = options
        # fmt: off
        append((in_port, macs, key, flags, sequence, acknowledgment, payload_bytes,
                mss_bytes, window_scale, path_id))
        # fmt: on
        offset += length
    return segments, offset


def copied(in_port: int, register: int, segment: TcpSegment) -> SegmentFields:
    """The tuple of a segment that was read field by field."""
    ports = segment.src_port << 16 | segment.dst_port
    return (
        in_port,
        segment.dst_mac + segment.src_mac,
        segment.vlan + segment.src + segment.dst + ports.to_bytes(4, "big"),
        segment.flags,
        segment.sequence,
        segment.acknowledgment,
        segment.payload_bytes,
        segment.mss_bytes,
        segment.window_scale,
        path_id_of(register),
    )


def _options(options: bytes) -> _Options | None:
    """MSS and window scale; None if the options are malformed."""
    found = _known.get(options)
    if found is not None:
        return found
    try:
        found = tcp_options(options)
    except MalformedFrameError:
        return None
    if len(options) == 20 and options[:2] == _MSS and options[4:8] == _SACK_AND_TIMESTAMPS:
        cache, key = _known_timed, options[:8] + options[16:]
    else:
        cache, key = _known, options
    if len(cache) >= _CACHE_LIMIT:
        cache.clear()
    cache[key] = found
    return found
