"""Compares schemes: does the same run under each, several times, and records all."""

import shutil
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import median
from typing import Any

from experiments import runner
from experiments.bench.sandboxed import INTERRUPTED, Incomplete
from experiments.bench.valid import VoidRuns, reasons
from experiments.measure.record import Run
from experiments.runner import RunSpec
from experiments.schemes import available, scheme

Figures = dict[str, float]


class Compared(dict[str, list[Run]]):
    """The valid runs, by name; ``void`` counts the others."""

    def __init__(self, names: Iterable[str], void: Counter[Hashable]) -> None:
        super().__init__((name, []) for name in names)
        self.void = void


def compare(
    spec: RunSpec,
    schemes: Sequence[str],
    repeats: int,
    records: Path,
    progress: Callable[[str], None],
) -> Compared:
    """Run ``spec`` under each of ``schemes``, as ``compare_specs`` does; return the runs by
    scheme."""
    specs = {name: replace(spec, scheme=name) for name in schemes}
    return compare_specs(specs, repeats, records, progress)


def compare_specs(
    specs: Mapping[str, RunSpec],
    repeats: int,
    records: Path,
    progress: Callable[[str], None],
) -> Compared:
    """Run each of ``specs``, which have names, ``repeats`` times, each time with another seed;
    return the valid runs by name.

    They take turns, so that a noisy minute of the machine affects all alike. Each run leaves its
    folder in ``records``, that of a void one ends in ``-voidN`` (``experiments.bench.valid``). A
    run that fails is reported and missing from the result. A scheme that this kernel does not
    support is left out.
    """
    void = VoidRuns(progress)
    there = (name for name, spec in specs.items() if available(spec.scheme, say=progress))
    runs = Compared(there, void.counts)
    for number in range(1, repeats + 1):
        for name in runs:
            what = f"{scheme(specs[name].scheme).label}, run {number} of {repeats}"
            while True:
                folder = records / f"{name}-{number}"
                status = runner.run(_seeded(specs[name], number), folder)
                if status in INTERRUPTED:
                    raise SystemExit(status)
                if status not in (0, runner.VOID):
                    progress(f"{what}: FAILED")
                    break
                run = Run.load(folder)
                progress(f"{what}: {run.goodput_mbps:.1f} Mb/s, {run.timeouts} timeouts")
                once_more = void.again(name, reasons(run.checks))
                if run.is_valid:
                    runs[name].append(run)
                else:
                    _move(folder, f"{folder.name}-void{runs.void[name]}")
                if not once_more:
                    break
    return runs


def _seeded(spec: RunSpec, number: int) -> RunSpec:
    """Return the spec of the run with this ``number``: repeats differ in what is random."""
    workload: Any = spec.workload
    if not any(field.name == "seed" for field in fields(workload)):
        return spec
    return replace(spec, workload=replace(workload, seed=workload.seed + number - 1))


def _move(folder: Path, name: str) -> None:
    target = folder.with_name(name)
    # One of an earlier benchmark may be there.
    shutil.rmtree(target, ignore_errors=True)
    folder.rename(target)


def require_all(figures: Figures, runs: Mapping[str, Sequence[Run]], repeats: int) -> None:
    """Raise Incomplete, with the ``figures`` that there are, if some have too few valid runs."""
    missing = [name for name, done in runs.items() if len(done) < repeats]
    if missing:
        raise Incomplete(figures, missing)


def common(runs: Sequence[Run], void: int = 0) -> Figures:
    """Return the figures that all comparisons have, by their names without scheme and setting: of
    the valid ``runs``, and how many others were ``void``.

    Goodput is counted from the first request on, timeouts and drops from the first SYN on.
    """
    counted: Figures = {"void_runs": void}
    if not runs:
        return counted
    goodputs = [run.goodput_mbps for run in runs]
    return {
        "goodput_mbps": median(goodputs),
        "worst_goodput_mbps": min(goodputs),
        "timeouts": max(run.timeouts for run in runs),
        "drops": max(run.data["dropped"] for run in runs),
    } | counted


def named(scheme_name: str, figures: Mapping[str, float], suffix: str = "") -> Figures:
    """Return ``figures`` under their full names."""
    return {f"{scheme_name}_{name}{suffix}": value for name, value in figures.items()}


def ratios(
    figures: Mapping[str, float], of: str, to: Iterable[str], figure: str, suffix: str
) -> Figures:
    """Return ``figure`` of scheme ``of`` over that of each scheme of ``to``, where both are."""
    found = {}
    own = figures.get(f"{of}_{figure}{suffix}")
    for peer in to:
        other = figures.get(f"{peer}_{figure}{suffix}")
        if own is not None and other:
            found[f"{of}_vs_{peer}{suffix}"] = own / other
    return found
