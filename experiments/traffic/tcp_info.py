"""What the kernel has counted of one TCP connection (struct tcp_info of Linux 6.7)."""

import socket
import struct
from typing import NamedTuple

_INFO_BYTES = 248
_TOTAL_RETRANS = struct.Struct("<100xI")
_TOTAL_RTO = struct.Struct("<240xH")


class Repairs(NamedTuple):
    """Segments that were sent again, and retransmission timeouts (None before Linux 6.7)."""

    segments: int
    timeouts: int | None

    def since(self, before: "Repairs") -> "Repairs":
        """Return those that came after ``before``."""
        timeouts = None
        if self.timeouts is not None and before.timeouts is not None:
            timeouts = self.timeouts - before.timeouts
        return Repairs(self.segments - before.segments, timeouts)


NONE = Repairs(0, 0)
"""Those of a new connection."""


def repairs(sock: socket.socket) -> Repairs:
    """Return what a connection's end has repaired since it was opened."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    timeouts = _TOTAL_RTO.unpack_from(info)[0] if len(info) >= _INFO_BYTES else None
    return Repairs(_TOTAL_RETRANS.unpack_from(info)[0], timeouts)
