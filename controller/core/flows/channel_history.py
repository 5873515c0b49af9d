"""How long the control channel of each switch has been up, and which ends of connections it missed.

When a connection ends while the channel to its switch is lost, its flow counters tell later: they
expire on the switch soon after a FIN or RST. They cannot if they were not installed yet, or if the
switch has lost them.
"""

from collections.abc import Iterable

# A connected switch reports the end of a connection within this time.
UNTOLD_FOR_NS = 60 * 10**9
# Flow counters are read so often that a connection that goes on has been seen to by then.
_READ_WITHIN_NS = 6 * 10**9


class ChannelHistory:
    """When the channels of the switches were connected or lost."""

    def __init__(self) -> None:
        self._since_ns: dict[int, int] = {}
        self._lost_ns: dict[int, int] = {}

    def connected(self, switch: int, has_past: bool, now_ns: int) -> None:
        """A switch is connected. If it `has_past`, connections may have ended unseen before."""
        self._lost_ns.pop(switch, None)
        self._since_ns[switch] = now_ns if has_past else -UNTOLD_FOR_NS

    def disconnected(self, switch: int, now_ns: int) -> None:
        self._lost_ns[switch] = now_ns

    def forget(self, switch: int) -> None:
        self._since_ns.pop(switch, None)
        self._lost_ns.pop(switch, None)

    def lost_ns(self, switch: int) -> int:
        """When the channel of a disconnected switch was lost."""
        return self._lost_ns.get(switch, 0)

    def saw_all(self, switches: Iterable[int], since_ns: int) -> bool:
        """Whether the channels of these switches have been up ever since."""
        return all(
            switch not in self._lost_ns and self._since_ns.get(switch, since_ns) <= since_ns
            for switch in switches
        )

    def may_have_ended_unseen(self, switches: Iterable[int], traced_ns: int, now_ns: int) -> bool:
        """Whether a counted connection, last known to go on at `traced_ns`, may have ended before
        one of the switches at its ends was connected, without a report so far."""
        since_ns = max((self._since_ns.get(switch, 0) for switch in switches), default=0)
        return now_ns - since_ns <= UNTOLD_FOR_NS and traced_ns < since_ns + _READ_WITHIN_NS
