"""Whether the fabric is healthy and where it is congested, from the last sample. Pure."""

import functools
import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from controller import __version__
from controller.api.history.rates import NO_TIMES, UNKNOWN, Counted, HeldTimes, Rates, merged
from controller.api.load import NO_LOAD, Load, LoopLate
from controller.api.notices import Notices
from controller.api.sampling import Sample
from controller.model.values import PortId
from controller.rpc.spans import Row, by_port, queue_of

_MINUTE_S = 60.0
_LATELY_S = 600.0
_MOST_CONGESTED = 20
# What was heard is not looked through for each of many who ask.
_SAME_S = 0.1


class ControllerTold(BaseModel):
    """It answered `age_s` ago; null: never since the API has started. `load` is the share of a
    core that it used over the last second. `rank` and peers are as the controller tells them."""

    ready: bool
    detail: str | None
    version: str
    age_s: float | None
    load: float | None
    loop_late_s: LoopLate
    rank: str | None
    peers: list[str]
    silent: list[str]


class SwitchesTold(BaseModel):
    ready: int
    known: int


class PortsTold(BaseModel):
    with_queue: int
    congested: int


class CongestedPort(BaseModel):
    """A port whose queue is longer than its threshold L, M or H, or was within the last second."""

    switch: int
    datapath_id: str
    port: int
    name: str
    level: Literal["L", "M", "H"]
    queue_bytes: int
    limit_bytes: int
    sent_bps: float | None
    rate_bps: int


class Totals(BaseModel):
    """Of the last second, over all ports; null: not known."""

    sent_bps: float | None
    dropped_per_s: float | None
    timeouts_per_s: float | None
    requests_per_s: float | None
    held_per_s: float | None
    held_s_per_s: float | None
    answer_s: float | None


class HeldTold(BaseModel):
    """How many requests of the last minute were held for less than each bound but not less than
    the one before, and last how many for longer."""

    bounds_s: list[float]
    counts: list[int]


class Lately(BaseModel):
    """What came over the last `over_s`, 10 minutes at most, over all ports: timeouts are those of
    the sampled connections."""

    over_s: float
    dropped_packets: int
    timeouts: int
    held_requests: int


class FabricOverview(BaseModel):
    """What the fabric was like at `at_s`, in seconds since 1970; null: it is not known yet. `ports`
    counts those with a queue and, of these, those that are congested; the worst are listed."""

    at_s: float | None
    controller: ControllerTold
    switches: SwitchesTold
    ports: PortsTold
    congested: list[CongestedPort]
    totals: Totals
    held_times: HeldTold
    events_per_minute: int
    lately: Lately
    longer_history: bool


class _Second(NamedTuple):
    """What the last minute is made of."""

    at_s: float
    held: HeldTimes
    events: int


class _Level(NamedTuple):
    """A queue, as far as it says how congested its port is."""

    level: int
    queue_bytes: int
    limit_bytes: int

    @property
    def severity(self) -> tuple[int, float]:
        return self.level, self.queue_bytes / max(1, self.limit_bytes)


class Overview:
    """Times are of a clock that does not jump."""

    def __init__(self, longer_history: bool = False) -> None:
        """`longer_history`: whether there is history of more than a day."""
        self._longer_history = longer_history
        self._sample: Sample | None = None
        self._sampled_s = 0.0
        self._silent: str | None = "it has not been asked yet"
        self._minute: deque[_Second] = deque()
        # When each sample was taken, and what had come since the one before.
        self._lately: deque[tuple[float, Counted]] = deque()
        self._loads = Load()
        self._load = NO_LOAD
        self._rows: dict[PortId, Row] = {}
        self._levels: dict[PortId, _Level] = {}
        self._notices = Notices()
        self._looked_s: float | None = None
        self._told = self._of(None)

    def take(self, found: Sample | str, events: int, now_s: float) -> None:
        """A sample, or why there is none. `events` have happened since the one before."""
        held = NO_TIMES
        if isinstance(found, str):
            self._silent, self._load = found, NO_LOAD
        else:
            self._sample, self._sampled_s, self._silent = found, now_s, None
            held = found.sampled.held
            self._lately.append((now_s, found.sampled.counted))
            self._rows = by_port(found.ports)
            self._notices.sampled(found.at_s, now_s)
            self._load = self._loads.take(found.controller, now_s) if found.controller else NO_LOAD
        self._minute.append(_Second(now_s, held, events))
        while self._minute[0].at_s <= now_s - _MINUTE_S:
            self._minute.popleft()
        # The first one has what came before its time.
        while len(self._lately) > 1 and self._lately[1][0] <= now_s - _LATELY_S:
            self._lately.popleft()
        self._told, self._looked_s = self._of(self._sample), None

    def hear(self, events: Iterable[Mapping[str, Any]], now_s: float) -> None:
        """Events as they come, between samples."""
        if self._notices.hear(events, now_s):
            self._looked_s = None

    def told(self, now_s: float) -> FabricOverview:
        """The overview now."""
        if self._looked_s is None or now_s - self._looked_s >= _SAME_S:
            self._looked_s = now_s
            self._told = self._told.model_copy(update=self._congestion(now_s))
        age_s = now_s - self._sampled_s if self._sample else None
        controller = self._told.controller.model_copy(update={"age_s": age_s})
        return self._told.model_copy(update={"controller": controller})

    def _of(self, sample: Sample | None) -> FabricOverview:
        self._levels = {
            port: _level(row) for port, row in self._rows.items() if queue_of(row)["level"]
        }
        held = functools.reduce(merged, (second.held for second in self._minute), NO_TIMES)
        return FabricOverview(
            at_s=sample.at_s if sample else None,
            controller=self._controller(),
            switches=_switches(sample.switches if sample else ()),
            ports=PortsTold(with_queue=len(self._rows), congested=len(self._levels)),
            congested=[],
            totals=_totals(UNKNOWN if self._silent or not sample else sample.sampled.totals),
            held_times=HeldTold(bounds_s=list(held.bounds_s), counts=list(held.counts)),
            events_per_minute=sum(second.events for second in self._minute),
            lately=self._lately_told(),
            longer_history=self._longer_history,
        )

    def _lately_told(self) -> Lately:
        times = [at_s for at_s, _ in self._lately]
        came = Counted.added(
            [Counted(), *(one for _, one in itertools.islice(self._lately, 1, None))]
        )
        return Lately(over_s=times[-1] - times[0] if times else 0.0, **came._asdict())

    def congested(self, now_s: float) -> dict[PortId, Row]:
        """The congested ports, the worst first, 20 at most, as they were sampled."""
        return {port: self._rows[port] for port in self._worst(self._heard(now_s))}

    def _heard(self, now_s: float) -> dict[PortId, _Level]:
        """How congested ports are, by the sample and what was heard since."""
        return self._levels | {
            port: _Level(heard.level, heard.queue_bytes, heard.limit_bytes)
            for port, heard in self._notices.now(now_s).items()
            if port in self._rows
        }

    def _worst(self, levels: Mapping[PortId, _Level]) -> list[PortId]:
        congested = (port for port, told in levels.items() if told.level)
        return heapq.nlargest(_MOST_CONGESTED, congested, key=lambda port: levels[port].severity)

    def _congestion(self, now_s: float) -> dict[str, object]:
        levels = self._heard(now_s)
        n_congested = sum(told.level > 0 for told in levels.values())
        rates = self._sample.sampled.rates if self._sample else {}
        return {
            "ports": PortsTold(with_queue=len(self._rows), congested=n_congested),
            "congested": [
                _congested(self._rows[port], levels[port], rates.get(port, UNKNOWN))
                for port in self._worst(levels)
            ],
        }

    def _controller(self) -> ControllerTold:
        detail = self._sample.not_ready if self._sample else None
        if self._silent:
            detail = f"no answer: {self._silent}"
        row = (self._sample.controller if self._sample and not self._silent else None) or {}
        return ControllerTold(
            ready=detail is None,
            detail=detail,
            version=__version__,
            age_s=None,
            load=self._load.load,
            loop_late_s=self._load.loop_late_s,
            rank=row.get("rank"),
            peers=row.get("peers", []),
            silent=row.get("silent", []),
        )


def _switches(rows: Iterable[dict[str, Any]]) -> SwitchesTold:
    ready = [row["ready"] for row in rows]
    return SwitchesTold(ready=sum(ready), known=len(ready))


def _level(row: Row) -> _Level:
    queue = queue_of(row)
    return _Level(queue["level"], queue["queue_bytes"], queue["limit_bytes"])


def _congested(row: Row, told: _Level, rates: Rates) -> CongestedPort:
    levels: tuple[Literal["L", "M", "H"], ...] = ("L", "M", "H")
    return CongestedPort(
        switch=row["switch"],
        datapath_id=row["datapath_id"],
        port=row["port"],
        name=row["name"],
        level=levels[told.level - 1],
        queue_bytes=told.queue_bytes,
        limit_bytes=told.limit_bytes,
        sent_bps=_or_none(rates.sent_bps),
        rate_bps=queue_of(row)["rate_bps"],
    )


def _totals(rates: Rates) -> Totals:
    return Totals(**{name: _or_none(getattr(rates, name)) for name in Totals.model_fields})


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
