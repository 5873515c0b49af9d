"""Benchmarks: groups of figures, measured one after the other, each in a world of its own.

A group is measured by a module of this package with

    def run(progress: Callable[[str], None], **arguments) -> dict[str, float]

called in the first process of a new world (``testbed.isolation``), so it builds its network as any
experiment does and leaves cleaning up to the kernel. Figures carry their unit in their names; the
peers that were measured in the same run stand beside them. A group may take a few minutes.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.bench import world
from experiments.schemes import SCHEMES
from testbed.ovs import OvsError, find_prefix

INTERRUPTED = (130, 143)
UNPATCHED_VARIABLE = "WEIR_UNPATCHED_OVS_PREFIX"


class Incomplete(Exception):  # noqa: N818  (what it carries is good)
    """Some of a group could not be measured: ``what``; ``figures`` has the rest."""

    def __init__(self, figures: Mapping[str, float], what: Sequence[str]) -> None:
        super().__init__(f"failed: {', '.join(what)}")
        self.figures = figures
        self.what = what


@dataclass(frozen=True)
class Group:
    """``module`` measures it; ``arguments``, values of JSON, are for its ``run``.

    ``compares`` says that it takes, besides, ``schemes``, ``repeats`` and ``records``, the folder
    where each run may leave what it has recorded.
    """

    module: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    compares: bool = False


@dataclass(frozen=True)
class Comparison:
    """What is compared, and how often each is run."""

    schemes: Sequence[str] = ("weir", "sdtcp", "reno", "dctcp")
    repeats: int = 3

    def __post_init__(self) -> None:
        unknown = [name for name in self.schemes if name not in SCHEMES]
        if unknown or not self.schemes:
            raise ValueError(f"schemes are {', '.join(SCHEMES)}, not {', '.join(unknown)!r}")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")


_CONNECTIONS = (1, 2, 4, 8, 16, 32, 40, 120)

SUITES: Mapping[str, Mapping[str, Group]] = {
    "switch": {
        name: Group(name) for name in ("latency", "shaping", "forwarding", "paced", "dctcp")
    },
    "incast": {
        **{f"n{n}": Group("incast", {"connections": n}, compares=True) for n in _CONNECTIONS},
        "n32_own_buffers": Group("incast", {"connections": 32, "own_buffers": True}, compares=True),
        "background": Group("background", compares=True),
        "idle": Group("idle"),
    },
    "controller": {name: Group(name) for name in ("connections", "delay", "memory")},
}


def run(suite: str, only: Sequence[str], out: Path, comparison: Comparison | None = None) -> int:
    """Measure a suite (or some of its groups), print a table and write ``out``, a flat object.

    A group that fails is told, and costs its own figures only. Returns an exit status: 0, or 1 if
    a group failed. Progress goes to stderr.
    """
    comparison = comparison or Comparison()
    figures: dict[str, object] = _machine()
    if suite != "controller":
        figures["switch"] = find_prefix().name
    failed = []
    measured: dict[str, dict[str, float]] = {}
    for name in only or SUITES[suite]:
        group = SUITES[suite][name]
        arguments = dict(group.arguments)
        if group.compares:
            records = str((out.with_suffix("") / name).resolve())
            arguments |= asdict(comparison) | {"records": records}
        words = (name, group.module, json.dumps(arguments))
        try:
            found = world.result("experiments.bench.inside", *words)
        except world.WorldError as ended:
            if ended.status in INTERRUPTED:
                return ended.status
            failed.append(name)
            continue
        measured[name] = found["figures"]
        figures |= found["figures"]
        failed += [f"{name}:{what}" for what in found["failed"]]
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
