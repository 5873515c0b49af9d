"""The state of TCP connections as the kernel tells it, from a netlink socket (sock_diag(7)).

To read it takes a few system calls and starts no process, so it can be read every few milliseconds.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from testbed.netns import network_of

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _NLMSG_ERROR, _NLMSG_DONE = 20, 2, 3
_NLM_F_REQUEST, _NLM_F_DUMP = 0x001, 0x300
_TCP_ESTABLISHED = 1
_INET_DIAG_INFO = 2
_RECEIVED_BYTES = 1 << 16
# struct nlmsghdr: length, type, flags, sequence number, port.
_HEADER = struct.Struct("=IHHII")
# struct inet_diag_req_v2, up to the socket that is looked for: any.
_REQUEST = struct.Struct("=BBBxI48x")
# struct inet_diag_msg: of the socket's id the ports, and the addresses at their beginning.
_SOCKET = struct.Struct("!4x2H4s12x4s12x")
_SOCKET_BYTES = 72
# struct rtattr: length, type.
_ATTRIBUTE = struct.Struct("=HH")
# struct tcp_info: rto and rtt in us, unacked, snd_ssthresh, snd_cwnd, bytes_acked.
_INFO = struct.Struct("=8xI12xI40xI4xII36xQ")
# As ss has it: a threshold that has not been set yet is greater.
_MOST_SSTHRESH = 0xFFFF


@dataclass(frozen=True)
class Connection:
    """An established connection: addresses as ADDRESS:PORT, windows and ``unacked`` in segments,
    times in ms. ``ssthresh`` is None until it is set."""

    local: str
    peer: str
    cwnd: int
    ssthresh: int | None
    unacked: int
    rtt_ms: float
    rto_ms: float
    acked_bytes: int


class Established:
    """The established TCP connections over IPv4 in the network namespace of process ``pid``, by
    default in this one's. Raises OSError where the kernel does not tell."""

    def __init__(self, pid: int | None = None) -> None:
        with nullcontext() if pid is None else network_of(pid):
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
            )

    def read(self) -> list[Connection]:
        """Return their present state."""
        body = _REQUEST.pack(
            socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 1 << _TCP_ESTABLISHED
        )
        flags = _NLM_F_REQUEST | _NLM_F_DUMP
        head = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, flags, 1, 0)
        self._socket.sendto(head + body, (0, 0))
        found: list[Connection] = []
        while True:
            for kind, message in _messages(self._socket.recv(_RECEIVED_BYTES)):
                if kind == _NLMSG_DONE:
                    return found
                if kind == _NLMSG_ERROR:
                    code = -struct.unpack_from("=i", message)[0]
                    raise OSError(code, f"sock_diag: {os.strerror(code)}")
                if connection := parse(message):
                    found.append(connection)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def parse(message: bytes) -> Connection | None:
    """Parse a struct inet_diag_msg with its attributes; None without a struct tcp_info."""
    local_port, peer_port, local, peer = _SOCKET.unpack_from(message)
    at = _SOCKET_BYTES
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        body = message[at + _ATTRIBUTE.size : at + length]
        if kind == _INET_DIAG_INFO and len(body) >= _INFO.size:
            rto_us, unacked, rtt_us, ssthresh, cwnd, acked = _INFO.unpack_from(body)
            return Connection(
                local=f"{socket.inet_ntoa(local)}:{local_port}",
                peer=f"{socket.inet_ntoa(peer)}:{peer_port}",
                cwnd=cwnd,
                ssthresh=ssthresh if ssthresh < _MOST_SSTHRESH else None,
                unacked=unacked,
                rtt_ms=rtt_us / 1000,
                rto_ms=rto_us / 1000,
                acked_bytes=acked,
            )
        at += _aligned(max(length, _ATTRIBUTE.size))
    return None


def _messages(received: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(received):
        length, kind, *_ = _HEADER.unpack_from(received, at)
        yield kind, received[at + _HEADER.size : at + length]
        at += _aligned(max(length, _HEADER.size))


def _aligned(length: int) -> int:
    return (length + 3) & ~3
