"""What TCP's bytes are on an Ethernet link, and how fast a flow could be there were it alone."""

from dataclasses import dataclass

_ETHERNET_BYTES, _IP_BYTES, _TCP_BYTES, _TIMESTAMPS_BYTES = 14, 20, 20, 12


@dataclass(frozen=True)
class Wire:
    """Frames as the test bed's shapers count them: from the Ethernet header on, without preamble
    and checksum. ``mtu_bytes`` is the largest IP packet; ``timestamps`` are RFC 7323's."""

    mtu_bytes: int = 1500
    timestamps: bool = True

    @property
    def headers_bytes(self) -> int:
        """Headers of a frame with data."""
        options = _TIMESTAMPS_BYTES if self.timestamps else 0
        return _ETHERNET_BYTES + _IP_BYTES + _TCP_BYTES + options

    @property
    def segment_bytes(self) -> int:
        """The most data of a frame."""
        return self.mtu_bytes + _ETHERNET_BYTES - self.headers_bytes

    def frames_bytes(self, size_bytes: float) -> float:
        """Return the bytes of the fewest frames that carry ``size_bytes``."""
        return size_bytes + -(-size_bytes // self.segment_bytes) * self.headers_bytes

    def ideal_ns(
        self, size_bytes: int, rate_bps: float, rtt_ns: float, round_trips: float
    ) -> float:
        """Return the least time that a flow can take on a link of ``rate_bps`` that is idle.

        It is ``round_trips`` x ``rtt_ns`` from its start until its first bit could arrive (1/2 for
        a flow that is sent at once, 1 for one that is asked for, 1 more for a connection that
        must be opened first), and then all frames at the link's rate. Slow start is no part of it.
        """
        return round_trips * rtt_ns + self.frames_bytes(size_bytes) * 8e9 / rate_bps
