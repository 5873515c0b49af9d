"""A host gone mad: frames of one kind, as many a second as it is told, until it is ended.

Runs in a host's namespace: flooder.py KIND DEVICE RATE SOURCE_MAC SOURCE_IP TARGET_MAC TARGET_IP.
Prints how many frames a second it has sent, once a second.
"""

import ctypes
import os
import random
import socket
import struct
import sys
import time

ETH_ARP, ETH_IPV4, ETH_IPV6 = 0x0806, 0x0800, 0x86DD
SYN, RST, SYN_ACK, PSH_ACK = 0x02, 0x04, 0x12, 0x18
# Of the programs that the reads of these tests are from.
SERVICE = 5000
N_FRAMES = 32_768
BATCH = 128


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MsgHdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("iov", ctypes.POINTER(_IoVec)),
        ("n_iov", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _MMsgHdr(ctypes.Structure):
    _fields_ = (("header", _MsgHdr), ("length", ctypes.c_uint))


def syns(ends: tuple[bytes, bytes, bytes, bytes], n: int) -> list[bytes]:
    """SYNs of as many connections."""
    draw = random.Random(1)
    ports = ((1024 + number % 64_000, draw.randrange(1, 65_536)) for number in range(n))
    return [_ip(ends, 6, _tcp(pair, number, SYN, b"")) for number, pair in enumerate(ports)]


def requests(ends: tuple[bytes, bytes, bytes, bytes], n: int) -> list[bytes]:
    """Requests for data by connections that are not there, each to another service: a switch
    expects little of one that has not answered before."""
    pairs = ((1024 + number, 10_000 + number) for number in range(n))
    return [_ip(ends, 6, _tcp(pair, 1, PSH_ACK, b"?" * 100)) for pair in pairs]


def macs(ends: tuple[bytes, bytes, bytes, bytes], n: int) -> list[bytes]:
    """SYNs from as many Ethernet addresses, which nobody has."""
    _, src, dst_mac, dst = ends
    forged = (bytes([2, 0xEE, *number.to_bytes(4, "big")]) for number in range(n))
    return [_ip((mac, src, dst_mac, dst), 6, _tcp((1, 1), 1, SYN, b"")) for mac in forged]


def pairs(ends: tuple[bytes, bytes, bytes, bytes], n: int) -> list[bytes]:
    """SYNs to a host, each with an answer in its name."""
    src_mac, src, _, dst = ends
    frames = []
    for number in range(n // 2):
        here = 1024 + number
        frames.append(_ip(ends, 6, _tcp((here, SERVICE + 1), number, SYN, b"")))
        answer = src_mac, dst, src_mac, src
        frames.append(_ip(answer, 6, _tcp((SERVICE + 1, here), number, SYN_ACK, b"")))
    return frames


def resets(ends: tuple[bytes, bytes, bytes, bytes], _n: int) -> list[bytes]:
    """RSTs of whatever connections there may be; their sequence numbers are wrong."""
    return [_ip(ends, 6, _tcp((port, SERVICE), 1, RST, b"")) for port in range(32_768, 61_000)]


def claims(ends: tuple[bytes, bytes, bytes, bytes], _n: int) -> list[bytes]:
    """ARP in the name of another host: it is here now."""
    _, _, mac, address = ends
    said = struct.pack("!HHBBH", 1, ETH_IPV4, 6, 4, 1) + mac + address + bytes(6) + address
    return [b"\xff" * 6 + mac + ETH_ARP.to_bytes(2, "big") + said]


def datagrams(ends: tuple[bytes, bytes, bytes, bytes], _n: int) -> list[bytes]:
    """UDP, a frame of full size."""
    return [_ip(ends, 17, struct.pack("!HHHH", 5000, 5000, 1480, 0) + bytes(1472))]


def _tcp(ports: tuple[int, int], sequence: int, flags: int, data: bytes) -> bytes:
    return struct.pack("!HHIIBBHHH", *ports, sequence, 1, 0x50, flags, 64_240, 0, 0) + data


def _ip(ends: tuple[bytes, bytes, bytes, bytes], protocol: int, data: bytes) -> bytes:
    src_mac, src, dst_mac, dst = ends
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 0, 0, 64, protocol, 0) + src + dst
    ip = ip[:10] + _checksum(ip) + ip[12:]
    return dst_mac + src_mac + ETH_IPV4.to_bytes(2, "big") + ip + data


def arps(ends: tuple[bytes, bytes, bytes, bytes], n: int) -> list[bytes]:
    """Questions for addresses that nobody has."""
    src_mac, src, _, dst = ends
    head = b"\xff" * 6 + src_mac + ETH_ARP.to_bytes(2, "big")
    fixed = head + struct.pack("!HHBBH", 1, ETH_IPV4, 6, 4, 1) + src_mac + src + bytes(6)
    return [
        fixed + dst[:2] + (200 * 256 + number % 10_000).to_bytes(2, "big") for number in range(n)
    ]


def solicitations(ends: tuple[bytes, bytes, bytes, bytes], n: int) -> list[bytes]:
    """Neighbour solicitations (RFC 4861 section 4.3) for addresses that nobody has."""
    src_mac, *_ = ends
    link = bytes.fromhex("fe80000000000000")
    src = link + bytes(2) + src_mac
    frames = []
    for number in range(n):
        target = link + (0xEE << 56 | number % 10_000).to_bytes(8, "big")
        group = bytes.fromhex("ff0200000000000000000001ff") + target[-3:]
        said = bytes([135, 0, 0, 0]) + bytes(4) + target + bytes([1, 1]) + src_mac
        pseudo = src + group + struct.pack("!II", len(said), 58)
        said = said[:2] + _checksum(pseudo + said) + said[4:]
        ip = struct.pack("!IHBB", 0x60000000, len(said), 58, 255) + src + group
        dst_mac = b"\x33\x33" + group[-4:]
        frames.append(dst_mac + src_mac + ETH_IPV6.to_bytes(2, "big") + ip + said)
    return frames


def flood(device: str, frames: list[bytes], rate_pps: int) -> None:
    """Send the frames, over and over."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind((device, 0))
    buffers = [ctypes.create_string_buffer(frame, len(frame)) for frame in frames]
    vectors = (_IoVec * len(frames))(
        *(_IoVec(ctypes.addressof(buffer), len(buffer)) for buffer in buffers)
    )
    messages = (_MMsgHdr * len(frames))()
    for message, vector in zip(messages, vectors, strict=True):
        message.header.iov = ctypes.pointer(vector)
        message.header.n_iov = 1
    sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
    begun_s = told_s = time.monotonic()
    sent = told = position = 0
    while True:
        now_s = time.monotonic()
        if now_s - told_s >= 1:
            print(round((sent - told) / (now_s - told_s)), flush=True)
            told, told_s = sent, now_s
        if sent >= (now_s - begun_s) * rate_pps:
            time.sleep(BATCH / rate_pps / 2)
            continue
        batch = min(BATCH, len(frames) - position)
        done = sendmmsg(raw.fileno(), ctypes.byref(messages[position]), batch, 0)
        if done > 0:
            sent += done
            position = (position + done) % len(frames)
        elif ctypes.get_errno() not in (0, 105):  # ENOBUFS: the device's queue is full.
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _checksum(header: bytes) -> bytes:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return (~(total + (total >> 16)) & 0xFFFF).to_bytes(2, "big")


def main() -> None:
    kind, device, rate_pps, *ends = sys.argv[1:]
    src_mac, src, dst_mac, dst = ends
    packed = (
        bytes.fromhex(src_mac.replace(":", "")),
        socket.inet_aton(src),
        bytes.fromhex(dst_mac.replace(":", "")),
        socket.inet_aton(dst),
    )
    kinds = {
        "syn": syns,
        "arp": arps,
        "nd": solicitations,
        "request": requests,
        "datagram": datagrams,
        "macs": macs,
        "pairs": pairs,
        "resets": resets,
        "claims": claims,
    }
    flood(device, kinds[kind](packed, N_FRAMES), int(rate_pps))


if __name__ == "__main__":
    main()
