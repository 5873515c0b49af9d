"""Transports over UDP that repair loss with fountain codes, and their codec.

A `Client` fetches objects from many `Server`s at once (LTTP); a `Sender` sends objects to a
`Receiver` (DFCP). What takes time returns a `Transfer`: `wait()` waits for its end in this thread,
`await` in a task of asyncio. Objects are made of bytes, paths and file objects, and go into memory,
paths and file objects; these are read and written in other threads.

Peers are known by the fingerprints of their certificates. `trust`, and `clients`, take one, a list
of them, or a `pathlib.Path` to a file of authorities. `identity` is the path of this end's PEM
file, which is made if there is none.
"""

from weir_transport._native import (
    Client,
    CodecError,
    Decoder,
    Encoder,
    Entry,
    LostError,
    Offer,
    Receiver,
    RefusedError,
    Rows,
    Sender,
    Server,
    Transfer,
    TransportError,
    choose_seed,
    fingerprint,
    kernel,
    overhead,
    soliton,
)

__all__ = [
    "Client",
    "CodecError",
    "Decoder",
    "Encoder",
    "Entry",
    "LostError",
    "Offer",
    "Receiver",
    "RefusedError",
    "Rows",
    "Sender",
    "Server",
    "Transfer",
    "TransportError",
    "choose_seed",
    "fingerprint",
    "kernel",
    "overhead",
    "soliton",
]
