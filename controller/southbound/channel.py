"""The TCP connection to a switch: Ryu's handshake and echo, our own reading and writing.

Ryu's Datapath reads a message with two system calls, hands it over through a queue of 128, and
blocks whoever sends while 16 messages wait. Here the socket is read in large pieces, messages go
straight to the listener, copied segments in batches, and sending never blocks: a switch that does
not read is disconnected, and resynchronised when it comes back.

Reading and the first attempt to send happen right in Eventlet's main loop. A thread that waits in
`recv` registers and unregisters its socket for every message, which takes longer than the answer.
"""

import contextlib
import logging
import socket
from collections import deque
from typing import Protocol

from eventlet.hubs import get_hub
from ryu.controller import ofp_event
from ryu.controller.controller import Datapath
from ryu.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER
from ryu.controller.ofp_handler import OFPHandler
from ryu.exception import RyuException
from ryu.lib import hub
from ryu.ofproto import ofproto_parser

from controller.southbound import segments
from controller.southbound.openflow import (
    HEADER,
    VERSION,
    PortDescription,
    Type,
    is_of_handshake,
)

LOG = logging.getLogger("weir.channel")

_READ_BYTES = 262_144
_QUEUE_LIMIT_BYTES = 16 * 2**20
_FOR_THE_LISTENER = frozenset(
    {
        Type.ERROR,
        Type.EXPERIMENTER,
        Type.PACKET_IN,
        Type.FLOW_REMOVED,
        Type.PORT_STATUS,
        Type.MULTIPART_REPLY,
        Type.BARRIER_REPLY,
    }
)
# Before the version is agreed on (OpenFlow 1.3.5 section 6.3.1).
_ANY_VERSION = frozenset({Type.HELLO, Type.ERROR})


class Listener(Protocol):
    """Whom the channels tell. None of these may block."""

    def connected(self, channel: "Channel") -> None:
        """The handshake is done: `id` and `port_descriptions` are known."""

    def received(self, channel: "Channel", message: bytes) -> None:
        """A whole message, header included, of a connected switch."""

    def received_segments(self, channel: "Channel", copied: list[segments.Copied]) -> None:
        """Messages, too: packet-ins of copied TCP segments, as they came one after the other."""

    def disconnected(self, channel: "Channel") -> None:
        """The last word of a channel that was connected."""


class Handshake(OFPHandler):
    """Ryu's handshake and echo, without the listening socket that comes with it."""

    def start(self) -> None:
        super(OFPHandler, self).start()


class Channel(Datapath):
    """One connected switch."""

    def __init__(self, sock: socket.socket, address: tuple[str, int], listener: Listener) -> None:
        self._listener = listener
        self._outgoing: deque[bytes] = deque()
        self._buffer = b""
        self._ended = hub.Event()
        self._left_over = hub.Event()
        self._sending = False
        self._close_when_sent = False
        self.queued_bytes = 0
        super().__init__(sock, address)

    @property
    def queued_messages(self) -> int:
        return len(self._outgoing)

    @property
    def port_descriptions(self) -> list[PortDescription]:
        """The ports as the handshake told them."""
        return [
            PortDescription(
                port.port_no,
                bytes.fromhex(port.hw_addr.replace(":", "")),
                port.name.decode(errors="replace"),
                not (port.config | port.state) & 1,
                port.curr_speed * 1000,
            )
            for port in self.ports.values()
        ]

    def set_state(self, state: str) -> None:
        previous = self.state
        super().set_state(state)
        if state == MAIN_DISPATCHER and previous != state:
            self._listener.connected(self)
        elif state == DEAD_DISPATCHER and previous == MAIN_DISPATCHER:
            self._listener.disconnected(self)
        if state == DEAD_DISPATCHER:
            self._ended.set()

    def queue(self, message: bytes) -> bool:
        """Have a message sent by the next `flush`. Returns whether the channel still takes any."""
        if self.state == DEAD_DISPATCHER:
            return False
        if self.queued_bytes > _QUEUE_LIMIT_BYTES:
            LOG.error(
                "switch %s at %s:%d does not read: %d bytes wait for it; disconnecting it",
                *(self.id, *self.address[:2], self.queued_bytes),
            )
            self.abort()
            return False
        self._outgoing.append(message)
        self.queued_bytes += len(message)
        return True

    def flush(self) -> None:
        """Send what is queued: at once as far as the socket takes it, the rest when it does."""
        if self._sending or not self._outgoing or self.state == DEAD_DISPATCHER:
            return
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        try:
            sent = self.socket.fd.send(data)
        except OSError:
            # Full, or broken: the sending loop will wait for the one and tell the other.
            sent = 0
        self.queued_bytes -= sent
        if sent < len(data):
            self._outgoing.append(data[sent:])
            self._sending = True
            self._left_over.set()

    def send(self, buf: bytes, close_socket: bool = False) -> bool:
        """Queue and flush, for Ryu's own messages."""
        taken = self.queue(bytes(buf))
        self.flush()
        if close_socket:
            self._close_when_sent = True
            self._left_over.set()
        return taken

    def abort(self) -> None:
        """Have the reading loop end, and with it the channel."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def _send_loop(self) -> None:
        try:
            while self.state != DEAD_DISPATCHER:
                self._left_over.wait()
                self._left_over.clear()
                while self._outgoing:
                    data = b"".join(self._outgoing)
                    self._outgoing.clear()
                    self.socket.sendall(data)
                    self.queued_bytes -= len(data)
                self._sending = False
                if self._close_when_sent:
                    break
        except OSError as error:
            LOG.warning("switch %s at %s:%d: %s", self.id, *self.address[:2], error)
        finally:
            self.send_q = None  # Ryu's sign for its echo loop to end.
            self.abort()

    def _recv_loop(self) -> None:
        main_loop = get_hub()
        reader = main_loop.add(
            main_loop.READ, self.socket.fileno(), self._read, self._closed, self._closed
        )
        try:
            self._ended.wait()
        finally:
            main_loop.remove(reader)
            self.socket.close()

    def _closed(self, *_: object) -> None:
        """Somebody has closed the socket under the main loop."""
        self._ended.set()

    def _read(self, _fileno: int) -> None:
        """There is something to read, or the end."""
        try:
            data = self.socket.fd.recv(_READ_BYTES)
            if data:
                self._buffer = self._messages(self._buffer + data)
            else:
                self._ended.set()
        except BlockingIOError:
            pass
        except (OSError, ValueError) as error:
            LOG.warning("switch %s at %s:%d: %s", self.id, *self.address[:2], error)
            self._ended.set()
        except Exception:
            # Eventlet would go on without this socket, and nobody would know.
            LOG.exception("switch %s at %s:%d", self.id, *self.address[:2])
            self._ended.set()

    def _messages(self, buffer: bytes) -> bytes:
        """Hand over all whole messages; returns what is left. Raises ValueError on nonsense."""
        offset, end = 0, len(buffer)
        while end - offset >= HEADER.size:
            if buffer[offset + 1] == Type.PACKET_IN and self.state == MAIN_DISPATCHER:
                copied, offset = segments.take(buffer, offset)
                if copied:
                    self._listener.received_segments(self, copied)
                if end - offset < HEADER.size:
                    break
            version, kind, length, xid = HEADER.unpack_from(buffer, offset)
            if length < HEADER.size:
                raise ValueError(f"a message of length {length}")
            if end - offset < length:
                break
            message = buffer[offset : offset + length]
            offset += length
            if version != VERSION and kind not in _ANY_VERSION:
                raise ValueError(f"a message of OpenFlow version {version}")
            if self.state == MAIN_DISPATCHER and kind in _FOR_THE_LISTENER:
                self._listener.received(self, message)
            else:
                self._leave_to_ryu(version, kind, length, xid, message)
        return buffer[offset:]

    def _leave_to_ryu(self, version: int, kind: int, length: int, xid: int, message: bytes) -> None:
        """Raises ValueError if the message cannot be read."""
        if not is_of_handshake(message):
            return
        if kind == Type.MULTIPART_REPLY and self.id is None:
            raise ValueError("ports of a switch that has not told who it is")
        try:
            parsed = ofproto_parser.msg(self, version, kind, length, xid, message)
            if parsed:
                event = ofp_event.ofp_msg_to_ev(parsed)
                for handler in self.ofp_brick.get_handlers(event, self.state):
                    handler(event)
        except (AssertionError, KeyError, RyuException) as error:
            raise ValueError(f"a message of type {kind} that cannot be read: {error}") from error
