"""Figures of runs whose flows are recorded one by one: completion times and slowdown by size,
deadlines, fairness over time.

Flows are short below 100 kB, long above 1 MB, as in DCTCP's and pFabric's papers, and medium
between. The slowdown of a flow is its time over the least it could take on the idle link
(``Wire.ideal_ns``), whose round-trip time is the delay that was asked for. It is the same whatever
the scheme, and whatever else the machine did; what the machine takes for a packet, 0.1 to 0.2 ms
each way, counts as slowdown, so that a flow of one full packet has one of 3 to 4 even alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from experiments.measure.record import Run, bytes_between
from experiments.statistics import jain, percentile
from experiments.traffic.wire import Wire

SHORT_BYTES, LONG_BYTES = 100_000, 1_000_000
# Of the time after a flow has begun or ended: the others take a while to share what there is.
SETTLING = 0.5
_LEAST_PHASE_NS = 200_000_000

Flows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Figure:
    """A ``value`` by its ``name`` in summaries, and ``label`` in tables with so many ``digits``."""

    name: str
    label: str
    value: float
    digits: int = 0

    @property
    def cell(self) -> str:
        """The value as text."""
        return f"{self.value:.{self.digits}f}"


def figures(run: Run) -> list[Figure]:
    """Return what the flows of ``run`` tell; nothing where flows are not recorded."""
    flows = run.flows
    if not flows:
        return []
    slowdown = slowdowns(run)
    found = [Figure("flows", "flows", len(flows)), *_offered(run)]
    for name, label, belongs in _CLASSES:
        some = [(flow, slow) for flow, slow in zip(flows, slowdown, strict=True) if belongs(flow)]
        if some:
            found += _of_class(name, label, some)
    hit = sum(flow["timeouts"] > 0 for flow in flows)
    found.append(Figure("flows_with_timeout", "flows that had a timeout", hit))
    long = [flow for flow in flows if flow["bytes"] > LONG_BYTES]
    if long:
        mean = sum(map(throughput_mbps, long)) / len(long)
        found.append(Figure("long_throughput_mbps", "long flows, mean, Mb/s", mean, 1))
    return found + _of_queries(run) + _of_series(flows)


def _wire(run: Run) -> Wire:
    """Return what TCP was on the wire, by the settings that were read back."""
    shown = run.data["hosts"][run.data["roles"]["receiver"]]
    return Wire(int(shown.get("mtu", 1500)), shown.get("tcp_timestamps", "1") != "0")


def _offered(run: Run) -> list[Figure]:
    """The load that was drawn, of workloads that are at a load: with few flows it is not what was
    asked for. RPCs beside it are left out, as they are of what was asked for."""
    workload = run.data["spec"]["workload"]
    if "load" not in workload:
        return []
    wire, link_bps = _wire(run), run.data["roles"]["bottleneck_bps"]
    frames = sum(wire.frames_bytes(flow["bytes"]) for flow in run.flows if flow["kind"] != "rpc")
    offered = frames * 8 / link_bps / workload["seconds"]
    return [Figure("offered_load", "  load that they offered", offered, 3)]


def slowdowns(run: Run) -> list[float]:
    """Return the slowdown of each flow of ``run``."""
    data, wire = run.data, _wire(run)
    rate_bps, round_trips = data["roles"]["bottleneck_bps"], data["generator"]["round_trips"]
    delay_ns = data["idle_rtt_ms"]["delay"] * 1e6
    return [
        (flow["end_ns"] - flow["start_ns"])
        / wire.ideal_ns(flow["bytes"], rate_bps, delay_ns, round_trips)
        for flow in run.flows
    ]


def throughput_mbps(flow: Mapping[str, Any]) -> float:
    """Return a flow's bytes over its time."""
    return float(flow["bytes"] * 8e3 / (flow["end_ns"] - flow["start_ns"]))


def phases(flows: Flows) -> list[tuple[int, int, list[float]]]:
    """Return each span between two beginnings or ends of flows that are recorded over time: from
    and until when (ns), and the throughput in Mb/s of each flow that is there all the while.

    The first half of a span is left out, in which they settle, and so are spans of a moment.
    """
    edges = sorted({flow[edge] for flow in flows for edge in ("start_ns", "end_ns")})
    found = []
    for begin_ns, end_ns in pairwise(edges):
        if end_ns - begin_ns < _LEAST_PHASE_NS:
            continue
        from_ns = round(begin_ns + SETTLING * (end_ns - begin_ns))
        found.append((from_ns, end_ns, rates_mbps(flows, from_ns, end_ns)))
    return found


def rates_mbps(flows: Flows, from_ns: int, end_ns: int) -> list[float]:
    """Return the throughput in that time of each of ``flows``, which are recorded over time, that
    is there all the while."""
    return [
        bytes_between(flow["received"], from_ns, end_ns) * 8e3 / (end_ns - from_ns)
        for flow in flows
        if flow["start_ns"] <= from_ns and end_ns <= flow["end_ns"]
    ]


def _is_flow(flow: Mapping[str, Any]) -> bool:
    # RPCs beside them are a class of their own; long flows that end by the clock have no size.
    return flow["kind"] != "rpc" and "received" not in flow


_CLASSES: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], bool]]] = (
    ("short", "short", lambda flow: _is_flow(flow) and flow["bytes"] < SHORT_BYTES),
    (
        "medium",
        "medium",
        lambda flow: _is_flow(flow) and SHORT_BYTES <= flow["bytes"] <= LONG_BYTES,
    ),
    ("long", "long", lambda flow: _is_flow(flow) and flow["bytes"] > LONG_BYTES),
    ("rpc", "RPCs", lambda flow: flow["kind"] == "rpc"),
)


def _of_class(
    name: str, label: str, some: Sequence[tuple[Mapping[str, Any], float]]
) -> list[Figure]:
    times_ms = [(flow["end_ns"] - flow["start_ns"]) / 1e6 for flow, _ in some]
    slow = [slowdown for _, slowdown in some]
    count = len(some)
    return [
        Figure(f"{name}_flows", f"{label}: flows", count),
        Figure(f"{name}_fct_mean_ms", "  time, mean, ms", sum(times_ms) / count, 2),
        Figure(f"{name}_fct_p95_ms", "  time, 95th %, ms", percentile(times_ms, 95), 2),
        Figure(f"{name}_fct_p99_ms", "  time, 99th %, ms", percentile(times_ms, 99), 2),
        Figure(f"{name}_slowdown_mean", "  slowdown, mean", sum(slow) / count, 2),
        Figure(f"{name}_slowdown_p99", "  slowdown, 99th %", percentile(slow, 99), 2),
        Figure(f"{name}_timeouts", "  timeouts", sum(flow["timeouts"] for flow, _ in some)),
    ]


def _of_queries(run: Run) -> list[Figure]:
    asked = [one for one in run.data["operations"] if "met" in one]
    if not asked:
        return []
    missed = sum(not one["met"] for one in asked)
    in_time = sum(one["in_time"] for one in asked) / sum(one["answers"] for one in asked)
    return [
        Figure("queries", "queries", len(asked)),
        Figure("deadlines_missed", "  that missed their deadline", missed),
        Figure("deadlines_met_pct", "  that met it, %", 100 * (1 - missed / len(asked)), 1),
        Figure("answers_in_time_pct", "  answers in time, %", 100 * in_time, 1),
    ]


def _of_series(flows: Flows) -> list[Figure]:
    lasting = [flow for flow in flows if "received" in flow]
    together = [rates for _, _, rates in phases(lasting) if len(rates) > 1]
    if not together:
        return []
    fairness = [jain(rates) for rates in together]
    return [
        Figure("jain_mean", "Jain's index, mean", sum(fairness) / len(fairness), 3),
        Figure("jain_min", "  least", min(fairness), 3),
        Figure("share_min_mbps", "least share of a flow, Mb/s", min(map(min, together)), 1),
    ]
