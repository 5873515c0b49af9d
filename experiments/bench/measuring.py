"""How the groups of a suite are measured, reported and written down."""

import json
import os
import platform
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.bench import sandboxed
from experiments.bench.suites import SUITES, Group, Suite
from experiments.measure.machine import code, commit
from experiments.report import bench_picture
from experiments.report.goodputs import goodputs
from testbed.ovs import find_prefix

_VOID = re.compile(r"(^|[_.])void_(runs|turns)(_|$)")


@dataclass(frozen=True)
class Comparison:
    """The schemes to compare (None: those of each group), how often each is run, the fields of
    HostSettings that its hosts have, and the ``seed`` of the first run: a further one has one more.
    """

    schemes: Sequence[str] | None = None
    repeats: int = 3
    host: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")

    def require_known(self, suite: Suite, groups: Sequence[str]) -> None:
        """Raise ValueError for a scheme that none of these groups of ``suite`` can compare."""
        known = list(dict.fromkeys(s for name in groups for s in suite.groups[name].known))
        for name in self.schemes or ():
            if name not in known:
                raise ValueError(
                    f"bench {suite.name} cannot compare {name!r}; "
                    f"it can compare {', '.join(known) or 'nothing'}"
                )

    def within(self, group: Group) -> list[str]:
        """Return the schemes of ``group`` to compare."""
        return [name for name in self.schemes or group.schemes if name in group.known]


def asked(
    suite: str, only: Sequence[str], comparison: Comparison, *, quick: bool
) -> dict[str, str]:
    """Return what decides the figures of a benchmark, as these are written down with it."""
    return {
        "asked.suite": suite,
        "asked.groups": " ".join(only or SUITES.named(suite).groups),
        "asked.schemes": " ".join(comparison.schemes or ()) or "each group's own",
        "asked.repeats": str(comparison.repeats),
        "asked.seed": str(comparison.seed),
        "asked.hosts": json.dumps(dict(comparison.host), sort_keys=True),
        "asked.quick": str(quick).lower(),
    }


def state(suite: str) -> dict[str, str]:
    """Return what measures, as figures of ``suite`` are written down with it: the code, and the
    switch if it has one."""
    switch = {"switch": find_prefix().name} if SUITES.named(suite).has_switch else {}
    return {"code": code("bench"), **switch}


def run(
    suite: str,
    only: Sequence[str],
    out: Path,
    comparison: Comparison | None = None,
    *,
    quick: bool = False,
) -> int:
    """Measure a suite (or some of its groups), print a table and write ``out``, a flat object.

    A group that fails is reported, and the others are measured. Returns an exit status: 0, or 1 if
    a group failed. Progress goes to stderr.
    """
    comparison = comparison or Comparison()
    benchmark = SUITES.named(suite)
    wanted = list(only or benchmark.groups)
    comparison.require_known(benchmark, wanted)
    figures: dict[str, object] = _machine() | state(suite)
    figures |= asked(suite, wanted, comparison, quick=quick)
    failed = []
    measured: dict[str, dict[str, Any]] = {}
    for name in wanted:
        group = benchmark.groups[name]
        schemes = comparison.within(group)
        if (quick and group.quick is None) or (group.schemes and not schemes):
            continue
        arguments = {**group.arguments, **(group.quick or {} if quick else {})}
        if group.seeded:
            arguments["seed"] = comparison.seed
        if group.schemes:
            records = str((out.with_suffix("") / name).resolve())
            arguments |= {"schemes": schemes, "repeats": comparison.repeats}
            arguments |= {"records": records}
            if comparison.host:
                arguments["host"] = dict(comparison.host)
        elif comparison.host:
            print(f"{name:10} has hosts of its own: as without --hosts", file=sys.stderr)
        words = (name, group.module, json.dumps(arguments))
        try:
            found = sandboxed.result("experiments.bench.in_sandbox", *words)
        except sandboxed.EndedError as ended:
            if ended.status in sandboxed.INTERRUPTED:
                return ended.status
            failed.append(name)
            continue
        measured[name] = found["figures"]
        figures |= found["figures"]
        failed += [f"{name}:{what}" for what in found["failed"]]
    if benchmark.conclusion:
        figures |= benchmark.conclusion.conclude(figures)
    figures["failed"] = " ".join(failed)
    figures["void_runs"] = " ".join(void_runs(figures))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(figures, indent=2) + "\n")
    tabled = {name for name in measured if benchmark.groups[name].tabled}
    console = Console(highlight=False)
    if benchmark.conclusion:
        benchmark.conclusion.show(figures, out, console)
    for picture in draw(figures, out):
        console.print(f"picture: {picture}", soft_wrap=True)
    _print(measured, tabled, failed, out, console)
    return 1 if failed else 0


def draw(figures: Mapping[str, Any], out: Path) -> list[Path]:
    """Draw a benchmark's figures, as they are written down, beside the file ``out``; return the
    pictures: what its conclusion draws, else what any figures have in common, if there are any.
    """
    benchmark = SUITES.get(str(figures.get("asked.suite")))
    conclusion = benchmark.conclusion if benchmark else None
    if conclusion and (drawn := conclusion.draw(figures, out)):
        return list(drawn)
    if not any(bench_picture.panels(figures)):
        return []
    picture = out.with_suffix(".png")
    bench_picture.draw(figures, picture, out.stem)
    return [picture]


def void_runs(figures: Mapping[str, object]) -> list[str]:
    """Return the counts of void runs that are not 0, each as NAME=COUNT."""
    return [
        f"{name}={count:g}"
        for name, count in figures.items()
        if _VOID.search(name) and isinstance(count, int | float) and count
    ]


def _machine() -> dict[str, object]:
    return {
        "commit": commit() or "",
        "machine.kernel": platform.release(),
        "machine.processors": os.cpu_count(),
        "machine.load_before": round(os.getloadavg()[0], 2),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _print(
    measured: Mapping[str, Mapping[str, Any]],
    tabled: Collection[str],
    failed: Sequence[str],
    out: Path,
    console: Console,
) -> None:
    table = Table("figure", "value", box=None)
    table.columns[1].justify = "right"
    for group, figures in measured.items():
        if group in tabled:
            continue
        table.add_row(f"[bold]{group}[/bold]")
        for name, value in figures.items():
            # Samples and versions are in the file alone.
            if not isinstance(value, int | float):
                continue
            table.add_row(f"  {name}", f"{value:,.4g}" if abs(value) < 100 else f"{value:,.0f}")
    together = {name: value for group in tabled for name, value in measured[group].items()}
    for shown in (goodputs(together), table if table.row_count else None):
        if shown is not None:
            console.print(shown)
    if void := [name for found in measured.values() for name in void_runs(found)]:
        console.print(f"void runs, which make no figure: {', '.join(void)}", soft_wrap=True)
    for group in failed:
        console.print(f"[bold red]{group} failed[/bold red]")
    console.print(f"figures: {out}", soft_wrap=True)
