"""Barrier reads over DCTCP, for each threshold K and each gain g, in a network of its own for each.

Star, 100 Mb/s, 64 KiB, hosts as benchmarks have them. K is in full-size frames. What is best is the
mean, over all numbers of senders, of the medians of goodput. All runs go into a CSV, a row each.
"""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.bench import sandboxed
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.valid import VoidRuns
from experiments.bench.watched import Watched, until_valid, watched
from experiments.measure.netstat import TIMEOUTS
from experiments.measure.trace import QueueTrace
from experiments.runner import usual_host
from experiments.schemes import available, scheme
from experiments.schemes.dctcp import named
from experiments.traffic.reader import IncastSpec
from experiments.workloads import goodput_mbps, reads, span_ns
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig

ROWS = "dctcp_rows"


@dataclass(frozen=True)
class Row:
    """A run: its parameters, and what came of it. One that is ``void`` makes no figure."""

    frames: int
    gain: float
    senders: int
    seed: int
    goodput_mbps: float
    timeouts: int
    drops: int
    marks: int
    mean_queue_bytes: float
    idle_share: float
    void: str = ""


def run(
    progress: Callable[[str], None],
    *,
    gain: float,
    frames: Sequence[int],
    senders: Sequence[int],
    rounds: int,
    repeats: int,
) -> dict[str, Any]:
    """Measure with this ``gain``; see ``experiments.bench``."""
    if not available("dctcp", say=progress):
        return {}
    rows: list[Row] = []
    for k in frames:
        asked = {"name": named(k, gain), "senders": senders, "rounds": rounds, "repeats": repeats}
        told = sandboxed.result("experiments.bench.dctcp.sweep", json.dumps(asked))
        found = [Row(frames=k, gain=gain, **one) for one in told]
        rows += found
        progress(f"K {k}, g {gain:g}: {in_words(found)}")
    figures: dict[str, Any] = {f"{ROWS}_g{gain:g}": [asdict(row) for row in rows], **of(rows)}
    wanted = {(k, n) for k in frames for n in senders}
    if missing := [
        f"k{k}_n{n}" for k, n in sorted(wanted - {(r.frames, r.senders) for r in valid(rows)})
    ]:
        raise Incomplete(figures, missing)
    return figures


def valid(rows: Iterable[Row]) -> list[Row]:
    """Return the runs that are not void."""
    return [row for row in rows if not row.void]


def of(rows: Sequence[Row]) -> Figures:
    """Return the figures of runs, by their full names."""
    figures: Figures = {}
    cells: dict[tuple[int, float, int], list[Row]] = {}
    for row in rows:
        cells.setdefault((row.frames, row.gain, row.senders), []).append(row)
    for (k, gain, n), all_runs in cells.items():
        name, runs = named(k, gain), valid(all_runs)
        figures[f"{name}_void_runs_n{n}"] = len(all_runs) - len(runs)
        if runs:
            figures[f"{name}_goodput_mbps_n{n}"] = median(row.goodput_mbps for row in runs)
            figures[f"{name}_timeouts_n{n}"] = max(row.timeouts for row in runs)
    return figures


def means(rows: Iterable[Row]) -> dict[tuple[int, float], float]:
    """Return, by K and g, the mean over all numbers of senders of the medians of goodput: of those
    that have a valid run with every number."""
    by_cell: dict[tuple[int, float], dict[int, list[float]]] = {}
    for row in valid(rows):
        cell = by_cell.setdefault((row.frames, row.gain), {})
        cell.setdefault(row.senders, []).append(row.goodput_mbps)
    numbers = {n for cell in by_cell.values() for n in cell}
    return {
        which: fmean(median(goodputs) for goodputs in cell.values())
        for which, cell in by_cell.items()
        if set(cell) == numbers
    }


def best(rows: Iterable[Row]) -> tuple[int, float]:
    """Return K and g with the greatest mean. Raises ValueError if there is none."""
    found = means(rows)
    return max(found, key=lambda which: found[which])


def read(file: Path) -> list[Row]:
    """Read what ``write`` wrote."""
    kinds = {field.name: field.type for field in fields(Row)}
    with file.open(newline="") as text:
        return [
            Row(**{name: kinds[name](value) for name, value in row.items()})  # type: ignore
            for row in csv.DictReader(text)
        ]


def write(rows: Iterable[Row], file: Path) -> None:
    """Write a row for each run."""
    with file.open("w", newline="") as text:
        table = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows)


def in_words(rows: Sequence[Row]) -> str:
    """Return the goodput for each number of senders, as text."""
    by_n: dict[int, list[Row]] = {}
    for row in rows:
        by_n.setdefault(row.senders, []).append(row)
    said = (
        f"{n}: {median(row.goodput_mbps for row in valid(runs)):.1f}"
        if valid(runs)
        else f"{n}: void"
        for n, runs in by_n.items()
    )
    return f"{', '.join(said)} Mb/s"


def conclude(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return which K and g are the best, and their mean beside that of K = 20 and g = 1/16."""
    rows = _rows(figures)
    found = means(rows)
    if not found:
        return {}
    frames, gain = best(rows)
    concluded = {
        "dctcp_best_k_frames": frames,
        "dctcp_best_g": gain,
        "dctcp_best_mean_goodput_mbps": found[frames, gain],
    }
    if (20, 0.0625) in found:
        concluded["dctcp_usual_mean_goodput_mbps"] = found[20, 0.0625]
    return concluded


def show(figures: Mapping[str, Any], out: Path, console: Console) -> None:
    """Print the goodput for each K and g, and write all runs beside ``out``, as CSV."""
    rows = _rows(figures)
    numbers = sorted({row.senders for row in rows})
    table = Table("K", "g", *(f"{n} senders" for n in numbers), "mean", box=None)
    mean_of = means(rows)
    for which in sorted({(row.frames, row.gain) for row in rows}):
        name = named(*which)
        cells = [figures.get(f"{name}_goodput_mbps_n{n}") for n in numbers]
        mean = mean_of.get(which)
        shown = ("" if value is None else f"{value:.1f}" for value in (*cells, mean))
        table.add_row(str(which[0]), f"{which[1]:g}", *shown)
    console.print(table)
    file = out.with_suffix(".csv")
    write(rows, file)
    console.print(f"runs: {file}", soft_wrap=True)


def _rows(figures: Mapping[str, Any]) -> list[Row]:
    return [Row(**row) for name, rows in figures.items() if name.startswith(ROWS) for row in rows]


def measure(name: str, senders: Sequence[int], rounds: int, repeats: int) -> list[dict[str, Any]]:
    """Read from so many ``senders``, ``repeats`` times each, under the scheme ``name``."""
    told: list[dict[str, Any]] = []
    config = BedConfig(topology="star", senders=max(senders), host=usual_host())
    with Bed(scheme(name).on(config)) as bed:
        bed.require_forwarding()
        void = VoidRuns(lambda line: print(f"  {line}", file=sys.stderr, flush=True))
        log = bed.run_dir / "workload.log"
        with reads.responders(bed, log):
            for seed in range(1, repeats + 1):
                for n in senders:
                    spec = IncastSpec(senders=n, rounds=rounds, seed=seed)
                    watch = partial(_once, bed, spec, log, told)
                    until_valid(void, n, watch)
    return told


def _once(
    bed: Bed, spec: IncastSpec, log: Path, told: list[dict[str, Any]]
) -> Watched[list[dict[str, Any]]]:
    marked_before = _marks(bed)

    def read_all() -> list[dict[str, Any]]:
        with reads.reader(bed, spec, log) as reader:
            *_progress, done = reader.messages()
        rounds: list[dict[str, Any]] = done["rounds"]
        return rounds

    one = watched(bed, read_all)
    row = {
        "senders": spec.senders,
        "seed": spec.seed,
        "goodput_mbps": round(goodput_mbps(one.found), 2),
        "timeouts": sum(host.get(TIMEOUTS, 0) for host in one.record["tcp"].values()),
        "drops": one.record["dropped"],
        "marks": _marks(bed) - marked_before,
        "mean_queue_bytes": round(_mean_queue(one.queue, one.found, bed.roles.bottleneck_bps)),
        "idle_share": round(one.record["processors"]["idle_share"], 3),
        "void": "; ".join(reason.partition(":")[0] for reason in one.void),
    }
    told.append(row)
    return one


def _mean_queue(queue: QueueTrace, rounds: Sequence[Mapping[str, Any]], rate_bps: int) -> float:
    return queue.mean_bytes(*span_ns(rounds), rate_bps)


def _marks(bed: Bed) -> int:
    return int(bed.bottleneck_switch.queues()[bed.roles.bottleneck]["marked_packets"])


def main() -> None:
    """Entry point of the first process in a sandbox: one K and g."""
    sandbox.become_first_process()
    asked, file = json.loads(sys.argv[1]), Path(sys.argv[2])
    file.write_text(json.dumps(measure(**asked)))


if __name__ == "__main__":
    main()
