"""Serves standard input as the object "input": server.py ADDRESS."""

import signal
import sys

from weir_transport import Server

with Server(sys.argv[1]) as server:
    server.insert("input", sys.stdin.buffer)
    print(server.address, server.fingerprint, flush=True)
    signal.pause()
