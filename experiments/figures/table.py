"""Results as tables: a row per line, by the value of what is swept; a column per metric. Metrics
that do not fit beside each other follow in further tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from textwrap import wrap

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.figures.claims import Verdict
from experiments.figures.metrics import METRICS
from experiments.figures.plot import swept
from experiments.figures.results import Cell, Results
from experiments.figures.spec import Figure

_USUAL = (
    "goodput_mbps", "background_mbps", "fct_mean_ms", "fct_p99_ms", "timeouts", "drops",
)  # fmt: skip
_MOST_IN_A_LINE = 14

_At = Mapping[tuple[str, float, str], Cell]


def show(found: Results, verdicts: Iterable[Verdict], console: Console) -> None:
    """Print results as tables, and what became of the claims."""
    title = found.figure.title if found.figure else ""
    console.print(f"[bold]{escape(found.name)}[/bold]: {escape(title)}", soft_wrap=True)
    for table in tables(found.figure, found.cells, console):
        console.print(table)
    console.print("medians; in brackets their band of 95 % (bootstrap over the runs)")
    for verdict in verdicts:
        told = escape(f"{verdict.claim.text} ({verdict.why})")
        console.print(f"[bold]{verdict.verdict}[/bold]: {told}", soft_wrap=True)


def tables(figure: Figure | None, points: Iterable[Cell], console: Console) -> Iterator[Table]:
    """Yield tables of as many metrics each as the console has room for, of one at least."""
    cells = {(cell.line, cell.x, cell.metric): cell for cell in points if cell.t is None}
    left = _metrics(figure, cells)
    while left:
        for fit in range(len(left), 0, -1):
            table = _table(figure, cells, left[:fit])
            if fit == 1 or _width(table, console) <= console.width:
                yield table
                left = left[fit:]
                break


def _metrics(figure: Figure | None, cells: _At) -> list[str]:
    """Return the metrics that there are, those that are drawn first."""
    measured = {metric for _, _, metric in cells}
    drawn = [panel.metric for panel in figure.panels] if figure else []
    usual = figure.bench.patterns if figure and figure.bench else _USUAL
    return [name for name in dict.fromkeys([*drawn, *usual]) if name in measured]


def _width(table: Table, console: Console) -> int:
    # Of a console without an end: the columns of one that has are narrowed.
    wide = console.options.update(width=10_000)
    return table.__rich_measure__(console, wide).maximum


def _table(figure: Figure | None, cells: _At, metrics: Sequence[str]) -> Table:
    table = Table()
    table.add_column(_heading((swept(figure) if figure else "") or "x"), justify="right")
    table.add_column("line")
    for name in metrics:
        known = METRICS.get(name)
        table.add_column(_heading(known.label if known else name), justify="right")
    table.add_column("runs\nvalid + void", justify="right")
    for column in table.columns:
        column.no_wrap = True
    names = _names(figure)
    # Sorting is stable: lines keep their order.
    rows = dict.fromkeys((x, line) for line, x, metric in cells if metric in metrics)
    for x, at_x in groupby(sorted(rows, key=itemgetter(0)), key=itemgetter(0)):
        for _, line in at_x:
            at = [cells.get((line, x, metric)) for metric in metrics]
            counted = next(cell for cell in at if cell is not None)
            runs = f"{counted.runs} + {counted.void}"
            named = names.get(x, f"{x:.10g}")
            table.add_row(escape(named), escape(line), *map(_cell, at), runs)
        table.add_section()
    return table


def _names(figure: Figure | None) -> Mapping[float, str]:
    """Return what the values of what is swept are called, where they are no numbers."""
    if figure and figure.bench:
        return {x: name for name, x in figure.bench.names.items()}
    if figure and figure.sweep and all(isinstance(x, bool) for x in figure.sweep.values):
        return {0.0: "false", 1.0: "true"}
    return {}


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    band = cell.band
    if cell.runs + cell.void < 2 or band.low == band.high:
        return _number(band.median)
    return escape(f"{_number(band.median)}\n[{_number(band.low)}, {_number(band.high)}]")


def _number(value: float) -> str:
    """Return a number with four digits, or all that it has before its point."""
    return f"{value:.4g}" if abs(value) < 9999.5 else f"{value:.0f}"


def _heading(name: str) -> str:
    """Return a name as a heading: its words in short lines."""
    return escape("\n".join(wrap(name.replace("_", " "), _MOST_IN_A_LINE)))
