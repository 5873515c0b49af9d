"""A comparison as one flat object, for machines."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.record import Run, percentile


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Return what ``runs`` of one setting under different schemes have shown.

    Keys without a dot are common to all; the others begin with the scheme's name. Units are in the
    names. ``valid`` says whether every check of every run holds.
    """
    first = runs[0].data
    incast = first["spec"]["incast"]
    flat: dict[str, Any] = {
        "link_mbps": first["spec"]["rate_bps"] / 1e6,
        "senders": incast["senders"],
        "valid": all(check.holds for run in runs for check in run.checks),
        "topology": first["spec"]["topology"],
        "buffer_bytes": first["spec"]["buffer_bytes"],
        "block_bytes": incast["block_bytes"],
        "connections_per_sender": incast["connections_per_sender"],
        "rounds": incast["rounds"],
        "seed": incast["seed"],
        "warm_up_s": first["spec"]["warm_up_s"],
        "tail_s": first["spec"]["tail_s"],
    }
    flat |= {f"environment.{name}": value for name, value in first["environment"].items()}
    for run in runs:
        flat |= {f"{run.scheme.name}.{name}": value for name, value in figures(run).items()}
        for check in run.checks:
            flat[f"{run.scheme.name}.check.{check.name}"] = check.measured
            flat[f"{run.scheme.name}.check.{check.name}.holds"] = check.holds
    return flat


def figures(run: Run) -> dict[str, Any]:
    """Return a run's results and the settings of its hosts."""
    blocks_ms = run.block_times_ms
    sent = run.events("window_set")
    results = {
        "goodput_mbps": round(run.goodput_mbps, 3),
        "timeouts": run.timeouts,
        "block_time_mean_ms": round(sum(blocks_ms) / len(blocks_ms), 3),
        "block_time_p50_ms": round(percentile(blocks_ms, 50), 3),
        "block_time_p99_ms": round(percentile(blocks_ms, 99), 3),
        "background_mbps": round(run.background_mbps, 3),
        "bottleneck_drops": run.data["dropped"],
        "retransmitted_segments": run.counted("Tcp.RetransSegs"),
        "cn_events": len(run.notices("CN-L", "CN-M", "CN-H")),
        "cr_events": len(run.notices("CR")),
        "window_sets": len(sent),
        "window_refreshes": sum(event["refresh"] for event in sent),
        "burst_s": round(run.burst_s, 3),
        "idle_rtt_ms": run.data["idle_rtt_ms"]["avg"],
    }
    receiver = run.data["hosts"][run.data["roles"]["receiver"]]
    return results | {f"host.{name}": value for name, value in receiver.items()}


def write(runs: Sequence[Run], path: Path) -> dict[str, Any]:
    """Write the summary of ``runs`` to ``path`` as JSON, and return it."""
    flat = summary(runs)
    path.write_text(json.dumps(flat, indent=2) + "\n")
    return flat
