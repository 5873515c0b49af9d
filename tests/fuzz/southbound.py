"""Feeds the controller what a broken or hostile switch, or a host behind one, may send.

    python tests/fuzz/southbound.py CORPUS [libFuzzer's options, such as -max_total_time=600]

Coverage-guided (Atheris). What libFuzzer makes up is the byte stream of a connected switch: it goes
through the channel's framing, Ryu's parser, the session, the application and the core. Nothing may
escape but ValueError, by which the channel disconnects; no handler may fail; and of every message
both ways to read a segment must say the same. CORPUS is filled with valid messages if it is empty.
"""

import contextlib
import hashlib
import logging
import socket
import struct
import sys
import tempfile
from pathlib import Path

import atheris

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "controller")]

import conftest  # noqa: E402, F401  (makes Ryu importable)

with atheris.instrument_imports(include=["controller"]):
    from controller.southbound import channel, extension, match, openflow, packet_in, segments

from ryu.base import app_manager  # noqa: E402
from ryu.controller.handler import MAIN_DISPATCHER  # noqa: E402
from ryu.ofproto import ofproto_protocol, ofproto_v1_3  # noqa: E402

from controller.southbound import frames, pipeline  # noqa: E402
from controller.southbound.openflow import HEADER, Type  # noqa: E402
from packets import ACK, FIN, RST, SYN, Host, arp, segment, tcp_options  # noqa: E402
from test_app import FakeChannel, World  # noqa: E402
from test_session import SECRET, stats_of  # noqa: E402

_SECOND_NS = 10**9
_SOCKET = socket.socket()


class Stream(channel.Channel):
    """A channel that has its bytes from here, not from a socket."""

    def __init__(self, sock: socket.socket, listener: "Relay", connected: bool) -> None:
        super().__init__(sock, ("test", 1), listener)
        if connected:
            self.id = 1
            self.set_version(ofproto_v1_3.OFP_VERSION)
            self.state = MAIN_DISPATCHER

    def feed(self, data: bytes) -> None:
        self._messages(data)

    def flush(self) -> None:
        self._outgoing.clear()


class Relay:
    """What the stream says is said by the switch that the application knows."""

    def __init__(self, world: World, switch: FakeChannel) -> None:
        self._world, self._switch = world, switch

    def connected(self, _channel: object) -> None:
        """It is already."""

    def disconnected(self, _channel: object) -> None:
        """It stays."""

    def received(self, _channel: object, message: bytes) -> None:
        self._world.weir.received(self._switch, message)

    def received_segments(self, _channel: object, copied: list[segments.Copied]) -> None:
        self._world.weir.received_segments(self._switch, copied)


def one_input(data: bytes) -> None:
    """What one switch says: from the beginning, or, by the first byte, once it is connected."""
    connected, data = data[:1] != b"\0", data[1:]
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        relay = Relay(world, world.connect(1))
        with contextlib.suppress(ValueError):
            Stream(_SOCKET, relay, connected).feed(data)
        world.now_ns += _SECOND_NS
        if world.failures:
            raise AssertionError("a handler has failed")
    both_ways(data)


def both_ways(data: bytes) -> None:
    """Whatever is read in one step reads the same field by field."""
    copied, end = segments.take(data, 0)
    offset = 0
    for fast in copied:
        length = HEADER.unpack_from(data, offset)[2]
        message = openflow.unpack_packet_in(data[offset : offset + length])
        careful = packet_in.parse(message.data)
        assert isinstance(careful, packet_in.TcpSegment), careful
        assert segments.copied(message.in_port, careful) == fast, (careful, fast)
        offset += length
    assert offset == end


# What libFuzzer starts from


def message(kind: Type, body: bytes) -> bytes:
    return HEADER.pack(4, kind, 8 + len(body), 1) + body


def copy(frame: bytes, in_port: int = 1, table: int = 0) -> bytes:
    packed = match.pack_match(((match.IN_PORT, in_port.to_bytes(4, "big"), None),))
    head = struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 1, table, 0)
    return message(Type.PACKET_IN, head + packed + b"\0\0" + frame)


def weir(kind: extension.MessageType, body: bytes) -> bytes:
    return message(Type.EXPERIMENTER, struct.pack("!II", extension.EXPERIMENTER, kind) + body)


def seeds() -> list[bytes]:
    """Valid messages of each kind, and the life of a connection."""
    a, b = Host(1), Host(2)
    options = tcp_options(1460, 7)
    there, back = (5000, 80), (80, 5000)
    life = [
        copy(segment(a, b, there, SYN, 1, options=options), 1),
        copy(segment(b, a, back, SYN | ACK, 9, options=options), 2),
        copy(segment(a, b, there, FIN | ACK, 2), 1),
        copy(segment(b, a, back, FIN | ACK, 10), 2),
        copy(segment(b, a, back, RST, 10), 2),
    ]
    event = extension.QueueEvent(2, 2, 0, 30, 45_000, 65_536, 7, 1)
    account = pipeline.account(pipeline.FiveTuple(a.address, 5000, b.address, 80), True)[0]
    port = struct.pack("!I4x6s2x16sIIIIIIII", 3, a.mac, b"eth3", 0, 4, 0, 0, 0, 0, 0, 0)
    found = [
        b"".join(life),
        *life,
        copy(arp(1, a, b)),
        copy(frames.pack(2, 1, a.mac, 4, SECRET)),
        copy(segment(a, b, there, ACK, 5), table=3),
        weir(extension.MessageType.QUEUE_EVENT, event.pack()),
        message(Type.MULTIPART_REPLY, struct.pack("!HH4x", 1, 0) + stats_of(account, 999)),
        message(Type.PORT_STATUS, b"\2" + bytes(7) + port),
        message(Type.ERROR, struct.pack("!HH", 1, 3) + life[0][:64]),
        message(Type.BARRIER_REPLY, b""),
        message(Type.ECHO_REQUEST, b"hello"),
    ]
    features = struct.pack("!QIBB2xII", 1, 0, 254, 0, 0, 0)
    handshake = (
        message(Type.HELLO, struct.pack("!HHI", 1, 8, 1 << 4)),
        message(Type.FEATURES_REPLY, features),
        message(Type.MULTIPART_REPLY, struct.pack("!HH4x", 13, 0) + port),
    )
    return [
        b"\0" + b"".join(handshake),
        *(b"\1" + one for one in found),
        b"\0" + b"".join((*handshake, *found)),
    ]


def main() -> None:
    """Entry point."""
    logging.disable(logging.CRITICAL)
    app_manager.register_app(channel.Handshake())
    ofproto_protocol.set_app_supported_versions([ofproto_v1_3.OFP_VERSION])
    corpus = Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in seeds():
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
