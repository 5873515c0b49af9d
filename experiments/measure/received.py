"""Traffic that a host receives from each of several others, counted by its kernel.

A rule of the host's packet filter for each source counts and lets through, whatever the protocol.
Reading the counters costs a process, so read every tenth of a second or less often.
"""

import re
import threading
import time
from collections.abc import Sequence
from typing import Self

from testbed.command import run

_CHAIN = ("-t", "raw", "PREROUTING")
# Packets are counted from the IP header on; on the link they have an Ethernet header, too.
_ETHERNET_BYTES = 14
_COUNTED = re.compile(r"^\[(\d+):(\d+)\] -A PREROUTING -s ([\d.]+)/32\b", re.MULTILINE)


class ReceivedBySource:
    """Context manager: a thread reads every ``period_s`` what the host of ``pid`` has received
    from each of ``sources``."""

    def __init__(self, pid: int, sources: Sequence[str], period_s: float) -> None:
        self.time_ns: list[int] = []
        self.bytes: dict[str, list[int]] = {source: [] for source in sources}
        self._pid = pid
        self._period_s = period_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        for source in self.bytes:
            self._filter("-A", source)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._thread.join()
        for source in self.bytes:
            self._filter("-D", source)

    def _filter(self, what: str, source: str) -> None:
        table, name, chain = _CHAIN
        run(["iptables", "-w", table, name, what, chain, "-s", f"{source}/32"], pid=self._pid)

    def _read(self) -> None:
        due = time.monotonic()
        while True:
            counted = parse(run(["iptables-save", "-c", "-t", "raw"], pid=self._pid))
            self.time_ns.append(time.monotonic_ns())
            for source, series in self.bytes.items():
                series.append(counted[source])
            due += self._period_s
            if self._end.wait(max(0.0, due - time.monotonic())):
                return


def parse(shown: str) -> dict[str, int]:
    """Parse ``iptables-save -c``: bytes of frames, by source."""
    return {
        source: int(size) + _ETHERNET_BYTES * int(packets)
        for packets, size, source in _COUNTED.findall(shown)
    }
