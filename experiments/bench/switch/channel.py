"""The controller's end of an OpenFlow connection: a bare socket, so that the switch is measured."""

import socket
import time

from controller.southbound.codec import extension, openflow
from controller.southbound.codec.openflow import HEADER, VERSION
from experiments.network.bridge import BRIDGE
from experiments.network.frames import CONTROL_BYTES, SO_TIMESTAMPNS, arrival_ns
from testbed.ovs import Ovs

_PORT = 6653
_TIMEOUT_S = 10.0
_HELLO, _ECHO_REQUEST, _ECHO_REPLY = 0, 2, 3


def message(kind: extension.MessageType, body: bytes) -> bytes:
    """A message of the extension, ready to be sent."""
    return openflow.experimenter(extension.EXPERIMENTER, kind, body, 0)


class ChannelError(RuntimeError):
    """The switch refused a message; the text holds the error."""


class Channel:
    """Context manager: the switch's bridge is told to connect, and is connected.

    ``arrived_ns`` (CLOCK_REALTIME) is when, as the kernel tells, the last bytes that were received
    came into the socket.
    """

    def __init__(self, ovs: Ovs) -> None:
        self._buffer = b""
        self.arrived_ns = 0
        with socket.create_server(("127.0.0.1", _PORT)) as server:
            server.settimeout(_TIMEOUT_S)
            ovs.vsctl("set-controller", BRIDGE, f"tcp:127.0.0.1:{_PORT}")
            self._socket, _ = server.accept()
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.send(HEADER.pack(VERSION, _HELLO, HEADER.size, 0))
        self.barrier()

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def send(self, message: bytes) -> None:
        """Hand a message to the socket."""
        self._socket.sendall(message)

    def barrier(self) -> None:
        """Wait until everything sent so far is done. Raises ChannelError if any was refused."""
        self.send(openflow.barrier_request(1))
        self.receive(openflow.Type.BARRIER_REPLY)

    def subscribe(self) -> extension.Subscribe:
        """Subscribe to queue events; returns the capabilities that the switch reports."""
        flags = extension.SubscribeFlag.QUEUE_EVENTS
        request = extension.Subscribe(flags).pack()
        self.send(message(extension.MessageType.SUBSCRIBE, request))
        _, _, body = openflow.unpack_experimenter(self.receive(openflow.Type.EXPERIMENTER))
        return extension.Subscribe.unpack(body)

    def receive(self, wanted: openflow.Type) -> bytes:
        """The next message of this type. Raises ChannelError on an error, TimeoutError on none."""
        # The switch's echo requests come whether or not it has anything to say.
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {wanted.name} within {_TIMEOUT_S:g} s")
            got = self._next()
            _, kind, _, xid = HEADER.unpack_from(got)
            if kind == wanted:
                return got
            if kind == openflow.Type.ERROR:
                raise ChannelError(str(openflow.unpack_error(got)))
            if kind == _ECHO_REQUEST:
                self.send(HEADER.pack(VERSION, _ECHO_REPLY, len(got), xid) + got[HEADER.size :])

    def _next(self) -> bytes:
        while True:
            if len(self._buffer) >= HEADER.size:
                length = HEADER.unpack_from(self._buffer)[2]
                if len(self._buffer) >= length:
                    first, self._buffer = self._buffer[:length], self._buffer[length:]
                    return first
            data, ancillary, _, _ = self._socket.recvmsg(65_536, CONTROL_BYTES)
            if ancillary:
                self.arrived_ns = arrival_ns(ancillary)
            if not data:
                raise ConnectionError("the switch has closed the connection")
            self._buffer += data
