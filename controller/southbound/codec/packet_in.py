"""Parses frames that switches copy up: TCP segments, ARP, neighbour and link discovery.

Frames are not trusted: they may be cut off anywhere and hold anything. A frame that cannot be read
raises MalformedFrameError, nothing else.
"""

import struct
from typing import NamedTuple

from controller.model.packet_ins import NeighbourMessage
from controller.model.vlans import ETH_SERVICE_VLAN, ETH_VLAN, TAG_BYTES, vlan_of
from controller.southbound.codec.ethernet import (
    ETH_ARP,
    ETH_IPV4,
    ETH_IPV6,
    ETH_LLDP,
    MalformedFrameError,
)
from controller.southbound.codec.neighbours import (
    ADVERTISEMENT,
    PROTO_ICMPV6,
    SOLICITATION,
    parse_arp,
    parse_nd,
)

_VLAN_TAGS = {ETH_VLAN, ETH_SERVICE_VLAN}
_MAX_VLAN_TAGS = 2
_IPPROTO_TCP = 6
_IPV6_FRAGMENT, _IPV6_AUTH = 44, 51
_IPV6_OPTIONS = {0, 43, 60}  # Hop-by-hop, routing, destination options: alike in length.
_MAX_IPV6_HEADERS = 8

_OPTION_END, _OPTION_NOP, _OPTION_MSS, _OPTION_SCALE = 0, 1, 2, 3

_IPV4 = struct.Struct("!BxHxxHxBxx4s4s")
_IPV6 = struct.Struct("!4xHBx16s16s")
_TCP = struct.Struct("!HHIIBBHHH")


class TcpSegment(NamedTuple):
    """The fields of a TCP segment. `mss_bytes` and `window_scale` are None without the option;
    `vlan` is empty without a tag."""

    src_mac: bytes
    dst_mac: bytes
    src: bytes
    src_port: int
    dst: bytes
    dst_port: int
    flags: int
    sequence: int
    acknowledgment: int
    payload_bytes: int
    mss_bytes: int | None
    window_scale: int | None
    vlan: bytes = b""


class Discovery(NamedTuple):
    """A frame of link discovery; `discovery.py` reads its payload."""

    payload: bytes


class OtherFrame(NamedTuple):
    src_mac: bytes
    dst_mac: bytes


Frame = TcpSegment | NeighbourMessage | Discovery | OtherFrame


def parse(frame: bytes) -> Frame:
    """Read an Ethernet frame, whole or cut off. Raises MalformedFrameError."""
    try:
        return _ethernet(frame)
    except (struct.error, IndexError):
        raise MalformedFrameError(f"cut off after {len(frame)} bytes") from None


def addresses(frame: bytes) -> OtherFrame:
    """The Ethernet addresses of any frame. Raises MalformedFrameError."""
    if len(frame) < 14:
        raise MalformedFrameError(f"cut off after {len(frame)} bytes")
    return OtherFrame(frame[6:12], frame[:6])


def _ethernet(frame: bytes) -> Frame:
    (eth_type,) = struct.unpack_from("!H", frame, 12)
    offset = 14
    for _ in range(_MAX_VLAN_TAGS):
        if eth_type not in _VLAN_TAGS:
            break
        (eth_type,) = struct.unpack_from("!H", frame, offset + 2)
        offset += TAG_BYTES
    if eth_type in (ETH_IPV4, ETH_IPV6):
        found = _ipv4(frame, offset) if eth_type == ETH_IPV4 else _ipv6(frame, offset)
        tags = frame[12 : offset - 2]
        if not tags or not isinstance(found, TcpSegment):
            return found
        # Switches match one tag, so what has two cannot be counted or regulated.
        return addresses(frame) if len(tags) > TAG_BYTES else found._replace(vlan=vlan_of(tags))
    if eth_type == ETH_ARP:
        return parse_arp(frame, offset)
    if eth_type == ETH_LLDP:
        return Discovery(frame[offset:])
    return addresses(frame)


def _ipv4(frame: bytes, offset: int) -> Frame:
    head, total_bytes, fragment, protocol, src, dst = _IPV4.unpack_from(frame, offset)
    header_bytes = (head & 0x0F) * 4
    if head >> 4 != 4 or header_bytes < 20 or total_bytes < header_bytes:
        raise MalformedFrameError("not an IPv4 header")
    if protocol != _IPPROTO_TCP or fragment & 0x1FFF:
        return addresses(frame)
    return _tcp(frame, offset + header_bytes, src, dst, total_bytes - header_bytes)


def _ipv6(frame: bytes, offset: int) -> Frame:
    left_bytes, header, src, dst = _IPV6.unpack_from(frame, offset)
    if frame[offset] >> 4 != 6:
        raise MalformedFrameError("not an IPv6 header")
    ip_at = offset
    offset += 40
    for _ in range(_MAX_IPV6_HEADERS):
        if header == _IPPROTO_TCP:
            return _tcp(frame, offset, src, dst, left_bytes)
        if header == PROTO_ICMPV6:
            if frame[offset] in (SOLICITATION, ADVERTISEMENT):
                return parse_nd(frame, ip_at, offset, left_bytes)
            return addresses(frame)
        following, length = frame[offset], frame[offset + 1]
        if header in _IPV6_OPTIONS:
            size = (length + 1) * 8
        elif header == _IPV6_AUTH:
            size = (length + 2) * 4
        elif header == _IPV6_FRAGMENT:
            (fragment,) = struct.unpack_from("!H", frame, offset + 2)
            if fragment >> 3:
                return addresses(frame)
            size = 8
        else:
            return addresses(frame)
        header = following
        offset += size
        left_bytes -= size
    raise MalformedFrameError(f"more than {_MAX_IPV6_HEADERS} IPv6 extension headers")


def _tcp(frame: bytes, offset: int, src: bytes, dst: bytes, size_bytes: int) -> TcpSegment:
    """`size_bytes` is the size of the segment by the IP header; the copy may be shorter."""
    src_port, dst_port, sequence, acknowledgment, head, flags, _, _, _ = _TCP.unpack_from(
        frame, offset
    )
    header_bytes = (head >> 4) * 4
    if header_bytes < 20 or header_bytes > size_bytes:
        raise MalformedFrameError(f"a TCP header of {header_bytes} bytes in {size_bytes}")
    mss_bytes, window_scale = tcp_options(frame[offset + 20 : offset + header_bytes])
    return TcpSegment(
        src_mac=frame[6:12],
        dst_mac=frame[:6],
        src=src,
        src_port=src_port,
        dst=dst,
        dst_port=dst_port,
        flags=flags,
        sequence=sequence,
        acknowledgment=acknowledgment,
        payload_bytes=size_bytes - header_bytes,
        mss_bytes=mss_bytes,
        window_scale=window_scale,
    )


def tcp_options(options: bytes) -> tuple[int | None, int | None]:
    """MSS and window scale. RFC 9293 section 3.1, RFC 7323 section 2.2."""
    mss_bytes: int | None = None
    window_scale: int | None = None
    offset = 0
    while offset < len(options):
        kind = options[offset]
        if kind == _OPTION_END:
            break
        if kind == _OPTION_NOP:
            offset += 1
            continue
        if offset + 1 >= len(options):
            raise MalformedFrameError("a TCP option without its length")
        length = options[offset + 1]
        if length < 2 or offset + length > len(options):
            raise MalformedFrameError(f"a TCP option of length {length}")
        if kind == _OPTION_MSS and length == 4:
            mss_bytes = options[offset + 2] << 8 | options[offset + 3]
        elif kind == _OPTION_SCALE and length == 3:
            window_scale = options[offset + 2]
        offset += length
    return mss_bytes, window_scale
