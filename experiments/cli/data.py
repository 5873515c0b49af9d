"""weir-experiment compare, export, plot: results as data, from any folder."""

import argparse
import csv
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.bench import measuring
from experiments.cli import options
from experiments.cli.report import by_setting, recorded
from experiments.figures import page, plot, results
from experiments.figures.compare import Difference, compare
from experiments.measure import captures
from experiments.measure.record import Run
from experiments.report import connections, figure

_COMPARE = """\
Compares the results of two folders: of figures, sweeps, or runs of any kind. Where both have valid
runs of the same line (scheme), value and metric, prints the medians of both, and A less B with a
band of 95 % (bootstrap over the runs of both). A star marks a difference whose band leaves 0 out,
where both have three valid runs or more.
"""

_EXPORT = """\
Writes all values of a folder (of a figure, a sweep, or runs of any kind) as tidy tables, a row for
each value of each run, with where it comes from: commit, kernel, versions, seed, configuration,
hosts' settings, stolen time, validity. Writes into --out:
  data.csv, data.parquet   all values
  summary.csv              medians and their bands of 95 %
  provenance.json          summary of provenance
"""

_PLOT = """\
Draws what a folder or file holds: a figure's or sweep's results (SVG, PNG, PDF), runs of any kind
(goodput over time, and the bottleneck's queue; windows and round trips of connections, where they
were recorded), or the figures that a benchmark wrote (.json; the
picture goes beside it unless --out says otherwise).
"""


def add_compare(commands: options.Commands) -> None:
    """Add the command compare."""
    command = _command(commands, "compare", "two results, with bands", _COMPARE)
    option = command.add_argument
    option("a", type=Path, metavar="A", help="a folder of results")
    option("b", type=Path, metavar="B", help="another one")
    option(
        "--metric", type=options.words, action="extend", default=[], metavar="NAME,...",
        help="these alone",
    )  # fmt: skip
    option("--csv", type=Path, metavar="FILE", help="write the differences there, too")
    option("--json", action="store_true", help="print them as JSON, and no table")
    command.set_defaults(handler=_compare)


def add_export(commands: options.Commands) -> None:
    """Add the command export."""
    command = _command(commands, "export", "results as CSV and Parquet", _EXPORT)
    option = command.add_argument
    option("folder", type=Path, metavar="DIR", help="what was measured or recorded")
    option("--out", type=Path, metavar="DIR", help="where to write (default: DIR itself)")
    command.set_defaults(handler=_export)


def add_plot(commands: options.Commands) -> None:
    """Add the command plot."""
    command = _command(commands, "plot", "pictures of results, runs and benchmarks", _PLOT)
    option = command.add_argument
    option("sources", type=Path, nargs="+", metavar="DIR|FILE", help="what is to be drawn")
    option("--out", type=Path, metavar="DIR", help="where to write (default build/plot)")
    command.set_defaults(handler=_plot)


def _command(
    commands: options.Commands, name: str, about: str, description: str
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return made


def _compare(args: argparse.Namespace) -> int:
    found = compare(results.load(_there(args.a)), results.load(_there(args.b)), args.metric)
    rows = [_as_row(one) for one in found]
    if args.csv:
        with args.csv.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    table = Table("line", "x", "metric", "A", "B", "A - B", "band", "", "runs")
    for one in found:
        band, relative = one.difference, one.relative
        share = "" if relative is None else f" ({relative:+.1%})"
        table.add_row(
            one.line, f"{one.x:g}", one.metric, f"{one.of:.4g}", f"{one.to:.4g}",
            f"{band.median:+.4g}{share}", f"{band.low:+.4g} to {band.high:+.4g}",
            "*" if one.differs else "", f"{one.runs[0]}, {one.runs[1]}",
        )  # fmt: skip
    console = Console(highlight=False)
    console.print(f"A: {args.a}   B: {args.b}", soft_wrap=True)
    console.print(table)
    return 0


def _as_row(one: Difference) -> dict[str, object]:
    return {
        "line": one.line, "x": one.x, "metric": one.metric, "a": one.of, "b": one.to,
        "difference": one.difference.median, "low": one.difference.low,
        "high": one.difference.high, "differs": one.differs,
        "runs_a": one.runs[0], "runs_b": one.runs[1],
    }  # fmt: skip


def _export(args: argparse.Namespace) -> int:
    found = results.load(_there(args.folder))
    out = args.out or args.folder
    options.folder(out)
    results.write(found, out)
    runs = len({(row.line, row.x, row.origin.folder) for row in found.rows})
    print(f"{len(found.rows)} values of {runs} runs: {out / results.DATA}, {out / results.PARQUET}")
    print(f"medians and bands: {out / results.SUMMARY}   provenance: {out / results.PROVENANCE}")
    return 0


def _plot(args: argparse.Namespace) -> int:
    for source in map(_there, args.sources):
        if source.suffix == ".json":
            beside = options.folder(args.out or source.parent) / source.name
            pictures = measuring.draw(json.loads(source.read_text()), beside)
            if not pictures:
                raise ValueError(f"{source} holds no figures that could be drawn")
            print(" ".join(map(str, pictures)))
            continue
        out = options.folder(args.out or Path("build/plot"))
        swept = page.sweeps([source])
        for folder in swept:
            shown = page.measured(folder)
            stem = out / shown.entry.name
            files = plot.draw(shown.entry.figure, shown.cells, shown.points, stem)
            print(" ".join(map(str, files.values())))
        if not swept:
            picture = out / f"{source.resolve().name}.png"
            settings = by_setting(recorded([source]))
            figure.draw([list(runs.values()) for runs in settings.values()], picture)
            print(picture)
        for file in sorted(source.rglob(captures.CONNECTIONS)):
            run = Run.load(file.parent)
            picture = out / f"{file.resolve().parent.name}-connections.png"
            connections.draw(run.followed, picture, run.burst_ns[0])
            print(picture)
    return 0


def _there(path: Path) -> Path:
    if not path.exists():
        raise ValueError(f"{path}: is not there")
    return path
