"""LTTP beside Reno and DCTCP: objects from many servers to one client, round after round.

Each server has an object, the client fetches them all at once, and again when the last one is
complete. Goodput is the bytes of all objects over the time of all rounds, without what opens the
connections; every contender does the same rounds in the same network (``lttp_runs``), DCTCP in one
whose queues mark. Only valid runs count; where there are too few, the figure is missing and the
group is told to be incomplete.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from experiments.bench import sandboxed
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import INTERRUPTED, Incomplete
from experiments.bench.transport.lttp_runs import USUAL_RATE_MBPS, RunsSpec
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
) -> Figures:
    """Measure; see ``experiments.bench``. ``schemes`` are over LTTP, or the same without a
    controller. Figures over links of another rate than the usual have it in their names."""
    known = {*over_lttp(), *without_regulation()}
    if unknown := set(schemes) - known:
        raise ValueError(f"this compares {', '.join(sorted(known))}, not {', '.join(unknown)}")
    fetched = [name for name in schemes if name in over_lttp()]
    runs: list[Mapping[str, Any]] = []
    missing: list[str] = []
    for tcp in dict.fromkeys((*([USUAL] if fetched else []), *without_regulation())):
        names = [name for name in schemes if name == tcp or (tcp == USUAL and name in fetched)]
        if not names or not available(tcp, say=progress):
            continue
        progress(f"{servers} servers: {', '.join(names)}")
        spec = RunsSpec(servers, tuple(sizes_kb), names, tcp, repeats, records, rate_mbps)
        try:
            runs += sandboxed.result(
                "experiments.bench.transport.lttp_runs", json.dumps(asdict(spec))
            )
        except sandboxed.EndedError as ended:
            if ended.status in INTERRUPTED:
                raise SystemExit(ended.status) from ended
            progress(str(ended))
            missing += names
            continue
        missing += too_few(runs, names, sizes_kb, repeats)
    found = figures(runs, servers, rate_mbps)
    if missing:
        raise Incomplete(found, missing)
    return found


def figures(
    runs: Sequence[Mapping[str, Any]], servers: int, rate_mbps: int = USUAL_RATE_MBPS
) -> Figures:
    """Return all figures of the ``runs`` from ``servers`` servers, void ones being among these."""
    found: Figures = {}
    at = "" if rate_mbps == USUAL_RATE_MBPS else f"_{rate_mbps}mbps"
    for name, size_kb in dict.fromkeys((one["contender"], one["size_kb"]) for one in runs):
        all_runs = [r for r in runs if (r["contender"], r["size_kb"]) == (name, size_kb)]
        valid = [one for one in all_runs if not one["void"]]
        cell = {"void_runs": float(len(all_runs) - len(valid))}
        if valid:
            cell |= of_valid(valid)
        place = f"n{servers}_{size_kb}k{at}"
        found |= {f"{name}_{figure}_{place}": value for figure, value in cell.items()}
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
    if scheme(runs[0]["contender"]).fetch:
        found["overhead_pct"] = median(100 * run["overhead"] for run in runs)
    else:
        found["timeouts"] = max(run["timeouts"] for run in runs)
    return found


def too_few(
    runs: Sequence[Mapping[str, Any]], names: Sequence[str], sizes_kb: Sequence[int], repeats: int
) -> list[str]:
    """Name each contender and size of which there are less than ``repeats`` valid runs."""
    lacking = []
    for name in names:
        for size_kb in sizes_kb:
            valid = [
                one
                for one in runs
                if (one["contender"], one["size_kb"]) == (name, size_kb) and not one["void"]
            ]
            if len(valid) < repeats:
                lacking.append(f"{name}_{size_kb}k")
    return lacking
