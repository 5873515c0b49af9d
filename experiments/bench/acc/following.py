"""One long flow over TCP-ACC's layer while the share of frames that are lost changes in steps: the
group ``following``.

``following_...`` are series: seconds, the loss that is set, the one that the layer reckons with
(p), coded packets after the last window (c1) and on the last losses (c2), and coded packets and
TCP's packets a second since the sample before. ``following_steps`` has each step's means over its
second half.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from time import monotonic, sleep
from typing import Any

import psutil

from experiments.bench.acc.layer import LINES, TCPS, layers
from experiments.bench.short_flows.dumbbell import address, dumbbell
from experiments.measure.sampling import share_of_processors
from experiments.network.acc import End, set_control, summed
from experiments.traffic.bulk import PORT
from experiments.workloads.long_flows import long_flows
from testbed.bottleneck import Loss
from testbed.sandbox import RUN_DIR

PREFIX = "following"
_TCP = "linux"

Sample = dict[str, float]


def run(
    progress: Callable[[str], None],
    *,
    losses_pct: Sequence[float],
    step_s: float,
    every_s: float = 0.25,
) -> dict[str, Any]:
    """Measure; see ``experiments.bench``."""
    log, tcp = RUN_DIR / "workload.log", TCPS[_TCP]
    samples: list[Sample] = []
    with dumbbell(both_ways=True, red=None) as network:
        h1, h2 = network.hosts[:2]
        ends = [End(h1.pid, [address(2)]), End(h2.pid, [address(1)])]
        network.start(Loss(), tcp.sysctls)
        for host in (h1, h2):
            set_control(host.pid, tcp.control)
        with (
            layers(LINES["acc"], ends, tcp, RUN_DIR, log) as (sender, _),
            long_flows([h1], h2, log, to=address(2)),
        ):
            begun_s, processors = monotonic(), psutil.cpu_times()
            for number, loss_pct in enumerate(losses_pct):
                network.set_loss(Loss(loss_pct / 100), number + 1)
                end_s = begun_s + (number + 1) * step_s
                while (now_s := monotonic()) < end_s:
                    told = sample(sender.statistics())
                    samples.append({"s": now_s - begun_s, "set_pct": loss_pct, **told})
                    sleep(max(0.0, min(now_s + every_s, end_s) - monotonic()))
            idle_pct = 100 * share_of_processors(processors, "idle")
    figures = series(samples) | {f"{PREFIX}_processors_idle_pct": idle_pct}
    for step in figures[f"{PREFIX}_steps"]:
        progress(", ".join(f"{name} {value:.4g}" for name, value in step.items()))
    return figures


def sample(statistics: Mapping[str, Any]) -> Sample:
    """Return what the sender's layer says at one moment; the flow is the one to the port of the
    program that sends."""
    found = summed([statistics])
    told: Sample = {"sent": found["sent"], "coded": found["coded"]}
    for peer in statistics["peers"]:
        told["loss_pct"] = 100 * peer["loss"]
        for flow in peer["flows"]:
            if flow["to"] == PORT:
                told |= {name: float(flow[name] or 0) for name in ("c1", "c2")}
    return told


def series(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the figures of all ``samples``, in which ``sent`` and ``coded`` are counters."""
    rows = []
    for before, after in pairwise(samples):
        span_s = after["s"] - before["s"]
        rates = {
            f"{name}_per_s": (after[name] - before[name]) / span_s for name in ("coded", "sent")
        }
        kept = {name: after.get(name, 0.0) for name in ("s", "set_pct", "loss_pct", "c1", "c2")}
        rows.append(kept | rates)
    figures: dict[str, Any] = {
        f"{PREFIX}_{name}": [row[name] for row in rows] for name in (rows[0] if rows else ())
    }
    return figures | {f"{PREFIX}_steps": _steps(rows)}


def _steps(rows: Sequence[Sample]) -> list[Sample]:
    steps: list[list[Sample]] = []
    for row in rows:
        if not steps or steps[-1][-1]["set_pct"] != row["set_pct"]:
            steps.append([])
        steps[-1].append(row)
    names = ("set_pct", "loss_pct", "c1", "c2", "coded_per_s", "sent_per_s")
    return [
        {name: fmean(row[name] for row in step[len(step) // 2 :]) for name in names}
        for step in steps
    ]
