"""A fake switch: it speaks OpenFlow 1.3 to a controller, as fast as the controller reads.

It claims all capabilities of Weir's switch, holds nothing, does nothing, and has a host at every
port. Its messages are built beforehand, so that sending one costs no more than a write.
"""

import functools
import operator
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

from controller.model.flow import ACK, SYN
from controller.southbound.codec import extension, meters, openflow
from controller.southbound.codec.openflow import HEADER, VERSION, Type
from experiments.network.frames import CONTROL_BYTES, SO_TIMESTAMPNS, arrival_ns

HOSTS = 200
DATAPATH = 1
_HELLO, _ECHO_REQUEST, _ECHO_REPLY, _FEATURES_REQUEST, _FEATURES_REPLY = 0, 2, 3, 5, 6
_MULTIPART_PORTS = 13
_REGISTERS = 1024
_QUEUES_A_REPLY = 100
_RATE_BPS, _LIMIT_BYTES = 10**10, 2**31
_PIECE_BYTES = 65_536
_TIMEOUT_S = 120.0
_ANY = (1 << 32) - 1
# All zero: no meters.
_METER_FEATURES_BYTES = 16

SYN_OPTIONS = bytes.fromhex("020405b4 0402080a 00000001 00000000 01030307")
OPTIONS = bytes.fromhex("0101080a 00000001 00000001")

_PACKET_IN = struct.Struct("!BBHIIHBBQHHII6x")
_ETHERNET = struct.Struct("!6s6sH")
_IPV4 = struct.Struct("!BBHHHBBH")
_TCP = struct.Struct("!HHIIBBHHH")
_ALL_CAPABILITIES = functools.reduce(operator.or_, extension.Capability)
_ARP = struct.Struct("!HHBBH6s4s6s4s")


class Host(NamedTuple):
    """A host by its number, which is also that of its port, from 1."""

    number: int

    @property
    def mac(self) -> bytes:
        return b"\2\0\0\0" + self.number.to_bytes(2, "big")

    @property
    def address(self) -> bytes:
        return b"\x0a\0" + self.number.to_bytes(2, "big")


class FakeSwitch:
    """Context manager: a connection to the controller at ``address``, handshake included."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self._got = b""
        self._arrived_ns = 0
        self.send(message(_HELLO))
        # That is the last thing a controller asks before it heeds what a switch has to say.
        self._until(lambda kind, body: kind == Type.MULTIPART_REQUEST and _asks_for_ports(body))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def introduce(self) -> None:
        """Make the controller learn every host. A port that just came up could lead to a switch,
        so the hosts' frames are repeated until the controller answers for the last one."""
        everyone = b"".join(arp(Host(n), Host(n)) for n in range(1, HOSTS + 1))
        last, first = Host(HOSTS), Host(1)
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            self.send(everyone + arp(first, last))
            if self._until(
                lambda kind, body: kind == Type.PACKET_OUT and last.mac + last.address in body,
                timeout_s=0.2,
            ):
                return
        raise TimeoutError("the controller does not learn the hosts")

    def send(self, data: bytes) -> None:
        """Send all of it, and read meanwhile."""
        view = memoryview(data)
        while view:
            readable, writable, _ = select.select([self._socket], [self._socket], [], _TIMEOUT_S)
            if not readable and not writable:
                raise TimeoutError("the controller takes nothing any more")
            if readable:
                self._listen()
            if writable:
                view = view[self._socket.send(view[:_PIECE_BYTES]) :]

    def listen(self, for_s: float) -> None:
        """Answer what is asked."""
        self._until(lambda *_: False, for_s)

    def settle(self) -> None:
        """Wait until the controller has handled everything so far: a last frame for nobody comes
        back."""
        asked = Host(HOSTS + 1)
        self.send(arp(Host(1), asked))
        if (
            self._until(lambda kind, body: kind == Type.PACKET_OUT and asked.address in body)
            is None
        ):
            raise TimeoutError("the controller has not come to an end")

    def window_delay_ns(self, notice: bytes) -> int:
        """The time from a notice to the windows that it sets, without the wake-ups of this end."""
        while self._until(lambda *_: True, timeout_s=0) is not None:
            pass  # Windows that were renewed meanwhile are no answer.
        begun_ns = time.time_ns()
        self._socket.send(notice)
        heard = self._until(
            lambda kind, body: (
                kind == Type.EXPERIMENTER
                and body[4:8] == extension.MessageType.WINDOW_SET.to_bytes(4, "big")
            ),
            timeout_s=10.0,
        )
        if heard is None:
            raise TimeoutError("the notice has not changed any window")
        return self._arrived_ns - begun_ns

    # Listening

    def _until(
        self, wanted: Callable[[int, bytes], bool], timeout_s: float = _TIMEOUT_S
    ) -> tuple[int, int, bytes] | None:
        """Read until the wanted message, and answer requests meanwhile."""
        deadline = time.monotonic() + timeout_s
        while True:
            for message in self._messages():
                if wanted(message[0], message[2]):
                    return message
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._socket], [], [], left_s)[0]:
                return None
            self._listen()

    def _listen(self) -> None:
        data, ancillary, _, _ = self._socket.recvmsg(4 * _PIECE_BYTES, CONTROL_BYTES)
        if not data:
            raise ConnectionError("the controller has closed the connection")
        if ancillary:
            self._arrived_ns = arrival_ns(ancillary)
        self._got += data

    def _messages(self) -> Iterator[tuple[int, int, bytes]]:
        """Type, transaction and body of every whole message."""
        while len(self._got) >= HEADER.size:
            _, kind, length, xid = HEADER.unpack_from(self._got)
            if len(self._got) < length:
                return
            body, self._got = self._got[HEADER.size : length], self._got[length:]
            answer = self.answer(kind, xid, body)
            if answer:
                self.send(answer)
            yield kind, xid, body

    def answer(self, kind: int, xid: int, body: bytes) -> bytes:
        """What it answers to a message; nothing to most."""
        return _answer(kind, xid, body)


def _answer(kind: int, xid: int, body: bytes) -> bytes:
    """The answer of a switch to a message."""
    if kind == _ECHO_REQUEST:
        return message(_ECHO_REPLY, body, xid)
    if kind == _FEATURES_REQUEST:
        return message(_FEATURES_REPLY, struct.pack("!QIBB2xII", DATAPATH, 0, 4, 0, 0, 0), xid)
    if kind == Type.BARRIER_REQUEST:
        return message(Type.BARRIER_REPLY, b"", xid)
    if kind == Type.MULTIPART_REQUEST:
        ports = b"".join(_port(Host(n)) for n in range(1, HOSTS + 1))
        answer = ports if _asks_for_ports(body) else b""
        if int.from_bytes(body[:2], "big") == meters.FEATURES:
            answer = bytes(_METER_FEATURES_BYTES)
        return message(Type.MULTIPART_REPLY, body[:2] + bytes(6) + answer, xid)
    if kind == Type.EXPERIMENTER and body[7] == extension.MessageType.SUBSCRIBE:
        # With accounts of credit, notices would change no windows.
        capabilities = _ALL_CAPABILITIES & ~extension.Capability.CREDIT
        flags = extension.SubscribeFlag.QUEUE_EVENTS
        subscribed = extension.Subscribe(flags, _ANY, capabilities, _REGISTERS)
        return extension_message(extension.MessageType.SUBSCRIBE, subscribed.pack(), xid)
    if kind == Type.EXPERIMENTER and body[7] == extension.MessageType.QUEUE_STATS_REQUEST:
        asked = extension.QueueStatsRequest.unpack(body[8:])
        queues = tuple(_queue(Host(n)) for n in range(1, HOSTS + 1))
        # All of them do not fit into one message.
        parts = [queues[n : n + _QUEUES_A_REPLY] for n in range(0, HOSTS, _QUEUES_A_REPLY)]
        replies = [
            extension.QueueStatsReply(part, part is not parts[-1], asked.thresholds)
            for part in parts
        ]
        return b"".join(
            extension_message(extension.MessageType.QUEUE_STATS_REPLY, reply.pack(), xid)
            for reply in replies
        )
    return b""


def _asks_for_ports(multipart: bytes) -> bool:
    return multipart[:2] == _MULTIPART_PORTS.to_bytes(2, "big")


def message(kind: int, body: bytes = b"", xid: int = 0) -> bytes:
    return HEADER.pack(VERSION, kind, HEADER.size + len(body), xid) + body


def extension_message(kind: int, body: bytes, xid: int) -> bytes:
    return openflow.experimenter(extension.EXPERIMENTER, kind, body, xid)


def _queue(host: Host) -> extension.QueueStats:
    """An empty queue of a link of unlimited rate, with a buffer that is never full."""
    lengths, frames, events = (0, 0, 0), (0, 0, 0, 0, 0), (0, 0, 0, 0)
    return extension.QueueStats(
        *(host.number, 0, 0, 0, _RATE_BPS, _LIMIT_BYTES, None, *lengths, *frames, events, 0),
        thresholds=thresholds(_LIMIT_BYTES),
    )


def thresholds(limit_bytes: int) -> extension.Thresholds:
    """Those of a queue that is not configured otherwise: 30, 60 and 80 % of its limit."""
    low, mid, high = (limit_bytes * percent // 100 for percent in (30, 60, 80))
    return extension.Thresholds(low, mid, high)


def _port(host: Host) -> bytes:
    name = f"eth{host.number}".encode()
    return struct.pack("!I4x6s2x16sII24x", host.number, b"\2\1" + host.mac[2:], name, 0, 0)


def notice(kind: int, port: int, sequence: int) -> bytes:
    """A QUEUE_EVENT of a queue of 20,000 bytes."""
    event = extension.QueueEvent(kind, port, 0, 14, 20_000, _LIMIT_BYTES, 1, sequence)
    return extension_message(extension.MessageType.QUEUE_EVENT, event.pack(), 0)


def segment(
    src: Host,
    dst: Host,
    ports: tuple[int, int],
    flags: int,
    sequence: int,
    payload: bytes = b"",
) -> bytes:
    """A packet-in of a segment as Linux sends it; its copy is as long as the segment."""
    options = SYN_OPTIONS if flags & SYN else OPTIONS
    tcp_bytes = _TCP.size + len(options)
    ip_bytes = 20 + tcp_bytes + len(payload)
    answers = sequence + 1 if flags & ACK else 0
    return (
        packet_in_head(src.number, _ETHERNET.size + ip_bytes)
        + _ETHERNET.pack(dst.mac, src.mac, 0x0800)
        + _IPV4.pack(0x45, 0, ip_bytes, 1, 0x4000, 64, 6, 0)
        + src.address
        + dst.address
        + _TCP.pack(*ports, sequence, answers, tcp_bytes << 2, flags, 65_535, 0, 0)
        + options
        + payload
    )


def arp(sender: Host, target: Host) -> bytes:
    fields = sender.mac, sender.address, bytes(6), target.address
    frame = _ETHERNET.pack(b"\xff" * 6, sender.mac, 0x0806) + _ARP.pack(1, 0x0800, 6, 4, 1, *fields)
    return packet_in_head(sender.number, len(frame)) + frame


def packet_in_head(port: int, frame_bytes: int) -> bytes:
    length = _PACKET_IN.size + frame_bytes
    match = 1, 12, 0x80000004, port
    return _PACKET_IN.pack(
        VERSION, Type.PACKET_IN, length, 0, openflow.NO_BUFFER, frame_bytes, 0, 0, 0, *match
    )
