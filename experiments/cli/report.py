"""weir-experiment report"""

import argparse
import json
import os
from pathlib import Path

from rich.console import Console

from experiments.cli import figures, options
from experiments.figures import page
from experiments.measure.record import RECORD, Run
from experiments.report import figure, summary, table

_DESCRIPTION = """\
Without DIR: makes the page of the papers' figures from the results that are committed beside them:
index.html, pictures/ (SVG, PNG, PDF) and claims.csv. With folders of results of figures, as
build/figures: the same of these.

With folders of runs: makes tables and a picture of what these have recorded. DIR is the folder of
a run, or one that has such folders below it, as build/demo or build/bench/incast/n40. Runs in the
same folder that differ in nothing but their scheme stand side by side.

Prints the tables and whether the runs were valid, and writes into --out:
  report.png      goodput over time, and the bottleneck's queue with its notices
  summary.json    the same as figures, flat

exit status: 0 valid, 2 wrong usage, 3 not valid
"""

PICTURE, SUMMARY = "report.png", "summary.json"
_NOT_VALID = 3

Settings = dict[str, dict[str, Run]]


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "report",
        help="the page of all figures; of recorded runs, tables and a picture",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = command.add_argument
    option("folders", type=Path, nargs="*", metavar="DIR", help="what was recorded or measured")
    option(
        "--out", type=Path, default=Path("build/report"), metavar="DIR",
        help="where to write (default %(default)s)",
    )  # fmt: skip
    option("--json", action="store_true", help="print summary.json and no tables")
    command.set_defaults(handler=_report)


def _report(args: argparse.Namespace) -> int:
    if not args.folders or page.sweeps(args.folders):
        return figures.report(args.folders, args.out, as_json=args.json)
    settings = by_setting(recorded(args.folders))
    out = options.folder(args.out)
    figure.draw([list(runs.values()) for runs in settings.values()], out / PICTURE)
    flat = summary.write(settings, out / SUMMARY)
    if args.json:
        print(json.dumps(flat, indent=2))
    else:
        console = Console(highlight=False)
        for name, runs in settings.items():
            compared = list(runs.values())
            console.print(f"[bold]{name}[/bold]: {table.setting(compared[0])}", soft_wrap=True)
            console.print(table.hosts(compared), soft_wrap=True)
            console.print(table.comparison(compared, list(runs)))
        console.print(table.verdict([run for runs in settings.values() for run in runs.values()]))
        console.print(f"picture: {out / PICTURE}   figures: {out / SUMMARY}", soft_wrap=True)
    return 0 if flat["valid"] else _NOT_VALID


def recorded(folders: list[Path]) -> list[Path]:
    """Return the folders of all runs in and below ``folders``. Raises ValueError where there are
    none."""
    found: dict[Path, None] = {}
    for folder in folders:
        records = sorted(folder.rglob(RECORD))
        if not records:
            raise ValueError(f"no run has been recorded in {folder}: it has no {RECORD}")
        found |= dict.fromkeys(record.parent.resolve() for record in records)
    return list(found)


def by_setting(folders: list[Path]) -> Settings:
    """Load runs; return them by the name of the folder that they are in, and by their own. Only
    runs that can be compared are together."""
    top = Path(os.path.commonpath([folder.parent for folder in folders]))
    groups: dict[tuple[Path, str], dict[str, Run]] = {}
    for folder in folders:
        run = Run.load(folder)
        groups.setdefault((folder.parent, table.setting(run)), {})[folder.name] = run
    settings: Settings = {}
    for (parent, _), runs in groups.items():
        parts = parent.relative_to(top).parts or (parent.name,)
        name = ".".join(parts)
        if name in settings:
            # The same folder has runs with other settings.
            name = f"{name}.{next(iter(runs))}"
        settings[name] = runs
    return settings
