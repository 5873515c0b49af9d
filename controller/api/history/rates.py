"""What each port does a second, from one sample of all ports to the next. Pure: time is given."""

import math
from collections.abc import Iterable
from typing import NamedTuple, Self

from controller.model.values import PortId
from controller.rpc.spans import LostReadingError, Row, Span, by_port, queue_of

# Switches are asked every 2 s where nothing happens. A rate of the last report stands for so long.
_FRESH_S = 5.0
# The mean over a longer time says nothing about the second that it would stand for.
_LONGEST_S = 10.0


class Rates(NamedTuple):
    """Of a port, or sums over ports; NaN: not known. Of each second, answers to requests of
    sampled connections took `answering_s_per_s` in all."""

    sent_bps: float
    queue_bytes: float
    dropped_per_s: float
    requests_per_s: float
    held_per_s: float
    held_s_per_s: float
    timeouts_per_s: float
    answers_per_s: float
    answering_s_per_s: float

    @property
    def answer_s(self) -> float:
        """How long an answer took, as a mean."""
        return ratio(self.answering_s_per_s, self.answers_per_s)

    @classmethod
    def added(cls, all_rates: Iterable[Self]) -> Self:
        """Sums over what is known."""
        columns = list(zip(*all_rates, strict=True)) or [()] * N_SERIES
        return cls(*map(_known_sum, columns))

    @classmethod
    def between(cls, begin: Row, end: Row) -> Self:
        """Raises LostReadingError if a counter has fallen, or the reading is not newer."""
        span = Span(begin, end)
        if span.seconds > _LONGEST_S:
            raise LostReadingError("the readings are too far apart")
        has_tcp = begin["tcp"] and end["tcp"]
        has_account = _have_account(begin, end)
        return cls(
            8 * span.queue("sent_bytes"),
            float(queue_of(end)["queue_bytes"]),
            span.queue("dropped_packets"),
            span.account("requests") if has_account else math.nan,
            span.account("held_requests") if has_account else math.nan,
            span.account("held_s") if has_account else math.nan,
            span.tcp("timeouts") if has_tcp else math.nan,
            span.answers("answers") if has_tcp else math.nan,
            span.answers("seconds") if has_tcp else math.nan,
        )


N_SERIES = len(Rates._fields)
UNKNOWN = Rates(*[math.nan] * N_SERIES)


class HeldTimes(NamedTuple):
    """How many requests were held for less than each bound but not less than the one before, and
    last how many for longer."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]


NO_TIMES = HeldTimes((), ())


class Counted(NamedTuple):
    """What came between two samples, over all ports. A rate stands for a second, so that sums of
    rates are not what was counted."""

    dropped_packets: int = 0
    timeouts: int = 0
    held_requests: int = 0

    @classmethod
    def added(cls, counts: Iterable[Self]) -> Self:
        return cls(*map(sum, zip(*counts, strict=True)))


class _Known(NamedTuple):
    """The newest reading of a port, when it came, and what it says."""

    row: Row
    at_s: float
    rates: Rates


class Sampled(NamedTuple):
    """One sample: the rates of ports that are known, their sums, the holds that have ended, and
    what came since the one before."""

    rates: dict[PortId, Rates]
    totals: Rates
    held: HeldTimes
    counted: Counted = Counted()


class Differences:
    """Takes one sample after another."""

    def __init__(self) -> None:
        self._known: dict[PortId, _Known] = {}

    def take(self, rows: Iterable[Row], now_s: float) -> Sampled:
        """`now_s` is of a clock that does not jump."""
        held, counted = NO_TIMES, [Counted()]
        known: dict[PortId, _Known] = {}
        rates: dict[PortId, Rates] = {}
        for port_id, row in by_port(rows).items():
            before = self._known.get(port_id)
            if before is not None and _time_ns(before.row) == _time_ns(row):
                known[port_id] = before
            else:
                known[port_id] = _Known(row, now_s, _rates(before, row))
                if before is not None and not math.isnan(known[port_id].rates.dropped_per_s):
                    counted.append(_counted(before.row, row))
                if before is not None and not math.isnan(known[port_id].rates.held_per_s):
                    held = merged(held, _held(before.row, row))
            if now_s - known[port_id].at_s <= _FRESH_S:
                rates[port_id] = known[port_id].rates
        self._known = known
        return Sampled(rates, Rates.added(rates.values()), held, Counted.added(counted))


def ratio(part: float, whole: float) -> float:
    """NaN if there is none."""
    return part / whole if whole else math.nan


def _rates(before: _Known | None, row: Row) -> Rates:
    try:
        if before is not None:
            return Rates.between(before.row, row)
    except LostReadingError:
        pass
    return UNKNOWN._replace(queue_bytes=float(queue_of(row)["queue_bytes"]))


def _have_account(begin: Row, end: Row) -> bool:
    """Whether the counters of both can be compared. A switch that may have an account and has none
    yet has counted nothing for it; one whose account is gone has begun anew."""
    before, after = queue_of(begin), queue_of(end)
    may_have = before["can_have_account"] and after["can_have_account"]
    return bool(may_have and (after["account"] or not before["account"]))


def _counted(begin: Row, end: Row) -> Counted:
    """Of a port, both of whose readings can be compared."""
    before, after = queue_of(begin), queue_of(end)
    dropped = after["dropped_packets"] - before["dropped_packets"]
    has_tcp = begin["tcp"] and end["tcp"]
    timeouts = end["tcp"]["timeouts"] - begin["tcp"]["timeouts"] if has_tcp else 0
    held = 0
    if after["account"] and _have_account(begin, end):
        held = after["account"]["held_requests"]
        held -= before["account"]["held_requests"] if before["account"] else 0
    return Counted(dropped, timeouts, held)


def _held(begin: Row, end: Row) -> HeldTimes:
    before, after = queue_of(begin)["account"], queue_of(end)["account"]
    if not after:
        return NO_TIMES
    counts = after["held_counts"]
    if before:
        if before["held_bounds_s"] != after["held_bounds_s"]:
            return NO_TIMES
        pairs = zip(before["held_counts"], counts, strict=True)
        counts = [after_it - before_it for before_it, after_it in pairs]
    return HeldTimes(tuple(after["held_bounds_s"]), tuple(counts))


def merged(one: HeldTimes, other: HeldTimes) -> HeldTimes:
    """The sum. Where bounds differ, which switches of one release do not, the first stay."""
    if not one.bounds_s or not other.bounds_s:
        return one if one.bounds_s else other
    if one.bounds_s != other.bounds_s:
        return one
    return HeldTimes(one.bounds_s, tuple(map(sum, zip(one.counts, other.counts, strict=True))))


def _known_sum(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) if known else math.nan


def _time_ns(row: Row) -> int:
    time_ns: int = queue_of(row)["switch_time_ns"]
    return time_ns
