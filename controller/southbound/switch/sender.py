"""Sends messages to one switch, each with a transaction id of its own."""

from collections.abc import Callable


class Sender:
    """`send` is given each packed message."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send
        self._xid = 0

    def send(self, pack: Callable[[int], bytes]) -> int:
        """Send what `pack` returns for the next transaction id; returns the id."""
        self._xid = self._xid % 0x7FFFFFFF + 1
        self._send(pack(self._xid))
        return self._xid
