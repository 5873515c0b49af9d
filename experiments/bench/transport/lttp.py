"""LTTP beside Reno and DCTCP: objects from many servers to one client, round after round.

Each server has an object, the client fetches them all at once, and again when the last one is
complete. Goodput is the bytes of all objects over the time of all rounds, without what opens the
connections; every contender does the same rounds in the same network (``fetches``), DCTCP in one
whose queues mark. Only valid runs count; where there are too few, the figure is missing and the
group is told to be incomplete.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from experiments.bench import sandboxed
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import INTERRUPTED, Incomplete
from experiments.bench.transport.fetches import KB, USUAL_RATE_MBPS, RunsSpec, size_name
from experiments.bench.valid import valid
from experiments.schemes import available, over_lttp, scheme, without_regulation

USUAL = "reno"
"""The scheme whose network LTTP is measured in."""

SIZES_KB = (64, 128, 256)


def run(
    progress: Callable[[str], None],
    *,
    servers: int,
    schemes: Sequence[str],
    repeats: int,
    records: str,
    sizes_kb: Sequence[int] = SIZES_KB,
    rate_mbps: int = USUAL_RATE_MBPS,
    host: Mapping[str, Any] | None = None,
    seed: int = 1,
) -> Figures:
    """Measure; see ``experiments.bench``. ``schemes`` are over LTTP, or the same without a
    controller. ``host`` has fields of HostSettings, ``seed`` is the first run's. Figures over links
    of another rate than the usual have it in their names."""
    known = {*over_lttp(), *without_regulation()}
    if unknown := set(schemes) - known:
        raise ValueError(f"this compares {', '.join(sorted(known))}, not {', '.join(unknown)}")
    sizes = [size_kb * KB for size_kb in sizes_kb]
    spec = RunsSpec(
        servers, sizes, (), USUAL, repeats, records, rate_mbps, host=host or {}, seed=seed
    )
    runs, missing = in_networks(schemes, spec, progress)
    found = figures(runs, servers, rate_mbps)
    if missing:
        raise Incomplete(found, missing)
    return found


def in_networks(
    schemes: Sequence[str], spec: RunsSpec, progress: Callable[[str], None]
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Do the runs of ``spec`` with ``schemes`` as contenders, each one over TCP in a network of its
    own and the others in that of USUAL, each network in a sandbox; return their records, and of
    what there are too few valid ones."""
    networks: dict[str, list[str]] = {}
    for name in schemes:
        networks.setdefault(USUAL if scheme(name).fetch else name, []).append(name)
    runs: list[Mapping[str, Any]] = []
    missing: list[str] = []
    for tcp, names in networks.items():
        if not available(tcp, say=progress):
            continue
        progress(f"{spec.servers} servers: {', '.join(names)}")
        part = replace(spec, contenders=names, tcp=tcp)
        try:
            runs += sandboxed.result(
                "experiments.bench.transport.fetches", json.dumps(asdict(part))
            )
        except sandboxed.EndedError as ended:
            if ended.status in INTERRUPTED:
                raise SystemExit(ended.status) from ended
            progress(str(ended))
            missing += names
            continue
        missing += too_few(runs, part)
    return runs, missing


def figures(
    runs: Sequence[Mapping[str, Any]], servers: int, rate_mbps: int = USUAL_RATE_MBPS
) -> Figures:
    """Return all figures of the ``runs`` from ``servers`` servers, void ones being among these."""
    at = "" if rate_mbps == USUAL_RATE_MBPS else f"_{rate_mbps}mbps"
    return {
        f"{name}_{figure}_n{servers}_{size_name(size)}{at}": value
        for (name, size), cell in by_cell(runs, of_valid).items()
        for figure, value in cell.items()
    }


def by_cell(
    runs: Sequence[Mapping[str, Any]], of: Callable[[Sequence[Mapping[str, Any]]], Figures]
) -> dict[tuple[str, int], Figures]:
    """Return the figures of each contender and size: how many runs are void, and those ``of`` the
    valid ones."""
    cells: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        cells.setdefault((run["contender"], run["size"]), []).append(run)
    found: dict[tuple[str, int], Figures] = {}
    for cell, all_runs in cells.items():
        good = valid(all_runs)
        found[cell] = {"void_runs": float(len(all_runs) - len(good))}
        if good:
            found[cell] |= of(good)
    return found


def of_valid(runs: Sequence[Mapping[str, Any]]) -> Figures:
    """Return the figures of the valid runs of one contender and size, by their short names."""
    goodputs = [sum(run["round_bytes"]) * 8e-6 / sum(run["round_s"]) for run in runs]
    of_rounds = [
        [size * 8e-6 / s for size, s in zip(run["round_bytes"], run["round_s"], strict=True)]
        for run in runs
    ]
    found = {
        "goodput_mbps": median(goodputs),
        "worst_goodput_mbps": min(goodputs),
        "first_round_mbps": median(rounds[0] for rounds in of_rounds),
        "median_round_mbps": median(rate for rounds in of_rounds for rate in rounds),
        "drops": max(run["dropped"] for run in runs),
    }
    if "overhead" in runs[0]:
        return found | {"overhead_pct": median(100 * run["overhead"] for run in runs)}
    if "atp" in runs[0]:
        found |= of_atp([run["atp"] for run in runs])
    return found | {"timeouts": max(run["timeouts"] for run in runs)}


def of_atp(runs: Sequence[Mapping[str, Mapping[str, int]]]) -> Figures:
    """Return what ATP's ends have counted: the share of parity in what servers sent, and how many
    of their packets were asked for, and repaired, in the worst run."""
    shares = [run["servers"]["parity_bytes"] / run["servers"]["packet_bytes"] for run in runs]
    return {
        "parity_pct": 100 * median(shares),
        "requested": max(run["servers"]["requested"] for run in runs),
        "repaired": max(run["client"]["repaired"] for run in runs),
    }


def too_few(runs: Sequence[Mapping[str, Any]], spec: RunsSpec) -> list[str]:
    """Name each contender and size of which there are less valid runs than ``spec`` wants."""
    good = Counter((one["contender"], one["size"]) for one in valid(runs))
    return [
        f"{name}_{size_name(size)}"
        for name in spec.contenders
        for size in spec.sizes
        if good[name, size] < spec.repeats
    ]
