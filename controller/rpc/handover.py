"""Connections between two processes without a path: one makes a pair of sockets, and hands an end
of it over to the other through a socket that both were born with."""

import contextlib
import socket

_WORD = b"\0"


def pair() -> tuple[socket.socket, socket.socket]:
    """What is handed over through one of these comes out of the other one."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def connect(through: socket.socket) -> socket.socket:
    """A connection to whoever has the other end. Raises OSError."""
    with contextlib.ExitStack() as unless_handed_over:
        ours, theirs = socket.socketpair()
        unless_handed_over.enter_context(ours)
        with theirs:
            socket.send_fds(through, [_WORD], [theirs.fileno()])
        unless_handed_over.pop_all()
    return ours


def accept(out_of: socket.socket) -> int | None:
    """The descriptor of a connection; None if there was no room for one here. Raises OSError."""
    _, descriptors, *_ = socket.recv_fds(out_of, len(_WORD), 1)
    return descriptors[0] if descriptors else None
