"""The TCP connection to a switch: Ryu's handshake and echo, but reading and writing of our own.

Ryu's Datapath needs two system calls for each message, passes messages on through a queue of 128,
and blocks senders while 16 messages wait. Here the socket is read in large pieces, messages go
straight to the listener, copied segments go in batches, and sending never blocks: a switch that
does not read is disconnected, and resynchronised when it comes back.

Reading and the first attempt to send run in Eventlet's main loop. A green thread that waits in
`recv` registers and unregisters its socket for every message, which takes longer than the answer.
"""

import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from eventlet.hubs import get_hub
from ryu.controller import ofp_event
from ryu.controller.controller import Datapath
from ryu.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER
from ryu.controller.ofp_handler import OFPHandler
from ryu.exception import RyuException
from ryu.lib import hub
from ryu.ofproto import ofproto_parser

from controller.model.flow import SegmentFields
from controller.model.values import Port, datapath_id
from controller.ops.logs import about
from controller.southbound.codec.openflow import (
    HEADER,
    PORT_LIVE,
    VERSION,
    Type,
    is_of_handshake,
)
from controller.southbound.switch import segments
from controller.southbound.switch.admission import Admission
from controller.southbound.transport.rota import Rota

LOG = logging.getLogger("weir.channel")

# What is read and processed at once: so much, or less if that takes longer. The larger a piece is,
# the less each segment costs.
_READ_BYTES, _LEAST_PIECE_BYTES = 32_768, 4_096
_PIECE_NS = 8_000_000
# What is read ahead while others have their turn, and looked through for notices.
_AHEAD_BYTES = 262_144
_NOTICES_AT_ONCE = 16
# As an experimenter's message of less than 256 bytes begins.
_NOTICE_HEAD = bytes([VERSION, Type.EXPERIMENTER, 0])
# What may wait in the kernel. A notice behind it waits for all of it.
_WINDOW_BYTES = 524_288
_QUEUE_LIMIT_BYTES = 16 * 2**20
_HANDSHAKE_S = 20.0
_SIGN_OF_LIFE_S = 1.0
# Events of the datapath, whose order matters.
_IN_ORDER = frozenset({Type.PACKET_IN, Type.FLOW_REMOVED, Type.PORT_STATUS})
_NOT_OVERTAKEN = frozenset({Type.PORT_STATUS, Type.ROLE_REPLY})
_FOR_THE_LISTENER = frozenset(
    {
        Type.ERROR,
        Type.EXPERIMENTER,
        Type.PACKET_IN,
        Type.FLOW_REMOVED,
        Type.PORT_STATUS,
        Type.MULTIPART_REPLY,
        Type.BARRIER_REPLY,
        Type.ROLE_REPLY,
    }
)
# Before the version is agreed on (OpenFlow 1.3.5 section 6.3.1).
_ANY_VERSION = frozenset({Type.HELLO, Type.ERROR})
_OPENFLOW_VERSIONS = range(1, 7)
_NO_COMMON_VERSION = (
    "it does not offer OpenFlow 1.3; have it do so: ovs-vsctl set bridge BRIDGE "
    "protocols=OpenFlow13"
)
# A record of type handshake, of any version of TLS.
_TLS_HANDSHAKE = b"\x16\x03"


class Listener(Protocol):
    """Receives what the channels receive. None of the methods may block."""

    def connected(self, channel: "Channel") -> None:
        """The handshake is done: `id` and `port_descriptions` are known."""

    def received(self, channel: "Channel", message: bytes) -> None:
        """A whole message, header included, of a connected switch."""

    def received_segments(self, channel: "Channel", copied: list[SegmentFields]) -> None:
        """Copied TCP segments: packet-ins that came one after the other, unpacked."""

    def disconnected(self, channel: "Channel") -> None:
        """A channel that was connected has ended."""


class Secured(Protocol):
    """TLS between a socket and a channel, after its handshake: bytes in, bytes out, no socket."""

    @property
    def owes(self) -> bool:
        """Whether TLS itself has something to send, which `seal(b"")` returns."""

    def seal(self, data: bytes) -> bytes:
        """Encrypt; returns what to send. Raises OSError."""

    def open(self, received: bytes) -> bytes:
        """Decrypt; returns the data that is complete. Raises OSError, also at the end."""


class Handshake(OFPHandler):
    """Ryu's handshake and echo, without the listening socket that comes with it."""

    def start(self) -> None:
        super(OFPHandler, self).start()

    def _hello_failed(self, datapath: "Channel", error_desc: str) -> None:
        """Ryu's answer to a switch with which there is no common version. The log has it in words
        for whoever configures the switch."""
        datapath.refused = _NO_COMMON_VERSION
        message = datapath.ofproto_parser.OFPErrorMsg(
            datapath,
            type_=datapath.ofproto.OFPET_HELLO_FAILED,
            code=datapath.ofproto.OFPHFC_INCOMPATIBLE,
            data=error_desc,
        )
        datapath.send_msg(message, close_socket=True)


class Channel(Datapath):
    """`refused` is why the connection was ended before the switch was accepted, for people."""

    def __init__(
        self,
        sock: socket.socket,
        address: tuple[str, int],
        listener: Listener,
        admission: Admission,
        rota: Rota,
        secured: Secured | None = None,
        admits: Callable[[int], bool] = lambda _switch: True,
    ) -> None:
        self._listener = listener
        self.admission = admission
        self._rota = rota
        self._secured = secured
        self._admits = admits
        self._outgoing: deque[bytes] = deque()
        self._unsent = b""
        self._buffer = b""
        self._piece_bytes = _READ_BYTES
        self._has_messages = self._is_last = False
        self._ended = hub.Event()
        self._left_over = hub.Event()
        self._sending = False
        self._close_when_sent = False
        self._heard = True
        self._probing = False
        self.queued_bytes = 0
        self.refused: str | None = None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, _WINDOW_BYTES)
        super().__init__(sock, address)

    def serve(self) -> None:
        """Serve the connection until it ends."""
        deadline = get_hub().schedule_call_global(_HANDSHAKE_S, self._require_handshake)
        try:
            super().serve()
        finally:
            deadline.cancel()

    @property
    def queued_messages(self) -> int:
        return len(self._outgoing)

    @property
    def port_descriptions(self) -> list[Port]:
        """The ports that the switch described in the handshake."""
        return [
            Port(
                port.port_no,
                port.name.decode(errors="replace"),
                bytes.fromhex(port.hw_addr.replace(":", "")),
                not (port.config | port.state) & 1,
                port.curr_speed * 1000,
                bool(port.state & PORT_LIVE),
            )
            for port in self.ports.values()
        ]

    def set_state(self, state: str) -> None:
        if state == MAIN_DISPATCHER and not self._admits(self.id):
            self._ended.set()
            return
        previous = self.state
        super().set_state(state)
        if state == MAIN_DISPATCHER and previous != state:
            self._listener.connected(self)
        elif state == DEAD_DISPATCHER and previous == MAIN_DISPATCHER:
            self._listener.disconnected(self)
        if state == DEAD_DISPATCHER:
            self._ended.set()

    def queue(self, message: bytes) -> bool:
        """Have the next `flush` send a message. Returns whether the channel accepts it."""
        if self.state == DEAD_DISPATCHER:
            return False
        if self.queued_bytes > _QUEUE_LIMIT_BYTES:
            LOG.error(
                "at %s:%d does not read: %d bytes wait for it; disconnecting it",
                *(*self.address[:2], self.queued_bytes),
                extra=about(switch=self.id),
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
        try:
            data = self._take_outgoing()
        except OSError as error:
            LOG.warning("at %s:%d: %s", *self.address[:2], error, extra=about(switch=self.id))
            self.abort()
            return
        try:
            sent = self.socket.fd.send(data)
        except OSError:
            # Full, or broken: the sending loop will wait for the one and tell the other.
            sent = 0
        self.queued_bytes -= sent
        if sent < len(data):
            self._unsent = data[sent:]
            self._sending = True
            self._left_over.set()

    def _take_outgoing(self) -> bytes:
        """All that is queued, as it goes into the socket."""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        if self._secured is None:
            return data
        sealed = self._secured.seal(data)
        self.queued_bytes += len(sealed) - len(data)
        return sealed

    def send(self, buf: bytes, close_socket: bool = False) -> bool:
        """Queue and flush a message of Ryu's own."""
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

    def probe(self) -> None:
        """End the channel unless its switch sends something within _SIGN_OF_LIFE_S.

        One probe at a time: otherwise frequent probes would never count an answer.
        """
        if not self._probing and self.state != DEAD_DISPATCHER:
            self._probing, self._heard = True, False
            self.send_msg(self.ofproto_parser.OFPEchoRequest(self))
            get_hub().schedule_call_global(_SIGN_OF_LIFE_S, self._require_life)

    def _require_life(self) -> None:
        self._probing = False
        if not self._heard and self.state != DEAD_DISPATCHER:
            LOG.warning("at %s:%d is silent", *self.address[:2], extra=about(switch=self.id))
            self.abort()

    def _require_handshake(self) -> None:
        if self.state not in (MAIN_DISPATCHER, DEAD_DISPATCHER):
            self.refused = (
                f"it has not said within {_HANDSHAKE_S:.0f} s which switch it is; "
                "is it an OpenFlow switch, and does it run?"
            )
            self.abort()

    def _send_loop(self) -> None:
        try:
            while self.state != DEAD_DISPATCHER:
                self._left_over.wait()
                self._left_over.clear()
                while self._unsent or self._outgoing:
                    data, self._unsent = self._unsent or self._take_outgoing(), b""
                    self.socket.sendall(data)
                    self.queued_bytes -= len(data)
                self._sending = False
                if self._close_when_sent:
                    break
        except OSError as error:
            LOG.warning("at %s:%d: %s", *self.address[:2], error, extra=about(switch=self.id))
        finally:
            self.send_q = None  # Ryu's sign for its echo loop to end.
            self.abort()

    def _recv_loop(self) -> None:
        main_loop = get_hub()
        if self._secured is not None:
            # It may have come in one piece with the end of the TLS handshake.
            self._receive(early=True)
            self._has_input(self.socket.fileno())
        reader = main_loop.add(
            main_loop.READ, self.socket.fileno(), self._has_input, self._closed, self._closed
        )
        try:
            self._ended.wait()
        finally:
            main_loop.remove(reader)
            self.socket.close()

    def _closed(self, *_: object) -> None:
        """The socket was closed while the main loop was reading from it."""
        self._ended.set()

    def _has_input(self, _fileno: int) -> None:
        if not self._rota.has_input(self):
            self._look_ahead()

    def read_some(self) -> bool:
        """Read what is there, unless messages are left that were read before; process messages
        until the turn is long. Returns whether whole messages may be left."""
        if self._ended.is_set():
            return False
        with self._ending_on_errors():
            if not self._has_messages:
                self._receive()
            self._has_messages = False
            waiting_bytes, begun_ns = len(self._buffer), self._rota.age_ns()
            self._buffer = self._messages(self._buffer)
            took_ns = self._rota.age_ns() - begun_ns
            self._fit_pieces(waiting_bytes - len(self._buffer), took_ns)
            if self._is_last and not self._has_messages:
                self._ended.set()
        return self._has_messages and not self._ended.is_set()

    def _fit_pieces(self, processed_bytes: int, took_ns: int) -> None:
        """Have the next pieces take no longer than they should, by what this one took."""
        if processed_bytes:
            # One piece alone tells little.
            fitting = processed_bytes * _PIECE_NS // max(took_ns, 1)
            between = (self._piece_bytes + min(fitting, 2 * _READ_BYTES)) // 2
            self._piece_bytes = max(_LEAST_PIECE_BYTES, min(between, _READ_BYTES))

    def _look_ahead(self) -> None:
        """Others have the turn. Read on all the same, for the first notices in what comes: they
        should not wait."""
        is_over = self._is_last or self._ended.is_set()
        if not is_over and len(self._buffer) < _AHEAD_BYTES and self.state == MAIN_DISPATCHER:
            with self._ending_on_errors():
                self._receive()
                if _NOTICE_HEAD in self._buffer:
                    self._buffer = self._take_notices(self._buffer)

    def _receive(self, *, early: bool = False) -> None:
        """Read what is there, or the end of the stream. `early`: TLS has received it already."""
        try:
            data = b"" if early else self.socket.fd.recv(_READ_BYTES)
            if data or early:
                self._heard = self._heard or bool(data)
                self._buffer += data if self._secured is None else self._opened(data)
                self._has_messages = True
            else:
                self._is_last = True
        except BlockingIOError:
            pass
        except OSError as error:
            LOG.warning("at %s:%d: %s", *self.address[:2], error, extra=about(switch=self.id))
            self._is_last = True

    def _opened(self, received: bytes) -> bytes:
        assert self._secured is not None
        data = self._secured.open(received)
        if self._secured.owes:
            self._outgoing.append(b"")
            self.flush()
        return data

    @contextlib.contextmanager
    def _ending_on_errors(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            if self.state == MAIN_DISPATCHER:
                LOG.warning("at %s:%d: %s", *self.address[:2], error, extra=about(switch=self.id))
            else:
                self.refused = str(error)
            self._ended.set()
        except Exception:
            # Eventlet would go on without this socket, and nobody would know.
            LOG.exception("at %s:%d", *self.address[:2], extra=about(switch=self.id))
            self._ended.set()

    def _take_notices(self, buffer: bytes) -> bytes:
        """Hand over the first few notices in a buffer; returns it without them. What they may be
        about, a new port or mastership, they do not overtake."""
        offset, end, kept, left = 0, len(buffer), [], _NOTICES_AT_ONCE
        while left and end - offset >= HEADER.size:
            version, kind, length, _ = HEADER.unpack_from(buffer, offset)
            if version != VERSION or length < HEADER.size or end - offset < length:
                break
            if kind in _NOT_OVERTAKEN:
                break
            message = buffer[offset : offset + length]
            if kind == Type.EXPERIMENTER:
                self._listener.received(self, message)
                left -= 1
            else:
                kept.append(message)
            offset += length
        return b"".join(kept) + buffer[offset:]

    def _messages(self, buffer: bytes) -> bytes:
        """Hand over whole messages until they are many or the turn is long; returns the rest.
        Raises ValueError for invalid messages.

        Segments take long to process, so they are deferred and messages behind them in the buffer
        overtake them, above all notices of queues. Events of the datapath stay in order: a host's
        last segment is handed over before its port goes down.
        """
        offset, end = 0, len(buffer)
        deferred: list[SegmentFields] = []
        try:
            while end - offset >= HEADER.size:
                if (
                    buffer[offset + 1] == Type.PACKET_IN
                    and self.state == MAIN_DISPATCHER
                    and self.admission.segments_open()
                ):
                    copied, offset = segments.take(buffer, offset, self._piece_bytes - offset)
                    if copied:
                        self.admission.read(len(copied))
                        deferred += copied
                    if end - offset < HEADER.size or self._should_pause(offset):
                        break
                version, kind, length, xid = HEADER.unpack_from(buffer, offset)
                if version != VERSION and kind not in _ANY_VERSION:
                    raise ValueError(_foreign(buffer[offset:]))
                if length < HEADER.size:
                    raise ValueError(f"a message of length {length}")
                if end - offset < length:
                    break
                message = buffer[offset : offset + length]
                offset += length
                if kind == Type.PACKET_IN and not self.admission.admits(message):
                    continue
                if kind in _IN_ORDER:
                    self._hand_over(deferred)
                if self.state == MAIN_DISPATCHER and kind in _FOR_THE_LISTENER:
                    self._listener.received(self, message)
                else:
                    self._leave_to_ryu(version, kind, length, xid, message)
                if self._should_pause(offset):
                    break
        finally:
            self._hand_over(deferred)
        return buffer[offset:]

    def _should_pause(self, processed_bytes: int) -> bool:
        """Whether what is left in the buffer is left for another turn."""
        self._has_messages = processed_bytes >= self._piece_bytes or self._rota.is_long()
        return self._has_messages

    def _hand_over(self, deferred: list[SegmentFields]) -> None:
        if deferred:
            self._listener.received_segments(self, deferred.copy())
            deferred.clear()

    def _leave_to_ryu(self, version: int, kind: int, length: int, xid: int, message: bytes) -> None:
        """Raises ValueError if the message cannot be read."""
        if not is_of_handshake(message):
            return
        if kind == Type.MULTIPART_REPLY and self.id is None:
            raise ValueError("ports of a switch that has not said which it is")
        try:
            parsed = ofproto_parser.msg(self, version, kind, length, xid, message)
            if parsed is None:
                raise ValueError(f"a message of type {kind} that cannot be read")
            event = ofp_event.ofp_msg_to_ev(parsed)
            for handler in self.ofp_brick.get_handlers(event, self.state):
                handler(event)
        except (AssertionError, AttributeError, KeyError, RyuException) as error:
            # AttributeError: Ryu takes type 0xffff for an experimenter's error in any version.
            raise ValueError(f"a message of type {kind} that cannot be read: {error}") from error


def _foreign(received: bytes) -> str:
    """What speaks here, if it is not OpenFlow 1.3, and what to do about it."""
    if received[:2] == _TLS_HANDSHAKE:
        return (
            "it speaks TLS, and openflow.listen is tcp: write ssl: there, or have the switch "
            "connect by tcp: (set-controller)"
        )
    if received[0] in _OPENFLOW_VERSIONS:
        return f"a message of OpenFlow version {received[0]}; {_NO_COMMON_VERSION}"
    return f"it does not speak OpenFlow, but begins with {received[:16]!r}; is the port right?"


def refuse_duplicate(connected: Channel, newcomer: Channel) -> None:
    """Refuse a newcomer that claims to be a connected switch: it may be anybody. If the switch has
    lost its connection, the probe ends that, and the switch will try again."""
    newcomer.refused = (
        f"it claims to be switch {datapath_id(connected.id)}, which is connected from "
        "{}:{}; if it is another bridge, ".format(*connected.address[:2])
        + "set its other-config:datapath-id"
    )
    newcomer.abort()
    connected.probe()
