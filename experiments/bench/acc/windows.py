"""Single windows of TCP over a pair of veth devices that loses data at random, and what becomes of
each.

A window is so many full packets, which a new connection sends at once, as the route's ``initcwnd``
allows, after one more that opens it. Nothing but the window's data is lost: handshake, opening and
acknowledgements arrive. This process is both ends, the far one's sockets in the far namespace.

Without two things these would be no windows as the models have them. Packets leave one after the
other, in a queue: on bare veth devices they would be acknowledged before the sender has sent the
last, and Linux makes one of acknowledgements that come so early, in which duplicates are not
counted. And the receiver's window stays the same, since an acknowledgement that changes it is no
duplicate (RFC 5681, section 2). The first acknowledgement changes it, hence the opening.
"""

import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from experiments.bench.acc.layer import Tcp
from experiments.bench.transport.speed.medium import DEVICES, Medium, medium
from experiments.traffic.program import ProgramError
from testbed.command import run
from testbed.dataloss import Connection, DataLoss
from testbed.link import OFFLOADS_OFF
from testbed.netns import network_of
from testbed.shaping import FULL_FRAME_BYTES

# Connections leave nothing for the next; and windows are as large as they can be without scaling.
_SYSCTLS = {
    "tcp_no_metrics_save": "1",
    "tcp_window_scaling": "0",
    "tcp_rmem": "4096 4194304 4194304",
}
_OPENING = 1
# So slow that a window has left the sender before its second packet leaves the queue.
_RATE_BPS = 300_000_000
_QUEUE = ("tbf", "rate", f"{_RATE_BPS}bit", "burst", "1600", "limit", "4000000")
# No window begins behind a longer queue.
_LONGEST_QUEUE_S = 0.002
_PORT = 5001
# One for each window that is measured before the losses are set again.
_SOURCE_PORTS = range(10_000, 65_000)
_BACKLOG = 1024
_PATIENCE_S = 60.0
_READ_BYTES = 1 << 20
# struct tcp_info of Linux 6.7, and where its fields are.
_INFO_BYTES = 248
_MSS, _UNACKED, _CWND, _DATA_SEGMENTS_OUT, _BUSY_US, _TIMEOUTS = 16, 24, 80, 156, 168, 240


@dataclass(frozen=True)
class Window:
    """What became of a window: which packets were ``lost`` (bit n: the n-th), how many were sent
    ``again``, how often the retransmission timer ended, and how long something was not
    acknowledged."""

    lost: int
    again: int
    timeouts: int
    took_s: float


@dataclass(frozen=True)
class Path:
    """The way from this namespace to the far one."""

    between: Medium
    loss: DataLoss

    def start(self, tcp: Tcp, packets: int, share: float, seed: int) -> None:
        """From now on, connections are of ``tcp`` and begin with so many packets, and data is
        lost."""
        for pid in (None, self.between.far_pid):
            words = [f"net.ipv4.{k}={v}" for k, v in {**tcp.sysctls, **_SYSCTLS}.items()]
            run(["sysctl", "-q", "-w", *words], pid=pid)
            run(["ip", "tcp_metrics", "flush", "all"], pid=pid)
        route = (f"{self.between.far}/32", "dev", DEVICES[0], "src", self.between.near)
        settings = ("congctl", tcp.control, "initcwnd", str(packets))
        run(["ip", "route", "replace", *route, *settings])
        self.loss.set(share, seed, _OPENING)


@contextmanager
def path() -> Iterator[Path]:
    """Context manager: the way stands, in this sandbox."""
    with medium("veth") as between:
        for device, pid in zip(DEVICES, (None, between.far_pid), strict=True):
            run(["ethtool", "-K", device, *OFFLOADS_OFF], pid=pid)
        near = DEVICES[0]
        run(["tc", "qdisc", "add", "dev", near, "root", *_QUEUE])
        yield Path(between, DataLoss(DEVICES[1], between.far_pid))


def measure(between: Path, packets: int, count: int, parallel: int) -> list[Window]:
    """Return ``count`` windows of ``packets``, of which ``parallel`` are under way at a time.

    Raises ProgramError if one is not sent as it should be, TimeoutError if one does not end.
    """
    with ExitStack() as stack:
        ends = _Ends(between.between, packets, stack)
        ports = deque(_SOURCE_PORTS[:count])
        while ports or ends.under_way:
            may_begin = bool(ports) and ends.under_way < parallel and ends.queue_is_short()
            if may_begin:
                ends.begin(ports.popleft())
            ends.wait(0 if may_begin else _LONGEST_QUEUE_S)
    return joined(ends.said, between.loss.connections(), packets)


@dataclass(frozen=True)
class Said:
    """What the sender's end of a connection said when all had arrived."""

    timeouts: int
    segments: int
    mss_bytes: int
    took_s: float


def joined(said: Mapping[int, Said], lost: Mapping[int, Connection], packets: int) -> list[Window]:
    """Return the windows, by what their senders said and what came on the wire, each by source
    port. Raises ProgramError if the two differ."""
    windows = []
    for port, one in said.items():
        wire = lost[port]
        # Else what left the host was no window of so many packets, or somebody else lost some.
        if wire.frames != one.segments or wire.longest_bytes > one.mss_bytes:
            raise ProgramError(f"port {port}: sent {one}, but on the wire came {wire}")
        first = wire.lost & ((1 << packets) - 1)
        again = one.segments - packets - _OPENING
        windows.append(Window(first, again, one.timeouts, one.took_s))
    return windows


class _Ends:
    """Both ends of all windows that are under way."""

    def __init__(self, between: Medium, packets: int, stack: ExitStack) -> None:
        self.said: dict[int, Said] = {}
        self.under_way = 0
        self._all_bytes = 0
        self._heard_s = self._drained_s = time.monotonic()
        self._between, self._packets = between, packets
        self._selector = stack.enter_context(selectors.DefaultSelector())
        assert between.far_pid is not None
        with network_of(between.far_pid):
            self._listener = stack.enter_context(
                socket.create_server((between.far, _PORT), backlog=_BACKLOG)
            )
        self._listener.setblocking(False)
        self._watch(self._listener, self._accept)

    def begin(self, port: int) -> None:
        """Connect from ``port``, open, and send a window."""
        sender = socket.socket()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Its port is free as soon as it is closed, and nothing of it comes any more.
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sender.bind((self._between.near, port))
        sender.connect((self._between.far, _PORT))
        sender.setblocking(False)
        mss_bytes = _field(_info(sender), _MSS)
        sender.send(bytes(_OPENING * mss_bytes))
        until_s = time.monotonic() + _PATIENCE_S
        while _field(info := _info(sender), _UNACKED):
            if time.monotonic() > until_s:
                raise TimeoutError(f"an opening has not arrived in {_PATIENCE_S:g} s")
        if (window := _field(info, _CWND)) != self._packets:
            raise ProgramError(f"a window of {window} packets, not {self._packets}")
        asked = self._packets * mss_bytes
        if (taken := sender.send(bytes(asked))) != asked:
            raise ProgramError(f"a buffer for {taken} bytes, not {asked}")
        self._all_bytes = asked + _OPENING * mss_bytes
        takes_s = (self._packets + _OPENING) * FULL_FRAME_BYTES * 8 / _RATE_BPS
        self._drained_s = max(time.monotonic(), self._drained_s) + takes_s
        self.under_way += 1
        self._watch(sender, partial(self._end, sender, port))

    def queue_is_short(self) -> bool:
        """Return whether the queue is short, as far as is known what is in it."""
        return self._drained_s - time.monotonic() <= _LONGEST_QUEUE_S

    def wait(self, timeout_s: float) -> None:
        """Return once something has happened, or the time is over. Raises TimeoutError if nothing
        happens for long."""
        events = self._selector.select(timeout_s)
        if events:
            self._heard_s = time.monotonic()
        elif time.monotonic() > self._heard_s + _PATIENCE_S:
            raise TimeoutError(f"{self.under_way} windows have not ended in {_PATIENCE_S:g} s")
        for key, _ in events:
            key.data()

    def _watch(self, one: socket.socket, then: Callable[[], None]) -> None:
        self._selector.register(one, selectors.EVENT_READ, then)

    def _accept(self) -> None:
        try:
            while True:
                receiver = _Receiver(self._listener.accept()[0], self._all_bytes)
                self._watch(receiver.end, partial(self._read, receiver))
        except BlockingIOError:
            return

    def _read(self, receiver: "_Receiver") -> None:
        if receiver.read():
            # The sender hears of this end; by then it knows that all has arrived.
            self._selector.unregister(receiver.end)
            receiver.end.close()

    def _end(self, sender: socket.socket, port: int) -> None:
        info = _info(sender)
        segments, mss_bytes = _field(info, _DATA_SEGMENTS_OUT), _field(info, _MSS)
        timeouts = _field(info, _TIMEOUTS) & 0xFFFF
        self.said[port] = Said(timeouts, segments, mss_bytes, _field(info, _BUSY_US) / 1e6)
        self._selector.unregister(sender)
        sender.close()
        self.under_way -= 1


@dataclass
class _Receiver:
    end: socket.socket
    missing_bytes: int

    def read(self) -> bool:
        """Read what has come; return whether that is all."""
        self.missing_bytes -= len(self.end.recv(_READ_BYTES))
        return self.missing_bytes <= 0


def _info(one: socket.socket) -> bytes:
    """Return struct tcp_info. Raises ProgramError if the kernel's is an older one."""
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    if len(info) < _INFO_BYTES:
        raise ProgramError("this kernel does not count a connection's timeouts: needs Linux 6.7")
    return info


def _field(info: bytes, offset: int) -> int:
    value: int = struct.unpack_from("<I", info, offset)[0]
    return value
