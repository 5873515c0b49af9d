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
import sys
import tempfile
from pathlib import Path

import atheris

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "controller"), str(TESTS / "fuzz")]

import conftest  # noqa: E402, F401  (makes Ryu importable)

with atheris.instrument_imports(include=["controller"]):
    from controller.southbound.codec import openflow, packet_in
    from controller.southbound.switch import segments
    from controller.southbound.transport import channel

from ryu.base import app_manager  # noqa: E402
from ryu.controller.handler import MAIN_DISPATCHER  # noqa: E402
from ryu.ofproto import ofproto_protocol, ofproto_v1_3  # noqa: E402

from controller.config.schema import Config  # noqa: E402
from controller.model.flow import SegmentFields  # noqa: E402
from controller.runtime import translate  # noqa: E402
from controller.southbound.codec.openflow import HEADER  # noqa: E402
from controller.southbound.switch.admission import Admission  # noqa: E402
from controller.southbound.transport.rota import Rota  # noqa: E402
from seeds import seeds  # noqa: E402
from test_app import Application, FakeChannel  # noqa: E402

_SECOND_NS = 10**9
_SOCKET = socket.socket()


class Stream(channel.Channel):
    """A channel that has its bytes from here, not from a socket."""

    def __init__(self, sock: socket.socket, listener: "Relay", connected: bool) -> None:
        admission = Admission(translate.limits(Config()), lambda: 0)
        rota = Rota(lambda: 0, lambda _: None)
        super().__init__(sock, ("test", 1), listener, admission, rota)
        if connected:
            self.id = 1
            self.set_version(ofproto_v1_3.OFP_VERSION)
            self.state = MAIN_DISPATCHER

    def feed(self, data: bytes) -> None:
        """Look through all of it for notices, as for what waits, and process it."""
        self._buffer = self._take_notices(data) if self.state == MAIN_DISPATCHER else data
        self._has_messages = True
        while self._has_messages:
            self._has_messages = False
            self._buffer = self._messages(self._buffer)

    def flush(self) -> None:
        self._outgoing.clear()


class Relay:
    """What the stream says is said by the switch that the application knows."""

    def __init__(self, world: Application, switch: FakeChannel) -> None:
        self._world, self._switch = world, switch

    def connected(self, _channel: object) -> None:
        """It is already."""

    def disconnected(self, _channel: object) -> None:
        """It stays."""

    def received(self, _channel: object, message: bytes) -> None:
        self._world.weir.received(self._switch, message)

    def received_segments(self, _channel: object, copied: list[SegmentFields]) -> None:
        self._world.weir.received_segments(self._switch, copied)


def one_input(data: bytes) -> None:
    """What one switch says: from the beginning, or, by the first byte, once it is connected."""
    connected, data = data[:1] != b"\0", data[1:]
    with tempfile.TemporaryDirectory() as directory:
        config = Config.model_validate({"fabric": {"multicast_snooping": True}})
        world = Application(Path(directory), config)
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
        assert segments.copied(message.in_port, message.register, careful) == fast, (careful, fast)
        offset += length
    assert offset == end


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
