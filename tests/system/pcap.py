"""Read TCP segments out of a classic pcap file, with their checksums verified.

Only what the tests need: Ethernet, IPv4 without fragments, TCP (RFC 9293 section 3.1).
"""

import struct
from dataclasses import dataclass
from pathlib import Path

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

_GLOBAL = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
# RFC 9293 section 3.2, RFC 7323 sections 2.2 and 3.2
_MSS, _WINDOW_SCALE, _TIMESTAMPS = 2, 3, 8
_MAGIC_US, _MAGIC_NS, _ETHERNET = 0xA1B2C3D4, 0xA1B23C4D, 1


@dataclass(frozen=True)
class Segment:
    """One TCP segment as it stood on the wire."""

    time_s: float
    src: str
    dst: str
    sport: int
    dport: int
    ip_id: int
    seq: int
    ack: int
    flags: int
    window: int
    payload_bytes: int
    mss: int | None
    window_scale: int | None
    tsval: int | None
    checksums_ok: bool

    @property
    def end(self) -> int:
        """The sequence number behind it (RFC 9293 section 3.4)."""
        length = self.payload_bytes + bool(self.flags & SYN) + bool(self.flags & FIN)
        return (self.seq + length) % 2**32

    @property
    def identity(self) -> tuple[str, str, int, int, int, int, int, int]:
        """What the network does not change, so that two captures of one segment can be matched."""
        return (
            self.src,
            self.dst,
            self.sport,
            self.dport,
            self.ip_id,
            self.seq,
            self.ack,
            self.flags,
        )


def _ones_complement_sum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _option(options: bytes, kind: int) -> int | None:
    """The value of an option (RFC 9293 section 3.1: kind, length, value), None without it."""
    at = 0
    while at < len(options) and options[at] != 0:
        if options[at] == 1:
            at += 1
        elif options[at] == kind:
            return int.from_bytes(options[at + 2 : at + options[at + 1]], "big")
        else:
            at += options[at + 1]
    return None


def _segment(time_s: float, frame: bytes) -> Segment | None:
    if frame[12:14] != b"\x08\x00":
        return None
    ip = frame[14:]
    header_bytes = (ip[0] & 0x0F) * 4
    total_bytes = int.from_bytes(ip[2:4], "big")
    if ip[9] != 6:
        return None
    if len(ip) < total_bytes:
        raise ValueError(f"a captured segment was cut to {len(ip)} of {total_bytes} bytes")
    tcp = ip[header_bytes:total_bytes]
    pseudo = ip[12:20] + struct.pack("!BBH", 0, 6, len(tcp))
    sport, dport, seq, ack, offset, flags, window = struct.unpack_from("!HHIIBBH", tcp)
    options = tcp[20 : (offset >> 4) * 4]
    timestamps = _option(options, _TIMESTAMPS)
    return Segment(
        time_s=time_s,
        src=".".join(map(str, ip[12:16])),
        dst=".".join(map(str, ip[16:20])),
        sport=sport,
        dport=dport,
        ip_id=int.from_bytes(ip[4:6], "big"),
        seq=seq,
        ack=ack,
        flags=flags,
        window=window,
        payload_bytes=len(tcp) - (offset >> 4) * 4,
        mss=_option(options, _MSS),
        window_scale=_option(options, _WINDOW_SCALE),
        tsval=None if timestamps is None else timestamps >> 32,
        checksums_ok=_ones_complement_sum(ip[:header_bytes]) == 0xFFFF
        and _ones_complement_sum(pseudo + tcp) == 0xFFFF,
    )


def read_segments(path: Path) -> list[Segment]:
    """All TCP segments of a capture, in order. Raises ValueError if it is none."""
    data = path.read_bytes()
    if len(data) < _GLOBAL.size:
        raise ValueError(f"{path} is no pcap file: {len(data)} bytes")
    magic, *_, link_type = _GLOBAL.unpack_from(data)
    if magic not in (_MAGIC_US, _MAGIC_NS) or link_type != _ETHERNET:
        raise ValueError(f"{path}: magic {magic:#x}, link type {link_type}: not an Ethernet pcap")
    tick_s = 1e-6 if magic == _MAGIC_US else 1e-9
    segments = []
    at = _GLOBAL.size
    while at + _RECORD.size <= len(data):
        seconds, ticks, captured, _ = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        segment = _segment(seconds + ticks * tick_s, data[at : at + captured])
        if segment is not None:
            segments.append(segment)
        at += captured
    return segments
