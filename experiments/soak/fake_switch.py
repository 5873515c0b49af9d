"""A fake switch: OpenFlow 1.3 without a socket and without a datapath.

It holds the entries it is given, reports them, and answers requests. Its driver carries the bytes,
and may listen to what the controller sends and sets.
"""

import functools
import operator
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from controller.southbound.codec import extension, meters, openflow
from controller.southbound.codec.openflow import HEADER, Type
from experiments.bench.controller.fake_switch import extension_message, message, thresholds

_FEATURES_REQUEST, _FEATURES_REPLY = 5, 6
_ROLE_REQUEST, _ROLE_REPLY = 24, 25
_MULTIPART_FLOW, _MULTIPART_PORTS = 1, 13
_REPLY_MORE = 1
# All zero: no meters.
_METER_FEATURES_BYTES = 16
_REPLY_PIECE_BYTES = 60_000
_REGISTERS = 1024
_ANY_PORT = (1 << 32) - 1
_ALL_CAPABILITIES = functools.reduce(operator.or_, extension.Capability)
# With accounts of credit, notices would change no windows.
CAPABILITIES = _ALL_CAPABILITIES & ~extension.Capability.CREDIT

_FLOW_MOD = struct.Struct("!8xQQBBHHHIIIH2x")
_FLOW_REQUEST = struct.Struct("!8x4x4xB3xII4xQQ")
_FLOW_STATS = struct.Struct("!HBxIIHHHH4xQQQ")
_PACKET_OUT = struct.Struct("!8xIIH6x")
_PORT = struct.Struct("!I4x6s2x16sII24x")
_OUTPUT = struct.Struct("!HHIH6x")
_BAD_REQUEST, _BAD_LENGTH = 1, 6


class Place(NamedTuple):
    """What identifies an entry; ``match`` is packed, with its padding."""

    table: int
    priority: int
    match: bytes


class Held(NamedTuple):
    """The rest of an entry; ``instructions`` are packed."""

    cookie: int
    flags: int
    instructions: bytes


class Switch:
    """One end of a control channel. ``outgoing`` are bytes to send.

    ``ports`` says of each port whether it is up, ``entries`` is the flow table. ``counters``
    returns the packets and bytes of an entry by its packed match. ``on_frame`` is called for frames
    to send out of a port, ``on_windows`` for registers that are set, ``on_entry`` for entries that
    are added. ``queue`` tells of the egress queue of a port. Entries that expire however much they
    are used expire at once. ``capabilities`` are those that its answer to SUBSCRIBE has.
    """

    def __init__(
        self,
        datapath: int,
        n_ports: int,
        n_registers: int = _REGISTERS,
        capabilities: extension.Capability = CAPABILITIES,
    ) -> None:
        self.datapath = datapath
        self.capabilities = capabilities
        self.ports = dict.fromkeys(range(1, n_ports + 1), True)
        self.entries: dict[Place, Held] = {}
        self.outgoing = bytearray()
        self.counters: Callable[[bytes], tuple[int, int]] = lambda _match: (0, 0)
        self.on_frame: Callable[[int, bytes], None] = lambda _port, _frame: None
        self.on_windows: Callable[[tuple[extension.Window, ...]], None] = lambda _windows: None
        self.on_entry: Callable[[Place, Held], None] = lambda _place, _held: None
        self.queue: Callable[[int], extension.QueueStats] = queue_of
        self.subscribed = False
        self.echoes = 0
        self._registers = n_registers
        self._got = b""

    def connect(self) -> None:
        """Open a new channel; entries and ports stay as they were."""
        self._got, self.subscribed = b"", False
        self.outgoing[:] = message(Type.HELLO)

    def receive(self, data: bytes) -> None:
        """Take what came from the controller, and answer it."""
        for kind, xid, whole in self._messages(data):
            body = whole[HEADER.size :]
            if kind == Type.FLOW_MOD:
                self._flow_mod(whole)
            elif kind == Type.PACKET_OUT:
                self._packet_out(whole)
            elif kind == Type.EXPERIMENTER:
                self._experimenter(xid, whole)
            elif kind == Type.MULTIPART_REQUEST:
                self._multipart(xid, whole)
            elif kind == Type.BARRIER_REQUEST:
                self.outgoing += message(Type.BARRIER_REPLY, b"", xid)
            elif kind == Type.ECHO_REQUEST:
                self.outgoing += message(Type.ECHO_REPLY, body, xid)
            elif kind == Type.ECHO_REPLY:
                self.echoes += 1
            elif kind == _FEATURES_REQUEST:
                features = struct.pack("!QIBB2xII", self.datapath, 0, 4, 0, 0, 0)
                self.outgoing += message(_FEATURES_REPLY, features, xid)
            elif kind == _ROLE_REQUEST:
                self.outgoing += message(_ROLE_REPLY, body, xid)

    def ask_echo(self) -> None:
        """Ask for an echo; ``echoes`` counts those that have come. By then the controller has
        read all that was sent before."""
        self.outgoing += message(Type.ECHO_REQUEST)

    def set_port(self, number: int, up: bool) -> None:
        """Set a port up or down, and report it to the controller."""
        self.ports[number] = up
        modified = 2
        self.outgoing += message(
            Type.PORT_STATUS, bytes([modified]) + bytes(7) + self._port(number)
        )

    def _messages(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        data = self._got + data
        offset = 0
        while len(data) - offset >= HEADER.size:
            _, kind, length, xid = HEADER.unpack_from(data, offset)
            if len(data) - offset < length:
                break
            yield kind, xid, data[offset : offset + length]
            offset += length
        self._got = data[offset:]

    def _flow_mod(self, whole: bytes) -> None:
        cookie, _, table, command, _, hard_timeout_s, priority, *_, flags = _FLOW_MOD.unpack_from(
            whole
        )
        match, end = _take_match(whole, _FLOW_MOD.size)
        place = Place(table, priority, match)
        if command == openflow.FlowModCommand.ADD:
            held = Held(cookie, flags, whole[end:])
            if not hard_timeout_s:
                self.entries[place] = held
            self.on_entry(place, held)
        else:
            self.entries.pop(place, None)

    def _packet_out(self, whole: bytes) -> None:
        _, _, length = _PACKET_OUT.unpack_from(whole)
        frame_at = _PACKET_OUT.size + length
        for offset in range(_PACKET_OUT.size, frame_at, _OUTPUT.size):
            _, _, port, _ = _OUTPUT.unpack_from(whole, offset)
            if self.ports.get(port):
                self.on_frame(port, whole[frame_at:])

    def _experimenter(self, xid: int, whole: bytes) -> None:
        _, kind, body = openflow.unpack_experimenter(whole)
        if kind == extension.MessageType.SUBSCRIBE:
            flags = extension.SubscribeFlag.QUEUE_EVENTS
            answer = extension.Subscribe(flags, _ANY_PORT, self.capabilities, self._registers)
            self.outgoing += extension_message(kind, answer.pack(), xid)
            self.subscribed = True
        elif kind == extension.MessageType.QUEUE_STATS_REQUEST:
            self._queue_stats(xid, whole, extension.QueueStatsRequest.unpack(body))
        elif kind == extension.MessageType.WINDOW_SET:
            self.on_windows(extension.WindowSet.unpack(body).windows)

    def _queue_stats(self, xid: int, whole: bytes, asked: extension.QueueStatsRequest) -> None:
        if asked.thresholds and extension.Capability.THRESHOLDS not in self.capabilities:
            # An older switch takes the flag for padding.
            error = struct.pack("!HH", _BAD_REQUEST, _BAD_LENGTH)
            self.outgoing += message(Type.ERROR, error + whole, xid)
            return
        queues = tuple(self.queue(port) for port in self.ports)
        reply = extension.QueueStatsReply(queues, has_thresholds=asked.thresholds).pack()
        self.outgoing += extension_message(extension.MessageType.QUEUE_STATS_REPLY, reply, xid)

    def _multipart(self, xid: int, whole: bytes) -> None:
        kind = int.from_bytes(whole[8:10], "big")
        if kind == _MULTIPART_FLOW:
            self._flow_stats(xid, whole)
            return
        answer = b""
        if kind == _MULTIPART_PORTS:
            answer = b"".join(map(self._port, self.ports))
        elif kind == meters.FEATURES:
            answer = bytes(_METER_FEATURES_BYTES)
        self.outgoing += _multipart_reply(kind, answer, xid)

    def _flow_stats(self, xid: int, whole: bytes) -> None:
        table, _, _, cookie, mask = _FLOW_REQUEST.unpack_from(whole)
        piece = b""
        for place, held in self.entries.items():
            if table in (place.table, openflow.ALL_TABLES) and held.cookie & mask == cookie & mask:
                if len(piece) > _REPLY_PIECE_BYTES:
                    self.outgoing += _multipart_reply(_MULTIPART_FLOW, piece, xid, more=True)
                    piece = b""
                piece += self._stats(place, held)
        self.outgoing += _multipart_reply(_MULTIPART_FLOW, piece, xid)

    def _stats(self, place: Place, held: Held) -> bytes:
        length = _FLOW_STATS.size + len(place.match) + len(held.instructions)
        head = _FLOW_STATS.pack(
            *(length, place.table, 1, 0, place.priority, 0, 0, held.flags, held.cookie),
            *self.counters(place.match),
        )
        return head + place.match + held.instructions

    def _port(self, number: int) -> bytes:
        mac = b"\6" + (self.datapath & 0xFFFFFF).to_bytes(3, "big") + number.to_bytes(2, "big")
        name = b"eth%d" % number
        return _PORT.pack(number, mac, name, 0, not self.ports[number])


def queue_of(port: int) -> extension.QueueStats:
    """An empty queue of a link of unlimited rate, with a buffer that is never full."""
    lengths, frames, events = (0, 0, 0), (0, 0, 0, 0, 0), (0, 0, 0, 0)
    return extension.QueueStats(
        *(port, 0, 0, 0, 10**10, LIMIT_BYTES, None, *lengths, *frames, events, 0),
        thresholds=thresholds(LIMIT_BYTES),
    )


LIMIT_BYTES = 2**31


def _take_match(whole: bytes, offset: int) -> tuple[bytes, int]:
    length = int.from_bytes(whole[offset + 2 : offset + 4], "big")
    end = offset + (length + 7) // 8 * 8
    return whole[offset:end], end


def _multipart_reply(kind: int, body: bytes, xid: int, more: bool = False) -> bytes:
    return message(Type.MULTIPART_REPLY, struct.pack("!HH4x", kind, more) + body, xid)
