"""What was measured, as tidy rows with their provenance, and as medians with bands.

A row is one value of one run, void or not. Medians are of valid runs; where none is valid, of the
void ones, and say so. Every void run counts as one, whether it was done again or not. Bands are of
95 %, by bootstrap over the repeats (``experiments.statistics``).
"""

import csv
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from experiments.figures import catalogue, metrics, sweep
from experiments.figures.spec import Bench, Figure, Line, Panel, explained
from experiments.measure.record import RECORD, Run
from experiments.report import table
from experiments.statistics import Band, median_band

DATA, PARQUET, SUMMARY, PROVENANCE = "data.csv", "data.parquet", "summary.csv", "provenance.json"
_DIGITS = 5
_VOID_RUNS = "void_runs"


@dataclass(frozen=True)
class Origin:
    """Where a run's values come from: what is needed to trust it, and to do it again."""

    scheme: str = ""
    seed: int | None = None
    valid: bool = True
    void_because: str = ""
    commit: str = ""
    code: str = ""
    weir: str = ""
    switch: str = ""
    kernel: str = ""
    python: str = ""
    processors: int | None = None
    measured_at: str = ""
    configuration: str = ""
    hosts: str = ""
    stolen_pct: float | None = None
    idle_pct: float | None = None
    folder: str = ""
    void_runs: int = 0
    """Of a benchmark, which writes down valid runs alone: how many others there were in it."""


@dataclass(frozen=True)
class Row:
    """``value`` of ``metric`` of run ``repeat`` of a ``line`` at ``x`` of what is swept; at ``t``
    seconds of what is over time. Of a benchmark's value, ``void_before`` runs for it were void."""

    line: str
    x: float
    t: float | None
    metric: str
    value: float
    repeat: int
    origin: Origin
    void_before: int = 0


@dataclass(frozen=True)
class Cell:
    """The median and band of the ``runs`` valid runs of a point; ``void`` others were void.

    Where ``runs`` is 0, the median is that of the void ones.
    """

    line: str
    x: float
    t: float | None
    metric: str
    band: Band
    runs: int
    void: int


Key = tuple[str, float, float | None, str]


@dataclass(frozen=True)
class Results:
    """What a folder holds: the ``figure`` that was measured, None of runs without one, its rows,
    and whether it is the quick variant."""

    name: str
    figure: Figure | None
    quick: bool
    rows: Sequence[Row]

    @property
    def cells(self) -> list[Cell]:
        return cells(self.rows)


def cells(rows: Iterable[Row]) -> list[Cell]:
    """Return the medians and bands of ``rows``, in the order of lines, metrics, x and t."""
    grouped: dict[Key, list[Row]] = {}
    rows = list(rows)
    for row in (*rows, *_rests(rows)):
        grouped.setdefault((row.line, row.x, row.t, row.metric), []).append(row)
    found = []
    for (line, x, t, metric), group in grouped.items():
        valid = [row.value for row in group if row.origin.valid]
        band = median_band(valid or [row.value for row in group])
        void = len(group) - len(valid) + sum(row.void_before for row in group)
        found.append(Cell(line, x, t, metric, band, len(valid), void))
    lines = list(dict.fromkeys(cell.line for cell in found))
    return sorted(
        found, key=lambda c: (lines.index(c.line), c.metric, c.x, -1e9 if c.t is None else c.t)
    )


def _rests(rows: Iterable[Row]) -> list[Row]:
    """Return rows of 0 from the end of each run's series to that of the longest one at the same
    point, where the metric ``rests``. Without these, the end would be the slowest runs' alone."""
    series: dict[tuple[str, float, str], dict[str, list[Row]]] = {}
    for row in rows:
        known = metrics.METRICS.get(row.metric)
        if row.t is not None and known is not None and known.rests:
            of = series.setdefault((row.line, row.x, row.metric), {})
            of.setdefault(row.origin.folder, []).append(row)
    found = []
    for runs in series.values():
        times = sorted({row.t for run in runs.values() for row in run if row.t is not None})
        for run in runs.values():
            last = max(row.t for row in run if row.t is not None)
            found += [replace(run[-1], t=t, value=0.0) for t in times if t > last]
    return found


class NothingError(ValueError):
    """Of a figure or sweep nothing has been measured."""


def load(folder: Path) -> Results:
    """Read a folder: of a figure or sweep, or of runs of any kind. Raises NothingError where there
    is nothing of a figure yet, ValueError where there is nothing else, or what is of no use."""
    described = folder / sweep.SWEEP
    if described.exists():
        told = json.loads(described.read_text())
        try:
            figure = Figure.model_validate(told["figure"])
        except ValidationError as wrong:
            raise ValueError(
                f"{described} is of another version ({explained(wrong)}): measure it again"
            ) from wrong
        panels = _panels(told["name"], figure)
        rows = (
            bench_rows(told["name"], folder, figure)
            if figure.bench
            else figure_rows(folder, figure, panels)
        )
        if not rows:
            raise NothingError(
                f"{folder}: nothing has been measured yet as {described.name} says; what is there "
                "of other settings does not count"
            )
        return Results(told["name"] or folder.name, figure, told["quick"], rows)
    return Results(folder.name, None, False, plain_rows(folder))


def _panels(name: str, figure: Figure) -> list[Panel]:
    """Return what the figure called ``name`` draws of its runs, and what others draw of them; a
    claim about what nobody draws counts as drawing it."""
    figures = [figure, *(entry.figure for entry in catalogue.entries() if entry.runs == name)]
    drawn = [panel for one in figures for panel in one.panels]
    claimed = dict.fromkeys(claim.metric for one in figures for claim in one.claims)
    scalar = [name for name, one in metrics.METRICS.items() if not one.over_time]
    return drawn + [Panel(metric=name) for name in claimed if name in scalar]


def figure_rows(folder: Path, figure: Figure, panels: Sequence[Panel]) -> list[Row]:
    """Return the rows of the runs of a figure that are there, with what ``panels`` draw; void runs
    that were done again are among them, with what is not over time.

    What was run in another setting, as before the figure was changed, is none of it.
    """
    rows: list[Row] = []
    scalar = [panel for panel in panels if not metrics.METRICS[panel.metric].over_time]
    for job in sweep.plan(figure.model_copy(update={"lines": _known(figure)})):
        where = folder / job.folder
        if not (where / RECORD).exists():
            continue
        run = Run.load(where)
        if sweep.decisive(run.data["spec"]) != sweep.decisive(job.spec.as_record()):
            continue
        of = (job.line.name, job.x, job.repeat)
        origin = origin_of(run, str(job.folder))
        rows += run_rows(run, *of, origin, panels=panels, bin_s=figure.bin_s)
        # Void runs of other code say nothing of this one.
        for void in sweep.void_folders(job, folder, {"code": origin.code} if origin.code else None):
            run = Run.load(void)
            rows += run_rows(run, *of, origin_of(run, str(void.relative_to(folder))), panels=scalar)
    return rows


def _known(figure: Figure) -> list[Line]:
    lacks = catalogue.missing(figure)
    return [] if "" in lacks else [line for line in figure.lines if line.name not in lacks]


def plain_rows(folder: Path) -> list[Row]:
    """Return the rows of all runs in and below ``folder``, whoever has made them: of each scheme by
    the number of its connections, void ones too. Raises ValueError where there are none."""
    found: dict[tuple[str, float], int] = {}
    rows = []
    for record in sorted(folder.rglob(RECORD)):
        run = Run.load(record.parent)
        line, x = run.scheme.name, float(run.connections)
        found[line, x] = found.get((line, x), 0) + 1
        where = str(record.parent.relative_to(folder))
        rows += run_rows(run, line, x, found[line, x], origin_of(run, where))
    if not rows:
        raise ValueError(f"no run has been recorded in {folder}: it has no {RECORD}")
    return rows


def run_rows(
    run: Run,
    line: str,
    x: float,
    repeat: int,
    origin: Origin,
    *,
    panels: Sequence[Panel] = (),
    bin_s: float = 0.1,
) -> list[Row]:
    """Return the rows of one run: the usual metrics, and what ``panels`` draw besides; what is over
    time in bins of ``bin_s`` seconds."""
    rows = []
    wanted = list(metrics.USUAL)
    over_time: dict[str, None] = {}
    for panel in panels:
        if metrics.METRICS[panel.metric].over_time:
            if panel.at == x:
                over_time[panel.metric] = None
        elif panel.metric not in wanted:
            wanted.append(panel.metric)
    for name in wanted:
        value = metrics.METRICS[name].of(run)
        if value is not None:
            rows.append(Row(line, x, None, name, float(value), repeat, origin))
    for name in over_time:
        times, values = metrics.METRICS[name].of(run, bin_s)
        rows += [
            Row(line, x, round(float(t), 6), name, float(value), repeat, origin)
            for t, value in zip(times, values, strict=True)
        ]
    return rows


def origin_of(run: Run, folder: str) -> Origin:
    """Return the provenance of a run."""
    data, environment = run.data, run.data["environment"]
    shares = data.get("processors", {})
    return Origin(
        scheme=run.scheme.name,
        seed=data["spec"]["workload"].get("seed"),
        valid=run.is_valid,
        void_because="; ".join(check.name for check in run.checks if not check.holds),
        commit=environment.get("commit") or "",
        code=environment.get("code", ""),
        weir=environment.get("weir", ""),
        switch=environment.get("switch_build", ""),
        kernel=environment.get("kernel", ""),
        python=environment.get("python", ""),
        processors=environment.get("processors"),
        measured_at=environment.get("date", ""),
        configuration=digest(data["spec"]),
        hosts=table.hosts([run]).removeprefix("hosts: "),
        stolen_pct=_percent(shares.get("stolen_share")),
        idle_pct=_percent(shares.get("idle_share")),
        folder=folder,
    )


def digest(spec: Mapping[str, Any]) -> str:
    """Return twelve letters that stand for a specification: another one has others."""
    told = json.dumps({**spec, "ovs_prefix": None}, sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def bench_rows(name: str, folder: Path, figure: Figure) -> list[Row]:
    """Return the rows of what a benchmark has measured as ``figure`` asks for it, by the patterns
    of the figure called ``name`` and of others that draw the same; by its own if none is called so,
    as of a file."""
    rows = []
    assert figure.bench is not None
    benches = [
        entry.figure.bench
        for entry in catalogue.entries()
        if entry.runs == name and entry.figure.bench is not None
    ] or [figure.bench]
    for file in sorted((folder / sweep.BENCH).glob("*.json")):
        repeat = int(file.stem)
        flat = json.loads(file.read_text())
        if not sweep.has(flat, sweep.asked(figure, repeat)):
            continue
        origin = Origin(
            seed=figure.seed + repeat - 1,
            commit=flat.get("commit", ""),
            code=flat.get("code", ""),
            switch=flat.get("switch", ""),
            kernel=flat.get("machine.kernel", ""),
            processors=flat.get("machine.processors"),
            measured_at=flat.get("measured_at", ""),
            folder=str(file.relative_to(folder)),
            void_runs=sum(_void_runs(flat).values()),
        )
        for bench in benches:
            rows += matched(flat, bench, repeat, origin)
    return rows


def matched(flat: Mapping[str, Any], bench: Bench, repeat: int, origin: Origin) -> list[Row]:
    """Return the rows that the patterns of ``bench`` find in a benchmark's figures.

    Raises ValueError where ``x`` matches what is neither a number nor among ``names``.
    """
    rows = []
    void = _void_runs(flat)
    for metric, pattern in bench.patterns.items():
        for name, value in flat.items():
            found = re.fullmatch(pattern, name)
            if found is None or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            groups = found.groupdict()
            at = _place(groups.get("x") or "0", bench, metric, name)
            line = groups.get("line") or bench.line
            before = _void_before(name, void)
            rows.append(Row(line, at, None, metric, float(value), repeat, origin, before))
    return rows


def _place(x: str, bench: Bench, metric: str, name: str) -> float:
    if x in bench.names:
        return bench.names[x]
    try:
        return float(x)
    except ValueError:
        known = ", ".join(bench.names) or "none"
        raise ValueError(
            f"patterns.{metric} finds x = {x!r} in {name}, which is neither a number nor among "
            f"bench.names: {known}"
        ) from None


def _void_runs(flat: Mapping[str, Any]) -> dict[str, int]:
    return {
        name: int(value)
        for name, value in flat.items()
        if _VOID_RUNS in name and isinstance(value, int | float)
    }


def _void_before(name: str, void: Mapping[str, int]) -> int:
    """Return how many runs for the figure ``name`` were void. They are counted under its name with
    ``void_runs`` in place of what was measured: the closest such name is it."""
    ends = {counted: counted.split(_VOID_RUNS, 1) for counted in void}
    own = [
        counted
        for counted, (start, end) in ends.items()
        if name.startswith(start) and name.endswith(end)
    ]
    return void[max(own, key=len)] if own else 0


def write(results: Results, out: Path) -> None:
    """Write all rows (CSV and Parquet), the medians, and the provenance into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    table_of = tidy(results)
    _write_csv(out / DATA, table_of)
    pq.write_table(arrow(table_of, results), out / PARQUET, compression="zstd")
    write_summary(results.cells, out / SUMMARY)
    (out / PROVENANCE).write_text(json.dumps(provenance(results), indent=2) + "\n")


COLUMNS = (
    "figure", "line", "x", "t", "metric", "value", "repeat", "void_before",
    *(f.name for f in fields(Origin)),
)  # fmt: skip
_OWN = COLUMNS[1 : COLUMNS.index("void_before") + 1]


def tidy(results: Results) -> list[dict[str, Any]]:
    """Return the rows as a table with a column for everything, ``COLUMNS``."""
    found = []
    for row in results.rows:
        own = {name: getattr(row, name) for name in _OWN}
        found.append({"figure": results.name, **own, **asdict(row.origin)})
    return found


_TYPES = {
    str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_(),
    float | None: pa.float64(), int | None: pa.int64(),
}  # fmt: skip


def arrow(rows: Sequence[Mapping[str, Any]], results: Results) -> Any:
    """Return the table for Parquet, with what was measured in its metadata."""
    types: dict[str, Any] = {
        "figure": str,
        "t": float | None,
        **{f.name: f.type for f in fields(Origin)},
    }
    types |= {"line": str, "x": float, "metric": str, "value": float}
    types |= {"repeat": int, "void_before": int}
    schema = pa.schema([(name, _TYPES[types[name]]) for name in COLUMNS])
    told = {"weir.name": results.name, "weir.quick": json.dumps(results.quick)}
    if results.figure is not None:
        told["weir.figure"] = results.figure.model_dump_json()
    return pa.Table.from_pylist(list(rows), schema=schema).replace_schema_metadata(told)


def _write_csv(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


_SUMMARY = ("line", "x", "t", "metric", "median", "low", "high", "runs", "void")


def write_summary(found: Iterable[Cell], file: Path, only: Iterable[str] | None = None) -> None:
    """Write medians and bands; of the metrics ``only``, if given. Five digits are kept."""
    kept = None if only is None else set(only)
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_SUMMARY)
        for cell in found:
            if kept is not None and cell.metric not in kept:
                continue
            band = (cell.band.median, cell.band.low, cell.band.high)
            t = "" if cell.t is None else digits(cell.t)
            at = (cell.line, f"{cell.x:.10g}", t, cell.metric)
            writer.writerow((*at, *map(digits, band), cell.runs, cell.void))


def digits(value: float) -> str:
    """Return a value as it is kept."""
    return f"{value:.{_DIGITS}g}"


def read_summary(file: Path) -> list[Cell]:
    """Read what ``write_summary`` wrote. Raises ValueError where it is of another form."""
    with file.open(newline="", encoding="utf-8") as lines:
        rows = csv.DictReader(lines)
        if tuple(rows.fieldnames or ()) != _SUMMARY:
            raise ValueError(f"{file}: its columns are not {','.join(_SUMMARY)}")
        return [
            Cell(
                row["line"],
                float(row["x"]),
                float(row["t"]) if row["t"] else None,
                row["metric"],
                Band(float(row["median"]), float(row["low"]), float(row["high"])),
                int(row["runs"]),
                int(row["void"]),
            )
            for row in rows
        ]


def provenance(results: Results) -> dict[str, Any]:
    """Return a summary of provenance: whatever differs between runs as a list."""
    origins = {(row.line, row.x, row.origin.folder): row.origin for row in results.rows}
    told: dict[str, Any] = {"figure": results.name, "quick": results.quick}
    for name in ("commit", "code", "weir", "switch", "kernel", "python", "processors", "hosts"):
        values = sorted({str(getattr(o, name)) for o in origins.values() if getattr(o, name)})
        told[name] = values[0] if len(values) == 1 else values
    when = sorted(o.measured_at for o in origins.values() if o.measured_at)
    told["measured"] = [when[0], when[-1]] if when else []
    told["seeds"] = sorted({o.seed for o in origins.values() if o.seed is not None})
    told["runs"] = len(origins)
    of_benchmarks = {o.folder: o.void_runs for o in origins.values()}
    told["void_runs"] = sum(not o.valid for o in origins.values()) + sum(of_benchmarks.values())
    because: dict[str, int] = {}
    for origin in origins.values():
        for why in filter(None, origin.void_because.split("; ")):
            because[why] = because.get(why, 0) + 1
    told["void_because"] = dict(sorted(because.items()))
    stolen = [o.stolen_pct for o in origins.values() if o.stolen_pct is not None]
    if stolen:
        told["stolen_pct"] = {"median": float(np.median(stolen)), "most": max(stolen)}
    return told
