"""Frames for tests, byte by byte."""

import struct
from dataclasses import dataclass
from ipaddress import ip_address

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10


@dataclass(frozen=True)
class Host:
    """A host by number: its addresses follow from it."""

    number: int

    @property
    def mac(self) -> bytes:
        return bytes([0x02, 0, 0, 0, 0, self.number])

    @property
    def address(self) -> bytes:
        return bytes([10, 0, 0, self.number])

    @property
    def address6(self) -> bytes:
        return ip_address(f"fd00::{self.number:x}").packed


def tcp_options(mss: int | None = None, scale: int | None = None, sack: bool = False) -> bytes:
    options = b""
    if mss is not None:
        options += struct.pack("!BBH", 2, 4, mss)
    if scale is not None:
        options += struct.pack("!BBBB", 1, 3, 3, scale)
    if sack:
        options += bytes([1, 1, 4, 2])
    return options


def tcp_header(
    ports: tuple[int, int],
    flags: int,
    sequence: int,
    options: bytes = b"",
    window: int = 65_535,
    acknowledgment: int = 0,
) -> bytes:
    length = 20 + len(options)
    head = struct.pack(
        "!HHIIBBHHH", *ports, sequence, acknowledgment, length << 2, flags, window, 0, 0
    )
    return head + options


def ipv4(src: bytes, dst: bytes, body: bytes, fragment: int = 0, protocol: int = 6) -> bytes:
    total = 20 + len(body)
    head = struct.pack("!BBHHHBBH", 0x45, 0, total, 1, fragment, 64, protocol, 0)
    return head + src + dst + body


def ipv6(src: bytes, dst: bytes, body: bytes, header: int = 6) -> bytes:
    return struct.pack("!IHBB", 6 << 28, len(body), header, 64) + src + dst + body


def ethernet(
    dst: bytes, src: bytes, eth_type: int, body: bytes, vlans: tuple[int, ...] = ()
) -> bytes:
    tags = b"".join(struct.pack("!HH", 0x8100, vlan) for vlan in vlans)
    return dst + src + tags + struct.pack("!H", eth_type) + body


def tcp_checksum(src: bytes, dst: bytes, tcp: bytes) -> int:
    """RFC 9293 section 3.1, over IPv4; 0 if the checksum in `tcp` is right."""
    data = src + dst + struct.pack("!BBH", 0, 6, len(tcp)) + tcp + bytes(len(tcp) % 2)
    total = sum(word for (word,) in struct.iter_unpack("!H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def segment(
    src: Host,
    dst: Host,
    ports: tuple[int, int],
    flags: int,
    sequence: int = 1000,
    options: bytes = b"",
    payload: bytes = b"",
    window: int = 65_535,
    acknowledgment: int | None = None,
) -> bytes:
    """A TCP segment over IPv4, with its checksum; with ACK, it answers a SYN of this default, or
    what it is said to acknowledge."""
    if acknowledgment is None:
        acknowledgment = 1001 if flags & ACK else 0
    tcp = tcp_header(ports, flags, sequence, options, window, acknowledgment) + payload
    checksum = tcp_checksum(src.address, dst.address, tcp)
    tcp = tcp[:16] + checksum.to_bytes(2, "big") + tcp[18:]
    return ethernet(dst.mac, src.mac, 0x0800, ipv4(src.address, dst.address, tcp))


def window_of(frame: bytes) -> int:
    """The raw window field of a segment that `segment` made."""
    return int.from_bytes(frame[48:50], "big")


def arp(operation: int, sender: Host, target: Host) -> bytes:
    """A request is broadcast, a reply goes to the target."""
    request = operation == 1
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation)
    body += sender.mac + sender.address + (bytes(6) if request else target.mac) + target.address
    return ethernet(b"\xff" * 6 if request else target.mac, sender.mac, 0x0806, body)


def solicited_node(address: bytes) -> bytes:
    return bytes.fromhex("ff0200000000000000000001ff") + address[-3:]


def option(kind: int, mac: bytes) -> bytes:
    return bytes([kind, 1]) + mac


def neighbour_discovery(
    kind: int,
    src: bytes,
    dst: bytes,
    target: bytes,
    options: bytes = b"",
    *,
    flags: int = 0,
    code: int = 0,
    hop_limit: int = 255,
    wrong: int = 0,
    macs: tuple[bytes, bytes],
    vlans: tuple[int, ...] = (),
) -> bytes:
    """Neighbour discovery under the Ethernet addresses of receiver and sender, valid unless it is
    asked for otherwise; `wrong` is added to the checksum."""
    body = struct.pack("!BBHI", kind, code, 0, flags) + target + options
    data = src + dst + struct.pack("!II", len(body), 58) + body + bytes(len(body) % 2)
    total = sum(word for (word,) in struct.iter_unpack("!H", data))
    checksum = 0xFFFF - total % 0xFFFF
    body = body[:2] + struct.pack("!H", (checksum + wrong) % 0xFFFF) + body[4:]
    packet = struct.pack("!IHBB", 6 << 28, len(body), 58, hop_limit) + src + dst + body
    return ethernet(*macs, 0x86DD, packet, vlans)
