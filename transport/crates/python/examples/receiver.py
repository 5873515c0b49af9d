"""Takes objects of one sender into a directory: receiver.py ADDRESS FINGERPRINT DIRECTORY."""

import asyncio
import sys
from pathlib import Path

from weir_transport import Receiver


async def receive(address: str, sender: str, directory: str) -> None:
    """Print where it listens, and its own fingerprint; then take what comes."""
    receiver = Receiver(address, clients=sender)
    print(receiver.address, receiver.fingerprint, flush=True)
    while True:
        offer = await receiver.offer()
        path = Path(directory, offer.name.replace("/", "_"))
        if path.exists():
            offer.refuse("it is there already")
        else:
            print(ascii(offer.name), await offer.write_to(path), flush=True)


asyncio.run(receive(*sys.argv[1:]))
