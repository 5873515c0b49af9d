"""The usual packet-in, read in one step: a TCP segment that a switch copied up.

A copied segment is almost always the same bytes at the same places: OpenFlow 1.3, in_port alone in
the match, no VLAN tag, IPv4 without options or IPv6 without extension headers. Those are taken from
the receive buffer by one precompiled layout each, into plain tuples; of anything else this keeps
its hands off, and `packet_in.py` reads it field by field. Both ways agree on every frame.
"""

import struct

from controller.southbound.openflow import VERSION, Type
from controller.southbound.packet_in import (
    ETH_IPV4,
    ETH_IPV6,
    MalformedFrameError,
    TcpSegment,
    tcp_options,
)
from controller.southbound.pipeline import Table

# in_port; the Ethernet addresses as in the frame (receiver, sender); the flow: both addresses, then
# both ports, as in the frame; flags; sequence; acknowledgment; payload in bytes; MSS; window scale.
Copied = tuple[int, bytes, bytes, int, int, int, int, int | None, int | None]

_MISSES = int(Table.FORWARD)
_HEAD = VERSION << 8 | Type.PACKET_IN
_IN_PORT_ALONE = 0x0001000C80000004
_IPV4 = struct.Struct("!HH11xB8xQI6x12sHBxH2xH1xB2x12sIIBB6x")
_IPV6 = struct.Struct("!4x28xI6x12sHB3xHB1x36sIIBB6x")
_TCP_AT_IPV4, _TCP_AT_IPV6 = 76, 96
_TCP_BYTES = 20
_PROTO_TCP = 6
_TIMESTAMPS = b"\x01\x01\x08\x0a"  # Two times no-operation, then RFC 7323 section 3.2.
_MSS, _SACK_AND_TIMESTAMPS = b"\x02\x04", b"\x04\x02\x08\x0a"
_CACHE_LIMIT = 4096

_Options = tuple[int | None, int | None]
_NO_OPTIONS: _Options = (None, None)
_known: dict[bytes, _Options] = {}
_known_timed: dict[bytes, _Options] = {}


def take(buffer: bytes, offset: int) -> tuple[list[Copied], int]:
    """The usual packet-ins that stand one after the other at `offset`, and where they end."""
    segments: list[Copied] = []
    append, unpack = segments.append, _IPV4.unpack_from
    known_timed = _known_timed
    last = len(buffer) - _IPV4.size
    while offset <= last:
        # fmt: off
        (head, length, table, match, in_port, macs, eth_type, version, total_bytes,
         fragment, protocol, key, sequence, acknowledgment, data_offset, flags,
        ) = unpack(buffer, offset)
        # fmt: on
        if head != _HEAD or match != _IN_PORT_ALONE or table == _MISSES:
            break
        if eth_type == ETH_IPV4 and version == 0x45:
            if fragment & 0x1FFF or protocol != _PROTO_TCP:
                break
            tcp = _TCP_AT_IPV4
            total_bytes -= 20
        elif eth_type == ETH_IPV6 and version >> 4 == 6 and offset <= last - 20:
            # fmt: off
            (in_port, macs, _, _, total_bytes, protocol,
             key, sequence, acknowledgment, data_offset, flags,
            ) = _IPV6.unpack_from(buffer, offset)
            # fmt: on
            if protocol != _PROTO_TCP:
                break
            tcp = _TCP_AT_IPV6
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
        payload_bytes = total_bytes - header_bytes
        mss_bytes, window_scale = options
        # fmt: off
        append((in_port, macs, key, flags, sequence, acknowledgment, payload_bytes,
                mss_bytes, window_scale))
        # fmt: on
        offset += length
    return segments, offset


def copied(in_port: int, segment: TcpSegment) -> Copied:
    """The same of a segment that was read field by field."""
    ports = segment.src_port << 16 | segment.dst_port
    return (
        in_port,
        segment.dst_mac + segment.src_mac,
        segment.src + segment.dst + ports.to_bytes(4, "big"),
        segment.flags,
        segment.sequence,
        segment.acknowledgment,
        segment.payload_bytes,
        segment.mss_bytes,
        segment.window_scale,
    )


def _options(options: bytes) -> _Options | None:
    """MSS and window scale; None if the options are malformed."""
    found = _known.get(options)
    if found is not None:
        return found
    try:
        mss_bytes, window_scale, _ = tcp_options(options)
    except MalformedFrameError:
        return None
    found = mss_bytes, window_scale
    if len(options) == 20 and options[:2] == _MSS and options[4:8] == _SACK_AND_TIMESTAMPS:
        cache, key = _known_timed, options[:8] + options[16:]
    else:
        cache, key = _known, options
    if len(cache) >= _CACHE_LIMIT:
        cache.clear()
    cache[key] = found
    return found
