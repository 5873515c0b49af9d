"""The event log: one JSON object a line, flushed line by line, for experiments and for operators.

Every line has `event`, `time_ns` (CLOCK_MONOTONIC of the controller's machine) and `wall_s`
(seconds since 1970). What else is in it, by event:

    start              version, scheme, listen switch_up          switch, registers switch_down
    switch link_up, link_down a, b                              each "datapath id in hex:port"
    host_learnt        mac, port                         port is "datapath id in hex:port"
    host_moved         mac, port host_lost          mac host_address       mac, address
    connection_opened  src, src_port, dst, dst_port, mss_bytes, window_scales [initiator's,
    responder's], adopted (true if its handshake was not seen); src is the initiator
    connection_closed  src .. dst_port, reason (finished, reset, replaced, idle), volumes_bytes
    [initiator's, responder's] as far as they were counted flow_classified    src .. dst_port (the
    direction of the data), class, volume_bytes queue_event        switch, port, notice (CN-L, CN-M,
    CN-H, CR), packets, bytes, limit_bytes, switch_time_ns (CLOCK_MONOTONIC of the switch),
    sequence, missed, background, burst (the flows that leave by the port) window_set
    switch, refresh (true if it only renews what is in force), ttl_ms, windows: list of {port,
    class, register, window_bytes}; 0 releases stop               reason
"""

import json
from typing import IO


class EventLog:
    """Writes to a file, or nowhere. Raises OSError if it cannot be opened."""

    def __init__(self, path: str | None) -> None:
        self._file: IO[str] | None = open(path, "a", buffering=1) if path else None  # noqa: SIM115, PTH123

    def write(self, event: str, fields: dict[str, object], time_ns: int, wall_s: float) -> None:
        if self._file is not None:
            head = {"event": event, "time_ns": time_ns, "wall_s": round(wall_s, 6)}
            self._file.write(json.dumps(head | fields) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
