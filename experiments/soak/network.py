"""A network of fake switches around a real controller: edges and a core, cabled.

Frames that a controller sends out of a port with a cable enter at the other end, so it discovers
the links as it does real ones.
"""

import errno
import selectors
import socket
import time
from collections.abc import Callable

from controller.southbound.codec.extension import Window
from experiments.network.frames import CONTROL_BYTES, SO_TIMESTAMPNS, arrival_ns
from experiments.soak.fake_switch import Switch
from experiments.soak.hosts import Place, packet_in

EDGES, HOST_PORTS = 4, 40
CORE = EDGES + 1
_UPLINK = HOST_PORTS + 1
_LLDP = b"\x88\xcc"
_READ_BYTES = 1 << 18


class Line:
    """The control channel of a switch, which may be down."""

    def __init__(self, switch: Switch, address: tuple[str, int]) -> None:
        self.switch = switch
        self.arrived_ns = 0
        self._address = address
        self._socket: socket.socket | None = None

    @property
    def up(self) -> bool:
        return self._socket is not None

    def open(self, selector: selectors.BaseSelector) -> None:
        """Raises OSError if nobody listens."""
        self._socket = socket.create_connection(self._address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self.switch.connect()
        selector.register(self._socket, selectors.EVENT_READ, self)

    def close(self, selector: selectors.BaseSelector) -> None:
        """Close it; bytes not yet sent are lost."""
        if self._socket is not None:
            selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def read(self) -> None:
        """Raises ConnectionError if the controller has closed the channel."""
        assert self._socket is not None
        data, ancillary, _, _ = self._socket.recvmsg(_READ_BYTES, CONTROL_BYTES)
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the controller has closed a channel")
        if ancillary:
            self.arrived_ns = arrival_ns(ancillary)
        self.switch.receive(data)

    def write(self) -> None:
        """Write as much as the socket takes."""
        outgoing = self.switch.outgoing
        if self._socket is None or not outgoing:
            return
        try:
            sent = self._socket.send(outgoing)
        except BlockingIOError:
            return
        del outgoing[:sent]


class Network:
    """All switches with their lines. ``on_windows`` is called for windows that are set,
    ``on_delivery`` for frames that leave by ports to hosts."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.switches = {n: Switch(n, HOST_PORTS + 1) for n in range(1, EDGES + 1)}
        self.switches[CORE] = Switch(CORE, EDGES)
        self.lines = {n: Line(switch, address) for n, switch in self.switches.items()}
        self.on_windows: Callable[[int, tuple[Window, ...], int], None] = lambda *_: None
        self.on_delivery: Callable[[Place, bytes], None] = lambda _place, _frame: None
        self._selector = selectors.DefaultSelector()
        self._cables: dict[Place, Place] = {}
        for edge in range(1, EDGES + 1):
            ends = Place(edge, _UPLINK), Place(CORE, edge)
            self._cables |= {ends[0]: ends[1], ends[1]: ends[0]}
        for number, switch in self.switches.items():
            self._listen(number, switch)

    def connect(self, number: int) -> None:
        """Raises OSError if nobody listens."""
        self.lines[number].open(self._selector)

    def disconnect(self, number: int) -> None:
        """Close the channel; the switch goes on, without a controller."""
        self.lines[number].close(self._selector)

    def enter(self, place: Place, frame: bytes) -> None:
        """Take a frame from a host, and copy it to the controller."""
        if self.lines[place.switch].up:
            self.switches[place.switch].outgoing += packet_in(place.port, frame)

    def exchange(self, timeout_s: float) -> None:
        """Send pending bytes, and read for that long."""
        deadline = time.monotonic() + timeout_s
        while True:
            for line in self.lines.values():
                line.write()
            left_s = deadline - time.monotonic()
            for key, _ in self._selector.select(max(0.0, left_s)):
                key.data.read()
            if left_s <= 0:
                return

    def close(self) -> None:
        """Close all lines."""
        for line in self.lines.values():
            line.close(self._selector)
        self._selector.close()

    def _listen(self, number: int, switch: Switch) -> None:
        def on_frame(port: int, frame: bytes) -> None:
            place = Place(number, port)
            end = self._cables.get(place)
            if end is None:
                self.on_delivery(place, frame)
            elif frame[12:14] == _LLDP:
                self.enter(end, frame)

        def on_windows(windows: tuple[Window, ...]) -> None:
            self.on_windows(number, windows, self.lines[number].arrived_ns)

        switch.on_frame, switch.on_windows = on_frame, on_windows
