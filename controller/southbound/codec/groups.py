"""Reads and writes messages about multicast groups: IGMP (RFC 2236, RFC 3376), MLD (RFC 2710,
RFC 3810), and of PIM (RFC 7761) whether there are any.

Sources are not followed (RFC 4541 section 2.1.2 allows that): who wants a group from some sources
wants the group.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from controller.model.packet_ins import GroupKind, GroupMessage
from controller.model.vlans import TAG_BYTES, outer_vlan_of, tags_of
from controller.southbound.codec.checksums import internet_checksum, ipv6_checksum
from controller.southbound.codec.ethernet import ETH_IPV4, ETH_IPV6, MalformedFrameError
from controller.southbound.codec.neighbours import PROTO_ICMPV6

PROTO_IGMP, PROTO_PIM = 2, 103
_IGMP_QUERY, _IGMP_LEAVE, _IGMPV3_REPORT = 0x11, 0x17, 0x22
_IGMP_REPORTS = (0x12, 0x16)
MLD_QUERY, MLD_REPORT, MLD_DONE, MLDV2_REPORT = 130, 131, 132, 143
_TO_INCLUDE, _TO_EXCLUDE, _ALLOW = 3, 4, 5
_INCLUDES, _EXCLUDES = 1, 2

_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_IPV6 = struct.Struct("!IHBB16s16s")
_RECORD = struct.Struct("!BBH")
_HOP_BY_HOP = 0
_MAX_IPV6_HEADERS = 8
# RFC 2113 and RFC 2711: routers look at packets that are not for them.
_ROUTER_ALERT_V4 = bytes((0x94, 4, 0, 0))
_ROUTER_ALERT_V6 = bytes((PROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0))
_ALL_HOSTS, _ALL_NODES = bytes((224, 0, 0, 1)), bytes.fromhex("ff02" + "00" * 13 + "01")
_ROBUSTNESS, _QUERY_EVERY_S = 2, 125


class _Packet(NamedTuple):
    """What an IP packet carries."""

    src: bytes
    dst: bytes
    protocol: int
    body: bytes


def parse(frame: bytes) -> GroupMessage | None:
    """A message about groups in an Ethernet frame; None for another frame. Raises
    MalformedFrameError."""
    tags = tags_of(frame)
    at = 12 + len(tags)
    eth_type = int.from_bytes(frame[at : at + 2], "big")
    if len(tags) > TAG_BYTES or eth_type not in (ETH_IPV4, ETH_IPV6):
        return None
    try:
        packet = (_ipv4 if eth_type == ETH_IPV4 else _ipv6)(frame, at + 2)
        found = packet and _message(packet, is_ipv6=eth_type == ETH_IPV6)
    except (struct.error, IndexError):
        raise MalformedFrameError("a message about groups that is cut off") from None
    return GroupMessage(*found, outer_vlan_of(tags), frame) if found else None


def query(mac: bytes, group: bytes, within_s: int, tags: bytes) -> bytes:
    """Ask who is in a group, or for all groups if it is zero (4 or 16 bytes), to be answered within
    12 seconds at most.

    The sender is no router, so it has no address, and over IPv6 a high one: it does not win an
    election of who asks (RFC 4541 section 2.1.1, RFC 3810 section 7.6.2).
    """
    is_general = not any(group)
    tail = group + struct.pack("!BBH", _ROBUSTNESS, _QUERY_EVERY_S, 0)
    if len(group) == 4:
        dst = _ALL_HOSTS if is_general else group
        body = struct.pack("!BBH", _IGMP_QUERY, within_s * 10, 0) + tail
        body = body[:2] + internet_checksum(body).to_bytes(2, "big") + body[4:]
        size = _IPV4.size + len(_ROUTER_ALERT_V4) + len(body)
        head = _IPV4.pack(0x46, 0xC0, size, 0, 0, 1, PROTO_IGMP, 0, bytes(4), dst)
        head += _ROUTER_ALERT_V4
        head = head[:10] + internet_checksum(head).to_bytes(2, "big") + head[12:]
        dst_mac = b"\x01\x00\x5e" + bytes((dst[1] & 0x7F, *dst[2:]))
        return dst_mac + mac + tags + ETH_IPV4.to_bytes(2, "big") + head + body
    src, dst = bytes.fromhex("fe80" + "00" * 6 + "ffff") + mac, _ALL_NODES if is_general else group
    body = struct.pack("!BBHHH", MLD_QUERY, 0, 0, within_s * 1000, 0) + tail
    checksum = ipv6_checksum(src, dst, PROTO_ICMPV6, body)
    body = _ROUTER_ALERT_V6 + body[:2] + checksum.to_bytes(2, "big") + body[4:]
    head = _IPV6.pack(6 << 28, len(body), _HOP_BY_HOP, 1, src, dst)
    return b"\x33\x33" + dst[-4:] + mac + tags + ETH_IPV6.to_bytes(2, "big") + head + body


def _ipv4(frame: bytes, at: int) -> _Packet | None:
    head, _, total_bytes, _, fragment, _, protocol, _, src, dst = _IPV4.unpack_from(frame, at)
    head_bytes = (head & 0x0F) * 4
    if protocol not in (PROTO_IGMP, PROTO_PIM) or fragment & 0x3FFF:
        return None
    if head >> 4 != 4 or not 20 <= head_bytes <= total_bytes:
        raise MalformedFrameError("not an IPv4 header")
    return _Packet(src, dst, protocol, _part(frame, at + head_bytes, total_bytes - head_bytes))


def _ipv6(frame: bytes, at: int) -> _Packet | None:
    first, left_bytes, header, _, src, dst = _IPV6.unpack_from(frame, at)
    if first >> 28 != 6:
        raise MalformedFrameError("not an IPv6 header")
    at += _IPV6.size
    for _ in range(_MAX_IPV6_HEADERS):
        if header in (PROTO_ICMPV6, PROTO_PIM):
            return _Packet(src, dst, header, _part(frame, at, left_bytes))
        if header != _HOP_BY_HOP:
            return None
        size = (frame[at + 1] + 1) * 8
        header, at, left_bytes = frame[at], at + size, left_bytes - size
        if left_bytes < 0:
            break
    raise MalformedFrameError("IPv6 extension headers beyond the packet")


def _part(frame: bytes, at: int, size_bytes: int) -> bytes:
    """Raises MalformedFrameError if it is not all there."""
    if at + size_bytes > len(frame):
        raise MalformedFrameError("a message about groups that is cut off")
    return frame[at : at + size_bytes]


_Found = tuple[GroupKind, tuple[tuple[bytes, bool], ...]]


def _message(packet: _Packet, *, is_ipv6: bool) -> _Found | None:
    body = packet.body
    kind = body[0]
    if packet.protocol == PROTO_PIM:
        return GroupKind.ROUTING, ()
    if is_ipv6 and kind not in (MLD_QUERY, MLD_REPORT, MLD_DONE, MLDV2_REPORT):
        return None
    checksum = (
        ipv6_checksum(packet.src, packet.dst, PROTO_ICMPV6, body)
        if is_ipv6
        else internet_checksum(body)
    )
    if checksum:
        raise MalformedFrameError("a message about groups with a wrong checksum")
    if kind in (_IGMP_QUERY, MLD_QUERY):
        return GroupKind.QUERY, ()
    if kind in (_IGMPV3_REPORT, MLDV2_REPORT):
        return GroupKind.REPORT, tuple(_records(body, 16 if is_ipv6 else 4))
    if kind in (*_IGMP_REPORTS, _IGMP_LEAVE, MLD_REPORT, MLD_DONE):
        group = _part(body, 8, 16) if is_ipv6 else _part(body, 4, 4)
        return GroupKind.REPORT, ((group, kind not in (_IGMP_LEAVE, MLD_DONE)),)
    return None  # IGMP has had other messages, as DVMRP's.


def _records(body: bytes, address_bytes: int) -> Iterator[tuple[bytes, bool]]:
    """The records of a report (RFC 3376 section 4.2.4, RFC 3810 section 5.2.4)."""
    (n_records,) = struct.unpack_from("!H", body, 6)
    at = 8
    for _ in range(n_records):
        kind, auxiliary, n_sources = _RECORD.unpack_from(body, at)
        group = _part(body, at + _RECORD.size, address_bytes)
        at += _RECORD.size + address_bytes
        _part(body, at, n_sources * address_bytes + auxiliary * 4)
        at += n_sources * address_bytes + auxiliary * 4
        names_sources = kind in (_INCLUDES, _TO_INCLUDE, _ALLOW) and n_sources
        if kind in (_EXCLUDES, _TO_EXCLUDE) or names_sources:
            yield group, True
        elif kind == _TO_INCLUDE:
            yield group, False
