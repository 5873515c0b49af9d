"""The receiver of an incast: barrier-synchronised reads of a block that is divided over all
senders.

    python -m experiments.traffic.reader --spec JSON --server ADDRESS...

All connections are opened first and stay; after a pause of ``PAUSE_S`` the first round starts. A
round asks every sender for its share at once, in an order drawn from the seed, reads whatever
comes as soon as it comes, and ends when the last byte of the block is there; then the next one
starts.

On stdout: ``{"event": "connected"}``, ``{"event": "round", "round": k, "block_ns": t}`` per
round, and ``{"event": "done", "rounds": [...], "bytes": {...}, "ends": [...]}`` at the end.
``ends`` has, for each round, server and client (ADDRESS:PORT) of every connection.
"""

import argparse
import json
import random
import select
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from experiments.traffic.clock import ByteBins
from experiments.traffic.responder import REQUEST
from experiments.traffic.tcp_info import NONE, Repairs, repairs

PORT = 5000
PAUSE_S = 0.1
_ROUND_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class IncastSpec:
    """The reads, in terms that mean the same in a simulator.

    A block of ``block_bytes`` is divided evenly over ``senders`` x ``connections_per_sender``
    connections (the first ones carry one byte more where it does not divide), ``rounds`` times.
    ``seed`` draws the order in which a round's requests are sent.
    """

    senders: int
    rounds: int
    block_bytes: int = 1_000_000
    connections_per_sender: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("senders", "rounds", "connections_per_sender"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.block_bytes < self.connections:
            raise ValueError(
                f"block_bytes must be at least one per connection: {self.connections}, "
                f"not {self.block_bytes}"
            )

    @property
    def connections(self) -> int:
        """Connections in all."""
        return self.senders * self.connections_per_sender

    def shares(self) -> list[int]:
        """Return how many bytes each connection carries per round."""
        each, rest = divmod(self.block_bytes, self.connections)
        return [each + (index < rest) for index in range(self.connections)]

    def orders(self) -> Iterable[list[int]]:
        """Yield for each round the order in which connections are asked."""
        draw = random.Random(self.seed)
        order = list(range(self.connections))
        for _ in range(self.rounds):
            draw.shuffle(order)
            yield list(order)


End = tuple[str, str]
"""Of a connection the address of its server, and ADDRESS:PORT of its client."""


def end_of(sock: socket.socket) -> End:
    """Return it of the client's socket, which is connected."""
    return sock.getpeername()[0], "{}:{}".format(*sock.getsockname())


def as_lists(repaired: Sequence[Repairs]) -> dict[str, list[int | None]]:
    """Return what connections have repaired as a round's record has it: the segments that were
    ``retransmitted``, and ``timeouts``."""
    return {
        "retransmitted": [one.segments for one in repaired],
        "timeouts": [one.timeouts for one in repaired],
    }


class Reader:
    """Reads blocks over ``socks``, one share per socket and round."""

    def __init__(self, socks: list[socket.socket], shares: list[int]) -> None:
        self.socks = socks
        self.shares = shares
        self.bins = ByteBins()
        self.ends: list[Sequence[End]] = []
        self._connections = [end_of(sock) for sock in socks]
        self._repaired = [NONE] * len(socks)
        self._index = {sock.fileno(): index for index, sock in enumerate(socks)}
        self._buffer = bytearray(256 * 1024)
        self._poll = select.epoll()
        for sock in socks:
            sock.setblocking(False)
            self._poll.register(sock.fileno(), select.EPOLLIN)

    def round(self, order: Sequence[int]) -> dict[str, Any]:
        """Read one block; return its start, end and bytes, and of each connection the completion
        time and what this end of it has repaired meanwhile.

        Times are in ns. Raises TimeoutError where nothing comes, ConnectionError where a sender
        closes a connection.
        """
        missing = list(self.shares)
        done_ns = [0] * len(missing)
        left = len(missing)
        start_ns = time.monotonic_ns()
        for index in order:
            self.socks[index].sendall(REQUEST.pack(self.shares[index]))
        while left:
            ready = self._poll.poll(_ROUND_TIMEOUT_S)
            if not ready:
                waiting = [index for index, count in enumerate(missing) if count]
                raise TimeoutError(
                    f"nothing came for {_ROUND_TIMEOUT_S:g} s; waiting for {waiting}"
                )
            for fd, _events in ready:
                index = self._index[fd]
                count = self.socks[index].recv_into(self._buffer)
                if count == 0:
                    raise ConnectionError(f"sender of connection {index} closed it")
                now_ns = self.bins.add(count)
                missing[index] -= count
                if missing[index] == 0:
                    done_ns[index] = now_ns - start_ns
                    left -= 1
        before, self._repaired = self._repaired, [repairs(sock) for sock in self.socks]
        self.ends.append(self._connections)
        return {
            "start_ns": start_ns,
            "end_ns": start_ns + max(done_ns),
            "bytes": sum(self.shares),
            "completion_ns": done_ns,
            **as_lists([now.since(was) for now, was in zip(self._repaired, before, strict=True)]),
        }


def connect(servers: list[str], spec: IncastSpec) -> list[socket.socket]:
    """Open all connections, ``connections_per_sender`` to each server in turn.

    Raises ConnectionError naming a server that nobody listens at.
    """
    socks = []
    for address in servers:
        for _ in range(spec.connections_per_sender):
            try:
                sock = socket.create_connection((address, PORT), timeout=10)
            except ConnectionRefusedError as refused:
                raise ConnectionError(
                    f"nobody answers at {address}, port {PORT}: start experiments.traffic.responder"
                ) from refused
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            socks.append(sock)
    return socks


def say(event: str, **fields: Any) -> None:
    """Report to the runner, in a line of JSON."""
    print(json.dumps({"event": event, **fields}), flush=True)


class Rounds(Protocol):
    """Reads blocks, and counts the bytes. ``ends`` are the connections of each round."""

    bins: ByteBins
    ends: list[Sequence[End]]

    def round(self, order: Sequence[int]) -> dict[str, Any]: ...


def read(description: str, make: Callable[[list[str], IncastSpec], Rounds]) -> None:
    """Run the reading process by its arguments; ``make`` makes a reader from the servers'
    addresses."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--spec", type=json.loads, required=True)
    parser.add_argument("--server", action="append", required=True)
    args = parser.parse_args()
    spec = IncastSpec(**args.spec)
    if len(args.server) != spec.senders:
        parser.error(f"{spec.senders} senders, but {len(args.server)} addresses")
    try:
        _read(spec, make(args.server, spec))
    except (ConnectionError, TimeoutError) as failed:
        sys.exit(f"reader: {failed}")


def _read(spec: IncastSpec, reader: Rounds) -> None:
    say("connected", spec=asdict(spec))
    time.sleep(PAUSE_S)
    rounds = []
    for number, order in enumerate(spec.orders()):
        rounds.append(reader.round(order))
        say("round", round=number, block_ns=rounds[-1]["end_ns"] - rounds[-1]["start_ns"])
    say("done", rounds=rounds, bytes=reader.bins.as_record(), ends=reader.ends)


def main() -> None:
    """Entry point of the process."""
    read(
        "The receiver of an incast.",
        lambda servers, spec: Reader(connect(servers, spec), spec.shares()),
    )


if __name__ == "__main__":
    main()
