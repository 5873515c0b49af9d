"""Idle connections: opened, kept, and never used.

    python -m experiments.traffic.idle --connections N --server ADDRESS...

Opens N connections, spread over the servers in turn, says ``{"event": "connected"}``, and keeps
them until its stdin is closed.
"""

import argparse
import json
import socket
import sys
from itertools import cycle, islice

from experiments.traffic.reader import PORT


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description="Connections that are never used.")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--server", action="append", required=True)
    args = parser.parse_args()
    addresses = islice(cycle(args.server), args.connections)
    kept = [socket.create_connection((address, PORT), timeout=10) for address in addresses]
    print(json.dumps({"event": "connected", "connections": len(kept)}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
