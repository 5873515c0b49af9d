"""Frames that the controller makes: link discovery (LLDP, IEEE 802.1AB), ARP replies (RFC 826).

A discovery frame carries a tag over what it says, keyed with a secret of this process: a host must
not be able to make the controller believe in a link.
"""

import struct
from hashlib import blake2b
from hmac import compare_digest

from controller.southbound.extension import EXPERIMENTER
from controller.southbound.packet_in import ETH_ARP, ETH_IPV4, ETH_LLDP

_LLDP_MULTICAST = bytes.fromhex("0180c200000e")
_CHASSIS_ID, _PORT_ID, _TTL, _ORGANIZATION = 1, 2, 3, 127
_LOCALLY_ASSIGNED = 7
_OUI = EXPERIMENTER.to_bytes(4, "big")[1:]
_TAG_BYTES = 8


class ForeignDiscoveryError(ValueError):
    """A discovery frame that this controller has not made."""


def pack(switch: int, port: int, mac: bytes, ttl_s: int, secret: bytes) -> bytes:
    """The frame that leaves `switch` by `port`, whose address is `mac`."""
    said = struct.pack("!QI", switch, port)
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


def unpack(payload: bytes, secret: bytes) -> tuple[int, int]:
    """Switch and port that a frame's payload comes from. Raises ForeignDiscoveryError."""
    offset = 0
    while offset + 2 <= len(payload):
        head = int.from_bytes(payload[offset : offset + 2], "big")
        kind, body = head >> 9, payload[offset + 2 : offset + 2 + (head & 0x1FF)]
        offset += 2 + (head & 0x1FF)
        if kind == _ORGANIZATION and body[:4] == _OUI + b"\x01" and len(body) == 16 + _TAG_BYTES:
            said, tag = body[4:16], body[16:]
            if not compare_digest(tag, _tag(said, secret)):
                raise ForeignDiscoveryError("signed by another controller, or forged")
            switch, port = struct.unpack("!QI", said)
            return switch, port
    raise ForeignDiscoveryError("LLDP of another system")


def arp_reply(mac: bytes, address: bytes, asker_mac: bytes, asker_address: bytes) -> bytes:
    """Tells the asker that `address` is at `mac`."""
    head = asker_mac + mac + ETH_ARP.to_bytes(2, "big")
    body = struct.pack("!HHBBH", 1, ETH_IPV4, 6, 4, 2)
    return head + body + mac + address + asker_mac + asker_address


def _tlv(kind: int, body: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(body)) + body


def _tag(said: bytes, secret: bytes) -> bytes:
    return blake2b(said, key=secret, digest_size=_TAG_BYTES).digest()
