"""A client of requests and answers: on every connection the next request follows the answer.

    python -m experiments.traffic.rpc --pattern NAME --seconds S --seed N --server ADDRESS...

A connection to each ``--server`` (several if it is named several times), all opened first. What is
asked for is drawn from the ``pattern``; ``PATTERNS`` says which there are. On stdout, in the end:
``{"event": "done", "answers": [{"start_ns": T, "end_ns": T, "bytes": N}, ...], "bytes": {...}}``.
"""

import argparse
import random
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.traffic.clock import ByteBins
from experiments.traffic.reader import PORT, say
from experiments.traffic.responder import REQUEST

SMALL_BYTES, MEDIUM_BYTES, MIXED_BYTES, LARGE_BYTES = 64, 100_000, 256_000, 1_000_000
_ALTERNATES_S = 0.5
_TIMEOUT_S = 60.0

Pattern = Callable[[float, random.Random], int]
"""Returns the bytes to ask for, by the share of the time that has passed, and draws."""


def jump(share: float, _draw: random.Random) -> int:
    """Small answers, and from the middle on large ones, on all connections at once."""
    return SMALL_BYTES if share < 1 / 2 else LARGE_BYTES


def mixed(_share: float, draw: random.Random) -> int:
    """Small and large ones at random."""
    return draw.choice((SMALL_BYTES, MIXED_BYTES))


class Rpc:
    """Connections to ``addresses`` that request what ``pattern`` says, for ``seconds``."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], pattern: str, seconds: float, seed: int
    ) -> None:
        self._size_of = PATTERNS[pattern](seconds)
        self._seconds = seconds
        self._draw = random.Random(seed)
        self._buffer = bytearray(256 * 1024)
        self._poll = select.epoll()
        self._asked: dict[int, tuple[int, int]] = {}
        self._missing: dict[int, int] = {}
        self._socks: dict[int, socket.socket] = {}
        for address in addresses:
            sock = socket.create_connection(address, timeout=10)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            self._socks[sock.fileno()] = sock
            self._poll.register(sock.fileno(), select.EPOLLIN)

    def run(self) -> dict[str, Any]:
        """Ask until the time is over, and wait for the last answers; return what came.

        Raises TimeoutError where nothing comes, ConnectionError where a server ends a connection.
        """
        answers: list[dict[str, int]] = []
        bins = ByteBins()
        self._start_ns = time.monotonic_ns()
        busy = len(self._socks)
        for fd in self._socks:
            self._ask(fd)
        while busy:
            ready = self._poll.poll(_TIMEOUT_S)
            if not ready:
                raise TimeoutError(f"nothing came for {_TIMEOUT_S:g} s; {busy} answers are missing")
            for fd, _events in ready:
                count = self._socks[fd].recv_into(self._buffer)
                if count == 0:
                    raise ConnectionError("a server has ended a connection")
                now_ns = bins.add(count)
                self._missing[fd] -= count
                if self._missing[fd]:
                    continue
                size, since_ns = self._asked[fd]
                answers.append({"start_ns": since_ns, "end_ns": now_ns, "bytes": size})
                if (now_ns - self._start_ns) / 1e9 < self._seconds:
                    self._ask(fd)
                else:
                    busy -= 1
        return {"answers": answers, "bytes": bins.as_record()}

    def close(self) -> None:
        """Close all connections."""
        self._poll.close()
        for sock in self._socks.values():
            sock.close()

    def _ask(self, fd: int) -> None:
        now_ns = time.monotonic_ns()
        size = self._size_of((now_ns - self._start_ns) / 1e9 / self._seconds, self._draw)
        self._asked[fd], self._missing[fd] = (size, now_ns), size
        self._socks[fd].sendall(REQUEST.pack(size))


def _alternating(seconds: float) -> Pattern:
    def alternate(share: float, _draw: random.Random) -> int:
        return (SMALL_BYTES, MEDIUM_BYTES)[int(share * seconds / _ALTERNATES_S) % 2]

    return alternate


PATTERNS: Mapping[str, Callable[[float], Pattern]] = {
    "jump": lambda _seconds: jump,
    "mixed": lambda _seconds: mixed,
    "alternate": _alternating,
}
"""By name: what makes a pattern for a run of so many seconds."""


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description="Requests and answers.")
    parser.add_argument("--pattern", choices=PATTERNS, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", action="append", required=True)
    args = parser.parse_args()
    addresses = [(server, PORT) for server in args.server]
    rpc = Rpc(addresses, args.pattern, args.seconds, args.seed)
    say("connected")
    say("done", **rpc.run())


if __name__ == "__main__":
    main()
