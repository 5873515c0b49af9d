"""Background load: UDP at a mean rate, in one of several patterns, whatever becomes of it.

    python -m experiments.traffic.load --sender-pid PID --receiver-pid PID --to ADDRESS \\
        --rate-bps R --pattern constant|poisson|on-off --seed N

The rate is of whole Ethernet frames. Both ends are in this process, each in its host's namespace;
what comes is thrown away. Says ``{"event": "sending"}``, sends until its stdin is closed, then says
``{"event": "done", "bytes": {...}}``: the frames' bytes over time.
"""

import argparse
import json
import math
import os
import random
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from itertools import repeat

from experiments.traffic.clock import ByteBins
from testbed.netns import network_of

PATTERNS = ("constant", "poisson", "on-off")
PORT = 9
_PAYLOAD_BYTES, _HEADERS_BYTES = 1400, 42
_FRAME_BYTES = _PAYLOAD_BYTES + _HEADERS_BYTES
# Of on and off together, on average; half of it is on, at twice the rate.
_PERIOD_S = 0.1
# Whatever net.core.rmem_max and wmem_max say: room for what comes while its reader waits for a
# processor, and for what waits at the sender's link, so that the load does not yield to TCP there.
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_BUFFER_BYTES = 16 * 2**20


def gaps_s(pattern: str, rate_bps: float, rng: random.Random) -> Iterator[float]:
    """The times between two frames, without end; their mean is the rate's."""
    mean_s = _FRAME_BYTES * 8 / rate_bps
    if pattern == "constant":
        yield from repeat(mean_s)
    while pattern == "poisson":
        yield rng.expovariate(1 / mean_s)
    while pattern == "on-off":
        frames = max(1, round(rng.expovariate(1 / (_PERIOD_S / mean_s))))
        yield from repeat(mean_s / 2, frames - 1)
        yield mean_s / 2 + frames * mean_s / 2
    raise ValueError(f"patterns are {', '.join(PATTERNS)}, not {pattern!r}")


def send(sender: socket.socket, gaps: Iterator[float]) -> ByteBins:
    """Send until stdin is closed; returns what was sent over time."""
    bins, payload = ByteBins(), bytes(_PAYLOAD_BYTES)
    next_s = time.monotonic()
    while True:
        now_s = time.monotonic()
        while next_s <= now_s:
            sender.send(payload)
            bins.add(_FRAME_BYTES)
            next_s += next(gaps)
        wait_s = next_s - time.monotonic()
        if select.select([sys.stdin], [], [], max(0.0, min(wait_s, math.inf)))[0]:
            os.read(sys.stdin.fileno(), 1)
            return bins


def discard(sink: socket.socket) -> None:
    """Throw away what comes: what found no room would look like a loss of the network's."""
    packet = bytearray(_PAYLOAD_BYTES)
    while True:
        sink.recv_into(packet)


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description="UDP at a mean rate.")
    parser.add_argument("--sender-pid", type=int, required=True)
    parser.add_argument("--receiver-pid", type=int, required=True)
    parser.add_argument("--to", required=True)
    parser.add_argument("--rate-bps", type=float, required=True)
    parser.add_argument("--pattern", choices=PATTERNS, required=True)
    parser.add_argument("--seed", required=True)
    args = parser.parse_args()
    with network_of(args.receiver_pid):
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sink.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        sink.bind((args.to, PORT))
    threading.Thread(target=discard, args=(sink,), daemon=True).start()
    with network_of(args.sender_pid):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
        sender.connect((args.to, PORT))
    print(json.dumps({"event": "sending"}), flush=True)
    bins = send(sender, gaps_s(args.pattern, args.rate_bps, random.Random(args.seed)))
    print(json.dumps({"event": "done", "bytes": bins.as_record()}), flush=True)


if __name__ == "__main__":
    main()
