"""A burst beside a background flow: the flow's rate during the burst, and how soon it recovers.

The flow is alone first, then beside the reads, then alone again. It has recovered as soon as it has
had, over ``WINDOW_NS``, ``RECOVERED`` of its rate before the burst.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from experiments.bench.comparison import Figures, common, compare, named, require_all
from experiments.bench.incast.plan import ROUNDS
from experiments.measure.record import Run, bytes_between
from experiments.runner import RunSpec, incast, usual_host

SENDERS = 32
WINDOW_NS = 250_000_000
RECOVERED = 0.9
_STEP_NS = 50_000_000
# Slow start and what it leaves behind are over by then.
_SETTLED_NS = 2_000_000_000
_TAIL_S = 5.0


def run(
    progress: Callable[[str], None],
    *,
    schemes: Sequence[str],
    repeats: int,
    records: str,
    host: Mapping[str, Any] | None = None,
) -> Figures:
    """Measure; see ``experiments.bench``. ``floor`` is the flow's rate during the burst, ``host``
    has fields of HostSettings."""
    spec = RunSpec(
        scheme=schemes[0],
        workload=incast(SENDERS, ROUNDS),
        topology="star",
        tail_s=_TAIL_S,
        host=usual_host(**(host or {})),
    )
    runs = compare(spec, schemes, repeats, Path(records), progress)
    figures: Figures = {}
    for name, done in runs.items():
        found = common(done, runs.void[name])
        figures |= named(
            name, {f"beside_background_{what}": value for what, value in found.items()}
        )
        if done:
            beside = {
                "background_alone_mbps": median(map(alone_mbps, done)),
                "background_floor_mbps": min(run.background_mbps for run in done),
                "background_recovery_s": max(map(recovery_s, done)),
            }
            figures |= named(name, beside)
    require_all(figures, runs, repeats)
    return figures


def alone_mbps(run: Run) -> float:
    """Return the background flow's rate before the burst, once it had settled."""
    series = run.data["background_bytes"]
    begin_ns, end_ns = series["start_ns"] + _SETTLED_NS, run.burst_ns[0]
    return bytes_between(series, begin_ns, end_ns) * 8e3 / (end_ns - begin_ns)


def recovery_s(run: Run) -> float:
    """Return how long after the burst's end a window ends in which the flow has recovered;
    without one, the whole time that was recorded."""
    series = run.data["background_bytes"]
    wanted = RECOVERED * alone_mbps(run) * WINDOW_NS / 8e3
    burst_end_ns = run.burst_ns[1]
    watched_ns = series["start_ns"] + len(series["bytes"]) * series["bin_ns"] - burst_end_ns
    for after_ns in range(WINDOW_NS, watched_ns, _STEP_NS):
        end_ns = burst_end_ns + after_ns
        if bytes_between(series, end_ns - WINDOW_NS, end_ns) >= wanted:
            return after_ns / 1e9
    return watched_ns / 1e9
