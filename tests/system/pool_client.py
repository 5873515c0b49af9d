"""A client's pool of connections, as many to each server: opened once, and used in turn.

    python pool_client.py --block BYTES --each N --server ADDRESS...

Says ``{"event": "connected"}``. A line on stdin has it use the whole pool: of each server the first
connection, then the second, and so on. At each turn a block is read from all servers at once. The
answer is ``{"event": "read", "blocks_ns": [...]}``, how long each turn took.
"""

import argparse
import sys

from experiments.traffic.reader import IncastSpec, Reader, connect, say


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description="A client's pool of connections.")
    parser.add_argument("--block", type=int, required=True)
    parser.add_argument("--each", type=int, required=True)
    parser.add_argument("--server", action="append", required=True)
    args = parser.parse_args()
    turn = IncastSpec(len(args.server), args.each, args.block)
    turns = [Reader(connect(args.server, turn), turn.shares()) for _ in range(args.each)]
    say("connected")
    for _ in sys.stdin:
        found = [reader.round(order) for reader, order in zip(turns, turn.orders(), strict=True)]
        say("read", blocks_ns=[one["end_ns"] - one["start_ns"] for one in found])


if __name__ == "__main__":
    main()
