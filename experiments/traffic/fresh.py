"""The receiver of an incast that has no connections: it opens one for every request.

    python -m experiments.traffic.fresh --spec JSON --server ADDRESS...

A round connects to every server at once, as often as the spec says, in an order drawn from the
seed; asks over each connection for its share as soon as it stands, and closes it when it has it.
The round ends with the last byte, and its time includes the opening of the connections. What is
said on stdout is as ``reader`` does; ``connected`` comes before the first round.
"""

import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

from experiments.traffic.clock import ByteBins
from experiments.traffic.reader import PORT, End, as_lists, end_of, read
from experiments.traffic.responder import REQUEST
from experiments.traffic.tcp_info import NONE, repairs

_TIMEOUT_S = 120.0


class FreshReader:
    """Reads blocks from ``servers``, over connections that each carry one share of ``shares``."""

    def __init__(self, servers: Sequence[str], shares: Sequence[int], port: int = PORT) -> None:
        each = len(shares) // len(servers)
        self.addresses = [(server, port) for server in servers for _ in range(each)]
        self.shares = shares
        self.bins = ByteBins()
        self.ends: list[Sequence[End]] = []
        self._buffer = bytearray(256 * 1024)

    def round(self, order: Sequence[int]) -> dict[str, Any]:
        """Read one block; return its start, end and bytes, and of each connection the completion
        time and what this end of it has repaired.

        Times are in ns. Raises OSError where a connection fails, TimeoutError where nothing comes.
        """
        missing, done_ns = list(self.shares), [0] * len(self.shares)
        ends, repaired = [("", "")] * len(missing), [NONE] * len(missing)
        connecting: set[int] = set()
        open_: dict[int, tuple[int, socket.socket]] = {}
        poll = select.epoll()
        start_ns = time.monotonic_ns()
        try:
            for index in order:
                sock = _begin(self.addresses[index])
                open_[sock.fileno()] = index, sock
                connecting.add(index)
                poll.register(sock.fileno(), select.EPOLLOUT)
            while open_:
                ready = poll.poll(_TIMEOUT_S)
                if not ready:
                    waiting = sorted(index for index, _ in open_.values())
                    raise TimeoutError(f"nothing came for {_TIMEOUT_S:g} s; waiting for {waiting}")
                for fd, _events in ready:
                    index, sock = open_[fd]
                    if index in connecting:
                        _require_connected(sock, self.addresses[index])
                        ends[index] = end_of(sock)
                        sock.sendall(REQUEST.pack(self.shares[index]))
                        connecting.remove(index)
                        poll.modify(fd, select.EPOLLIN)
                        continue
                    count = sock.recv_into(self._buffer)
                    if count == 0:
                        raise ConnectionError(f"sender of connection {index} closed it")
                    now_ns = self.bins.add(count)
                    missing[index] -= count
                    if missing[index] == 0:
                        done_ns[index] = now_ns - start_ns
                        repaired[index] = repairs(sock)
                        poll.unregister(fd)
                        open_.pop(fd)[1].close()
        finally:
            poll.close()
            for _, sock in open_.values():
                sock.close()
        self.ends.append(ends)
        return {
            "start_ns": start_ns,
            "end_ns": start_ns + max(done_ns),
            "bytes": sum(self.shares),
            "completion_ns": done_ns,
            **as_lists(repaired),
        }


def _begin(address: tuple[str, int]) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.connect(address)
    except BlockingIOError:
        pass
    except OSError:
        sock.close()
        raise
    return sock


def _require_connected(sock: socket.socket, address: tuple[str, int]) -> None:
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise ConnectionError(f"no connection to {address[0]}: {os.strerror(code)}")


def main() -> None:
    """Entry point of the process."""
    read(
        "An incast with a connection for every request.",
        lambda servers, spec: FreshReader(servers, spec.shares()),
    )


if __name__ == "__main__":
    main()
