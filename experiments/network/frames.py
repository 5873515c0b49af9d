"""Frames of a host, sent and received in its namespace.

    python -m experiments.network.frames acks --interval-us N    send ACKs until stdin is closed
    python -m experiments.network.frames bursts                  send a burst of N at each line "N"
    python -m experiments.network.frames flood                   send as fast as the device takes
    python -m experiments.network.frames changes                 say each change of the ACKs
    python -m experiments.network.frames record --seconds N      say when frames came, and from whom

All from host ``--host`` to host 1 of a ``Network``. The kernel says what came when: the time
at which the frame entered this host's device, which for a veth is when it left the switch.
"""

import argparse
import ctypes
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator

from experiments.network.bridge import SINK, mac
from testbed.shaping import FULL_FRAME_BYTES

WINDOW = 65_535
SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_PR_SET_TIMERSLACK = 29
_ETH_P_IP = 0x0800
_RECEIVE_BUFFER_BYTES = 16 * 2**20
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_PATIENCE_S = 10.0
CONTROL_BYTES = socket.CMSG_SPACE(16)
# Less than the qdisc of a host takes, so that sending waits instead of failing.
_FLOOD_BUFFER_BYTES = 32_768


def arrival_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The arrival time (CLOCK_REALTIME), from the control message that ``SO_TIMESTAMPNS`` asks
    for."""
    seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
    return int(seconds * 10**9 + nanoseconds)


def checksum(data: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _addresses(source: int) -> bytes:
    return bytes((10, 0, 0, source, 10, 0, 0, 1))


def _frame(source: int, protocol: int, payload: bytes) -> bytes:
    ethernet = bytes.fromhex((SINK + mac(source)).replace(":", "")) + struct.pack("!H", _ETH_P_IP)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0)
    ip = ip[:10] + struct.pack("!H", checksum(ip + _addresses(source)))
    return ethernet + ip + _addresses(source) + payload


def ack_frame(source: int) -> bytes:
    """A bare ACK with the window ``WINDOW``."""
    tcp = struct.pack("!HHIIBBHHH", 5000, 6000, 1, 1, 5 << 4, 0x10, WINDOW, 0, 0)
    pseudo = _addresses(source) + struct.pack("!BBH", 0, 6, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    return _frame(source, 6, tcp)


def _full_frame(source: int) -> bytes:
    length = FULL_FRAME_BYTES - 14 - 20
    return _frame(source, 17, struct.pack("!HHHH", 5000, 6000, length, 0) + bytes(length - 8))


def _raw_socket(protocol: int) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    sock.bind(("eth0", protocol))
    return sock


def _until_stdin_closes() -> threading.Event:
    closed = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        closed.set()

    threading.Thread(target=wait, daemon=True).start()
    return closed


def _acks(host: int, interval_s: float) -> None:
    # The default of 50 us would be added to every pause.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
    closed = _until_stdin_closes()
    sock, frame = _raw_socket(0), ack_frame(host)
    _say(event="ready")
    while not closed.is_set():
        sock.send(frame)
        time.sleep(interval_s)


def _bursts(host: int) -> None:
    sock, frame = _raw_socket(0), _full_frame(host)
    _say(event="ready")
    for line in sys.stdin:
        for _ in range(int(line)):
            sock.send(frame)


def _flood(host: int) -> None:
    sock, frame = _raw_socket(0), _full_frame(host)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _FLOOD_BUFFER_BYTES)
    closed = _until_stdin_closes()
    _say(event="ready")
    while not closed.is_set():
        sock.send(frame)


def _frames(sock: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Time (CLOCK_REALTIME, ns) and first bytes of what arrives."""
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    while True:
        frame, ancillary, _, address = sock.recvmsg(128, CONTROL_BYTES)
        if address[2] == socket.PACKET_OUTGOING:
            continue
        yield arrival_ns(ancillary), frame


def _changes() -> None:
    sock = _raw_socket(_ETH_P_IP)
    _say(event="ready")
    before = None
    for time_ns, frame in _frames(sock):
        if frame[23] != 6:
            continue
        fields = {"window": int.from_bytes(frame[48:50], "big"), "dscp": frame[15] >> 2}
        if fields != before:
            before = fields
            _say(event="change", fields=fields, time_ns=time_ns)


def _record(seconds: float) -> None:
    sock = _raw_socket(_ETH_P_IP)
    sock.settimeout(_PATIENCE_S)
    _say(event="ready")
    times, sources, lengths = [], [], []
    begun = None
    for time_ns, frame in _frames(sock):
        begun = begun or time_ns
        if time_ns - begun > seconds * 1e9:
            break
        times.append(time_ns)
        sources.append(frame[29])
        lengths.append(14 + int.from_bytes(frame[16:18], "big"))
    _, lost = struct.unpack("II", sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
    _say(event="recorded", times_ns=times, sources=sources, lengths=lengths, lost=lost)


def _say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("acks", "bursts", "flood", "changes", "record"))
    parser.add_argument("--host", type=int, default=2)
    parser.add_argument("--interval-us", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    if args.what == "acks":
        _acks(args.host, args.interval_us / 1e6)
    elif args.what == "bursts":
        _bursts(args.host)
    elif args.what == "flood":
        _flood(args.host)
    elif args.what == "changes":
        _changes()
    else:
        _record(args.seconds)


if __name__ == "__main__":
    main()
