"""Since when each switch has been heard without a break, and what may have happened before unseen.

When a connection ends while the channel to its switch is lost, its flow counters tell later: they
expire on the switch soon after a FIN or RST. They cannot if they were not installed yet, or if the
switch has lost them.
"""

from collections.abc import Iterable

# So long after the end of a connection, a switch that is heard has told of it, however it came.
UNTOLD_FOR_NS = 60 * 10**9
# Flow counters are read so often that a connection that goes on has been seen to by then.
_READ_WITHIN_NS = 6 * 10**9


class ChannelHistory:
    """The switches that are heard. Those that are not are so since a time."""

    def __init__(self) -> None:
        self._since_ns: dict[int, int] = {}
        self._lost_ns: dict[int, int] = {}

    def connected(self, switch: int, has_past: bool, now_ns: int) -> None:
        """A switch is heard; connections may have ended unseen if it `has_past`."""
        self._lost_ns.pop(switch, None)
        self._since_ns[switch] = now_ns if has_past else -UNTOLD_FOR_NS

    def disconnected(self, switch: int, now_ns: int) -> None:
        self._lost_ns[switch] = now_ns

    def forget(self, switch: int) -> None:
        self._since_ns.pop(switch, None)
        self._lost_ns.pop(switch, None)

    def lost_ns(self, switch: int) -> int:
        """When a switch that is not heard was heard last."""
        return self._lost_ns.get(switch, 0)

    def saw_all(self, switches: Iterable[int], since_ns: int) -> bool:
        """Whether these switches have been heard all the time since then."""
        return all(
            switch not in self._lost_ns and self._since_ns.get(switch, since_ns) <= since_ns
            for switch in switches
        )

    def may_have_ended_unseen(self, switches: Iterable[int], traced_ns: int, now_ns: int) -> bool:
        """Whether a counted connection, last seen to go on at `traced_ns`, may have ended
        before one of the switches at its ends was heard, and not have been told of yet."""
        since_ns = max((self._since_ns.get(switch, 0) for switch in switches), default=0)
        return now_ns - since_ns <= UNTOLD_FOR_NS and traced_ns < since_ns + _READ_WITHIN_NS
