"""How many frames of an edge port may go to all edges: no storm, whatever hosts do.

Such a frame leaves by every edge port of the fabric, so a few hosts could keep everybody busy: a
loop behind two ports, a scan, a thousand hosts that start at once.
"""

from controller.model.token_bucket import TokenBucket
from controller.model.values import PortId

# So many ports may use up their share at the same time.
_PORTS_AT_ONCE = 10


class Floods:
    """Token buckets that hold the frames of a second, one for each port and one for all."""

    def __init__(self, frames_per_s: int) -> None:
        self._frames_per_s = frames_per_s
        self._ports: dict[PortId, TokenBucket] = {}
        self._all = TokenBucket(frames_per_s * _PORTS_AT_ONCE)

    def admit(self, port_id: PortId, now_ns: int) -> bool:
        """Whether one more frame of this port may go to all edges."""
        bucket = self._ports.get(port_id)
        if bucket is None:
            bucket = self._ports[port_id] = TokenBucket(self._frames_per_s)
        return bucket.take(now_ns) and self._all.take(now_ns)

    def full_again(self, now_ns: int) -> list[PortId]:
        """Forget the ports that have their whole share again; returns them."""
        quiet = [port_id for port_id, bucket in self._ports.items() if bucket.is_full(now_ns)]
        for port_id in quiet:
            del self._ports[port_id]
        return quiet
