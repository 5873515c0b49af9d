"""Reads and writes messages of IPv6 neighbour discovery (RFC 4861) and ARP (RFC 826).

Messages of neighbour discovery must be valid by RFC 4861 section 7.1: not forwarded by a router,
with a correct checksum and complete options.
"""

import struct

from controller.model.packet_ins import NeighbourMessage
from controller.southbound.codec.checksums import ipv6_checksum
from controller.southbound.codec.ethernet import ETH_ARP, ETH_IPV4, ETH_IPV6, MalformedFrameError

PROTO_ICMPV6 = 58
SOLICITATION, ADVERTISEMENT = 135, 136

_ARP = struct.Struct("!HHBBH6s4s6s4s")
_ARP_OVER_ETHERNET = (1, ETH_IPV4, 6, 4)
_REQUEST, _REPLY = 1, 2
_IPV6 = struct.Struct("!IHBB16s16s")
_ND = struct.Struct("!BBHI16s")
_SOURCE_MAC, _TARGET_MAC = 1, 2
_HOP_LIMIT = 255
_SOLICITED, _OVERRIDE = 1 << 30, 1 << 29
_UNSPECIFIED = bytes(16)
_SOLICITED_NODE = bytes.fromhex("ff0200000000000000000001ff")


def parse_arp(frame: bytes, offset: int) -> NeighbourMessage:
    """Raises MalformedFrameError, and struct.error if it is cut off."""
    *kind, operation, mac, address, _, target = _ARP.unpack_from(frame, offset)
    if tuple(kind) != _ARP_OVER_ETHERNET:
        raise MalformedFrameError("ARP for other than IPv4 over Ethernet")
    if operation not in (_REQUEST, _REPLY):
        raise MalformedFrameError(f"ARP operation {operation}")
    tags = frame[12 : offset - 2]
    return NeighbourMessage(operation == _REQUEST, mac, address, target, frame[:6], tags, frame)


def parse_nd(frame: bytes, ip_at: int, offset: int, size_bytes: int) -> NeighbourMessage:
    """A solicitation or advertisement of `size_bytes` at `offset`, in the IPv6 packet at `ip_at`.

    Raises MalformedFrameError.
    """
    body = frame[offset : offset + size_bytes]
    if len(body) < max(size_bytes, _ND.size):
        raise MalformedFrameError("neighbour discovery that is cut off")
    _, _, _, hop_limit, src, dst = _IPV6.unpack_from(frame, ip_at)
    kind, code, _, flags, target = _ND.unpack_from(body)
    if hop_limit != _HOP_LIMIT or code or ipv6_checksum(src, dst, PROTO_ICMPV6, body):
        raise MalformedFrameError("neighbour discovery with a wrong hop limit, code or checksum")
    if target[0] == 0xFF:
        raise MalformedFrameError("neighbour discovery for a multicast address")
    macs = _options(body)
    tags = frame[12 : ip_at - 2]
    if kind == ADVERTISEMENT:
        if dst[0] == 0xFF and flags & _SOLICITED:
            raise MalformedFrameError("an answer to everybody")
        mac = macs.get(_TARGET_MAC, frame[6:12])
        return NeighbourMessage(False, mac, target, bytes(16), frame[:6], tags, frame)
    if src == _UNSPECIFIED and (dst[:13] != _SOLICITED_NODE or _SOURCE_MAC in macs):
        raise MalformedFrameError("a solicitation of nobody")
    return NeighbourMessage(
        True, macs.get(_SOURCE_MAC, frame[6:12]), src, target, frame[:6], tags, frame
    )


def reply(mac: bytes, address: bytes, asker_mac: bytes, asker_address: bytes, tags: bytes) -> bytes:
    """An ARP reply or an advertisement that tells the asker that `address` is at `mac`."""
    if len(address) == 4:
        return _arp(_REPLY, asker_mac, mac, mac, address, asker_mac, asker_address, tags)
    option = struct.pack("!BB6s", _TARGET_MAC, 1, mac)
    flags = _SOLICITED | _OVERRIDE
    body = _ND.pack(ADVERTISEMENT, 0, 0, flags, address) + option
    return _nd(asker_mac, mac, address, asker_address, body, tags)


def probe(mac: bytes, address: bytes, asker_mac: bytes, tags: bytes) -> bytes:
    """An ARP probe or a solicitation that asks one host whether it has `address`. It has no source
    address, so no host learns one from it (RFC 5227 section 2.1, RFC 4862 section 5.4.2)."""
    if len(address) == 4:
        return _arp(_REQUEST, mac, asker_mac, asker_mac, bytes(4), bytes(6), address, tags)
    body = _ND.pack(SOLICITATION, 0, 0, 0, address)
    return _nd(mac, asker_mac, _UNSPECIFIED, _SOLICITED_NODE + address[-3:], body, tags)


def _arp(
    operation: int,
    dst_mac: bytes,
    src_mac: bytes,
    mac: bytes,
    address: bytes,
    target_mac: bytes,
    target: bytes,
    tags: bytes,
) -> bytes:
    head = dst_mac + src_mac + tags + ETH_ARP.to_bytes(2, "big")
    return head + _ARP.pack(*_ARP_OVER_ETHERNET, operation, mac, address, target_mac, target)


def _nd(dst_mac: bytes, src_mac: bytes, src: bytes, dst: bytes, body: bytes, tags: bytes) -> bytes:
    checksum = ipv6_checksum(src, dst, PROTO_ICMPV6, body)
    body = body[:2] + checksum.to_bytes(2, "big") + body[4:]
    head = dst_mac + src_mac + tags + ETH_IPV6.to_bytes(2, "big")
    return head + _IPV6.pack(6 << 28, len(body), PROTO_ICMPV6, _HOP_LIMIT, src, dst) + body


def _options(body: bytes) -> dict[int, bytes]:
    """The link-layer addresses among the options (RFC 4861 section 4.6.1)."""
    macs = {}
    offset = _ND.size
    while offset < len(body):
        size = body[offset + 1] * 8 if offset + 1 < len(body) else 0
        if not size or offset + size > len(body):
            raise MalformedFrameError("neighbour discovery with an option of a wrong length")
        if body[offset] in (_SOURCE_MAC, _TARGET_MAC) and size == 8:
            macs[body[offset]] = body[offset + 2 : offset + 8]
        offset += size
    return macs
