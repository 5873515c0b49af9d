"""Round-trip times of control channels, and of the links between switches.

A discovery frame takes half a round trip of one switch's control channel, the link, and half a
round trip of the other switch's control channel. The rest is the time of the link.
"""

from collections.abc import Iterable
from typing import TypeVar

from controller.model.values import PortId

_SMOOTHING = 8  # RFC 6298 section 2: the weight of a new sample is an eighth.

K = TypeVar("K")


class RoundTrips:
    """Smoothed round trips: `control_ns` of the control channels, by switch, and `link_ns` of the
    links, by port, as far as they were measured."""

    def __init__(self) -> None:
        self.control_ns: dict[int, int] = {}
        self.link_ns: dict[PortId, int] = {}
        self._probed: dict[PortId, int] = {}

    def control_timed(self, switch: int, took_ns: int) -> None:
        """A switch has answered after this time."""
        _smooth(self.control_ns, switch, took_ns)

    def probed(self, ports: Iterable[PortId], now_ns: int) -> None:
        """Discovery frames leave by these ports now."""
        self._probed.update(dict.fromkeys(ports, now_ns))

    def probe_seen(self, a: PortId, b: PortId, now_ns: int) -> bool:
        """The discovery frame of `a` came in by `b`. Returns whether the link was measured."""
        sent_ns = self._probed.pop(a, None)
        if sent_ns is None or not {a.switch, b.switch} <= self.control_ns.keys():
            return False
        control_ns = (self.control_ns[a.switch] + self.control_ns[b.switch]) // 2
        for end in (a, b):
            _smooth(self.link_ns, end, 2 * max(0, now_ns - sent_ns - control_ns))
        return True

    def forget_port(self, port_id: PortId) -> None:
        self._probed.pop(port_id, None)
        self.link_ns.pop(port_id, None)

    def forget(self, switch: int) -> None:
        """A switch is gone for good."""
        self.control_ns.pop(switch, None)
        for port_id in [*self._probed, *self.link_ns]:
            if port_id.switch == switch:
                self.forget_port(port_id)


def _smooth(known: dict[K, int], key: K, sample_ns: int) -> None:
    known_ns = known.get(key, sample_ns)
    known[key] = known_ns + (sample_ns - known_ns) // _SMOOTHING
