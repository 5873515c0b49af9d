"""A recorded run, and the figures that follow from it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.measure.captures import CONNECTIONS, Sample, read
from experiments.measure.netstat import TIMEOUTS
from experiments.measure.trace import QueueTrace
from experiments.measure.validity import Check
from experiments.schemes import Scheme, scheme
from experiments.workloads import Workload, from_record, goodput_mbps, span_ns

FORMAT = 3
RECORD = "record.json"
QUEUE = "queue.npz"


@dataclass(frozen=True)
class Run:
    """A recorded run: ``data`` is the content of record.json, ``queue`` that of queue.npz,
    ``followed`` that of connections.csv, if connections were followed."""

    data: Mapping[str, Any]
    queue: QueueTrace
    followed: Sequence[Sample] = ()

    @classmethod
    def load(cls, folder: Path) -> "Run":
        """Read a run's folder. Raises OSError if it is not there, ValueError for another format."""
        data = json.loads((folder / RECORD).read_text())
        if data.get("format") != FORMAT:
            raise ValueError(
                f"{folder / RECORD}: format {data.get('format')}, not {FORMAT}: run it again"
            )
        file = folder / CONNECTIONS
        followed = read(file) if file.exists() else []
        return cls(data, QueueTrace.load(folder / QUEUE), followed)

    @property
    def scheme(self) -> Scheme:
        """The scheme it ran under."""
        return scheme(self.data["spec"]["scheme"])

    @property
    def workload(self) -> Workload:
        """What its hosts did."""
        return from_record(self.data["spec"]["workload"])

    @property
    def checks(self) -> list[Check]:
        """Its validity checks."""
        return [Check(**check) for check in self.data["checks"]]

    @property
    def is_valid(self) -> bool:
        """Whether all of its checks hold."""
        return all(check.holds for check in self.checks)

    @property
    def burst_ns(self) -> tuple[int, int]:
        """The start of the workload's first operation and the end of the last one."""
        return span_ns(self.data["operations"])

    @property
    def burst_s(self) -> float:
        """The time between these."""
        begin_ns, end_ns = self.burst_ns
        return (end_ns - begin_ns) / 1e9

    @property
    def goodput_mbps(self) -> float:
        """Bytes of all operations over the time that all of them took."""
        return goodput_mbps(self.data["operations"])

    @property
    def connections(self) -> int:
        """Connections that the workload had at once."""
        return self.workload.connections

    @property
    def has_background(self) -> bool:
        """Whether a background flow ran beside the workload."""
        return bool(self.data["spec"]["background"])

    @property
    def background_mbps(self) -> float:
        """The background flow's bytes while the workload went on, over the time that it took."""
        return bytes_between(self.data["background_bytes"], *self.burst_ns) * 8 / self.burst_s / 1e6

    @property
    def times_ms(self) -> list[float]:
        """How long each operation took."""
        return [(one["end_ns"] - one["start_ns"]) / 1e6 for one in self.data["operations"]]

    @property
    def flows(self) -> list[Mapping[str, Any]]:
        """Each flow, of workloads that record them: operations that are a flow each, or what these
        are made of (``experiments.traffic.flows``)."""
        if not self.data.get("generator"):
            return []
        return list(self.data["flows"] or self.data["operations"])

    @property
    def timeouts(self) -> int:
        """Retransmission timeouts, of all hosts."""
        return self.counted(TIMEOUTS)

    def counted(self, counter: str) -> int:
        """Return the growth of a TCP counter, over all hosts."""
        return sum(host.get(counter, 0) for host in self.data["tcp"].values())

    def notices(self, *kinds: str) -> list[Mapping[str, Any]]:
        """Return the queue notices of these kinds (CN-L, CN-M, CN-H, CR) the controller got."""
        return [e for e in self.events("queue_event") if e["notice"] in kinds]

    def events(self, name: str) -> list[Mapping[str, Any]]:
        """Return the events of this name from the controller's log."""
        return [event for event in self.data["events"] if event["event"] == name]


def binned(
    series: Mapping[str, Any], width_ns: int, origin_ns: int = 0
) -> tuple[int, npt.NDArray[Any]]:
    """Return a series (see ByteBins) in bins of ``width_ns``, counted from ``origin_ns``: the
    number of the first one, and the bytes of each.

    A bin of the series is counted where it begins.
    """
    at_ns = series["start_ns"] + np.arange(len(series["bytes"])) * series["bin_ns"]
    bins = (at_ns - origin_ns) // width_ns
    first = int(bins[0]) if len(bins) else 0
    return first, np.bincount(bins - first, series["bytes"])


def bytes_between(series: Mapping[str, Any], begin_ns: int, end_ns: int) -> float:
    """Return the bytes of a series (see ByteBins) from ``begin_ns`` to ``end_ns``.

    A bin that lies partly in that time counts for that part.
    """
    total = 0.0
    width = series["bin_ns"]
    for index, count in enumerate(series["bytes"]):
        start_ns = series["start_ns"] + index * width
        overlap_ns = min(end_ns, start_ns + width) - max(begin_ns, start_ns)
        total += count * max(0, overlap_ns) / width
    return total
