"""What there is to ask for, by path. No transport: parameters in, an answer's parts out.

A listing is a head and rows, which are made while they are taken; whoever transmits them may let
the controller go on at any row.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from controller.northbound import queries
from controller.northbound.views import Announcing, EventView, Source

_FOLLOW_S = 0.1
# A follower that has gone is noticed when it is written to.
_QUIET_FOLLOWS = 100


class Document(NamedTuple):
    """One object. Without `ok` it is the reason why something is not as it should be."""

    fields: Mapping[str, object]
    ok: bool = True


class Listing(NamedTuple):
    """`rows` under a name, after the fields of the head."""

    name: str
    rows: Iterator[Mapping[str, object]]
    head: Mapping[str, object]


class Stream(NamedTuple):
    """Objects without end, some at a time; none at all from time to time, to see who listens."""

    batches: Iterator[list[dict[str, object]]]


Answer = Document | Listing | Stream


class Resources:
    """Answers by path. `checkpoint` lets the controller go on, `sleep` takes seconds.

    Every method takes the parameters of a request. Raises QueryError, and UnknownError for what
    does not exist. `changes` are those that change something, by method and path.
    """

    def __init__(
        self,
        source: Source,
        announcing: Announcing,
        checkpoint: Callable[[], None],
        sleep: Callable[[float], object],
    ) -> None:
        self._source = source
        self._announcing = announcing
        self._checkpoint = checkpoint
        self._sleep = sleep
        self.by_path: Mapping[str, Callable[[Mapping[str, str]], Answer]] = {
            "/v1/": self.index,
            "/v1/health": self.health,
            "/v1/ready": self.ready,
            "/v1/controller": self.controller,
            "/v1/switches": self.switches,
            "/v1/excesses": self.excesses,
            "/v1/ports": self.ports,
            "/v1/regulation": self.regulation,
            "/v1/flows": self.flows,
            "/v1/events": self.events,
            "/v1/bandwidth": self.bandwidth,
            "/v1/fountains": self.fountains,
        }
        self.changes: Mapping[tuple[str, str], Callable[[Mapping[str, str]], Answer]] = {
            ("PUT", "/v1/fountains"): self.announce,
            ("PATCH", "/v1/fountains"): self.renew,
            ("DELETE", "/v1/fountains"): self.withdraw,
        }

    def index(self, given: Mapping[str, str]) -> Answer:
        queries.Parameters(given, ())
        return Document({"resources": [path for path in self.by_path if path != "/v1/"]})

    def health(self, given: Mapping[str, str]) -> Answer:
        """It answers, so it lives."""
        queries.Parameters(given, ())
        return Document({"status": "alive", "uptime_s": self._source.controller()["uptime_s"]})

    def ready(self, given: Mapping[str, str]) -> Answer:
        """Whether what it tells and does can be relied on."""
        queries.Parameters(given, ())
        reason = self._source.not_ready()
        if reason is not None:
            return Document({"status": "not ready", "reason": f"the controller {reason}"}, ok=False)
        return Document({"status": "ready"})

    def controller(self, given: Mapping[str, str]) -> Answer:
        queries.Parameters(given, ())
        delays = {"control": self._source.control_delay(), "main_loop": self._source.loop_lag()}
        return Document(
            {
                **self._source.controller(),
                "tables": self._source.tables(),
                "delays": {name: told._asdict() for name, told in delays.items()},
            }
        )

    def switches(self, given: Mapping[str, str]) -> Answer:
        switch = queries.switch_of(given)
        rows = (view for view in self._source.switches() if switch in (None, view["switch"]))
        return Listing("switches", rows, {})

    def excesses(self, given: Mapping[str, str]) -> Answer:
        return Listing("excesses", self._source.excesses(queries.switch_of(given)), {})

    def ports(self, given: Mapping[str, str]) -> Answer:
        return Listing("ports", self._source.ports(queries.switch_of(given)), {})

    def regulation(self, given: Mapping[str, str]) -> Answer:
        rows = self._source.regulation(queries.switch_of(given))
        scheme = self._source.controller()["scheme"]
        return Listing("ports", rows, {"scheme": scheme})

    def flows(self, given: Mapping[str, str]) -> Answer:
        """A page of a table that goes on changing: the next one may repeat or miss some."""
        query = queries.flows(given)
        page = self._source.flows(query, self._checkpoint)
        following = query.offset + query.limit
        more = following < page.total and following <= queries.FARTHEST_ROW
        head = {
            "total": page.total,
            "offset": query.offset,
            "next_offset": following if more else None,
        }
        return Listing("flows", page.flows, head)

    def events(self, given: Mapping[str, str]) -> Answer:
        after, limit, follow = queries.events(given)
        last = self._source.last_event()
        if follow:
            start = max(0, last - limit) if after is None else after
            return Stream(self._follow(min(start, last)))
        events = self._source.events_after(after or 0)
        # Without a place to go on from, the latest are of interest; with one, the next.
        events = events[max(0, len(events) - limit) :] if after is None else events[:limit]
        next_after = events[-1].serial if events else min(last, after or last)
        return Listing("events", (_line(event) for event in events), {"next_after": next_after})

    # Bandwidth, and the fountain flows that are announced

    def bandwidth(self, given: Mapping[str, str]) -> Answer:
        return Document(self._source.path_bandwidth(*queries.path(given)))

    def fountains(self, given: Mapping[str, str]) -> Answer:
        follow = queries.Parameters(given, ("follow",)).word("follow", ("true", "false"))
        if follow == "true":
            return Stream(self._fountain_news())
        return Listing("fountains", self._source.shares(), {})

    def _fountain_news(self) -> Iterator[list[dict[str, object]]]:
        news = self._source.share_news()
        yield [dict(share) for share in self._source.shares()]
        for shares in news:
            yield [dict(share) for share in shares]

    def announce(self, given: Mapping[str, str]) -> Answer:
        return Document(self._announcing.announce(*queries.announcement(given)))

    def renew(self, given: Mapping[str, str]) -> Answer:
        return Document(self._announcing.renew(*queries.renewal(given)))

    def withdraw(self, given: Mapping[str, str]) -> Answer:
        flow = queries.flow_of(given)
        self._announcing.withdraw(flow)
        return Document({"flow": flow})

    def _follow(self, serial: int) -> Iterator[list[dict[str, object]]]:
        """What a slow listener has missed is said, and never waits for it."""
        quiet = 0
        while True:
            events = self._source.events_after(serial)
            batch: list[dict[str, object]] = []
            if events and events[0].serial > serial + 1:
                batch.append({"event": "events_missed", "missed": events[0].serial - serial - 1})
            batch += map(_line, events)
            if events:
                serial = events[-1].serial
            quiet = 0 if events else quiet + 1
            if events or quiet % _QUIET_FOLLOWS == 0:
                yield batch
            self._sleep(_FOLLOW_S)


def _line(event: EventView) -> dict[str, object]:
    return {"serial": event.serial, **event.line}
