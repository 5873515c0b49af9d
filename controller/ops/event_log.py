"""The event log: one JSON object a line, soon after it has happened, for experiments and operators.

Every line has `event`, `time_ns` (CLOCK_MONOTONIC of the controller's machine) and `wall_s`
(seconds since 1970). Its other fields, by event; `switch` is the datapath id as a number, and ports
are "datapath id in 16 hexadecimal digits:port":

* start: version, scheme, listen
* stop: reason (the signal, or failure; then also cause, what was raised where)
* reload: changed, kept (keys that are in use from now on, and those that need a restart), or error
* rank: rank (master, standby), and of a master its generation, else the reason
* switch_up: switch, registers
* switch_down: switch
* link_up, link_down: a, b
* link_lossy, link_clean: port, peer (the port at the other end), loss (the part of what the port
  sends that does not come there; null: not known any more), error (of that, in 95 % of all cases)
* protection_on, protection_off: switch, destination (datapath id in 16 hexadecimal digits of the
  switch to which TCP goes over the protected link, or does no more), port (the protected one), loss
  (of the path there; null: not known); of protection_off also reason (loss: it is over, link: the
  protected link is down, settings)
* host_learnt, host_moved: mac, port
* port_disbelieved: port, reason (hosts, addresses: there are more of them than a port may have;
  host elsewhere, address taken: it pretends to be another port's host, or to have another's
  address; address borrowed: it sends TCP segments of others' connections); port_believed: port,
  reason, refused (how often since the controller began)
* host_lost: mac
* host_address: mac, address
* connection_opened: src, src_port, dst, dst_port (src is the initiator), mss_bytes, window_scales
  [initiator's, responder's], path_id (null: not known), adopted (true if its handshake was not
  seen)
* connection_closed: src .. dst_port, reason (finished, reset, replaced, expired, lost; forgotten:
  there were too many dormant ones), volumes_bytes [initiator's, responder's], payload as far as it
  was counted
* connection_dormant, connection_woken: src .. dst_port
* flow_classified: src .. dst_port (the direction of the data), class, volume_bytes
  (these five only with log.connections: a controller sees 100,000 connections a second)
* queue_event: switch, port, notice (CN-L, CN-M, CN-H, CR), packets, bytes, limit_bytes,
  switch_time_ns (CLOCK_MONOTONIC of the switch), sequence, missed, background, burst (the flows
  that leave by the port)
* window_set: switch, ttl_ms, windows: a list of {port, class, register, window_bytes (0: no limit),
  credit: {bound_bytes (0: left to the switch), max_hold_ms, weight}, or null without an account};
  without either the register is released. Windows that are only renewed are left out
* regulation_off: switch, port (null: all of them), by, for_s (if it ends by itself);
  regulation_on: switch, port, by (or expiry)
* packet_ins_limited: port (number 0: not known), class (unknown, neighbour, discovery, syn, end,
  segment), hosts (MAC addresses there), dropped_per_s; packet_ins_in_budget: port, class, hosts,
  dropped (how many since it was limited)
* flow_announced, flow_withdrawn, flow_expired: flow (of a sender with a fountain code)
* events_lost: lines (so many were not written before this, since the disk was too slow)
* switch_audited: switch, wanted, confirmed, refused (entries of the core), restored, removed (what
  had to be put right, all entries and meters of the controller)
"""

import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, NamedTuple

LOG = logging.getLogger("weir.eventlog")

_RECENT, _RECENT_PARTS = 4096, 32_768
_TOGETHER_S = 0.01
# Some 30 MB, or a second of the most events that there may be.
_MOST_WAITING = 100_000

Work = Callable[[], object]
# Does something that waits for a disk, and then calls the other with what it has returned.
Do = Callable[[Callable[[], str | None], Callable[[str | None], object]], object]

# There may be 100,000 of these a second, which would displace all others.
_OF_CONNECTIONS = frozenset(
    {
        *("connection_opened", "connection_dormant", "connection_woken", "connection_closed"),
        "flow_classified",
    }
)


def _at_once(work: Callable[[], str | None], done: Callable[[str | None], object]) -> None:
    done(work())


def _now(_: float, work: Work) -> None:
    work()


class Event(NamedTuple):
    """A line of the log. `serial` counts lines, from 1."""

    serial: int
    event: str
    fields: dict[str, object]
    time_ns: int
    wall_s: float

    def line(self) -> dict[str, object]:
        """The object as it is written to the log."""
        head = {"event": self.event, "time_ns": self.time_ns, "wall_s": round(self.wall_s, 6)}
        return head | self.fields


class Recent:
    """The latest events, without those of single connections: at most `limit`, and of those with
    lists, as of windows, so few that the lists have `most_parts` together. (A window takes 220 to
    450 bytes, and one event may have a thousand of them.)"""

    def __init__(self, limit: int = _RECENT, most_parts: int = _RECENT_PARTS) -> None:
        self._limit = limit
        self._most_parts = most_parts
        self._events: deque[Event] = deque()
        self._parts = 0
        self.last = 0

    def add(self, event: str, fields: dict[str, object], time_ns: int, wall_s: float) -> None:
        if event not in _OF_CONNECTIONS:
            self.last += 1
            self._events.append(Event(self.last, event, fields, time_ns, wall_s))
            self._parts += _parts(fields)
            while len(self._events) > self._limit or (
                self._parts > self._most_parts and len(self._events) > 1
            ):
                self._parts -= _parts(self._events.popleft().fields)

    def after(self, serial: int) -> list[Event]:
        """The events after this one that are still remembered, oldest first."""
        newer = list(takewhile(lambda event: event.serial > serial, reversed(self._events)))
        return newer[::-1]


def _parts(fields: dict[str, object]) -> int:
    return sum(len(value) for value in fields.values() if isinstance(value, list))


def read_events(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The events of a log that may still be written, of one kind or of all. None if it is not there
    yet.

    A reader can meet a line of which only a part is there: a file grows page by page. Such a line
    is left for the next time.
    """
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    events = map(json.loads, whole.splitlines())
    return [event for event in events if kind is None or event["event"] == kind]


class EventLog:
    """Writes to a file, or only keeps `recent`. Raises OSError if the file cannot be opened.

    Lines are written together, soon: `later` is called with a time in seconds and what is to be
    done then. `do` does what waits for the disk, and then calls what it is given with the result;
    meanwhile lines are kept, up to a bound. Windows that are only renewed are left out: an idle
    switch would have nothing else.
    """

    def __init__(
        self, path: str | None, do: Do = _at_once, later: Callable[[float, Work], object] = _now
    ) -> None:
        self.recent = Recent()
        self._path = path
        self._do = do
        self._later = later
        self._file = self._open()
        self._waiting: list[str] = []
        self._lost = 0
        self._lost_at: dict[str, object] = {}
        self._is_due = self._is_busy = self._is_over = False
        self._n_opened = 1

    @property
    def is_written(self) -> bool | None:
        """None without a file, false once it could not be written."""
        return not self._is_over if self._path else None

    def write(self, event: str, fields: dict[str, object], time_ns: int, wall_s: float) -> None:
        """Append a line. If the file cannot be written, as on a full disk, the log is closed and an
        error logged: the event log must not end the controller."""
        if "refresh" in fields:
            if fields["refresh"]:
                return
            fields = {name: value for name, value in fields.items() if name != "refresh"}
        self.recent.add(event, fields, time_ns, wall_s)
        if not self.is_written:
            return
        head = {"event": event, "time_ns": time_ns, "wall_s": round(wall_s, 6)}
        if len(self._waiting) >= _MOST_WAITING:
            self._lost += 1
            self._lost_at = head
            return
        self._tell_lost()
        self._waiting.append(json.dumps(head | fields))
        if not self._is_due:
            self._is_due = True
            self._later(_TOGETHER_S, self._write_soon)

    def reopen(self) -> None:
        """Go on in a new file, if the former one has been moved away. If that cannot be opened, an
        error is logged."""
        if self._path:
            self._is_over = False
            self._n_opened += 1
            self._do(self._reopen, self._reopened)

    def close(self) -> None:
        """Write what waits, and nothing after that."""
        if not self._path:
            return
        self._tell_lost()
        self._hand_over()
        self._is_over = True
        self._do(self._close, lambda _: None)

    # In the loop

    def _tell_lost(self) -> None:
        if self._lost:
            told = self._lost_at | {"event": "events_lost", "lines": self._lost}
            self._waiting.append(json.dumps(told))
            self._lost = 0

    def _write_soon(self) -> None:
        self._is_due = False
        if self._waiting and not self._is_busy:
            self._hand_over()

    def _hand_over(self) -> None:
        lines, self._waiting = self._waiting, []
        self._is_busy = True
        n_opened = self._n_opened
        self._do(lambda: self._append(lines), lambda error: self._appended(error, n_opened))

    def _appended(self, error: str | None, n_opened: int) -> None:
        self._is_busy = False
        if error is not None and n_opened == self._n_opened and not self._is_over:
            LOG.error("the event log ends here: cannot write %s: %s", self._path, error)
            self._is_over = True
            self._waiting.clear()
        self._write_soon()

    def _reopened(self, error: str | None) -> None:
        if error is not None:
            LOG.error("the event log ends here: cannot open %s: %s", self._path, error)
            self._is_over = True

    # Where the disk may be waited for

    def _append(self, lines: list[str]) -> str | None:
        if self._file is None:
            return None
        try:
            self._file.write("".join(line + "\n" for line in lines))
            self._file.flush()
        except OSError as error:
            self._close()
            return error.strerror
        return None

    def _reopen(self) -> str | None:
        self._close()
        try:
            self._file = self._open()
        except OSError as error:
            return error.strerror
        return None

    def _open(self) -> IO[str] | None:
        return open(self._path, "a") if self._path else None  # noqa: PTH123

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
