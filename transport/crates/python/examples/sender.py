"""Sends a file: sender.py IDENTITY RECEIVER FINGERPRINT FILE. IDENTITY is made if there is none."""

import sys
from pathlib import Path

from weir_transport import Sender, fingerprint

identity, receiver, trust, path = sys.argv[1:]
print("receivers know me as", fingerprint(identity), file=sys.stderr)
with Sender(receiver, identity=identity, trust=trust) as sender:
    sender.send("file", Path(path)).wait()
