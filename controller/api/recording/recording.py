"""Which events are recorded, where to go on after a break, and of when some are missing. Pure.

A gap is a time of which events may be missing, and why. It is recorded like an event.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controller.api.recording.blocks import Block, DamageError, Kind, row
from controller.api.recording.segments import Segments
from controller.model.values import PortId

MISSED = "events_missed"
"""The event that says that others were missed, and how many."""

# While little happens, it is written this often that the controller was heard.
_ALIVE_S = 10.0
# So much waits in memory where the disk is slow: 60,000 notices.
_MOST_WAITING_BYTES = 64 * 1024 * 1024
# About what an event takes there, and each element of a list of it.
_EVENT_BYTES, _ELEMENT_BYTES = 1000, 600
# Events may be large. A block stays far below what it may have.
_PER_BLOCK, _BLOCK_BYTES = 1000, 1024 * 1024
# What had happened when the controller was last heard may have been on its way.
_LATE_S = 1.0

_LEVELS = {"CN-L": 1, "CN-M": 2, "CN-H": 3}

Event = Mapping[str, Any]


class Gap(NamedTuple):
    """In seconds since 1970."""

    from_s: float
    to_s: float
    why: str


class Heard(NamedTuple):
    """An event of a run of the controller, each of which counts anew."""

    run: str
    event: Event


class Batch(NamedTuple):
    """What is to be written, in its order. Until `heard_s`, the controller was heard, in this run
    until this event."""

    entries: Sequence[Heard | Gap]
    run: str
    serial: int
    heard_s: float
    n_bytes: int = 0


class Recording:
    """Takes the stream of events. Times are of the day, in seconds since 1970.

    `dropped` events came faster than they could be written. Who writes batches adds up their
    `n_bytes` in `written_bytes`; until then, they wait in memory.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self.written_bytes = 0
        self._taken_bytes = 0
        self._batched_bytes = 0
        self._run: str | None = None
        self._serial = 0
        # The controller was last heard then; None: never.
        self._heard_s: float | None = None
        self._alive_s = 0.0
        self._is_heard = False
        self._is_first = True
        # Those up to this one happened before anybody here could hear of them.
        self._former = 0
        self._broken: tuple[float, str] | None = None
        self._entries: list[Heard | Gap] = []

    def resume(self, newest: Iterable[Block]) -> None:
        """Go on where a recording has ended, of which these are the newest blocks, in the order
        they were written."""
        for block in newest:
            if block.kind in (Kind.EVENTS, Kind.ALIVE):
                try:
                    told = block.first()
                except DamageError:
                    continue
                # The last one that was written, whatever the clock was then.
                self._run, self._serial = told["run"], told["serial"]
                self._heard_s = block.end_s

    def wanted(self) -> dict[str, object]:
        """The parameters of `follow_events`."""
        if self._run is None:
            return {"after": 0}
        return {"after": self._serial, "run": self._run}

    def begin(self, head: Mapping[str, Any]) -> None:
        """The stream begins."""
        if head["run"] != self._run:
            if self._heard_s is not None:
                self._broken = self._heard_s - _LATE_S, "the controller was started again"
            self._run, self._serial = head["run"], 0
        self._former = head["last"] if self._is_first else 0
        self._is_first = False
        self._is_heard = True

    def end(self) -> None:
        """The stream has ended."""
        self._is_heard = False

    def take(self, messages: Sequence[Event], now_s: float) -> list[Event]:
        """Take what has come. Returns what was not there before this process."""
        for message in messages:
            if message.get("event") == MISSED:
                self._serial += message["missed"]
                why = f"{message['missed']} events were missed: the controller had forgotten them"
                # Before the first recording, nothing is missing.
                if self._heard_s is not None:
                    self._broken = self._broken or (self._heard_s - _LATE_S, why)
                continue
            self._serial = message["serial"]
            n_bytes = _memory_of(message)
            if self._taken_bytes - self.written_bytes + n_bytes <= _MOST_WAITING_BYTES:
                self._taken_bytes += n_bytes
                self._mend(message["wall_s"])
                self._entries.append(Heard(self._run or "", message))
            else:
                self.dropped += 1
                why = "events were missed: they could not be written as fast as they came"
                self._broken = self._broken or (message["wall_s"], why)
        if not messages:
            self._mend(now_s)
        self._heard_s = now_s
        return [one for one in messages if one.get("serial", self._serial) > self._former]

    def _mend(self, until_s: float) -> None:
        """There are events again."""
        if self._broken is not None:
            since_s, why = self._broken
            # A clock that was set back makes no gap of less than nothing.
            self._entries.append(Gap(min(since_s, until_s), until_s, why))
            self._broken = None

    def batch(self) -> Batch | None:
        """What is to be written now, which is then no more here."""
        if self._heard_s is None or self._run is None:
            return None
        if not self._entries and abs(self._heard_s - self._alive_s) < _ALIVE_S:
            return None
        self._alive_s = self._heard_s
        n_bytes = self._taken_bytes - self._batched_bytes
        told = Batch(self._entries, self._run, self._serial, self._heard_s, n_bytes)
        self._entries, self._batched_bytes = [], self._taken_bytes
        return told

    def present_gap(self, now_s: float) -> Gap | None:
        """The gap that goes on now."""
        if self._broken is not None:
            return Gap(min(self._broken[0], now_s), now_s, self._broken[1])
        if self._is_heard or self._heard_s is None:
            return None
        return Gap(min(self._heard_s - _LATE_S, now_s), now_s, "the controller does not answer")


class _Piece(NamedTuple):
    """A block that is to be written."""

    kind: Kind
    begin_s: float
    end_s: float
    rows: Iterable[bytes]
    n_events: int = 0


class Writer:
    """Writes batches, one by one. What cannot be written is lost, and a gap once others can.

    `failure` says why nothing can be written, None if it can.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self.failure: str | None = None
        self.lost: Gap | None = None
        # Of the batch that is being written.
        self._failed: str | None = None

    def write(self, batch: Batch, now_s: float) -> int:
        """Returns how many events are lost."""
        n_lost, self._failed = 0, None
        # First: of what is damaged later, the time is known by what is before and after it.
        if self.lost is not None and self._append(_gap(self.lost), now_s):
            self.lost = None
        for piece in _pieces(batch):
            if not self._append(piece, now_s):
                n_lost += piece.n_events
                if piece.kind != Kind.ALIVE:
                    self._lose(piece.begin_s, piece.end_s)
        self.failure = self._failed
        return n_lost

    def _append(self, piece: _Piece, now_s: float) -> bool:
        try:
            self._segments.append(piece.kind, piece.begin_s, piece.end_s, piece.rows, now_s)
        except OSError as error:
            self._failed = error.strerror or str(error)
            return False
        except ValueError as error:
            # No later attempt would write it either.
            self._failed = str(error)
            return False
        return True

    def _lose(self, begin_s: float, end_s: float) -> None:
        known = self.lost or Gap(begin_s, end_s, f"events could not be written: {self._failed}")
        self.lost = Gap(min(known.from_s, begin_s), max(known.to_s, end_s), known.why)


def _pieces(batch: Batch) -> Iterator[_Piece]:
    events: list[Event] = []
    rows: list[bytes] = []
    n_bytes = 0
    run = batch.run
    for entry in batch.entries:
        is_of_another = isinstance(entry, Gap) or entry.run != run
        text = b"" if isinstance(entry, Gap) else row(entry.event)
        is_full = len(events) == _PER_BLOCK or n_bytes + len(text) > _BLOCK_BYTES
        if events and (is_of_another or is_full):
            yield _block(run, events, rows)
            events, rows, n_bytes = [], [], 0
        if isinstance(entry, Gap):
            yield _gap(entry)
        else:
            run = entry.run
            events.append(entry.event)
            rows.append(text)
            n_bytes += len(text)
    if events:
        yield _block(run, events, rows)
    else:
        head = {"run": batch.run, "serial": batch.serial}
        yield _Piece(Kind.ALIVE, batch.heard_s, batch.heard_s, [row(head)])


def _block(run: str, events: Sequence[Event], rows: Iterable[bytes]) -> _Piece:
    times_s = [event["wall_s"] for event in events]
    head = {
        "run": run,
        "serial": events[-1]["serial"],
        "events": len(events),
        "ports": tally(events),
    }
    return _Piece(Kind.EVENTS, min(times_s), max(times_s), [row(head), *rows], len(events))


def _memory_of(event: Event) -> int:
    """About how many bytes an event takes in memory."""
    n_elements = sum(len(value) for value in event.values() if isinstance(value, list))
    return _EVENT_BYTES + _ELEMENT_BYTES * n_elements


def _gap(gap: Gap) -> _Piece:
    return _Piece(Kind.GAPS, gap.from_s, gap.to_s, [row(gap)])


def ports_of(event: Event) -> set[str]:
    """The ports that an event tells of, as "datapath_id:port"."""
    if event["event"] == "window_set":
        return {str(PortId(event["switch"], one["port"])) for one in event["windows"]}
    if isinstance(event.get("port"), int):
        return {str(PortId(event["switch"], event["port"]))}
    names = {event[key] for key in ("port", "a", "b") if isinstance(event.get(key), str)}
    return {name for name in names if ":" in name}


def tally(events: Iterable[Event]) -> dict[str, tuple[int, int]]:
    """For each port that events tell of, how many notices it has, and the worst level: 1 to 3, or
    0."""
    told: dict[str, tuple[int, int]] = {}
    for event in events:
        is_notice = event["event"] == "queue_event"
        for name in ports_of(event):
            n, worst = told.get(name, (0, 0))
            level = _LEVELS.get(event["notice"], 0) if is_notice else 0
            told[name] = n + is_notice, max(worst, level)
    return told
