"""Many servers answer one client at once through a short buffer: the group ``fanin``.

Rounds as in ``bench lttp`` (``experiments.bench.transport.fetches``), under other schemes: the same
network and objects of 8.5 kB, as the short flows have, and of 64 KiB. Weir has its controller. How
long rounds take is of all rounds of all valid runs.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.transport.fetches import KB, RunsSpec, size_name
from experiments.bench.transport.lttp import USUAL, by_cell, in_networks, of_valid
from experiments.statistics import percentile

SERVERS = 32
SIZES = (8500, 64 * KB)
QUANTILES = {"p50": 50, "p99": 99, "max": 100}


def run(
    progress: Callable[[str], None],
    *,
    rounds: int,
    schemes: Sequence[str],
    repeats: int,
    records: str,
    host: Mapping[str, Any] | None = None,
    seed: int = 1,
) -> Figures:
    """Measure; see ``experiments.bench``. ``host`` has fields of HostSettings, ``seed`` is the
    first run's."""
    spec = RunsSpec(
        SERVERS, SIZES, (), USUAL, repeats, records, fixed_rounds=rounds, host=host or {}, seed=seed
    )
    runs, missing = in_networks(schemes, spec, progress)
    found = figures(runs)
    if missing:
        raise Incomplete(found, missing)
    return found


def figures(runs: Sequence[Mapping[str, Any]]) -> Figures:
    """Return all figures of the ``runs``, void ones being among these."""
    return {
        f"fanin_{name}_{size_name(size)}_{figure}": value
        for (name, size), cell in by_cell(runs, _of_valid).items()
        for figure, value in cell.items()
    }


def _of_valid(runs: Sequence[Mapping[str, Any]]) -> Figures:
    times_s = list(chain.from_iterable(run["round_s"] for run in runs))
    found = of_valid(runs) | {"rounds": float(len(times_s))}
    for name, percent in QUANTILES.items():
        found[f"round_{name}_ms"] = 1000 * percentile(times_s, percent)
    return found
