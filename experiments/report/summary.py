"""Comparisons as one flat object, for machines."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.measure.record import Run
from experiments.measure.validity import notices_during_workload
from experiments.report import flows
from experiments.statistics import percentile


def summary(settings: Mapping[str, Mapping[str, Run]]) -> dict[str, Any]:
    """Return the results of the runs of each setting, by their names.

    Keys begin with the setting's name and, except for what is common to its runs, with the run's,
    as in ``n32.weir.goodput_mbps``. Units are in the names. ``valid`` says whether every check of
    every run holds.
    """
    runs = [run for compared in settings.values() for run in compared.values()]
    flat: dict[str, Any] = {"valid": all(run.is_valid for run in runs)}
    flat |= _environment(runs[0])
    for setting, compared in settings.items():
        first = next(iter(compared.values()))
        flat |= {f"{setting}.{name}": value for name, value in _common(first).items()}
        for called, run in compared.items():
            figures_of = figures(run) | _checks(run)
            flat |= {f"{setting}.{called}.{name}": value for name, value in figures_of.items()}
    return flat


def of_run(run: Run) -> dict[str, Any]:
    """Return the same of one run, whose keys need no names before them."""
    settings = {"scheme": run.scheme.name} | _common(run)
    return {"valid": run.is_valid} | settings | figures(run) | _checks(run) | _environment(run)


def _environment(run: Run) -> dict[str, Any]:
    return {f"environment.{name}": value for name, value in run.data["environment"].items()}


def _checks(run: Run) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for check in run.checks:
        flat[f"check.{check.name}"] = check.measured
        flat[f"check.{check.name}.holds"] = check.holds
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
    results = {
        "goodput_mbps": round(run.goodput_mbps, 3),
        "timeouts": run.timeouts,
        f"{unit}_time_mean_ms": round(sum(times_ms) / len(times_ms), 3),
        f"{unit}_time_p50_ms": round(percentile(times_ms, 50), 3),
        f"{unit}_time_p99_ms": round(percentile(times_ms, 99), 3),
        "bottleneck_drops": run.data["dropped"],
        "retransmitted_segments": run.counted("Tcp.RetransSegs"),
        "cn_events": len(run.notices("CN-L", "CN-M", "CN-H")),
        "cn_events_during_workload": notices_during_workload(run.data),
        "cr_events": len(run.notices("CR")),
        "window_sets": len(run.events("window_set")),
        "burst_s": round(run.burst_s, 3),
        "idle_rtt_ms": run.data["idle_rtt_ms"]["avg"],
    }
    if run.has_background:
        results["background_mbps"] = round(run.background_mbps, 3)
    results |= {one.name: round(one.value, 3) for one in flows.figures(run)}
    generator = run.data.get("generator", {})
    results |= {f"generator.{name}": round(value, 3) for name, value in generator.items()}
    receiver = run.data["hosts"][run.data["roles"]["receiver"]]
    return results | {f"host.{name}": value for name, value in receiver.items()}


def write(settings: Mapping[str, Mapping[str, Run]], path: Path) -> dict[str, Any]:
    """Write the summary of ``settings`` to ``path`` as JSON, and return it."""
    flat = summary(settings)
    path.write_text(json.dumps(flat, indent=2) + "\n")
    return flat
