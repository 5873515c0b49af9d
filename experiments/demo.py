"""The demonstration: the same reads over plain Reno, over DCTCP and over Weir, side by side."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from experiments import runner
from experiments.record import Run
from experiments.report import figure, summary, table
from experiments.schemes import available

SCHEMES = ("reno", "dctcp", "weir")
PICTURE = "demo.png"
SUMMARY = "summary.json"


def demo(specs: Mapping[str, runner.RunSpec], out: Path, *, as_json: bool) -> int:
    """Run each of ``specs``, by name, under every scheme of SCHEMES that this kernel can have;
    report on stdout and into ``out``.

    Returns an exit status: 0 if the runs were valid, 3 if they were not, or that of the run that
    failed. Progress goes to stderr.
    """
    schemes = [name for name in SCHEMES if available(name, say=_say)]
    settings: dict[str, list[Run]] = {}
    for setting, spec in specs.items():
        settings[setting] = []
        for name in schemes:
            folder = out / setting / name
            status = runner.run(replace(spec, scheme=name), folder)
            if status not in (0, runner.VOID):
                return status
            settings[setting].append(Run.load(folder))
    figure.draw(list(settings.values()), out / PICTURE)
    flat = summary.write(settings, out / SUMMARY)
    if as_json:
        sys.stdout.write((out / SUMMARY).read_text())
    else:
        _print(list(settings.values()), out)
    return 0 if flat["valid"] else runner.VOID


def _say(text: str) -> None:
    print(f"weir-experiment: {text}", file=sys.stderr)


def _print(settings: list[list[Run]], out: Path) -> None:
    runs = [run for compared in settings for run in compared]
    console = Console(highlight=False)
    console.print()
    for compared in settings:
        console.print(table.setting(compared[0]), soft_wrap=True)
    console.print(table.hosts(runs), soft_wrap=True)
    console.print(table.comparison(runs))
    console.print(table.verdict(runs))
    console.print(f"picture: {out / PICTURE}   figures: {out / SUMMARY}", soft_wrap=True)
