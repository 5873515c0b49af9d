"""The generator of planned flows: it opens each one when it is due, whatever became of others.

    python -m experiments.traffic.flows --host NAME,PID,ADDRESS...

Reads one line from stdin, a plan (``experiments.traffic.plan``) in JSON. All ends of all
connections are in this process, each in its host's namespace. So one clock times both ends of a
flow, and a flow needs no mark on the wire: it starts when it is due, has begun when the first of
its packets (SYN, request or data) has been handed to the kernel, and ends when its last byte has
been read. So what this process is late is part of a flow's time, as it is of a program that has to
wait for a processor; else flows would seem the faster the slower the machine.

On stdout: ``{"event": "connected"}`` once all connections that stay are open, ``{"event":
"progress", "ended": N, "planned": N}`` now and then, and in the end ``{"event": "done", "flows":
[...], "bytes": {...}, "generator": {...}}``. A flow has ``start_ns``, ``begun_ns``, ``end_ns``,
``bytes``, ``src``, ``dst``, ``kind``, ``group`` and ``counted``, as it was planned;
``retransmitted`` and ``timeouts``, which are the segments that both ends of its connection sent
again meanwhile, and their timeouts; and ``received`` over time, if it was to last for a time.
``generator`` says how well it kept up (``Keeping``), and how many flows are ``unfinished``: these
are not among the others.
"""

import argparse
import gc
import heapq
import json
import select
import socket
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from experiments.traffic.clock import ByteBins
from experiments.traffic.keeping import Keeping
from experiments.traffic.plan import Flow, Plan
from experiments.traffic.reader import say
from experiments.traffic.responder import REQUEST
from experiments.traffic.tcp_info import repairs
from testbed.netns import network_of

PORT = 5002
_CHUNK = memoryview(bytes(256 * 1024))
_ENDLESS = 1 << 62
_MOST_ASKED = (1 << 32) - 1
# What the sender of a flow that ends by the clock has written and the kernel has not sent by then
# would still have to go.
_UNSENT_BYTES = 16 * 1024
_TCP_NOTSENT_LOWAT = 25
# Between the opening of the connections that stay and the first flow.
_PAUSE_NS = 100_000_000
_SAY_EVERY_NS = 2_000_000_000
_OPENING_TIMEOUT_S = 10.0
_LONGEST_WAIT_S = 0.1
# Sockets to be looked after, and flows to be begun, before the others get their turn.
_AT_ONCE, _BEGUN_AT_ONCE = 16, 8
# Sockets of each host that are made before the first flow.
_SPARE, _MOST_SPARE = 4, 2000
_BACKLOG = 512


@dataclass(frozen=True)
class Host:
    """Where an end of a connection is: the network namespace of ``pid``, with ``address``."""

    pid: int
    address: str


Way = tuple[str, str, str]
"""What connections are for: from which host, to which, and flows of which kind."""


class _Connection:
    """Both ends of a connection and, while there is one, the flow on it.

    ``is_asked`` says whether the request has come to the sender; ``to_ask``, whether it has still
    to be sent.
    """

    __slots__ = (
        "before", "begun_ns", "bins", "due_ns", "flow", "is_asked", "missing_bytes", "receives",
        "sends", "stays", "to_ask", "unsent_bytes", "way",
    )  # fmt: skip

    def __init__(self, way: Way, *, stays: bool) -> None:
        self.way = way
        self.stays = stays
        self.sends: socket.socket | None = None
        self.receives: socket.socket | None = None
        self.flow: Flow | None = None
        self.to_ask = self.is_asked = False
        self.due_ns = self.begun_ns = self.unsent_bytes = self.missing_bytes = 0
        self.before = (0, 0)
        self.bins: ByteBins | None = None

    def repairs(self) -> tuple[int, int]:
        """Return how many segments both ends have sent again, and how often they timed out."""
        ends = [repairs(end) for end in (self.sends, self.receives) if end is not None]
        return sum(end.segments for end in ends), sum(end.timeouts or 0 for end in ends)


class Generator:
    """Executes ``plan`` between ``hosts``. Raises OSError where a connection fails."""

    def __init__(self, hosts: Mapping[str, Host], plan: Plan) -> None:
        self._hosts = hosts
        self._plan = plan
        self._lasting = any(flow.lasts_ns is not None for flow in plan.flows)
        self._buffer = bytearray(256 * 1024)
        self._poll = select.epoll()
        self._listeners: dict[int, tuple[str, socket.socket]] = {}
        self._sending: dict[int, _Connection] = {}
        self._receiving: dict[int, _Connection] = {}
        # By who takes the connection and the address of who opens it: what accept() tells.
        self._opening: dict[tuple[str, Any], _Connection] = {}
        self._spare: dict[str, deque[socket.socket]] = defaultdict(deque)
        self._idle: dict[Way, deque[_Connection]] = defaultdict(deque)
        self._due: list[tuple[int, int, Flow]] = []
        self._stops: list[tuple[int, int, _Connection]] = []
        self._following: dict[int, list[Flow]] = defaultdict(list)
        self._left = Counter(flow.group for flow in plan.flows)
        self._bins = ByteBins()
        self._ended: list[dict[str, Any]] = []
        self._number = self._busy = self._opened = self._moment_ns = 0

    def connect(self) -> None:
        """Listen, and open the connections that stay. Raises OSError, TimeoutError among it."""
        ways = [(flow.src, flow.dst, flow.kind) for flow in self._plan.flows]
        for name in dict.fromkeys(self._takes(way) for way in ways):
            listener = _listen(self._hosts[name])
            self._listeners[listener.fileno()] = name, listener
            self._poll.register(listener.fileno(), select.EPOLLIN)
        for name, count in Counter(self._opens(way) for way in ways).items():
            spare = min(count, _MOST_SPARE) if self._plan.fresh else _SPARE
            self._spare[name].extend(self._sockets(name, spare))
        if self._plan.fresh:
            return
        for way in dict.fromkeys(ways):
            for _ in range(self._plan.connections):
                self._idle[way].append(self._open(way, stays=True))
                while self._opening:
                    ready = self._poll.poll(_OPENING_TIMEOUT_S)
                    if not ready:
                        raise TimeoutError(f"no connection between {' and '.join(way[:2])}")
                    self._turn(ready)

    def run(self) -> dict[str, Any]:
        """Open all flows, wait for their ends, and return what became of them."""
        start_ns = last_ns = said_ns = time.monotonic_ns() + _PAUSE_NS
        for flow in self._plan.flows:
            if flow.after is None:
                self._push(start_ns + flow.at_ns, flow)
            else:
                self._following[flow.after].append(flow)
        keeping = Keeping()
        looked_ns = time.monotonic_ns()
        drain_ns = self._plan.drain_s * 1e9
        while self._due or self._busy:
            now_ns = time.monotonic_ns()
            if self._due and self._due[0][0] <= now_ns:
                self._begin_due(now_ns, keeping)
                last_ns = now_ns
            if self._stops and self._stops[0][0] <= now_ns:
                self._stop(heapq.heappop(self._stops)[2], now_ns)
                last_ns = now_ns
            if not (self._due or self._stops) and now_ns - last_ns > drain_ns:
                break
            if now_ns - said_ns > _SAY_EVERY_NS:
                said_ns = now_ns
                say("progress", ended=len(self._ended), planned=len(self._plan.flows))
            keeping.turn_ns.append(time.monotonic_ns() - looked_ns)
            # epoll waits for whole milliseconds only.
            select.select([self._poll], [], [], self._wait_s())
            looked_ns = time.monotonic_ns()
            self._turn(self._poll.poll(0, _AT_ONCE))
        generator = {
            "planned": len(self._plan.flows),
            "unfinished": len(self._plan.flows) - len(self._ended),
            "opened": self._opened,
        }
        return {
            "flows": self._ended,
            "bytes": self._bins.as_record(),
            "generator": generator | keeping.as_record(),
        }

    def close(self) -> None:
        """Close all sockets."""
        self._poll.close()
        for connection in {*self._sending.values(), *self._receiving.values()}:
            self._close(connection)
        spare = [sock for some in self._spare.values() for sock in some]
        for sock in (*(listener for _, listener in self._listeners.values()), *spare):
            sock.close()

    def _opens(self, way: Way) -> str:
        """Return which host opens a connection: who asks, or sends unasked."""
        return way[1] if self._plan.asked else way[0]

    def _takes(self, way: Way) -> str:
        return way[0] if self._plan.asked else way[1]

    def _push(self, at_ns: int, flow: Flow) -> None:
        self._number += 1
        heapq.heappush(self._due, (at_ns, self._number, flow))

    def _wait_s(self) -> float:
        next_ns = min((queue[0][0] for queue in (self._due, self._stops) if queue), default=None)
        if next_ns is None:
            return _LONGEST_WAIT_S
        return min(max(0.0, (next_ns - time.monotonic_ns()) / 1e9), _LONGEST_WAIT_S)

    def _begin_due(self, now_ns: int, keeping: Keeping) -> None:
        """Begin flows that are due, as many as may be at once. Of those that are due at the same
        moment only the first one can be in time."""
        for _ in range(_BEGUN_AT_ONCE):
            if not self._due or self._due[0][0] > now_ns:
                return
            due_ns, _, flow = heapq.heappop(self._due)
            if due_ns != self._moment_ns:
                self._moment_ns = due_ns
                keeping.late_ns.append(now_ns - due_ns)
            self._begin(flow, due_ns)

    def _begin(self, flow: Flow, due_ns: int) -> None:
        way = (flow.src, flow.dst, flow.kind)
        idle = self._idle[way]
        if idle:
            connection = idle.popleft()
            connection.before = connection.repairs()
            begun_ns = time.monotonic_ns()
        else:
            begun_ns = time.monotonic_ns()
            connection = self._open(way, stays=not self._plan.fresh)
            self._opened += 1
        self._busy += 1
        connection.flow, connection.due_ns, connection.begun_ns = flow, due_ns, begun_ns
        if flow.lasts_ns is None:
            connection.unsent_bytes = connection.missing_bytes = flow.size_bytes
        else:
            connection.unsent_bytes = connection.missing_bytes = _ENDLESS
            connection.bins = ByteBins()
            self._number += 1
            heapq.heappush(self._stops, (begun_ns + flow.lasts_ns, self._number, connection))
        if self._plan.asked:
            connection.to_ask, connection.is_asked = True, False
            self._ask(connection)
        else:
            self._send(connection)

    def _stop(self, connection: _Connection, now_ns: int) -> None:
        """Let the sender of a flow that lasts for a time write no more."""
        connection.missing_bytes -= connection.unsent_bytes
        connection.unsent_bytes = 0
        if connection.missing_bytes == 0:
            self._end(connection, now_ns)

    def _ask(self, connection: _Connection) -> None:
        """Send the request or, where the connection does not stand yet, wait until it does."""
        end, flow = connection.receives, connection.flow
        assert end is not None
        assert flow is not None
        try:
            end.send(REQUEST.pack(min(flow.size_bytes, _MOST_ASKED)))
        except BlockingIOError:
            self._poll.modify(end.fileno(), select.EPOLLIN | select.EPOLLOUT)
            return
        connection.to_ask = False
        self._poll.modify(end.fileno(), select.EPOLLIN)

    def _send(self, connection: _Connection) -> None:
        """Send as much of the flow as the kernel takes."""
        assert connection.sends is not None
        try:
            while connection.unsent_bytes:
                count = connection.sends.send(_CHUNK[: connection.unsent_bytes])
                connection.unsent_bytes -= count
        except BlockingIOError:
            pass

    def _turn(self, ready: Sequence[tuple[int, int]]) -> None:
        for fd, events in ready:
            if fd in self._receiving:
                self._receive(self._receiving[fd], events)
            elif fd in self._sending:
                self._serve(self._sending[fd])
            elif fd in self._listeners:
                self._accept(*self._listeners[fd])

    def _serve(self, connection: _Connection) -> None:
        """The sender can send, or has been asked to."""
        assert connection.sends is not None
        if self._plan.asked and not connection.is_asked:
            try:
                request = connection.sends.recv(REQUEST.size)
            except BlockingIOError:
                return
            if not request:
                raise ConnectionError(
                    f"a connection from {' to '.join(connection.way[:2])} has ended"
                )
            connection.is_asked = True
        self._send(connection)

    def _receive(self, connection: _Connection, events: int) -> None:
        """Data has come, or the connection stands over which it is to be asked for."""
        end = connection.receives
        assert end is not None
        if connection.to_ask:
            self._ask(connection)
        if events == select.EPOLLOUT:
            return
        try:
            count = end.recv_into(self._buffer)
        except BlockingIOError:
            return
        if count == 0:
            raise ConnectionError(f"a connection from {' to '.join(connection.way[:2])} has ended")
        now_ns = self._bins.add(count)
        connection.missing_bytes -= count
        if connection.bins is not None:
            connection.bins.add(count)
        if connection.missing_bytes == 0:
            self._end(connection, now_ns)

    def _end(self, connection: _Connection, now_ns: int) -> None:
        flow = connection.flow
        assert flow is not None
        again, timeouts = (
            now - before
            for now, before in zip(connection.repairs(), connection.before, strict=True)
        )
        ended: dict[str, Any] = {
            "start_ns": connection.due_ns, "begun_ns": connection.begun_ns, "end_ns": now_ns,
            "bytes": flow.size_bytes,
            "src": flow.src, "dst": flow.dst, "kind": flow.kind, "group": flow.group,
            "counted": flow.counted, "retransmitted": again, "timeouts": timeouts,
        }  # fmt: skip
        if connection.bins is not None:
            ended["bytes"] = sum(connection.bins.bins.values())
            ended["received"] = connection.bins.as_record()
        self._ended.append(ended)
        self._busy -= 1
        connection.flow = connection.bins = None
        if connection.stays:
            self._idle[connection.way].append(connection)
        else:
            self._close(connection)
        self._left[flow.group] -= 1
        if not self._left[flow.group]:
            for following in self._following.pop(flow.group, ()):
                self._push(now_ns + following.at_ns, following)

    def _open(self, way: Way, *, stays: bool) -> _Connection:
        """Begin to open a connection, and return it."""
        connection = _Connection(way, stays=stays)
        opens, takes = self._opens(way), self._takes(way)
        spare = self._spare[opens]
        sock = spare.popleft() if spare else self._sockets(opens, 1)[0]
        with suppress(BlockingIOError):
            sock.connect((self._hosts[takes].address, PORT))
        self._opening[takes, sock.getsockname()] = connection
        if self._plan.asked:
            self._add_receiving(connection, sock)
        else:
            self._add_sending(connection, sock)
        return connection

    def _accept(self, name: str, listener: socket.socket) -> None:
        sock, peer = listener.accept()
        _prepare(sock)
        connection = self._opening.pop((name, peer))
        if self._plan.asked:
            self._add_sending(connection, sock)
        else:
            self._add_receiving(connection, sock)

    def _sockets(self, name: str, count: int) -> list[socket.socket]:
        """Make sockets of a host. They are made ahead, since to go to its namespace takes time."""
        with network_of(self._hosts[name].pid):
            made = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
        for sock in made:
            _prepare(sock)
        return made

    def _add_sending(self, connection: _Connection, sock: socket.socket) -> None:
        connection.sends = sock
        self._sending[sock.fileno()] = connection
        if self._lasting:
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        self._poll.register(sock.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

    def _add_receiving(self, connection: _Connection, sock: socket.socket) -> None:
        connection.receives = sock
        self._receiving[sock.fileno()] = connection
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _close(self, connection: _Connection) -> None:
        ends = ((connection.sends, self._sending), (connection.receives, self._receiving))
        for end, connections in ends:
            if end is not None:
                connections.pop(end.fileno(), None)
                end.close()


def _listen(host: Host) -> socket.socket:
    with network_of(host.pid):
        listener = socket.create_server((host.address, PORT), backlog=_BACKLOG)
    listener.setblocking(False)
    return listener


def _prepare(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _host(written: str) -> tuple[str, Host]:
    name, pid, address = written.split(",")
    return name, Host(int(pid), address)


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description="Flows as planned, from a line of stdin.")
    parser.add_argument(
        "--host", type=_host, action="append", required=True, metavar="NAME,PID,ADDRESS"
    )
    args = parser.parse_args()
    plan = Plan.from_record(json.loads(sys.stdin.readline()))
    generator = Generator(dict(args.host), plan)
    # There is nothing to collect but what is recorded, and all is looked at again and again.
    gc.disable()
    try:
        generator.connect()
        say("connected")
        say("done", **generator.run())
    except OSError as failed:
        sys.exit(f"flows: {failed}")
    generator.close()


if __name__ == "__main__":
    main()
