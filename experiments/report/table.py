"""A comparison as a table, and the checks behind it, for people."""

from collections.abc import Callable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from experiments.measure.record import Run
from experiments.measure.validity import notices_during_workload
from experiments.report import flows
from experiments.statistics import percentile
from testbed.config import route_attributes

_Rows = Sequence[tuple[str, Callable[[Run], str]]]


def _rows(runs: Sequence[Run]) -> _Rows:
    units = {run.workload.unit for run in runs}
    what = units.pop() if len(units) == 1 else "operation"
    return (
        ("goodput, Mb/s", lambda run: f"{run.goodput_mbps:.1f}"),
        (f"{what} time, mean, ms", lambda run: f"{_mean(run.times_ms):.0f}"),
        (f"{what} time, median, ms", lambda run: f"{percentile(run.times_ms, 50):.0f}"),
        (f"{what} time, 99th %, ms", lambda run: f"{percentile(run.times_ms, 99):.0f}"),
        ("retransmission timeouts", lambda run: f"{run.timeouts}"),
        (
            "background flow, Mb/s",
            lambda run: f"{run.background_mbps:.1f}" if run.has_background else "-",
        ),
        ("drops at the bottleneck", lambda run: f"{run.data['dropped']}"),
        ("congestion notices", lambda run: f"{len(run.notices('CN-L', 'CN-M', 'CN-H'))}"),
        ("  during the workload", lambda run: f"{notices_during_workload(run.data)}"),
        ("window messages", lambda run: f"{len(run.events('window_set'))}"),
    )


def comparison(runs: Sequence[Run], names: Sequence[str] = ()) -> Table:
    """Return results side by side, a column per run, called by ``names`` where several runs are of
    one scheme."""
    labels = [run.scheme.label for run in runs]
    if len(set(labels)) < len(labels) and names:
        labels = list(names)
    table = Table()
    table.add_column("connections\n", no_wrap=True)
    for run, label in zip(runs, labels, strict=True):
        table.add_column(f"{run.connections}\n{label}", justify="right")
    for name, cell in _rows(runs):
        table.add_row(name, *(cell(run) for run in runs))
    of_flows = [{one.name: one for one in flows.figures(run)} for run in runs]
    for name, one in {name: one for found in of_flows for name, one in found.items()}.items():
        table.add_row(one.label, *(f[name].cell if name in f else "-" for f in of_flows))
    return table


def setting(run: Run) -> str:
    """Return the compared setting, as text."""
    spec = run.data["spec"]
    shape = "".join(f", {name}={number}" for name, number in spec["shape"].items())
    delay_us = spec["delay_us"]
    return (
        f"{run.workload.in_words()}, {spec['rate_bps'] / 1e6:g} Mb/s, "
        f"{spec['buffer_bytes'] / 1024:g} KiB buffer, "
        f"{f'{delay_us / 1000:g} ms of delay at every port, ' if delay_us else ''}"
        f"{'one' if run.has_background else 'no'} background flow ({spec['topology']}{shape})"
    )


def hosts(runs: Sequence[Run]) -> str:
    """Return how the hosts' TCP is set, as read back from them, as text."""
    controls: dict[str, set[str]] = {}
    for run in runs:
        for shown in run.data["hosts"].values():
            # What the test bed registers has its namespace's number in its name.
            used = (
                route_attributes(shown["route"]).get("congctl") or shown["tcp_congestion_control"]
            )
            control = used.partition("_")[0]
            controls.setdefault(_host(shown), set()).add(control)
    described = [f"{' or '.join(sorted(names))}, {rest}" for rest, names in controls.items()]
    return "hosts: " + " / ".join(sorted(described))


def _host(shown: Mapping[str, str]) -> str:
    attributes = route_attributes(shown["route"])
    if "rto_min" in attributes:
        rto_min = attributes["rto_min"]
    elif "tcp_rto_min_us" in shown:
        rto_min = f"{int(shown['tcp_rto_min_us']) / 1000:g} ms"
    else:
        rto_min = "Linux's own"
    quick = attributes.get("quickack") == "1"
    return (
        f"initial window {attributes.get('initcwnd', '10 (default)')}, "
        f"delayed ACK {'off' if quick else 'on (default)'}, "
        f"RTOmin {rto_min}, receive buffer up to {int(shown['tcp_rmem'].split()[-1]) >> 20} MiB"
    )


def verdict(runs: Sequence[Run]) -> RenderableType:
    """Return whether the runs are valid; a line per check that does not hold, or how many do."""
    failed = [(run, check) for run in runs for check in run.checks if not check.holds]
    if not failed:
        count = sum(len(run.checks) for run in runs)
        names = ", ".join(check.name for check in runs[0].checks)
        return Text(f"valid: all {count} checks hold ({names})")
    lines = [Text("not valid:", style="bold")]
    for run, check in failed:
        what = f"{run.scheme.label} at {run.connections}: {check.name}"
        lines.append(Text(f"  {what}: {check.measured}; should be: {check.bound}"))
    return Group(*lines)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
