"""The demonstration: the same reads over plain Reno, over DCTCP and over Weir, side by side."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from experiments import runner
from experiments.measure.machine import Others, OthersMeter
from experiments.measure.record import Run
from experiments.measure.validity import OF_A_QUIET_MACHINE
from experiments.report import figure, summary, table
from experiments.schemes import available

SCHEMES = ("reno", "dctcp", "weir")
PICTURE = "demo.png"
SUMMARY = "summary.json"
# A run that is void because the machine was busy is repeated, until there are so many.
ATTEMPTS = 3


def demo(specs: Mapping[str, runner.RunSpec], out: Path, *, as_json: bool) -> int:
    """Run each of ``specs``, by name, under every scheme of SCHEMES that this kernel can have;
    report on stdout and into ``out``. A run that is void for want of a quiet machine is repeated.

    Returns an exit status: 0 if the runs were valid, 3 if they were not, or that of the run that
    failed. Progress goes to stderr.
    """
    schemes = [name for name in SCHEMES if available(name, say=_say)]
    settings: dict[str, dict[str, Run]] = {}
    in_the_way: list[Others] = []
    for setting, spec in specs.items():
        settings[setting] = {}
        for name in schemes:
            folder = out / setting / name
            status, others = _run(replace(spec, scheme=name), folder)
            if status not in (0, runner.VOID):
                return status
            run = Run.load(folder)
            settings[setting][name] = run
            if _wants_a_quiet_machine(run):
                in_the_way.append(others)
    compared = [list(runs.values()) for runs in settings.values()]
    figure.draw(compared, out / PICTURE)
    flat = summary.write(settings, out / SUMMARY)
    if as_json:
        sys.stdout.write((out / SUMMARY).read_text())
    else:
        _print(compared, out)
        for line in _advice(in_the_way):
            print(line)
    return 0 if flat["valid"] else runner.VOID


def _run(spec: runner.RunSpec, folder: Path) -> tuple[int, Others]:
    """Do a run, again if the machine was too busy for it; return the last exit status, and who
    used the processors."""
    for attempt in range(1, ATTEMPTS + 1):
        meter = OthersMeter()
        status = runner.run(spec, folder)
        others = meter.read()
        if status != runner.VOID or attempt == ATTEMPTS:
            break
        run = Run.load(folder)
        if not _wants_a_quiet_machine(run):
            break
        failed = ", ".join(check.name for check in run.checks if not check.holds)
        _say(f"void ({failed}); {others.in_words() or 'nobody else was busy'}; again")
    return status, others


def _wants_a_quiet_machine(run: Run) -> bool:
    return any(check.name in OF_A_QUIET_MACHINE for check in run.checks if not check.holds)


def _advice(in_the_way: Sequence[Others]) -> list[str]:
    """What to do about runs that stayed void."""
    if not in_the_way:
        return []
    worst = max(
        in_the_way, key=lambda others: (others.steal_share, sum(had for _, had in others.processes))
    )
    said = worst.in_words()
    if said:
        lines = [f"The machine was busy: {said}.", "Run it again when that is over."]
    else:
        lines = ["The machine is too slow for this: nobody else was busy."]
    return [*lines, "A smaller one needs less: weir-experiment demo --senders 8 --rounds 10"]


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
