"""The senders of an incast: answer every request of four bytes with as many bytes as it asks for.

    python -m experiments.traffic.responder --port P --pid PID...

One process answers for all hosts (one ``--pid`` each, of any process in that host's namespace).
Says ``{"event": "ready"}`` on stdout once it listens everywhere, and ends when its stdin is closed.
Then ``--summary FILE`` gets a list of all connections that have sent something: the addresses of
both ends, ``bytes``, and what was repaired: ``retransmitted`` segments and ``timeouts``.
"""

import argparse
import json
import os
import select
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from experiments.traffic.netns import network_of
from experiments.traffic.tcp_info import repairs

REQUEST = struct.Struct("!I")
_BACKLOG = 512
_CHUNK = memoryview(bytes(256 * 1024))


class _Connection:
    """One accepted connection: what of a request has come, and how much is still to be sent."""

    def __init__(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        self.sock = sock
        self.request = b""
        self.pending_bytes = self.sent_bytes = 0
        self._ends = [f"{address}:{port}" for address, port in (sock.getsockname(), peer)]

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
        self.request = self.request[whole:]
        try:
            while self.pending_bytes:
                sent = self.sock.send(_CHUNK[: self.pending_bytes])
                self.pending_bytes -= sent
                self.sent_bytes += sent
        except BlockingIOError:
            pass
        return True

    def summary(self) -> dict[str, Any]:
        """Return what it has sent and repaired so far."""
        local, peer = self._ends
        segments, timeouts = repairs(self.sock)
        told = {"local": local, "peer": peer, "bytes": self.sent_bytes}
        return told | {"retransmitted": segments, "timeouts": timeouts or 0}


def listen(pid: int, port: int) -> socket.socket:
    """Return a listening socket in the namespace of ``pid``."""
    with network_of(pid):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        return listener


def serve(listeners: list[socket.socket]) -> list[dict[str, Any]]:
    """Answer on all ``listeners`` until stdin is closed; return the summary of each connection that
    has sent something."""
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
                    ended.append(connection.summary())
                    connection.sock.close()
            elif fd in by_fd:
                sock, peer = by_fd[fd].accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[sock.fileno()] = _Connection(sock, peer)
                poll.register(
                    sock.fileno(),
                    select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET,
                )
            elif not os.read(sys.stdin.fileno(), 4096):
                ended += [connection.summary() for connection in connections.values()]
                return [one for one in ended if one["bytes"]]


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description="The senders of an incast.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, action="append", required=True)
    parser.add_argument("--summary", type=Path)
    args = parser.parse_args()
    listeners = [listen(pid, args.port) for pid in args.pid]
    print(json.dumps({"event": "ready"}), flush=True)
    ended = serve(listeners)
    if args.summary:
        args.summary.write_text(json.dumps(ended))


if __name__ == "__main__":
    main()
