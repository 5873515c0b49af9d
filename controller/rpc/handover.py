"""Connections between two processes without a path in the file system.

One process makes a pair of sockets and passes one of them to the other process, through a socket
that both have from the start.
"""

import contextlib
import socket

_WORD = b"\0"


def pair() -> tuple[socket.socket, socket.socket]:
    """Two sockets: what is passed through one comes out of the other."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def connect(through: socket.socket) -> socket.socket:
    """A connection to the process that has the other end. Raises OSError."""
    with contextlib.ExitStack() as unless_handed_over:
        ours, theirs = socket.socketpair()
        unless_handed_over.enter_context(ours)
        with theirs:
            socket.send_fds(through, [_WORD], [theirs.fileno()])
        unless_handed_over.pop_all()
    return ours


def accept(out_of: socket.socket) -> int | None:
    """The descriptor of a connection; None if this process can open no more. Raises OSError."""
    _, descriptors, *_ = socket.recv_fds(out_of, len(_WORD), 1)
    return descriptors[0] if descriptors else None
