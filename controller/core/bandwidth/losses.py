"""What links lose, from the packets that one port has sent and the port at its other end received.

The counters of two switches are read at different times. Each reading is placed on the controller's
clock: between the request and the answer, and by the switch's own clock. At the time of the earlier
reading the other counter is interpolated, which makes a *point*: how many packets had been sent
and how many of them received by then. The loss is what is missing between two points. It is that of
the last LONG_SPAN_NS, unless that of the last SPAN_NS is clearly another one.

The error of a point is how far traffic may have been from steady between two readings. That is
measured: each reading is compared with what its neighbours would have it be. And no more packets
than the link can carry fit between two readings. But if what is missing hardly varies from point to
point, the points are better than that. The error bound of a loss adds up the errors of both points,
and what chance does to independent losses: in 95 % of all cases the loss of the link is within it.
Losses that come in bursts deviate more.

A port is to count what is on the wire. Its own queue drops packets before they count as sent: the
patched switch adds them to `tx_dropped` alone, and the kernel's queues are before the counter, too.
So congestion is not among these losses. Nor is anything that a switch loses after it has received
it.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from math import inf, prod, sqrt
from operator import attrgetter
from typing import NamedTuple

from controller.model.values import PortId

SPAN_NS, LONG_SPAN_NS = 10 * 10**9, 60 * 10**9
# Nothing is said of fewer packets, nor of a window shorter than this.
_FEWEST, _SHORTEST_SPAN_NS = 1000, 500_000_000
# A loss is known if its error is at most this, or half of the loss.
_COARSEST = 0.002
# One point is kept for each slot of this length.
_SLOT_NS = 10**9
# Switches tell times in whole milliseconds, and clocks differ by less than 100 ppm.
_TICK_NS, _DRIFT = 10**6, 1e-4
# How steady something is, is known from so many readings on; 95 % of Student's distribution then.
_COMPARED, _UNSTEADY = 8, 2.57
# Some of the packets of an interval are smaller than their mean, and may follow each other faster.
_FASTER = 2.0
# 95 % of a normal distribution.
_NORMAL = 1.96
# The weight of what was measured before, at each reading.
_MEMORY = 0.95
# A loss that was last measured so long ago is not known any more.
_STALE_NS = 10 * 10**9


class LinkLoss(NamedTuple):
    """The part of the packets that a link loses in one direction, within `error`, measured from
    `packets` that were sent until `at_ns`."""

    loss: float
    error: float
    packets: int
    at_ns: int

    @property
    def least(self) -> float:
        """It loses at least that."""
        return max(0.0, self.loss - self.error)


def of_path(losses: Iterable[float]) -> float:
    """The loss of a path whose links lose this."""
    return 1 - prod(1 - loss for loss in losses)


class _Reading(NamedTuple):
    """A counter at a time of the controller's clock, which is known within `slack_ns`."""

    time_ns: float
    slack_ns: float
    packets: float


class _Sums(NamedTuple):
    """Of the intervals between points in which something was sent: how many there were, and the
    sums of the squares and products of what was sent and what was missing."""

    intervals: int = 0
    sent_sent: float = 0.0
    sent_missing: float = 0.0
    missing_missing: float = 0.0


class _Point(NamedTuple):
    """How many packets had been sent and received, and by how many that may be wrong. `sums` are of
    all intervals until then."""

    time_ns: float
    sent: float
    received: float
    error: float
    sums: _Sums = _Sums()

    @property
    def missing(self) -> float:
        return self.sent - self.received

    def after(self, before: "_Point") -> "_Point":
        """The same point with its sums, by those of the one before."""
        sent, missing = self.sent - before.sent, self.missing - before.missing
        intervals, sent_sent, sent_missing, missing_missing = before.sums
        if sent <= 0:
            return self._replace(sums=before.sums)
        return self._replace(
            sums=_Sums(
                intervals + 1,
                sent_sent + sent**2,
                sent_missing + sent * missing,
                missing_missing + missing**2,
            )
        )


_TIME, _ERROR = attrgetter("time_ns"), attrgetter("error")


class _Clock:
    """Places a switch's times on the controller's clock."""

    def __init__(self) -> None:
        # The switch's clock plus something from `_least` to `_most` is the controller's, as of
        # `_of_ns`.
        self._least: float = 0.0
        self._most: float = 0.0
        self._of_ns: int | None = None

    def place(self, at_ns: int, asked_ns: int, came_ns: int) -> tuple[float, float]:
        """When a reading was made that was asked for and came then, and how exactly that is
        known."""
        least: float = asked_ns - at_ns - _TICK_NS
        most: float = came_ns - at_ns
        if self._of_ns is not None:
            drift_ns = _DRIFT * (came_ns - self._of_ns)
            former = self._least - drift_ns, self._most + drift_ns
            # Otherwise the clock was set.
            if max(least, former[0]) <= min(most, former[1]):
                least, most = max(least, former[0]), min(most, former[1])
        self._least, self._most, self._of_ns = least, most, came_ns
        begin_ns = max(asked_ns, at_ns + self._least)
        end_ns = max(begin_ns, min(came_ns, at_ns + _TICK_NS + self._most))
        return (begin_ns + end_ns) / 2, (end_ns - begin_ns) / 2


class _Counter:
    """The latest readings of a counter, and how far from steady it is."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._clock = _Clock()
        self._at_ns = -1
        self._readings: deque[_Reading] = deque(maxlen=3)
        # Squared deviations from steady traffic, and what they would be if packets came at random.
        self._squares = self._random_squares = 0.0
        self._compared = 0

    @property
    def last(self) -> _Reading | None:
        return self._readings[-1] if self._readings else None

    def read(self, packets: int, at_ns: int, asked_ns: int, came_ns: int, delay_ns: float) -> bool:
        """Enter a reading, of what was sent `delay_ns` before. Returns False if the counter has
        begun anew."""
        last = self.last
        if at_ns == self._at_ns:
            return True
        if last is not None and (packets < last.packets or at_ns < self._at_ns):
            self._begin()
            self.read(packets, at_ns, asked_ns, came_ns, delay_ns)
            return False
        self._at_ns = at_ns
        time_ns, slack_ns = self._clock.place(at_ns, asked_ns, came_ns)
        reading = _Reading(time_ns - delay_ns, slack_ns + delay_ns / 4, packets)
        if last is not None and reading.time_ns <= last.time_ns:
            return True
        self._readings.append(reading)
        if len(self._readings) == 3:
            self._compare(*self._readings)
        return True

    def _compare(self, first: _Reading, middle: _Reading, last: _Reading) -> None:
        part = (middle.time_ns - first.time_ns) / (last.time_ns - first.time_ns)
        packets = last.packets - first.packets
        self._compared += 1
        deviation = middle.packets - first.packets - packets * part
        self._squares = _MEMORY * self._squares + deviation**2
        self._random_squares = _MEMORY * self._random_squares + packets * part * (1 - part)

    def at(self, reading: _Reading, fastest: float) -> tuple[float, float] | None:
        """The counter at the time of another one's reading, and how far off that may be. None if
        that is not between the last two readings. It counts up by `fastest` a nanosecond at
        most."""
        if len(self._readings) < 2:
            return None
        before, last = self._readings[-2], self._readings[-1]
        if not before.time_ns <= reading.time_ns <= last.time_ns:
            return None
        length_ns, packets = last.time_ns - before.time_ns, last.packets - before.packets
        part = (reading.time_ns - before.time_ns) / length_ns
        slack = (reading.slack_ns + last.slack_ns) / length_ns
        off = min(part, 1 - part) + slack
        error = min(packets, fastest * off * length_ns)
        if self._compared >= _COMPARED and self._random_squares:
            # Traffic that is more regular than random need not stay so.
            dispersion = max(1.0, self._squares / self._random_squares)
            off = min(0.5, off)
            spread = _UNSTEADY * sqrt(dispersion * packets * off * (1 - off))
            error = min(error, spread + packets * slack)
        return before.packets + packets * part, error


class _Direction:
    """One direction of a link."""

    def __init__(self, receiver: PortId) -> None:
        self.receiver = receiver
        self.sent, self.received = _Counter(), _Counter()
        self._fastest = inf
        self._bytes = 0
        self._points: deque[_Point] = deque()
        self.loss: LinkLoss | None = None

    def restart(self) -> None:
        self._points.clear()
        self.loss = None

    def limit(self, packets: int, n_bytes: int, capacity_bps: float | None) -> None:
        """The sender is about to enter a reading: so many packets and bytes can be sent."""
        last = self.sent.last
        if last is not None and packets > last.packets and n_bytes > self._bytes:
            bytes_each = (n_bytes - self._bytes) / (packets - last.packets)
            most_bps = inf if capacity_bps is None else _FASTER * capacity_bps
            self._fastest = most_bps / 8e9 / bytes_each
        self._bytes = n_bytes

    def look(self, came_ns: int) -> None:
        """After a reading: make a point, and measure."""
        point = self._point()
        if point is None:
            return
        points = self._points
        if points and point.time_ns // _SLOT_NS == points[-1].time_ns // _SLOT_NS:
            # Of the points of a slot the best one, and of equally good ones the latest.
            if len(points) > 1 and point.error > 1.5 * points[-1].error + 1:
                return
            # The first of all stays, so that there is something to compare with.
            if len(points) > 1:
                points.pop()
        points.append(point.after(points[-1]) if points else point)
        while points[0].time_ns < point.time_ns - LONG_SPAN_NS:
            points.popleft()
        self.loss = self._measure(came_ns)

    def _point(self) -> _Point | None:
        """At the earlier one of the latest readings of both ends."""
        sent, received = self.sent.last, self.received.last
        if sent is None or received is None:
            return None
        if sent.time_ns <= received.time_ns:
            other = self.received.at(sent, self._fastest)
            return other and _Point(sent.time_ns, sent.packets, *other)
        other = self.sent.at(received, self._fastest)
        return other and _Point(received.time_ns, other[0], received.packets, other[1])

    def _measure(self, came_ns: int) -> LinkLoss | None:
        points = list(self._points)
        recent = bisect_left(points, points[-1].time_ns - SPAN_NS, key=_TIME)
        long, short = (_loss(window, came_ns) for window in (points, points[max(0, recent - 1) :]))
        if long is None or short is None:
            return _if_exact(long or short)
        if abs(long.loss - short.loss) <= short.error:
            return _if_exact(long)
        # It has changed. That it is over is seen before it is known exactly.
        return _if_exact(short) or (_if_exact(long) if short.loss > long.loss else None)


def _loss(points: list[_Point], came_ns: int) -> LinkLoss | None:
    """The loss in a window, from the best point of its first third on. None of few packets."""
    first, end = min(points[: len(points) // 3 + 1], key=_ERROR), points[-1]
    packets = end.sent - first.sent
    if packets < _FEWEST or end.time_ns - first.time_ns < _SHORTEST_SPAN_NS:
        return None
    missing, uncertain = end.missing - first.missing, first.error + end.error
    if missing < -uncertain - 1:
        # The port gets packets from elsewhere, or counts others than the sender.
        return None
    uncertain = min(uncertain, _deviation(first, end, missing / packets))
    missing = max(0.0, missing)
    # Of a Poisson distribution (Wilson's interval).
    chance = _NORMAL * sqrt(missing + _NORMAL**2 / 4) + _NORMAL**2 / 2
    loss, error = missing / packets, (uncertain + chance) / packets
    return LinkLoss(min(1.0, loss), min(1.0, error), round(packets), came_ns)


def _deviation(first: _Point, end: _Point, loss: float) -> float:
    """By how much what is missing between two points may be wrong, by how much it varies from point
    to point; infinity if that is not known."""
    intervals = end.sums.intervals - first.sums.intervals
    if intervals < _COMPARED:
        return inf
    squares = (
        (end.sums.missing_missing - first.sums.missing_missing)
        - 2 * loss * (end.sums.sent_missing - first.sums.sent_missing)
        + loss**2 * (end.sums.sent_sent - first.sums.sent_sent)
    )
    return 1 + _UNSTEADY * sqrt(max(0.0, squares) / (intervals - 1))


def _if_exact(loss: LinkLoss | None) -> LinkLoss | None:
    if loss is None or loss.error > max(_COARSEST, loss.loss / 2):
        return None
    return loss


class PortPackets(NamedTuple):
    """The counters of a port at `at_ns` of its switch's clock. They were asked for, and came, at
    these times of the controller's clock."""

    sent: int
    sent_bytes: int
    received: int
    at_ns: int
    asked_ns: int
    came_ns: int


class Losses:
    """The losses of all links in both directions.

    `peer` returns the port at the other end of a port's link, None without one; `delay_ns` for how
    long a packet is on the way there; `capacity_bps` what the port can send, None if that is not
    known.
    """

    def __init__(
        self,
        peer: Callable[[PortId], PortId | None],
        delay_ns: Callable[[PortId], float],
        capacity_bps: Callable[[PortId], float | None],
    ) -> None:
        self._peer = peer
        self._delay_ns = delay_ns
        self._capacity_bps = capacity_bps
        self._directions: dict[PortId, _Direction] = {}

    def read(self, port_id: PortId, packets: PortPackets) -> None:
        """Enter a reading of a port."""
        peer = self._peer(port_id)
        if peer is None:
            self.forget_port(port_id)
            return
        sent, sent_bytes, received = packets[:3]
        times = packets[3:]
        direction = self._direction(port_id, peer)
        direction.limit(sent, sent_bytes, self._capacity_bps(port_id))
        if not direction.sent.read(sent, *times, 0.0):
            direction.restart()
        direction.look(packets.came_ns)
        direction = self._direction(peer, port_id)
        if not direction.received.read(received, *times, self._delay_ns(peer)):
            direction.restart()
        direction.look(packets.came_ns)

    def loss(self, port_id: PortId, now_ns: int) -> LinkLoss | None:
        """What the link of this port loses of what the port sends. None if that is not known."""
        direction = self._directions.get(port_id)
        if direction is None or direction.loss is None:
            return None
        if direction.receiver != self._peer(port_id):
            return None
        return direction.loss if now_ns - direction.loss.at_ns < _STALE_NS else None

    def forget_port(self, port_id: PortId) -> None:
        """There is no link at this port."""
        direction = self._directions.pop(port_id, None)
        if direction is not None:
            back = self._directions.get(direction.receiver)
            if back is not None and back.receiver == port_id:
                del self._directions[direction.receiver]

    def _direction(self, sender: PortId, receiver: PortId) -> _Direction:
        direction = self._directions.get(sender)
        if direction is None or direction.receiver != receiver:
            direction = self._directions[sender] = _Direction(receiver)
        return direction
