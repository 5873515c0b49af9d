"""When to read the flow counters of each switch.

One request at a time for each switch: the next one follows when the answer is in, or is so late
that it must be lost. The pause grows with the number of counted connections, and while nothing
changes.
"""

from dataclasses import dataclass

LONGEST_PAUSE = 8
LOST_AFTER_NS = 10 * 10**9
_COUNTED_PER_INTERVAL = 2048


@dataclass(slots=True)
class _Switch:
    n_counted: int = 0
    asked_ns: int | None = None
    due_ns: int = 0
    pause: int = 1
    news: bool = False


class Polling:
    """`interval_ns` is the shortest time between two requests to a switch."""

    def __init__(self, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self._switches: dict[int, _Switch] = {}

    def reconfigure(self, interval_ns: int, now_ns: int) -> None:
        """Use this interval from now on: no request is further away."""
        self.interval_ns = interval_ns
        for state in self._switches.values():
            state.due_ns = min(state.due_ns, now_ns + state.pause * interval_ns)

    def n_counted(self, switch: int) -> int:
        state = self._switches.get(switch)
        return state.n_counted if state else 0

    @property
    def most(self) -> int:
        """How many connections the switch counts that counts most."""
        return max((state.n_counted for state in self._switches.values()), default=0)

    def opened(self, switch: int) -> None:
        """A switch counts one more connection."""
        state = self._switches.setdefault(switch, _Switch())
        state.n_counted += 1
        self._hurry(state)

    def closed(self, switch: int) -> None:
        if switch in self._switches:
            self._switches[switch].n_counted -= 1

    def moved(self, switch: int) -> None:
        """A flow has changed since the last reading."""
        self._hurry(self._switches[switch])

    def answered(self, switch: int, now_ns: int) -> None:
        """The last part of an answer is in."""
        state = self._switches.get(switch)
        if state is None:
            return
        least = 1 + state.n_counted // _COUNTED_PER_INTERVAL
        state.pause = least if state.news else max(least, 2 * state.pause)
        state.pause = min(state.pause, LONGEST_PAUSE)
        state.news = False
        asked_ns = now_ns if state.asked_ns is None else state.asked_ns
        state.due_ns = asked_ns + state.pause * self.interval_ns
        state.asked_ns = None

    def reconnected(self, switch: int) -> None:
        """The switch is connected again, so an open request will not be answered."""
        if switch in self._switches:
            self._switches[switch].asked_ns = None
            self._switches[switch].due_ns = 0

    def forget(self, switch: int) -> None:
        """The switch is gone for good."""
        self._switches.pop(switch, None)

    def due(self, switch: int, now_ns: int) -> bool:
        """Whether to read a switch's counters now. If so, the request counts as sent."""
        state = self._switches.get(switch)
        if state is None or not state.n_counted or now_ns < state.due_ns:
            return False
        if state.asked_ns is not None and now_ns - state.asked_ns < LOST_AFTER_NS:
            return False
        state.asked_ns = now_ns
        return True

    def _hurry(self, state: _Switch) -> None:
        state.news = True
        if state.asked_ns is None and state.pause > 1:
            state.due_ns -= (state.pause - 1) * self.interval_ns
            state.pause = 1
