"""Everything that happened in a part of time, from what was recorded. Pure."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from controller.api.history.history import PortHistory
from controller.api.recording.blocks import Block, DamageError, Kind, row
from controller.api.recording.recording import Event, Gap, ports_of, tally
from controller.api.recording.segments import Hole
from controller.api.recording.snapshots import Snapshot
from controller.northbound import views

MOST_S = 3600.0
MOST_EVENTS, MOST_PORTS, MOST_SNAPSHOTS = 5000, 8, 240
_LEVELS: tuple[Literal["L", "M", "H"] | None, ...] = (None, "L", "M", "H")
DAMAGED = "a part of the recording is damaged or gone"


class NamedPort(BaseModel):
    switch: int
    datapath_id: str
    port: int
    name: str


class IncidentPort(NamedPort):
    """A port with so many notices, and the highest of its thresholds that they tell of."""

    worst: Literal["L", "M", "H"] | None
    notices: int
    history: PortHistory


class GapTold(BaseModel):
    """Of this time, in seconds since 1970, something may be missing."""

    from_s: float
    to_s: float
    why: str


class Incident(BaseModel):
    """What happened from one time to another, in seconds since 1970: everywhere, or also at one
    port. `ports` are at most 8, the one that was asked for first, then those with the most notices.
    `events` are the first 5000, the oldest first; those of the port that was asked for come before
    others. Events are known since `events_from_s`; null: none are. `snapshots` are at most 240, at
    even distances."""

    from_s: float
    to_s: float
    asked_s: float
    version: str
    port: NamedPort | None
    totals: PortHistory
    ports: list[IncidentPort]
    events: list[dict[str, Any]]
    events_left_out: int
    events_from_s: float | None
    gaps: list[GapTold]
    snapshots: list[Snapshot]
    audit: list[views.AuditEntryView]


class Notices(NamedTuple):
    """How many notices a port had, and the worst level."""

    notices: int
    worst: Literal["L", "M", "H"] | None


class Found(NamedTuple):
    """What was recorded. Ports are "datapath_id:port", those with the most notices first."""

    events: Sequence[Event]
    n_left_out: int
    ports: dict[str, Notices]
    gaps: Sequence[Gap]


def find(
    blocks: Iterable[Block | Hole],
    again: Iterable[Block | Hole],
    begin_s: float,
    end_s: float,
    port: str | None,
    most: int = MOST_EVENTS,
) -> Found:
    """What was recorded of between two times, with the events of a port before others. The same
    blocks are read twice, so that no more than the events that are told is in memory."""
    n_events, ports, gaps = 0, dict[str, tuple[int, int]](), list[Gap]()
    for block in blocks:
        if isinstance(block, Hole):
            gaps.append(Gap(*block, DAMAGED))
        elif block.kind == Kind.GAPS:
            gaps += [Gap(*one) for one in _rows(block)]
        elif block.kind == Kind.EVENTS:
            n, of_block = _counted(block, begin_s, end_s)
            n_events += n
            for name, (notices, worst) in of_block.items():
                before = ports.get(name, (0, 0))
                ports[name] = before[0] + notices, max(before[1], worst)
    events = _chosen(again, begin_s, end_s, port, most)
    noticed = (name for name in ports if ports[name][0])
    order = sorted(noticed, key=lambda name: (-ports[name][0], -ports[name][1], name))
    told = {name: Notices(ports[name][0], _LEVELS[ports[name][1]]) for name in order}
    return Found(events, n_events - len(events), told, gaps)


def _counted(block: Block, begin_s: float, end_s: float) -> tuple[int, dict[str, tuple[int, int]]]:
    """How many events of this time a block has, and its tally."""
    if begin_s <= block.begin_s and block.end_s <= end_s:
        try:
            head = block.first()
        except DamageError:
            return 0, {}
        return head["events"], head["ports"]
    events = list(_within(block, begin_s, end_s))
    return len(events), tally(events)


def _chosen(
    blocks: Iterable[Block | Hole], begin_s: float, end_s: float, port: str | None, most: int
) -> list[Event]:
    of_port, others = list[Event](), list[Event]()
    for block in blocks:
        if not isinstance(block, Block) or block.kind != Kind.EVENTS:
            continue
        is_full = len(others) >= most
        if is_full and (port is None or not _has(block, port)):
            continue
        needles = () if port is None or not is_full else _needles(port)
        for event in _within(block, begin_s, end_s, needles):
            kept = of_port if port is not None and port in ports_of(event) else others
            if len(kept) < most:
                kept.append(event)
        if len(of_port) >= most:
            break
    events = of_port + others[: most - len(of_port)]
    return sorted(events, key=lambda event: float(event["wall_s"]))


def _has(block: Block, port: str) -> bool:
    try:
        return port in block.first()["ports"]
    except DamageError:
        return False


def _needles(port: str) -> tuple[bytes, ...]:
    """Each event of a port has one of these in its line, and most others have none."""
    return port.encode(), row({"switch": int(port.partition(":")[0], 16)})[1:-1]


def _within(
    block: Block, begin_s: float, end_s: float, needles: Sequence[bytes] = ()
) -> Iterator[Event]:
    rows = _found(block, needles) if needles else _rows(block)[1:]
    return (one for one in rows if begin_s <= one["wall_s"] <= end_s)


def _found(block: Block, needles: Sequence[bytes]) -> list[Any]:
    """The events in whose lines one of these is. To read all others would take most of the time."""
    try:
        lines = block.raw().splitlines()[1:]
        return [json.loads(line) for line in lines if any(one in line for one in needles)]
    except (ValueError, RecursionError):
        return []


def _rows(block: Block) -> list[Any]:
    try:
        return block.rows()
    except DamageError:
        return []
