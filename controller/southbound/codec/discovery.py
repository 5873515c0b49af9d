"""Frames of link discovery (LLDP, IEEE 802.1AB).

A discovery frame is authenticated with a secret of this process and carries the time at which it
was sent. So a host cannot fake a link, neither by frames of its own nor by replaying old ones.
"""

import struct
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

from controller.southbound.codec.ethernet import ETH_LLDP
from controller.southbound.codec.extension import EXPERIMENTER

_LLDP_MULTICAST = bytes.fromhex("0180c200000e")
_CHASSIS_ID, _PORT_ID, _TTL, _ORGANIZATION = 1, 2, 3, 127
_LOCALLY_ASSIGNED = 7
_OUI = EXPERIMENTER.to_bytes(4, "big")[1:]
_ORIGIN = struct.Struct("!QIQ")
_TAG_BYTES = 8
_SIGNED_BYTES = 4 + _ORIGIN.size + _TAG_BYTES


class ForeignDiscoveryError(ValueError):
    """A discovery frame that this controller has not sent."""


class Origin(NamedTuple):
    """The port by which a discovery frame left, and when, by the controller's clock."""

    switch: int
    port: int
    sent_ns: int


def pack(origin: Origin, mac: bytes, ttl_s: int, secret: bytes) -> bytes:
    """A discovery frame for a port whose Ethernet address is `mac`."""
    switch, port, _ = origin
    said = _ORIGIN.pack(*origin)
    return b"".join(
        (
            _LLDP_MULTICAST,
            mac,
            ETH_LLDP.to_bytes(2, "big"),
            _tlv(_CHASSIS_ID, bytes([_LOCALLY_ASSIGNED]) + b"%016x" % switch),
            _tlv(_PORT_ID, bytes([_LOCALLY_ASSIGNED]) + b"%d" % port),
            _tlv(_TTL, struct.pack("!H", ttl_s)),
            _tlv(_ORGANIZATION, _OUI + b"\x01" + said + _tag(said, secret)),
            _tlv(0, b""),
        )
    )


def unpack(payload: bytes, secret: bytes) -> Origin:
    """The origin in a frame's payload. Raises ForeignDiscoveryError."""
    offset = 0
    while offset + 2 <= len(payload):
        head = int.from_bytes(payload[offset : offset + 2], "big")
        kind, body = head >> 9, payload[offset + 2 : offset + 2 + (head & 0x1FF)]
        offset += 2 + (head & 0x1FF)
        if kind == _ORGANIZATION and body[:4] == _OUI + b"\x01" and len(body) == _SIGNED_BYTES:
            said, tag = body[4:-_TAG_BYTES], body[-_TAG_BYTES:]
            if not compare_digest(tag, _tag(said, secret)):
                raise ForeignDiscoveryError("signed by another controller, or forged")
            return Origin(*_ORIGIN.unpack(said))
    raise ForeignDiscoveryError("LLDP of another system")


def _tlv(kind: int, body: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(body)) + body


def _tag(said: bytes, secret: bytes) -> bytes:
    return blake2b(said, key=secret, digest_size=_TAG_BYTES).digest()
