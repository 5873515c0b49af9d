"""Comparisons as one flat object, for machines."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.measure.record import Run
from experiments.statistics import percentile


def summary(settings: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Return what has been shown by the runs of each setting, under different schemes.

    Keys begin with the setting's name and, but for what is common to its runs, with the scheme's,
    as in ``n32.weir.goodput_mbps``. Units are in the names. ``valid`` says whether every check of
    every run holds.
    """
    runs = [run for compared in settings.values() for run in compared]
    flat: dict[str, Any] = {"valid": all(check.holds for run in runs for check in run.checks)}
    flat |= {f"environment.{name}": value for name, value in runs[0].data["environment"].items()}
    for setting, compared in settings.items():
        flat |= {f"{setting}.{name}": value for name, value in _common(compared[0]).items()}
        for run in compared:
            prefix = f"{setting}.{run.scheme.name}"
            flat |= {f"{prefix}.{name}": value for name, value in figures(run).items()}
            for check in run.checks:
                flat[f"{prefix}.check.{check.name}"] = check.measured
                flat[f"{prefix}.check.{check.name}.holds"] = check.holds
    return flat


def _common(run: Run) -> dict[str, Any]:
    spec = run.data["spec"]
    workload = {name: value for name, value in spec["workload"].items() if name != "name"}
    return {
        "link_mbps": spec["rate_bps"] / 1e6,
        "topology": spec["topology"],
        "workload": run.workload.name,
        **workload,
        "background": spec["background"],
        "buffer_bytes": spec["buffer_bytes"],
        "delay_us": spec["delay_us"],
        "warm_up_s": spec["warm_up_s"],
        "tail_s": spec["tail_s"],
    }


def figures(run: Run) -> dict[str, Any]:
    """Return a run's results and the settings of its hosts."""
    times_ms, unit = run.times_ms, run.workload.unit
    sent = run.events("window_set")
    results = {
        "goodput_mbps": round(run.goodput_mbps, 3),
        "timeouts": run.timeouts,
        f"{unit}_time_mean_ms": round(sum(times_ms) / len(times_ms), 3),
        f"{unit}_time_p50_ms": round(percentile(times_ms, 50), 3),
        f"{unit}_time_p99_ms": round(percentile(times_ms, 99), 3),
        "bottleneck_drops": run.data["dropped"],
        "retransmitted_segments": run.counted("Tcp.RetransSegs"),
        "cn_events": len(run.notices("CN-L", "CN-M", "CN-H")),
        "cr_events": len(run.notices("CR")),
        "window_sets": len(sent),
        "window_refreshes": sum(event["refresh"] for event in sent),
        "burst_s": round(run.burst_s, 3),
        "idle_rtt_ms": run.data["idle_rtt_ms"]["avg"],
    }
    if run.has_background:
        results["background_mbps"] = round(run.background_mbps, 3)
    receiver = run.data["hosts"][run.data["roles"]["receiver"]]
    return results | {f"host.{name}": value for name, value in receiver.items()}


def write(settings: Mapping[str, Sequence[Run]], path: Path) -> dict[str, Any]:
    """Write the summary of ``settings`` to ``path`` as JSON, and return it."""
    flat = summary(settings)
    path.write_text(json.dumps(flat, indent=2) + "\n")
    return flat
