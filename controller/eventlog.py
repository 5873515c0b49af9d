"""The event log: one JSON object a line, flushed line by line, for experiments and for operators.

Every line has `event`, `time_ns` (CLOCK_MONOTONIC of the controller's machine) and `wall_s`
(seconds since 1970). What else is in it, by event; ports are "datapath id in hex:port":

* start: version, scheme, listen
* stop: reason
* switch_up: switch, registers
* switch_down: switch
* link_up, link_down: a, b
* host_learnt, host_moved: mac, port
* host_lost: mac
* host_address: mac, address
* connection_opened: src, src_port, dst, dst_port (src is the initiator), mss_bytes, window_scales
  [initiator's, responder's], adopted (true if its handshake was not seen)
* connection_closed: src .. dst_port, reason (finished, reset, replaced, expired, lost),
  volumes_bytes [initiator's, responder's], payload as far as it was counted
* flow_classified: src .. dst_port (the direction of the data), class, volume_bytes
  (these three only with log.connections: a controller sees 100,000 connections a second)
* queue_event: switch, port, notice (CN-L, CN-M, CN-H, CR), packets, bytes, limit_bytes,
  switch_time_ns (CLOCK_MONOTONIC of the switch), sequence, missed, background, burst (the flows
  that leave by the port)
* window_set: switch, refresh (true if it only renews what is in force), ttl_ms, windows: a list of
  {port, class, register, window_bytes, rate_bytes_per_s (0: not paced), transit_bytes (0: left to
  the switch)}; without window and rate the register is released
"""

import contextlib
import json
import logging
from typing import IO

LOG = logging.getLogger("weir.eventlog")


class EventLog:
    """Writes to a file, or nowhere. Raises OSError if it cannot be opened."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: IO[str] | None = open(path, "a", buffering=1) if path else None  # noqa: SIM115, PTH123

    def write(self, event: str, fields: dict[str, object], time_ns: int, wall_s: float) -> None:
        """Append a line. A file that cannot take it, as on a full disk, is given up, and said so:
        the log must not take the controller with it."""
        if self._file is None:
            return
        head = {"event": event, "time_ns": time_ns, "wall_s": round(wall_s, 6)}
        try:
            self._file.write(json.dumps(head | fields) + "\n")
        except OSError as error:
            LOG.error("the event log ends here: cannot write %s: %s", self._path, error.strerror)
            self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
