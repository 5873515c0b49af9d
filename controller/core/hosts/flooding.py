"""Limits the frames of an edge port that are flooded to all edge ports, to prevent storms.

A flooded frame leaves by every edge port of the fabric, so a few hosts could load all of it: by a
loop behind two ports, a scan, or a thousand hosts that start at once.
"""

from controller.model.token_bucket import TokenBucket
from controller.model.values import PortId

# So many ports may use their whole share at the same time.
_PORTS_AT_ONCE = 10


class Floods:
    """A token bucket for each port and one for all, each holding the frames of a second."""

    def __init__(self, frames_per_s: int) -> None:
        self._frames_per_s = frames_per_s
        self._ports: dict[PortId, TokenBucket] = {}
        self._all = TokenBucket(frames_per_s * _PORTS_AT_ONCE)

    def admit(self, port_id: PortId, now_ns: int) -> bool:
        """Whether one more frame of this port may be flooded."""
        bucket = self._ports.get(port_id)
        if bucket is None:
            bucket = self._ports[port_id] = TokenBucket(self._frames_per_s)
        return bucket.take(now_ns) and self._all.take(now_ns)

    def full_again(self, now_ns: int) -> list[PortId]:
        """Forget the ports whose buckets are full again; returns them."""
        quiet = [port_id for port_id, bucket in self._ports.items() if bucket.is_full(now_ns)]
        for port_id in quiet:
            del self._ports[port_id]
        return quiet
