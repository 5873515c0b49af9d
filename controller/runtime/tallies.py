"""Counters of the application, as plain numbers, so that counting costs next to nothing.

All else that operators want to know is read from the core when they ask.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

from controller.southbound.codec.extension import QueueStats, TcpStats
from controller.southbound.switch import events

_US, _MS = 10**3, 10**6
DELAY_BOUNDS_NS = tuple(
    [us * _US for us in (25, 50, 75, 100, 150, 250, 500)]
    + [ms * _MS for ms in (1, 2, 5, 10, 25, 50, 100)]
)
TURN_BOUNDS_NS = tuple(ms * _MS for ms in (1, 2, 5, 10, 20, 50, 100, 200))
_LOOK_AT_LOOP_S = 0.1
# How many disconnected switches are remembered: without TLS, anybody may connect as a switch.
_GONE_KEPT = 1024

_PACKET_INS: Mapping[type[events.Event], str] = {
    events.NeighbourMessageReceived: "neighbour",
    events.LinkDiscovered: "discovery",
    events.FrameFlooded: "flooded",
    events.FrameMissed: "unknown",
}


class Histogram:
    """Counts durations in buckets, and keeps the longest. `bounds_ns` are the upper bounds of the
    buckets; the last has none."""

    __slots__ = ("bounds_ns", "counts", "longest_ns", "sum_ns")

    def __init__(self, bounds_ns: Iterable[int] = DELAY_BOUNDS_NS) -> None:
        self.bounds_ns = tuple(bounds_ns)
        self.counts = [0] * (len(self.bounds_ns) + 1)
        self.sum_ns = self.longest_ns = 0

    def observe(self, duration_ns: int) -> None:
        self.counts[bisect_left(self.bounds_ns, duration_ns)] += 1
        self.sum_ns += duration_ns
        if duration_ns > self.longest_ns:
            self.longest_ns = duration_ns

    def cumulative(self) -> list[int]:
        """How many durations were within each bound, and last how many there were."""
        return list(accumulate(self.counts))


class Tallies:
    """Counters since the start of the controller, by switch. Of disconnected switches, those of the
    latest are kept.

    `packet_ins` are by kind, `notices` by port and label, `windows` by whether they only renew what
    is in force. `unusable` are the messages that past sessions could not use, by kind. `queues` are
    the egress queues, `samples` what became of TCP connections, as last reported.
    """

    def __init__(self) -> None:
        self.packet_ins: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.notices: Counter[tuple[object, object, object]] = Counter()
        self.missed_notices: Counter[int] = Counter()
        self.windows: Counter[tuple[object, object]] = Counter()
        self.unusable: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.disconnections: Counter[int] = Counter()
        self.events: Counter[str] = Counter()
        self.queues: dict[int, list[QueueStats]] = {}
        self.samples: dict[int, list[TcpStats]] = {}
        self.control_delay = Histogram()
        self.loop_lag = Histogram()
        self.loop_turns = Histogram(TURN_BOUNDS_NS)
        self._gone: dict[int, None] = {}

    def count(self, switch: int, event: events.Event) -> None:
        """Count an event of a session."""
        if isinstance(event, events.SegmentsCopied):
            self.packet_ins[switch]["segment"] += len(event.segments)
        elif isinstance(event, events.QueueNotice):
            if event.missed:
                self.missed_notices[switch] += event.missed
        elif isinstance(event, events.QueuesRead):
            self.queues[switch] = event.queues
        elif isinstance(event, events.Ready):
            # What another switch in its place has told is not true of this one.
            self.queues.pop(switch, None)
            self.samples.pop(switch, None)
        elif isinstance(event, events.ConnectionsSampled):
            self.samples[switch] = event.ports
        else:
            kind = _PACKET_INS.get(type(event))
            if kind is not None:
                self.packet_ins[switch][kind] += 1

    def record(self, event: str, fields: Mapping[str, object]) -> None:
        """Count a line of the event log."""
        self.events[event] += 1
        if event == "queue_event":
            self.notices[fields["switch"], fields["port"], fields["notice"]] += 1
        elif event == "window_set":
            windows = fields["windows"]
            assert isinstance(windows, list)
            self.windows[fields["switch"], fields["refresh"]] += len(windows)

    def came(self, switch: int) -> None:
        """A session has begun."""
        self._gone.pop(switch, None)

    def left(self, switch: int, unusable: Mapping[str, int]) -> None:
        """A session has ended; `unusable` counts what it could not use, by reason."""
        self.disconnections[switch] += 1
        for reason, n in unusable.items():
            self.unusable[switch][kind_of(reason)] += n
        self._gone[switch] = None
        if len(self._gone) > _GONE_KEPT:
            self._forget(next(iter(self._gone)))

    def _forget(self, switch: int) -> None:
        del self._gone[switch]
        for by_switch in (
            *(self.packet_ins, self.missed_notices, self.unusable),
            *(self.disconnections, self.queues, self.samples),
        ):
            by_switch.pop(switch, None)
        for by_more in (self.notices, self.windows):
            for key in [key for key in by_more if key[0] == switch]:
                del by_more[key]

    def watch_loop(self, clock_ns: Callable[[], int], sleep: Callable[[float], object]) -> None:
        """Measure, without end, how late timers of the main loop fire."""
        while True:
            due_ns = clock_ns() + int(_LOOK_AT_LOOP_S * 10**9)
            sleep(_LOOK_AT_LOOP_S)
            self.loop_lag.observe(max(0, clock_ns() - due_ns))


def kind_of(reason: str) -> str:
    """The kind of a reason why a session could not use a message.

    Reasons quote the sender, so there may be ever new ones; kinds are few.
    """
    if reason.startswith("experimenter message"):
        return "foreign_experimenter"
    if reason.startswith("unexpected "):
        return "unexpected"
    if reason in ("refused", "held back too long"):
        return reason.replace(" ", "_")
    return "malformed"
