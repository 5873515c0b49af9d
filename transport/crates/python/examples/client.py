"""Fetches an object from servers that have it: client.py NAME FINGERPRINT SERVER..."""

import sys

from weir_transport import Client

name, fingerprint, *servers = sys.argv[1:]
with Client(*servers, trust=fingerprint) as client:
    client.fetch_to(name, sys.stdout.buffer).wait()
