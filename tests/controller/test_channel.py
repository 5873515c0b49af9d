"""The connection to a switch over a real socket: handshake, reassembly, a deaf switch."""

import contextlib
import gc
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import greenlet
import pytest
from eventlet.green import socket as green_socket
from eventlet.hubs import get_hub
from ryu.base.app_manager import AppManager
from ryu.lib import hub
from ryu.ofproto import ofproto_protocol, ofproto_v1_3

from controller.config.schema import Config
from controller.model.flow import SegmentFields
from controller.model.packet_ins import PacketClass
from controller.model.values import Port
from controller.runtime import translate
from controller.southbound.codec import match, openflow
from controller.southbound.codec.openflow import HEADER, Type
from controller.southbound.switch import pipeline
from controller.southbound.switch.admission import Admission
from controller.southbound.transport import acceptor, channel
from controller.southbound.transport.channel import Channel, Handshake
from controller.southbound.transport.rota import Rota
from packets import SYN, Host, arp, segment
from test_app import Application

LIMITS = translate.limits(Config())


class Ear:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.connections: list[Channel] = []
        self.messages: list[bytes] = []
        self.lost: list[Channel] = []
        self.order: list[int] = []
        self.heard: Callable[[], object] = lambda: None

    def connected(self, channel: Channel) -> None:
        self.connections.append(channel)

    def received(self, _: Channel, message: bytes) -> None:
        self.messages.append(message)
        self.order.append(message[1])
        self.heard()

    def received_segments(self, _: Channel, copied: list[SegmentFields]) -> None:
        self.order.append(len(copied))

    def disconnected(self, channel: Channel) -> None:
        self.lost.append(channel)


class Peer:
    """A switch by hand, connected over loopback; both ends run in this thread."""

    def __init__(self) -> None:
        self.ear = Ear()
        self.now_ns = self.age_ns = 0
        self._later: list[Callable[[], None]] = []
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.socket = _green(socket.create_connection(listening.getsockname()))
            self._accepted = _green(listening.accept()[0])
        hub.spawn(self._serve)

    def _serve(self) -> None:
        admission = Admission(LIMITS, lambda: self.now_ns)
        rota = Rota(lambda: self.age_ns, self._soon)
        channel = Channel(self._accepted, ("test", 1), self.ear, admission, rota)
        with contextlib.closing(channel) as served:
            served.serve()

    def _soon(self, work: Callable[[], None]) -> None:
        if self.age_ns:
            self._later.append(work)
        else:
            get_hub().schedule_call_global(0, work)

    def next_turn(self) -> None:
        """End a long turn."""
        self.age_ns = 0
        later, self._later = self._later, []
        for work in later:
            work()

    def say(self, kind: Type, body: bytes, xid: int = 1, version: int = 4) -> None:
        self.socket.sendall(HEADER.pack(version, kind, HEADER.size + len(body), xid) + body)

    def hear(self) -> tuple[int, int, bytes]:
        """Type, xid and body of the next message."""
        head = self._read(HEADER.size)
        _, kind, length, xid = HEADER.unpack(head)
        return kind, xid, self._read(length - HEADER.size)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the channel was closed"
            data += piece
        return data

    def handshake(self) -> None:
        assert self.hear()[0] == Type.HELLO
        # Hello of version 1.5 with a bitmap: 1.0, 1.3 and up. Open vSwitch opens like this.
        self.say(Type.HELLO, bytes.fromhex("0001 0008 00000072"), version=6)
        assert self.hear()[0] == 5  # FEATURES_REQUEST
        features = (7).to_bytes(8, "big") + bytes.fromhex("00000000 fe 00 0000 0000004f 00000000")
        self.say(Type.FEATURES_REPLY, features)
        kind, xid, _ = self.hear()
        assert kind == Type.MULTIPART_REQUEST
        port = (3).to_bytes(4, "big") + bytes(4) + b"\2\0\0\0\0\3" + bytes(2)
        port += b"s1-eth3".ljust(16, b"\0") + bytes(32)
        self.say(Type.MULTIPART_REPLY, bytes.fromhex("000d 0000 00000000") + port, xid)
        self.until(lambda: self.ear.connections)

    def until_closed(self) -> None:
        while self.socket.recv(4096):
            pass

    def until(self, condition: Callable[[], object]) -> None:
        for _ in range(500):
            if condition():
                return
            hub.sleep(0.01)
        raise AssertionError("not within 5 s")


def _green(sock: socket.socket) -> socket.socket:
    """The same connection as a socket of Eventlet's, which other greenlets can wait beside."""
    green = green_socket.socket(fileno=sock.detach())
    green.settimeout(5)
    return green


@pytest.fixture(scope="module", autouse=True)
def handshake_app() -> Iterator[None]:
    ofproto_protocol.set_app_supported_versions([ofproto_v1_3.OFP_VERSION])
    manager = AppManager.get_instance()
    manager.instantiate(Handshake).start()
    yield
    manager.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    subject = Peer()
    subject.handshake()
    yield subject
    subject.socket.close()


def test_the_handshake_tells_who_it_is(peer: Peer) -> None:
    (connected,) = peer.ear.connections
    assert connected.id == 7
    assert connected.port_descriptions == [Port(3, "s1-eth3", b"\2\0\0\0\0\3", up=True, live=False)]


def test_messages_arrive_whole_however_they_are_cut(peer: Peer) -> None:
    messages = [openflow.barrier_request(xid).replace(b"\x14", b"\x15", 1) for xid in range(1, 9)]
    stream = b"".join(messages)
    for size in (1, 3, 7, 20):
        peer.ear.messages.clear()
        for start in range(0, len(stream), size):
            peer.socket.sendall(stream[start : start + size])
            hub.sleep(0)
        peer.until(lambda: len(peer.ear.messages) == len(messages))
        assert peer.ear.messages == messages


def test_what_a_long_turn_leaves_is_processed_in_later_ones(peer: Peer) -> None:
    messages = [openflow.barrier_request(xid).replace(b"\x14", b"\x15", 1) for xid in range(1, 9)]

    def takes_long() -> None:
        peer.age_ns = 10**9

    peer.ear.heard = takes_long
    peer.socket.sendall(b"".join(messages) + messages[0][:5])
    peer.socket.shutdown(socket.SHUT_WR)
    left = messages.copy()
    while left:
        peer.until(lambda: peer.ear.messages)
        hub.sleep(0.01)
        assert peer.ear.messages == [left.pop(0)]
        peer.ear.messages.clear()
        assert not peer.ear.lost
        peer.next_turn()
    peer.until(lambda: peer.ear.lost)


def test_echo_requests_are_answered(peer: Peer) -> None:
    peer.say(Type.ECHO_REQUEST, b"echo", xid=99)
    while (heard := peer.hear())[0] != 3:
        pass
    assert heard == (3, 99, b"echo")


def test_sending_never_blocks_and_keeps_the_order(peer: Peer) -> None:
    (connected,) = peer.ear.connections
    xid = 0
    while not connected.queued_bytes:
        xid += 1
        assert connected.send(openflow.experimenter(1, 2, bytes(8000), xid))
    heard = 0
    while heard < xid:
        kind, heard_xid, _ = peer.hear()
        if kind == Type.EXPERIMENTER:
            heard += 1
            assert heard_xid == heard
    peer.until(lambda: connected.queued_bytes == 0)
    assert connected.queued_messages == 0


def test_what_is_queued_is_sent_together(peer: Peer) -> None:
    (connected,) = peer.ear.connections
    for xid in (1, 2, 3):
        assert connected.queue(openflow.barrier_request(xid))
    assert connected.queued_messages == 3
    connected.flush()
    assert connected.queued_messages == 0
    assert [xid for kind, xid, _ in (peer.hear() for _ in range(3))] == [1, 2, 3]


def test_a_switch_that_does_not_read_is_disconnected(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_QUEUE_LIMIT_BYTES", 10**6)
    (connected,) = peer.ear.connections
    while connected.send(bytes(65_536)):
        hub.sleep(0)
    peer.until(lambda: peer.ear.lost)
    assert peer.ear.lost == [connected]
    assert not connected.send(b"late")


@pytest.mark.parametrize(
    "nonsense",
    [
        bytes.fromhex("04150004 00000001"),
        bytes.fromhex("05150008 00000001"),
        bytes.fromhex("63020008 00000001"),
    ],
    ids=["too short", "another version", "no version at all"],
)
def test_nonsense_ends_the_channel(peer: Peer, nonsense: bytes) -> None:
    peer.socket.sendall(nonsense)
    peer.until(lambda: peer.ear.lost)


@pytest.mark.parametrize(
    "nonsense",
    [
        bytes.fromhex("0400 0010 00000001 0001 0000 00000000"),
        bytes.fromhex("0413 0010 00000001 000d 0000 00000000"),
        bytes.fromhex("0106 0020 00000001") + bytes(24),
        bytes.fromhex("0406 0009 00000001 00"),
        bytes.fromhex("0101 000c 00000001 ffff 0000"),
    ],
    ids=[
        "a hello that has no end",
        "ports before features",
        "features of another version",
        "features that are cut off",
        "an error that is none of its version",
    ],
)
def test_nonsense_instead_of_a_handshake_ends_the_channel(
    nonsense: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    peer = Peer()
    assert peer.hear()[0] == Type.HELLO
    if nonsense[1] != Type.HELLO:
        peer.say(Type.HELLO, b"")
        assert peer.hear()[0] == 5  # FEATURES_REQUEST
    peer.socket.sendall(nonsense)
    peer.until_closed()
    assert not peer.ear.connections
    # Ryu tells where its parsers stumble; what is beyond them is ours.
    assert not [record for record in caplog.records if "weir" in record.name and record.exc_info]


def test_what_has_no_part_in_the_handshake_is_passed_over() -> None:
    peer = Peer()
    flow_statistics = bytes.fromhex("0001 0000 00000000") + bytes(64)
    peer.say(Type.MULTIPART_REPLY, flow_statistics)
    peer.handshake()


def test_the_end_of_the_connection_is_told_once(peer: Peer) -> None:
    peer.socket.close()
    peer.until(lambda: peer.ear.lost)
    hub.sleep(0.05)
    assert len(peer.ear.lost) == 1


SYN_COOKIE = next(
    entry.cookie
    for entry in pipeline.STATIC
    if pipeline.packet_class(entry.cookie) is PacketClass.SYN
)


def packet_in(frame: bytes, cookie: int = 0) -> bytes:
    in_port = match.pack_match(((match.IN_PORT, (3).to_bytes(4, "big"), None),))
    body = struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 1, 0, cookie) + in_port + b"\0\0" + frame
    return HEADER.pack(4, Type.PACKET_IN, HEADER.size + len(body), 0) + body


def copies(n: int) -> bytes:
    frames = (segment(Host(1), Host(2), (1000 + i % 60_000, 80), SYN) for i in range(n))
    return b"".join(packet_in(frame, SYN_COOKIE) for frame in frames)


BARRIER = HEADER.pack(4, Type.BARRIER_REPLY, 8, 1)
NOTICE = HEADER.pack(4, Type.EXPERIMENTER, 16, 1) + bytes(8)


def test_notices_and_answers_overtake_the_segments_that_were_read_with_them(peer: Peer) -> None:
    peer.socket.sendall(copies(30) + NOTICE + copies(20) + BARRIER)
    peer.until(lambda: len(peer.ear.order) == 3)
    assert peer.ear.order == [Type.EXPERIMENTER, Type.BARRIER_REPLY, 50]


@contextlib.contextmanager
def waiting(peer: Peer) -> Iterator[None]:
    """One turn, so long that channels are to wait for the next."""
    peer.age_ns = 10**9
    yield
    peer.next_turn()


def test_notices_overtake_what_waits_for_a_later_turn(peer: Peer) -> None:
    with waiting(peer):
        peer.socket.sendall(copies(20) + NOTICE + BARRIER)
        peer.until(lambda: peer.ear.order)
        peer.socket.sendall(copies(10) + NOTICE[:9])
        peer.socket.sendall(NOTICE[9:] + copies(30))
        peer.until(lambda: len(peer.ear.order) == 2)
        hub.sleep(0.01)
        assert peer.ear.order == [Type.EXPERIMENTER] * 2
    peer.until(lambda: len(peer.ear.order) == 4)
    assert peer.ear.order[2:] == [Type.BARRIER_REPLY, 60]


@pytest.mark.parametrize("kind", [Type.PORT_STATUS, Type.ROLE_REPLY])
def test_notices_do_not_overtake_what_they_may_be_about(peer: Peer, kind: Type) -> None:
    about = HEADER.pack(4, kind, 8, 1)
    with waiting(peer):
        peer.socket.sendall(BARRIER + NOTICE + about + NOTICE + BARRIER)
        peer.until(lambda: peer.ear.order)
        hub.sleep(0.01)
        assert peer.ear.order == [Type.EXPERIMENTER]
    peer.until(lambda: len(peer.ear.order) == 5)
    assert peer.ear.order[1:] == [Type.BARRIER_REPLY, kind, Type.EXPERIMENTER, Type.BARRIER_REPLY]


def test_no_more_is_read_ahead_than_can_be_kept(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_AHEAD_BYTES", 4096)
    monkeypatch.setattr(channel, "_READ_BYTES", 1024)
    monkeypatch.setattr(channel, "_LEAST_PIECE_BYTES", 1024)
    (connected,) = peer.ear.connections
    connected._piece_bytes = 1024
    with waiting(peer):
        peer.socket.sendall(copies(500))
        peer.until(lambda: len(connected._buffer) >= 4096)
        hub.sleep(0.05)
        assert len(connected._buffer) == 4096
    peer.until(lambda: sum(peer.ear.order) == 500)
    assert max(peer.ear.order) < 20, "what was read ahead is processed in pieces"


def test_pieces_are_as_large_as_can_be_processed_in_their_time(peer: Peer) -> None:
    heard = peer.ear.received_segments

    def slowly(connected: Channel, copied: list[SegmentFields]) -> None:
        peer.age_ns += len(copied) * cost_ns
        heard(connected, copied)

    peer.ear.received_segments = slowly  # type: ignore[method-assign, assignment]
    for cost_ns, least, most in ((200_000, 36, 60), (10_000, 250, 400)):
        for _ in range(12):
            peer.ear.order.clear()
            peer.socket.sendall(copies(500))
            while sum(peer.ear.order) < 500:
                hub.sleep(0.01)
                peer.next_turn()
        assert least < max(peer.ear.order) < most, cost_ns


def test_packet_ins_stay_in_order(peer: Peer) -> None:
    peer.socket.sendall(copies(3) + packet_in(arp(1, Host(1), Host(2))) + copies(2))
    peer.until(lambda: len(peer.ear.order) == 3)
    assert peer.ear.order == [3, Type.PACKET_IN, 2]


@pytest.mark.parametrize("kind", [Type.PORT_STATUS, Type.FLOW_REMOVED])
def test_what_happened_to_hosts_and_connections_stays_in_order(peer: Peer, kind: Type) -> None:
    peer.socket.sendall(copies(3) + HEADER.pack(4, kind, 8, 1) + copies(2))
    peer.until(lambda: len(peer.ear.order) == 3)
    assert peer.ear.order == [3, kind, 2]


def test_segments_over_budget_are_not_read_and_what_is_behind_them_is(peer: Peer) -> None:
    (connected,) = peer.ear.connections
    budget = LIMITS.switch_segments_pps
    connected.admission.read(budget + 1)
    peer.socket.sendall(copies(5) + NOTICE)
    peer.until(lambda: peer.ear.order)
    assert peer.ear.order == [Type.EXPERIMENTER]
    assert sum(dropped.dropped for dropped in connected.admission.take_dropped()) == 5
    peer.now_ns += 10**9
    peer.socket.sendall(copies(5))
    peer.until(lambda: peer.ear.order[1:] == [5])


def test_half_a_handshake_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_HANDSHAKE_S", 0.2)
    peer = Peer()
    peer.socket.sendall(bytes.fromhex("0400"))
    peer.until_closed()
    assert not peer.ear.connections


def test_of_many_that_say_nothing_the_oldest_has_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "_NEWCOMERS", 3)
    weir = Application(tmp_path).weir
    listening = green_socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(16)
    admission = Admission(LIMITS, time.monotonic_ns)
    door = acceptor.Acceptor(
        *(listening, None, weir, lambda: admission),
        *(Rota(lambda: 0, lambda _: None), time.monotonic_ns, pytest.fail),
    )
    serving = hub.spawn(door.serve)
    silent = []
    try:
        for _ in range(6):
            silent.append(green_socket.create_connection(listening.getsockname(), timeout=5))
            assert silent[-1].recv(8)  # HELLO
        assert all(sock.recv(64) == b"" for sock in silent[:3])
        for sock in silent[3:]:
            sock.settimeout(0.05)
            with pytest.raises(TimeoutError):
                while sock.recv(64):
                    pass
    finally:
        hub.kill(serving)
        for sock in (*silent, listening):
            sock.close()


def test_a_whole_one_has_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_HANDSHAKE_S", 0.2)
    peer = Peer()
    peer.handshake()
    hub.sleep(0.4)
    assert not peer.ear.lost


def passes_a_probe(peer: Peer) -> Channel:
    """Wait for the echo request, and say it back."""
    (connected,) = peer.ear.connections
    connected.probe()
    while (heard := peer.hear())[0] != 2:
        pass
    peer.say(Type.ECHO_REPLY, heard[2], xid=heard[1])
    return connected


def test_a_switch_that_answers_passes_the_probe(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_SIGN_OF_LIFE_S", 0.2)
    passes_a_probe(peer)
    hub.sleep(0.4)
    assert not peer.ear.lost


def test_a_switch_that_answers_passes_however_often_it_is_probed(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_SIGN_OF_LIFE_S", 0.2)
    connected = passes_a_probe(peer)
    for _ in range(30):
        hub.sleep(0.01)
        connected.probe()
        if peer.ear.lost:
            break
        # Each probe after the first is answered when the next one has come.
        peer.say(Type.ECHO_REPLY, b"")
    assert not peer.ear.lost


def test_a_switch_that_is_silent_does_not(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_SIGN_OF_LIFE_S", 0.2)
    (connected,) = peer.ear.connections
    connected.probe()
    peer.until(lambda: peer.ear.lost)


def test_channels_that_are_over_leave_nothing_behind() -> None:
    """Neither sockets nor greenlets, however they ended."""

    def left() -> tuple[int, int]:
        gc.collect()
        alive = sum(isinstance(o, greenlet.greenlet) and not o.dead for o in gc.get_objects())
        return alive, len(list(Path("/proc/self/fd").iterdir()))

    def come_and_go(n: int) -> None:
        for number in range(n):
            peer = Peer()
            if number % 2:
                peer.handshake()
            peer.socket.close()
            hub.sleep(0.01)
        hub.sleep(0.1)

    come_and_go(4)
    before = left()
    come_and_go(40)
    assert left() == before
