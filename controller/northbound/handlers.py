"""The answer to each method: parameters in, parts of an answer out, without a transport.

A listing is a head and rows. Rows are made one by one as they are sent, so the controller may go on
after any of them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from controller.model.values import datapath_id
from controller.northbound.families import CONTENT_TYPE
from controller.northbound.interfaces import Announcing, Bypassing, Changing, Source, UnknownError
from controller.northbound.metrics import Exposition
from controller.northbound.views import EventView
from controller.rpc import methods
from controller.rpc.messages import CallError, Kind

_FOLLOW_S = 0.1
# The controller notices that a follower has gone when it writes to it.
_QUIET_FOLLOWS = 100


class Document(NamedTuple):
    """One object."""

    fields: Mapping[str, object]


class Listing(NamedTuple):
    """`rows` under a name, after the fields of the head."""

    name: str
    rows: Iterator[object]
    head: Mapping[str, object]


class Stream(NamedTuple):
    """Rows in batches, after the fields of the head; an empty batch from time to time, to see who
    still listens. They end only if the peer has not read them in time."""

    name: str
    batches: Iterator[list[dict[str, object]]]
    head: Mapping[str, object]


Answer = Document | Listing | Stream


class Handlers:
    """Answers by method. `checkpoint` lets the controller go on, `sleep` takes seconds.

    Every handler takes the parameters that `rpc.methods` declares for it. Raises CallError, and
    the errors of the views.
    """

    def __init__(
        self,
        source: Source,
        announcing: Announcing,
        bypassing: Bypassing,
        changing: Changing,
        checkpoint: Callable[[], None],
        sleep: Callable[[float], object],
    ) -> None:
        self._source = source
        self._announcing = announcing
        self._bypassing = bypassing
        self._changing = changing
        self._checkpoint = checkpoint
        self._sleep = sleep
        self._exposition = Exposition(source, checkpoint)

    def answer(self, method: str, given: Mapping[str, object], who: str | None = None) -> Answer:
        """The answer of a method to these parameters. `who` asks, if the parameters do not say."""
        if who is not None and methods.says_who(method):
            given = {"by": who, **given}
        asked = methods.read(method, given)
        handler: Callable[[Any], Answer] = getattr(self, method)
        return handler(asked)

    def help(self, _: methods.Nothing) -> Answer:
        """All methods and their parameters."""
        return Document({name: taken.names() for name, taken in methods.METHODS.items()})

    def health(self, _: methods.Nothing) -> Answer:
        """The controller answers, so it lives."""
        return Document({"status": "alive", "uptime_s": self._source.controller()["uptime_s"]})

    def ready(self, _: methods.Nothing) -> Answer:
        """An error while what the controller says and does cannot be relied on."""
        reason = self._source.not_ready()
        if reason is not None:
            raise CallError(Kind.NOT_READY, f"the controller {reason}")
        return Document({"status": "ready"})

    def controller(self, _: methods.Nothing) -> Answer:
        delays = {
            "control": self._source.control_delay(),
            "main_loop": self._source.loop_lag(),
            "main_loop_turn": self._source.loop_turns(),
        }
        return Document(
            {
                **self._source.controller(),
                "tables": self._source.tables(),
                "delays": {name: told._asdict() for name, told in delays.items()},
            }
        )

    def metrics(self, _: methods.Nothing) -> Answer:
        """Text, of which every row is a piece."""
        return Listing("text", self._exposition.pieces(), {"content_type": CONTENT_TYPE})

    def switches(self, asked: methods.OfSwitch) -> Answer:
        self._require(asked.switch)
        rows = (view for view in self._source.switches() if asked.switch in (None, view["switch"]))
        return Listing("switches", rows, {})

    def excesses(self, asked: methods.OfSwitch) -> Answer:
        self._require(asked.switch)
        return Listing("excesses", self._source.excesses(asked.switch), {})

    def ports(self, asked: methods.OfSwitch) -> Answer:
        self._require(asked.switch)
        return Listing("ports", self._source.ports(asked.switch), {})

    def regulation(self, asked: methods.OfSwitch) -> Answer:
        self._require(asked.switch)
        scheme = self._source.controller()["scheme"]
        return Listing("ports", self._source.regulation(asked.switch), {"scheme": scheme})

    def _require(self, switch: int | None) -> None:
        """A switch of which there is nothing to list is not one that is not there. Raises
        UnknownError."""
        if switch is None or switch in (known := self._source.known()):
            return
        there = ", ".join(map(datapath_id, sorted(known))) or "none"
        raise UnknownError(f"no switch {datapath_id(switch)} is known; there are {there}")

    # Turning regulation off and on

    def off(self, asked: methods.Off) -> Answer:
        return Document(self._bypassing.off(asked.switch, asked.port, asked.for_s, asked.by))

    def on(self, asked: methods.On) -> Answer:
        return Document(self._bypassing.on(asked.switch, asked.port, asked.by))

    def bypasses(self, _: methods.Nothing) -> Answer:
        return Listing("bypasses", self._bypassing.bypasses(), {})

    # Changing settings

    def settings(self, _: methods.Nothing) -> Answer:
        return Document(self._changing.settings())

    def change(self, asked: methods.Change) -> Answer:
        return Document(
            self._changing.change(asked.version, asked.changes, asked.only_try, asked.by)
        )

    def undo(self, asked: methods.Undo) -> Answer:
        return Document(self._changing.undo(asked.id, asked.by))

    def audit(self, asked: methods.AuditQuery) -> Answer:
        page = self._changing.audit(asked.limit, asked.before)
        return Listing("entries", page.entries, {"next_before": page.next_before})

    def flows(self, query: methods.FlowQuery) -> Answer:
        """A page of a table that changes meanwhile: the next page may repeat or miss flows."""
        self._require(query.switch)
        page = self._source.flows(query, self._checkpoint)
        following = query.offset + query.limit
        more = following < page.total and following <= methods.FARTHEST_ROW
        head = {
            "total": page.total,
            "offset": query.offset,
            "next_offset": following if more else None,
        }
        return Listing("flows", page.flows, head)

    def flow(self, ends: methods.FlowEnds) -> Answer:
        return Document(self._source.flow(ends))

    def events(self, asked: methods.EventQuery) -> Answer:
        after, limit, last = asked.after, asked.limit, self._source.last_event()
        events = self._source.events_after(after or 0)
        # Without `after` the latest are wanted, with it the next ones.
        events = events[max(0, len(events) - limit) :] if after is None else events[:limit]
        next_after = events[-1].serial if events else min(last, after or last)
        return Listing("events", (_line(event) for event in events), {"next_after": next_after})

    def follow_events(self, asked: methods.FollowedEvents) -> Answer:
        """The events after a serial number, or the latest, and then all new ones. The head says
        which run of the controller this is, and which event is the latest now."""
        last, run = self._source.last_event(), self._source.run()
        start = max(0, last - asked.limit) if asked.after is None else min(asked.after, last)
        if asked.run not in (None, run):
            start = 0
        return Stream("events", self._follow(start), {"run": run, "last": last})

    def groups(self, _: methods.Nothing) -> Answer:
        return Listing("groups", self._source.groups(), dict(self._source.snooping()))

    # Bandwidth, and the fountain flows that are announced

    def bandwidth(self, ends: methods.Ends) -> Answer:
        return Document(self._source.path_bandwidth(ends.src, ends.dst))

    def fountains(self, _: methods.Nothing) -> Answer:
        return Listing("fountains", self._source.shares(), {})

    def follow_fountains(self, _: methods.Nothing) -> Answer:
        """All that are announced, and then each as it changes."""
        batches = ([dict(share) for share in shares] for shares in self._source.follow_shares())
        return Stream("fountains", batches, {})

    def announce(self, said: methods.Announce) -> Answer:
        announced = said.flow, said.src, said.dst, said.most_bps, said.owner
        return Document(self._announcing.announce(*announced))

    def renew(self, said: methods.Renew) -> Answer:
        return Document(self._announcing.renew(said.flow, said.sends_bps, said.owner))

    def withdraw(self, said: methods.OfFlow) -> Answer:
        self._announcing.withdraw(said.flow, said.owner)
        return Document({"flow": said.flow})

    def _follow(self, serial: int) -> Iterator[list[dict[str, object]]]:
        """A slow follower misses events and is told how many; nothing waits for it."""
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
