"""Checksums of the internet protocols (RFC 1071)."""

import struct


def internet_checksum(data: bytes) -> int:
    """The checksum of some bytes; 0 if the one that is in them is right."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv6_checksum(src: bytes, dst: bytes, protocol: int, body: bytes) -> int:
    """The checksum over IPv6 with its pseudo-header (RFC 8200 section 8.1); 0 if the one that is in
    `body` is right."""
    return internet_checksum(src + dst + struct.pack("!II", len(body), protocol) + body)
