"""What a run records only if one asks: TCP's windows and round trips over time, and packets.

Both take processor time of the machine that everything runs on, and more the more there is.
"""

import csv
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from experiments.measure.sock_diag import Connection, Established
from testbed.bed import Bed
from testbed.command import CommandError, in_network
from testbed.host import Host

CONNECTIONS, PACKETS = "connections.csv", "bottleneck.pcap"
PERIOD_S = 0.01
# Ethernet, IPv4 and TCP with all options, and a little of what follows.
KEPT_BYTES = 128
_START_S = 5.0
# tcpdump asks for packets once a second, and adds a little.
_HANDED_OVER_S = 1.2


@dataclass(frozen=True)
class Sample:
    """The state of a sending connection: windows in segments, times in ms. ``ssthresh`` is None
    until it is set, ``unacked`` counts segments that are in flight."""

    host: str
    local: str
    peer: str
    time_ns: int
    cwnd: int
    ssthresh: int | None
    unacked: int
    rtt_ms: float
    rto_ms: float


class Connections:
    """Context manager: reads the state of all established connections of ``hosts`` that have sent,
    every ``PERIOD_S``, in a thread; ``save`` writes it."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.samples: list[Sample] = []
        self._hosts = hosts
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._established = {host.name: Established(host.pid) for host in self._hosts}
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._thread.join()
        for one in self._established.values():
            one.close()

    def save(self, file: Path) -> None:
        """Write all samples as CSV."""
        names = [one.name for one in fields(Sample)]
        with file.open("w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([getattr(one, name) for name in names] for one in self.samples)

    def _run(self) -> None:
        next_s = time.monotonic()
        while not self._end.is_set():
            for name, established in self._established.items():
                now_ns = time.monotonic_ns()
                self.samples += [
                    sample(one, name, now_ns) for one in established.read() if one.acked_bytes
                ]
            next_s = max(next_s + PERIOD_S, time.monotonic())
            self._end.wait(next_s - time.monotonic())


def sample(connection: Connection, host: str, time_ns: int) -> Sample:
    """Return the state of a ``connection`` of ``host`` as a sample."""
    return Sample(
        host=host,
        local=connection.local,
        peer=connection.peer,
        time_ns=time_ns,
        cwnd=connection.cwnd,
        ssthresh=connection.ssthresh,
        unacked=connection.unacked,
        rtt_ms=connection.rtt_ms,
        rto_ms=connection.rto_ms,
    )


def read(file: Path) -> list[Sample]:
    """Read what ``Connections.save`` wrote."""

    def value(name: str, text: str) -> Any:
        if name in ("host", "local", "peer"):
            return text
        if name.endswith("_ms"):
            return float(text)
        return int(text) if text else None

    with file.open(newline="") as lines:
        return [
            Sample(**{name: value(name, text) for name, text in row.items()})
            for row in csv.DictReader(lines)
        ]


@contextmanager
def packets(bed: Bed, file: Path) -> Iterator[None]:
    """Capture the beginning of every packet on the bottleneck's link, both ways, at its far end
    (``tcpdump``). Raises CommandError if that cannot begin."""
    far = bed.net.nameToNode[bed.roles.far_node]
    argv = ["tcpdump", "-i", bed.roles.far_end, "-s", str(KEPT_BYTES), "-B", "16384", "-n"]
    argv += ["-U", "-Z", "root", "-w", str(file)]
    with subprocess.Popen(
        in_network(far.pid, argv), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        if "listening on" not in said:
            process.kill()
            raise CommandError(argv, process.wait(), said)
        try:
            yield
        finally:
            # What has come within this time is still in the kernel's hands, and would be lost.
            time.sleep(_HANDED_OVER_S)
            process.terminate()
            process.wait(_START_S)
