"""Benchmarks: groups of figures, measured one after the other, each in a world of its own.

A group is a module of this package with

    def run(progress: Callable[[str], None]) -> dict[str, float]

called in the first process of a new world (``testbed.isolation``), so it builds its network as any
experiment does and leaves cleaning up to the kernel. Figures carry their unit in their names; the
peers that were measured in the same run stand beside them. A group may take a few minutes.
"""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.bench import world
from testbed.ovs import OvsError, find_prefix

SUITES = {
    "switch": ("latency", "shaping", "forwarding", "paced", "dctcp"),
    "controller": ("connections", "delay", "memory"),
}
UNPATCHED_VARIABLE = "WEIR_UNPATCHED_OVS_PREFIX"

_INTERRUPTED = (130, 143)


def run(suite: str, only: Sequence[str], out: Path) -> int:
    """Measure a suite (or some of its groups), print a table and write ``out``, a flat object.

    A group that fails is told, and costs its own figures only. Returns an exit status: 0, or 1 if
    a group failed. Progress goes to stderr.
    """
    figures: dict[str, object] = _machine()
    if suite == "switch":
        figures["switch"] = find_prefix().name
    failed = []
    measured: dict[str, dict[str, float]] = {}
    for group in only or SUITES[suite]:
        try:
            measured[group] = world.result("experiments.bench.inside", group)
            figures |= measured[group]
        except world.WorldError as ended:
            if ended.status in _INTERRUPTED:
                return ended.status
            failed.append(group)
    figures["failed"] = " ".join(failed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(figures, indent=2) + "\n")
    _print(measured, failed, out)
    return 1 if failed else 0


def unpatched_prefix() -> Path:
    """Where the peer is: the same source, built with the same flags, without the series.

    Raises OvsError if it was not said where.
    """
    given = os.environ.get(UNPATCHED_VARIABLE)
    if not given:
        raise OvsError(
            f"${UNPATCHED_VARIABLE} does not name the unpatched switch: "
            "ovs-patches/build --unpatched --prefix tells where it is"
        )
    return find_prefix(given)


def _machine() -> dict[str, object]:
    return {
        "machine.kernel": platform.release(),
        "machine.processors": os.cpu_count(),
        "machine.load_before": round(os.getloadavg()[0], 2),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _print(measured: dict[str, dict[str, float]], failed: list[str], out: Path) -> None:
    table = Table("figure", "value", box=None)
    table.columns[1].justify = "right"
    for group, figures in measured.items():
        table.add_row(f"[bold]{group}[/bold]")
        for name, value in figures.items():
            table.add_row(f"  {name}", f"{value:,.4g}" if abs(value) < 100 else f"{value:,.0f}")
    console = Console(highlight=False)
    console.print(table)
    for group in failed:
        console.print(f"[bold red]{group} failed[/bold red]")
    console.print(f"figures: {out}", soft_wrap=True)
