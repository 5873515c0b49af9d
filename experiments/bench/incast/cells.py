"""Barrier reads under one of the conditions of ``plan``: the schemes of a group, compared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from experiments.bench.comparison import (
    Compared,
    Figures,
    common,
    compare_specs,
    named,
    ratios,
    require_all,
)
from experiments.bench.incast.background import alone_mbps, recovery_s
from experiments.bench.incast.plan import GROUPS
from experiments.measure.record import Run

_MOST_REPEATS = 2


def run(
    progress: Callable[[str], None],
    *,
    cells: str,
    schemes: Sequence[str],
    repeats: int,
    records: str,
    host: Mapping[str, Any] | None = None,
) -> Figures:
    """Measure the group called ``cells``; see ``experiments.bench``. ``schemes`` limits the
    contenders, except for a buffer that loses nothing. No cell is run more than twice."""
    figures: Figures = {}
    runs: dict[str, list[Run]] = {}
    repeats = min(repeats, _MOST_REPEATS)
    for cell in GROUPS[cells]():
        spec = replace(cell.spec, host=replace(cell.spec.host, **(host or {})))
        specs = {
            name: replace(spec, **changes)
            for name, changes in cell.contenders.items()
            if name in schemes or changes["scheme"] == "fifo"
        }
        progress(f"{cell.suffix[1:]}: {', '.join(specs)}")
        done = compare_specs(specs, repeats, Path(records) / cell.suffix[1:], progress)
        figures |= of_cell(cell.suffix, done)
        runs |= {f"{name}{cell.suffix}": ran for name, ran in done.items()}
    require_all(figures, runs, repeats)
    return figures


def of_cell(suffix: str, runs: Compared) -> Figures:
    """Return the figures of a cell's ``runs``."""
    figures: Figures = {}
    for name, done in runs.items():
        found = common(done, runs.void[name])
        if done and done[0].has_background:
            found["background_mbps"] = median(run.background_mbps for run in done)
            found["total_mbps"] = median(run.goodput_mbps + run.background_mbps for run in done)
            found["background_alone_mbps"] = median(map(alone_mbps, done))
            found["background_recovery_s"] = max(map(recovery_s, done))
        figures |= named(name, found, suffix)
    return figures | ratios(figures, "weir", ["reno", "fifo_8mib"], "goodput_mbps", suffix)
