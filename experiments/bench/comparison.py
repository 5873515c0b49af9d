"""Compares schemes: does the same run under each, several times, and records all."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from experiments import runner
from experiments.bench.sandboxed import INTERRUPTED, Incomplete
from experiments.measure.record import Run
from experiments.runner import RunSpec
from experiments.schemes import available, scheme

Figures = dict[str, float]


def compare(
    spec: RunSpec,
    schemes: Sequence[str],
    repeats: int,
    records: Path,
    progress: Callable[[str], None],
) -> dict[str, list[Run]]:
    """Run ``spec`` under each of ``schemes``, as ``compare_specs`` does; return the runs by
    scheme."""
    specs = {name: replace(spec, scheme=name) for name in schemes}
    return compare_specs(specs, repeats, records, progress)


def compare_specs(
    specs: Mapping[str, RunSpec],
    repeats: int,
    records: Path,
    progress: Callable[[str], None],
) -> dict[str, list[Run]]:
    """Run each of ``specs``, which have names, ``repeats`` times; return the runs by name.

    They take turns, so that a noisy minute of the machine affects all alike. Each run leaves its
    folder in ``records``. A run that fails is reported and missing from the result. A run that is
    not valid is reported and counts. A scheme that this kernel does not support is left out.
    """
    runs: dict[str, list[Run]] = {
        name: [] for name, spec in specs.items() if available(spec.scheme, say=progress)
    }
    for number in range(1, repeats + 1):
        for name in runs:
            what = f"{scheme(specs[name].scheme).label}, run {number} of {repeats}"
            folder = records / f"{name}-{number}"
            status = runner.run(specs[name], folder)
            if status in INTERRUPTED:
                raise SystemExit(status)
            if status not in (0, runner.VOID):
                progress(f"{what}: FAILED")
                continue
            run = Run.load(folder)
            runs[name].append(run)
            void = ", not valid" if status == runner.VOID else ""
            progress(f"{what}: {run.goodput_mbps:.1f} Mb/s, {run.timeouts} timeouts{void}")
    return runs


def require_all(figures: Figures, runs: Mapping[str, Sequence[Run]], repeats: int) -> None:
    """Raise Incomplete, with the ``figures`` that there are, if some of the runs are missing."""
    missing = [name for name, done in runs.items() if len(done) < repeats]
    if missing:
        raise Incomplete(figures, missing)


def common(runs: Sequence[Run]) -> Figures:
    """Return the figures that all comparisons have, by their names without scheme and setting.

    Goodput is counted from the first request on, timeouts and drops from the first SYN on.
    """
    goodputs = [run.goodput_mbps for run in runs]
    return {
        "goodput_mbps": median(goodputs),
        "worst_goodput_mbps": min(goodputs),
        "timeouts": max(run.timeouts for run in runs),
        "drops": max(run.data["dropped"] for run in runs),
        "void_runs": sum(not run.is_valid for run in runs),
    }


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
