"""What is read from a recorded run: numbers, and series over time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.measure.netstat import TIMEOUTS
from experiments.measure.record import Run, binned
from experiments.report import flows
from experiments.statistics import jain, percentile
from testbed.shaping import FULL_FRAME_BYTES

Series = tuple[npt.NDArray[Any], npt.NDArray[Any]]


@dataclass(frozen=True)
class Metric:
    """``of`` returns a run's value, None where it has none; of what is ``over_time`` a series:
    seconds since the workload's beginning, in bins of as many seconds as asked for, and values.

    ``higher`` says whether more is better, ``rests`` whether a series is 0 after its end: of what
    is sent or waits there, not of a window or an index.
    """

    name: str
    label: str
    of: Callable[..., Any]
    higher: bool = True
    over_time: bool = False
    rests: bool = False


def flow_times_ms(run: Run) -> list[float]:
    """Return the completion times of all flows: a block of reads is a flow of each connection."""
    times: list[float] = []
    for one in run.flows or run.data["operations"]:
        if "completion_ns" in one:
            times += [each / 1e6 for each in one["completion_ns"]]
        else:
            times.append((one["end_ns"] - one["start_ns"]) / 1e6)
    return times


def timeout_ratio(run: Run) -> float | None:
    """Return the share of flows with a retransmission timeout, in %.

    A flow's own count is taken where the workload has it, a block of reads being a flow of each
    connection; else that of the host that sends it, if it has one connection. None where neither
    tells.
    """
    counted = [flow["timeouts"] for flow in run.flows] or [
        count for one in run.data["operations"] for count in one.get("timeouts", ())
    ]
    if counted:
        return float(100 * np.mean(np.asarray(counted) > 0))
    senders = [name for name in run.data["tcp"] if name.startswith("h")]
    if not senders or run.connections != len(senders):
        return None
    return 100 * sum(run.data["tcp"][h].get(TIMEOUTS, 0) > 0 for h in senders) / len(senders)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _at(values: Sequence[float], percent: float) -> float | None:
    return percentile(values, percent) if len(values) else None


def _of_flows(name: str) -> Callable[[Run], float | None]:
    """Return what reads a figure of ``report.flows``."""

    def read(run: Run) -> float | None:
        return next((one.value for one in flows.figures(run) if one.name == name), None)

    return read


def jain_of_active(run: Run, bin_s: float) -> Series:
    """Return Jain's index of the rates of those flows that are there during a whole bin, where two
    or more are. Of workloads that record flows over time."""
    bin_ns = round(bin_s * 1e9)
    began_ns, ended_ns = run.burst_ns
    lasting = [one for one in run.flows if "received" in one]
    times, values = [], []
    for start_ns in range(began_ns, ended_ns - bin_ns + 1, bin_ns):
        rates = flows.rates_mbps(lasting, start_ns, start_ns + bin_ns)
        if len(rates) > 1:
            times.append((start_ns - began_ns) / 1e9)
            values.append(jain(rates))
    return np.array(times), np.array(values)


def _rate(run: Run, name: str, bin_s: float) -> Series:
    first, total = binned(run.data[name], round(bin_s * 1e9), run.burst_ns[0])
    return (first + np.arange(len(total))) * bin_s, total * 8e-6 / bin_s


def _queue(run: Run, bin_s: float) -> Series:
    """The longest queue of each bin, in full-size packets; without arrivals it only drains."""
    trace = replace(run.queue, time_ns=run.queue.time_ns - run.burst_ns[0])
    rate_bps = run.data["roles"]["bottleneck_bps"]
    starts_ns, _, longest = trace.envelope(round(bin_s * 1e9), rate_bps)
    return starts_ns / 1e9, longest / FULL_FRAME_BYTES


def _window(run: Run, bin_s: float) -> Series:
    """The least congestion window in each bin of the first connection that was followed."""
    if not run.followed:
        return np.empty(0), np.empty(0)
    first = run.followed[0]
    own = [one for one in run.followed if (one.host, one.peer) == (first.host, first.peer)]
    least: dict[int, int] = {}
    for one in own:
        place = int((one.time_ns - run.burst_ns[0]) // round(bin_s * 1e9))
        least[place] = min(least.get(place, one.cwnd), one.cwnd)
    places = sorted(place for place in least if place >= 0)
    return np.array(places) * bin_s, np.array([float(least[place]) for place in places])


def _metrics() -> Mapping[str, Metric]:
    many = [
        Metric("goodput_mbps", "goodput [Mb/s]", lambda run: run.goodput_mbps),
        Metric(
            "background_mbps", "background flow [Mb/s]",
            lambda run: run.background_mbps if run.has_background else None,
        ),
        Metric(
            "total_mbps", "goodput and background flow [Mb/s]",
            lambda run: run.goodput_mbps + run.background_mbps,
        ),
        Metric("timeouts", "retransmission timeouts", lambda run: run.timeouts, higher=False),
        Metric("timeout_ratio_pct", "flows with a timeout [%]", timeout_ratio, higher=False),
        Metric(
            "retransmissions", "segments sent again",
            lambda run: run.counted("Tcp.RetransSegs"), higher=False,
        ),
        Metric(
            "drops", "drops at the bottleneck", lambda run: run.data["dropped"], higher=False
        ),
        Metric(
            "fct_mean_ms", "mean flow completion time [ms]",
            lambda run: _mean(flow_times_ms(run)), higher=False,
        ),
        Metric(
            "jain_mean", "Jain's index of the flows' rates, mean over time",
            _of_flows("jain_mean"),
        ),
        Metric(
            "operation_p99_ms", "99th percentile of an operation's time [ms]",
            lambda run: _at(run.times_ms, 99), higher=False,
        ),
        Metric("deadlines_met_pct", "deadlines met [%]", _of_flows("deadlines_met_pct")),
        Metric("offered_load", "load that the flows offered", _of_flows("offered_load")),
        Metric(
            "long_throughput_mbps", "flows above 1 MB, mean throughput [Mb/s]",
            _of_flows("long_throughput_mbps"),
        ),
        Metric(
            "short_slowdown_mean", "mean slowdown of short flows",
            _of_flows("short_slowdown_mean"), higher=False,
        ),
        Metric(
            "short_slowdown_p99", "99th percentile of short flows' slowdown",
            _of_flows("short_slowdown_p99"), higher=False,
        ),
        Metric(
            "idle_rtt_ms", "idle round trip [ms]",
            lambda run: run.data["idle_rtt_ms"]["avg"], higher=False,
        ),
    ]  # fmt: skip
    many += [
        Metric(
            f"fct_p{percent}_ms",
            f"{percent}th percentile of flow completion times [ms]",
            lambda run, percent=percent: _at(flow_times_ms(run), percent),
            higher=False,
        )
        for percent in (50, 95, 99)
    ]
    many += [
        Metric(
            "workload_rate_mbps", "goodput of the flows [Mb/s]",
            lambda run, bin_s: _rate(run, "workload_bytes", bin_s), over_time=True, rests=True,
        ),
        Metric(
            "background_rate_mbps", "background flow [Mb/s]",
            lambda run, bin_s: _rate(run, "background_bytes", bin_s), over_time=True, rests=True,
        ),
        Metric(
            "jain_over_time", "Jain's index of the flows' rates", jain_of_active, over_time=True
        ),
        Metric(
            "cwnd_segments", "congestion window of a connection [segments]", _window,
            over_time=True,
        ),
        Metric(
            "queue_packets", "queue at the bottleneck [packets]", _queue, higher=False,
            over_time=True, rests=True,
        ),
    ]  # fmt: skip
    return {metric.name: metric for metric in many}


METRICS = _metrics()

USUAL = (
    "goodput_mbps", "background_mbps", "timeouts", "timeout_ratio_pct", "retransmissions", "drops",
    "fct_mean_ms", "fct_p50_ms", "fct_p95_ms", "fct_p99_ms", "operation_p99_ms", "jain_mean",
    "deadlines_met_pct", "offered_load", "short_slowdown_mean", "short_slowdown_p99",
    "long_throughput_mbps", "idle_rtt_ms",
)  # fmt: skip
"""What is read from every run, whatever a figure draws."""
