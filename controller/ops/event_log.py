"""The event log: one JSON object a line, flushed line by line, for experiments and operators.

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
  address); port_believed: port, reason, refused (how often since the controller began)
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
* switch_audited: switch, wanted, confirmed, refused (entries of the core), restored, removed (what
  had to be put right, all entries and meters of the controller)
"""

import contextlib
import json
import logging
from collections import deque
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, NamedTuple

LOG = logging.getLogger("weir.eventlog")

_RECENT = 4096
# There may be 100,000 of these a second, which would displace all others.
_OF_CONNECTIONS = frozenset(
    {
        *("connection_opened", "connection_dormant", "connection_woken", "connection_closed"),
        "flow_classified",
    }
)


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
    """The latest events, without those of single connections."""

    def __init__(self, limit: int = _RECENT) -> None:
        self._events: deque[Event] = deque(maxlen=limit)
        self.last = 0

    def add(self, event: str, fields: dict[str, object], time_ns: int, wall_s: float) -> None:
        if event not in _OF_CONNECTIONS:
            self.last += 1
            self._events.append(Event(self.last, event, fields, time_ns, wall_s))

    def after(self, serial: int) -> list[Event]:
        """The events after this one that are still remembered, oldest first."""
        newer = list(takewhile(lambda event: event.serial > serial, reversed(self._events)))
        return newer[::-1]


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

    Windows that are only renewed are left out: an idle switch would have nothing else.
    """

    def __init__(self, path: str | None) -> None:
        self.recent = Recent()
        self._path = path
        self._file = self._open()

    @property
    def is_written(self) -> bool | None:
        """None without a file, false once it could not be written."""
        return self._file is not None if self._path else None

    def write(self, event: str, fields: dict[str, object], time_ns: int, wall_s: float) -> None:
        """Append a line. If the file cannot be written, as on a full disk, the log is closed and an
        error logged: the event log must not end the controller."""
        if "refresh" in fields:
            if fields["refresh"]:
                return
            fields = {name: value for name, value in fields.items() if name != "refresh"}
        self.recent.add(event, fields, time_ns, wall_s)
        if self._file is None:
            return
        head = {"event": event, "time_ns": time_ns, "wall_s": round(wall_s, 6)}
        try:
            self._file.write(json.dumps(head | fields) + "\n")
        except OSError as error:
            LOG.error("the event log ends here: cannot write %s: %s", self._path, error.strerror)
            self.close()

    def reopen(self) -> None:
        """Go on in a new file, if the former one has been moved away. If that cannot be opened, an
        error is logged."""
        self.close()
        try:
            self._file = self._open()
        except OSError as error:
            LOG.error("the event log ends here: cannot open %s: %s", self._path, error.strerror)

    def _open(self) -> IO[str] | None:
        return open(self._path, "a", buffering=1) if self._path else None  # noqa: PTH123

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
