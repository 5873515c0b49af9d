"""TCP flows and segments, as the controller knows them from copied segments.

On hot paths a flow is named by its *packed key*: both addresses, then both ports of one direction,
12 bytes or 36, in the order in which they stand in a segment. `FlowKey` is the same unpacked.
"""

from ipaddress import ip_address
from typing import NamedTuple, Self

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

MAX_WINDOW_SCALE = 14  # RFC 7323 section 2.3: a larger shift is to be taken as 14.
IPV4_KEY_BYTES = 12
DEFAULT_MSS_BYTES = {IPV4_KEY_BYTES: 536, 36: 1220}  # RFC 9293 section 3.7.1, by length of the key.
HEADERS_BYTES = {IPV4_KEY_BYTES: 66, 36: 86}  # Ethernet 14, IP 20 or 40, TCP 20, timestamps 12.


class FlowKey(NamedTuple):
    """The addresses and ports of one direction; addresses are packed (4 or 16 bytes)."""

    src: bytes
    src_port: int
    dst: bytes
    dst_port: int

    @classmethod
    def unpack(cls, key: bytes) -> Self:
        size = (len(key) - 4) // 2
        ports = int.from_bytes(key[-4:], "big")
        return cls(key[:size], ports >> 16, key[size:-4], ports & 0xFFFF)

    def pack(self) -> bytes:
        ports = self.src_port << 16 | self.dst_port
        return self.src + self.dst + ports.to_bytes(4, "big")

    @property
    def reverse(self) -> Self:
        return type(self)(self.dst, self.dst_port, self.src, self.src_port)

    def fields(self) -> dict[str, object]:
        """The key as it stands in the event log."""
        return {
            "src": str(ip_address(self.src)),
            "src_port": self.src_port,
            "dst": str(ip_address(self.dst)),
            "dst_port": self.dst_port,
        }


def reverse(key: bytes) -> bytes:
    """The packed key of the other direction."""
    if len(key) == IPV4_KEY_BYTES:
        return key[4:8] + key[:4] + key[10:] + key[8:10]
    return key[16:32] + key[:16] + key[34:] + key[32:34]


def payload_bytes(key: bytes, n_bytes: int, n_packets: int) -> int:
    """The payload of `n_packets` frames of a flow with `n_bytes` together: 0 for pure ACKs.

    It assumes the usual headers. The result is never negative, although some frames have less.
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
