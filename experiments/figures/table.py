"""Results as tables: a row per line, by the value of what is swept; a column per metric. Metrics
that do not fit beside each other follow in further tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table

from experiments.figures.claims import Verdict
from experiments.figures.plot import swept
from experiments.figures.results import Cell, Results
from experiments.figures.spec import Figure

_USUAL = {
    "goodput_mbps": "goodput\nMb/s", "background_mbps": "background\nMb/s",
    "fct_mean_ms": "FCT mean\nms", "fct_p99_ms": "FCT 99th %\nms",
    "timeouts": "timeouts", "drops": "drops",
}  # fmt: skip
_MOST_IN_A_LINE = 12

_At = Mapping[tuple[str, float, str], Cell]


def show(found: Results, verdicts: Iterable[Verdict], console: Console) -> None:
    """Print results as tables, and what became of the claims."""
    title = found.figure.title if found.figure else ""
    console.print(f"[bold]{found.name}[/bold]: {title}", soft_wrap=True)
    for table in tables(found.figure, found.cells, console):
        console.print(table)
    console.print("medians; in brackets their band of 95 % (bootstrap over the runs)")
    for verdict in verdicts:
        told = f"[bold]{verdict.verdict}[/bold]: {verdict.claim.text} ({verdict.why})"
        console.print(told, soft_wrap=True)


def tables(figure: Figure | None, points: Iterable[Cell], console: Console) -> Iterator[Table]:
    """Yield tables of as many metrics each as the console has room for, of one at least."""
    cells = {(cell.line, cell.x, cell.metric): cell for cell in points if cell.t is None}
    headings = _headings(figure, cells)
    x_label = (swept(figure) if figure else "") or "x"
    left = list(headings)
    while left:
        fit = len(left)
        while fit > 1 and _width(_table(cells, headings, left[:fit], x_label), console) > (
            console.width
        ):
            fit -= 1
        yield _table(cells, headings, left[:fit], x_label)
        left = left[fit:]


def _headings(figure: Figure | None, cells: _At) -> dict[str, str]:
    """Return the metrics that there are, those that are drawn first, with their headings."""
    measured = {metric for _, _, metric in cells}
    drawn = [panel.metric for panel in figure.panels] if figure else []
    usual = figure.bench.patterns if figure and figure.bench else _USUAL
    names = dict.fromkeys([*drawn, *usual])
    return {name: _USUAL.get(name) or _folded(name) for name in names if name in measured}


def _width(table: Table, console: Console) -> int:
    # Of a console without an end: the columns of one that has are narrowed.
    wide = console.options.update(width=10_000)
    return table.__rich_measure__(console, wide).maximum


def _table(cells: _At, headings: Mapping[str, str], metrics: Sequence[str], x_label: str) -> Table:
    table = Table()
    table.add_column(_folded(x_label), justify="right", no_wrap=True)
    table.add_column("line", no_wrap=True)
    for heading in (*map(headings.__getitem__, metrics), "runs\nvalid + void"):
        table.add_column(heading, justify="right", no_wrap=True)
    # Sorting is stable: lines keep their order.
    rows = sorted(dict.fromkeys((x, line) for line, x, _ in cells), key=lambda row: row[0])
    for _, at_x in groupby(rows, key=lambda row: row[0]):
        for x, line in at_x:
            at = [cells.get((line, x, metric)) for metric in metrics]
            counted = next((cell for cell in at if cell is not None), None)
            runs = f"{counted.runs} + {counted.void}" if counted else "-"
            table.add_row(f"{x:g}", line, *map(_cell, at), runs)
        table.add_section()
    return table


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    band = cell.band
    if cell.runs + cell.void < 2 or band.low == band.high:
        return _number(band.median)
    return f"{_number(band.median)}\n\\[{_number(band.low)}, {_number(band.high)}]"


def _number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def _folded(name: str) -> str:
    """Return a name as a heading: its words in short lines."""
    lines = [""]
    for word in name.replace("_", " ").split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _MOST_IN_A_LINE:
            lines.append("")
        lines[-1] += f"{' ' * bool(lines[-1])}{word}"
    return "\n".join(lines)
