"""The demonstration: the same reads over plain Reno and over Weir, side by side."""

import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from experiments import runner
from experiments.record import Run
from experiments.report import figure, summary, table

SCHEMES = ("reno", "weir")
PICTURE = "demo.png"
SUMMARY = "summary.json"


def demo(spec: runner.RunSpec, out: Path, *, as_json: bool) -> int:
    """Run ``spec`` under every scheme of SCHEMES; report on stdout and into ``out``.

    Returns an exit status: 0 if the runs were valid, 3 if they were not, or that of the run that
    failed. Progress goes to stderr.
    """
    runs = []
    for name in SCHEMES:
        status = runner.run(replace(spec, scheme=name), out / name)
        if status not in (0, runner.VOID):
            return status
        runs.append(Run.load(out / name))
    figure.draw(runs, out / PICTURE)
    flat = summary.write(runs, out / SUMMARY)
    if as_json:
        sys.stdout.write((out / SUMMARY).read_text())
    else:
        _print(runs, out)
    return 0 if flat["valid"] else runner.VOID


def _print(runs: list[Run], out: Path) -> None:
    console = Console(highlight=False)
    console.print()
    console.print(table.setting(runs[0]), soft_wrap=True)
    console.print(table.hosts(runs[0]), soft_wrap=True)
    console.print(table.comparison(runs))
    console.print(table.verdict(runs))
    console.print(f"picture: {out / PICTURE}   figures: {out / SUMMARY}", soft_wrap=True)
