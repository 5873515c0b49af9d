"""Mixes of flows over one link, each measured in a world of its own, and again if it was void."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from experiments.bench import INTERRUPTED, Incomplete, world
from experiments.bench.comparison import Figures
from experiments.validity import Check

_MOST_VOID_RUNS = 2


def measure_each(
    progress: Callable[[str], None],
    module: str,
    names: Sequence[str],
    measured_s: float,
    prefix: str,
    figures_of: Callable[[str, Mapping[str, Any]], Figures],
) -> Figures:
    """Return the figures of all mixes, as PREFIX_NAME_FIGURE.

    ``python -m MODULE NAME SECONDS FILE`` measures one and says, by ``told``, whether it is void;
    ``figures_of`` makes figures of that, by name and measurement. Raises Incomplete if some are
    void each time.
    """
    figures: Figures = {}
    missing = []
    for name in names:
        for attempt in range(1 + _MOST_VOID_RUNS):
            try:
                measured = world.result(module, name, str(measured_s))
            except world.WorldError as ended:
                if ended.status in INTERRUPTED:
                    raise SystemExit(ended.status) from ended
                measured = {"void": [str(ended)]}
            if not measured["void"]:
                found = figures_of(name, measured)
                figures |= {f"{prefix}_{name}_{figure}": value for figure, value in found.items()}
                figures[f"{prefix}_{name}_void_runs"] = attempt
                told = ", ".join(f"{figure} {value:.3f}" for figure, value in found.items())
                progress(f"{name}: {told}")
                break
            progress(f"{name}: not valid: {'; '.join(measured['void'])}")
        else:
            missing.append(name)
    if missing:
        raise Incomplete(figures, missing)
    return figures


def told(checks: Sequence[Check]) -> dict[str, Any]:
    """Return the checks of a measurement, and as ``void`` what they hold against it."""
    return {
        "void": [
            f"{check.name}: {check.measured}; should be: {check.bound}"
            for check in checks
            if not check.holds
        ],
        "checks": [asdict(check) for check in checks],
    }
