"""TCP flows and segments, as the controller knows them from copied segments.

On hot paths a flow is named by its *packed key*: both addresses, then both ports of one direction,
12 bytes or 36, in the order in which they stand in a segment. In a VLAN, its number comes first, in
2 bytes: the same addresses and ports in two VLANs are two connections, or the two legs of one that
a router passes on. `FlowKey` is the same unpacked.
"""

from ipaddress import ip_address
from typing import NamedTuple, Self

from controller.model.vlans import number_of

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

MAX_WINDOW_SCALE = 14  # RFC 7323 section 2.3: a larger shift is to be taken as 14.
IPV4_KEY_BYTES, IPV6_KEY_BYTES, VLAN_BYTES = 12, 36, 2
_IPV4_IN_VLAN, _IPV6_IN_VLAN = IPV4_KEY_BYTES + VLAN_BYTES, IPV6_KEY_BYTES + VLAN_BYTES
# By length of the key. RFC 9293 section 3.7.1.
DEFAULT_MSS_BYTES = {
    **dict.fromkeys((IPV4_KEY_BYTES, _IPV4_IN_VLAN), 536),
    **dict.fromkeys((IPV6_KEY_BYTES, _IPV6_IN_VLAN), 1220),
}
# Ethernet 14, tag 4, IP 20 or 40, TCP 20, timestamps 12.
HEADERS_BYTES = {IPV4_KEY_BYTES: 66, _IPV4_IN_VLAN: 70, IPV6_KEY_BYTES: 86, _IPV6_IN_VLAN: 90}


class FlowKey(NamedTuple):
    """The addresses and ports of one direction, and its VLAN (empty: none). Addresses are packed (4
    or 16 bytes)."""

    src: bytes
    src_port: int
    dst: bytes
    dst_port: int
    vlan: bytes = b""

    @classmethod
    def unpack(cls, key: bytes) -> Self:
        vlan = vlan_of_key(key)
        begin = len(vlan)
        middle = begin + (len(key) - 4 - begin) // 2
        ports = int.from_bytes(key[-4:], "big")
        return cls(key[begin:middle], ports >> 16, key[middle:-4], ports & 0xFFFF, vlan)

    def pack(self) -> bytes:
        ports = self.src_port << 16 | self.dst_port
        return self.vlan + self.src + self.dst + ports.to_bytes(4, "big")

    @property
    def src_end(self) -> bytes:
        """The end that sends: its VLAN, if any, and its address."""
        return self.vlan + self.src

    @property
    def dst_end(self) -> bytes:
        """The end that receives: its VLAN, if any, and its address."""
        return self.vlan + self.dst

    @property
    def reverse(self) -> Self:
        return type(self)(self.dst, self.dst_port, self.src, self.src_port, self.vlan)

    def fields(self) -> dict[str, object]:
        """The key as it stands in the event log."""
        vlan = {"vlan": number_of(self.vlan)} if self.vlan else {}
        return vlan | {
            "src": str(ip_address(self.src)),
            "src_port": self.src_port,
            "dst": str(ip_address(self.dst)),
            "dst_port": self.dst_port,
        }


def reverse(key: bytes) -> bytes:
    """The packed key of the other direction."""
    if len(key) == IPV4_KEY_BYTES:
        return key[4:8] + key[:4] + key[10:] + key[8:10]
    if len(key) == IPV6_KEY_BYTES:
        return key[16:32] + key[:16] + key[34:] + key[32:34]
    return key[:VLAN_BYTES] + reverse(key[VLAN_BYTES:])


def vlan_of_key(key: bytes) -> bytes:
    """The VLAN of a packed key; empty without one."""
    return key[: len(key) & VLAN_BYTES]


def split_end(end: bytes) -> tuple[bytes, bytes]:
    """The VLAN (empty: none) and the address of an end."""
    begin = len(end) & VLAN_BYTES
    return end[:begin], end[begin:]


def source_of(key: bytes) -> bytes:
    """The source address in a packed key."""
    begin = len(key) & VLAN_BYTES
    return key[begin : begin + (len(key) - 4 - begin) // 2]


def payload_bytes(key: bytes, n_bytes: int, n_packets: int) -> int:
    """The payload of `n_packets` frames of a flow with `n_bytes` together: 0 for pure ACKs.

    It assumes the usual headers, and in a VLAN a tag. The result is never negative, although some
    frames have less, and where a port carries the VLAN without tags each frame has 4 bytes less.
    """
    return max(0, n_bytes - n_packets * HEADERS_BYTES[len(key)])


class Segment(NamedTuple):
    """What a copied segment tells. `mss_bytes` and `window_scale` are None without the option,
    `path_id` is None if the switch gives none.

    `macs` are the Ethernet addresses as in the frame: the receiver's, then the sender's. In bulk,
    segments come as plain tuples of the same fields (`SegmentFields`).
    """

    in_port: int
    macs: bytes
    key: bytes
    flags: int
    sequence: int
    acknowledgment: int
    payload_bytes: int = 0
    mss_bytes: int | None = None
    window_scale: int | None = None
    path_id: int | None = None


# The packed key of a flow, and the bytes and packets of its frames.
Reading = tuple[bytes, int, int]

SegmentFields = tuple[int, bytes, bytes, int, int, int, int, int | None, int | None, int | None]
