"""The senders of an incast: answer every request of four bytes with as many bytes as it asks for.

    python -m experiments.traffic.responder --port P --pid PID...

One process answers for all hosts (one ``--pid`` each, of any process in that host's namespace).
Says ``{"event": "ready"}`` on stdout once it listens everywhere, and ends when its stdin is
closed. With ``--repairs`` it counts what each connection repairs from one request to the next, and
a line on stdin is answered with ``{"event": "repairs", "connections": [...]}``: of each, those that
have ended among them, ``server`` (ADDRESS), ``client`` (ADDRESS:PORT), and for every request the
``segments`` that were sent again and the ``timeouts`` (null where the kernel does not count them).
"""

import argparse
import json
import os
import select
import socket
import struct
import sys
from typing import Any

from experiments.traffic.tcp_info import Repairs, repairs
from testbed.netns import network_of

REQUEST = struct.Struct("!I")
_BACKLOG = 512
_CHUNK = memoryview(bytes(256 * 1024))


class _Connection:
    """One accepted connection: what of a request has come, and how much is still to be sent; and
    the repairs until each request came, if they are counted."""

    def __init__(self, sock: socket.socket, peer: tuple[str, int], *, counts: bool = False) -> None:
        self.sock = sock
        self.request = b""
        self.pending_bytes = 0
        self._peer = peer
        self._counts = counts
        self._until: list[Repairs] = []

    def serve(self) -> bool:
        """Take requests and send what the socket takes; return whether the peer is still there."""
        try:
            while data := self.sock.recv(4096):
                self.request += data
        except BlockingIOError:
            pass
        else:
            return False
        whole = len(self.request) - len(self.request) % REQUEST.size
        for (size,) in REQUEST.iter_unpack(self.request[:whole]):
            self.pending_bytes += size
            if self._counts:
                self._until.append(repairs(self.sock))
        self.request = self.request[whole:]
        try:
            while self.pending_bytes:
                self.pending_bytes -= self.sock.send(_CHUNK[: self.pending_bytes])
        except BlockingIOError:
            pass
        return True

    def counted(self) -> dict[str, Any]:
        """Return what has been repaired for each request, for a message."""
        ends = [*self._until[1:], repairs(self.sock)]
        for_each = [end.since(begin) for begin, end in zip(self._until, ends, strict=False)]
        return {
            "server": self.sock.getsockname()[0],
            "client": "{}:{}".format(*self._peer),
            "segments": [one.segments for one in for_each],
            "timeouts": [one.timeouts for one in for_each],
        }


def listen(pid: int, port: int) -> socket.socket:
    """Return a listening socket in the namespace of ``pid``."""
    with network_of(pid):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        return listener


def serve(listeners: list[socket.socket], *, counts: bool = False) -> None:
    """Answer on all ``listeners`` until stdin is closed; with ``counts`` count repairs."""
    ended: list[dict[str, Any]] = []
    poll = select.epoll()
    by_fd = {listener.fileno(): listener for listener in listeners}
    connections: dict[int, _Connection] = {}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    while True:
        for fd, _events in poll.poll():
            if fd in connections:
                try:
                    alive = connections[fd].serve()
                except ConnectionError:
                    alive = False
                if not alive:
                    connection = connections.pop(fd)
                    if counts:
                        ended.append(connection.counted())
                    connection.sock.close()
            elif fd in by_fd:
                sock, peer = by_fd[fd].accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[sock.fileno()] = _Connection(sock, peer, counts=counts)
                poll.register(
                    sock.fileno(),
                    select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET,
                )
            elif not os.read(sys.stdin.fileno(), 4096):
                return
            elif counts:
                standing = [connection.counted() for connection in connections.values()]
                said = {"event": "repairs", "connections": [*ended, *standing]}
                print(json.dumps(said), flush=True)


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description="The senders of an incast.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, action="append", required=True)
    parser.add_argument("--repairs", action="store_true", help="count what connections repair")
    args = parser.parse_args()
    listeners = [listen(pid, args.port) for pid in args.pid]
    print(json.dumps({"event": "ready"}), flush=True)
    serve(listeners, counts=args.repairs)


if __name__ == "__main__":
    main()
