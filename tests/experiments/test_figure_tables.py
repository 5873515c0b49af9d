"""Tables of results: nothing is cut off, however narrow the terminal."""

import io

import pytest
from rich.console import Console

from experiments.figures.table import tables
from figure_made import cell, figure

METRICS = ("goodput_mbps", "fct_mean_ms", "fct_p99_ms", "timeouts", "drops", "short_slowdown_p99")


def shown(width: int) -> list[str]:
    cells = [
        cell(line, x, first + number, spread=1, metric=metric)
        for line, first in (("reno_rto10", 12340.4), ("weir", 2000.04))
        for x in (4.0, 2.0)
        for number, metric in enumerate(METRICS)
    ]
    panels = [{"metric": "short_slowdown_p99"}, {"metric": "goodput_mbps"}]
    console = Console(file=io.StringIO(), width=width)
    for table in tables(figure(panels=panels), cells, console):
        console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("width", "count"), [(400, 1), (80, 3), (70, len(METRICS))])
def test_what_does_not_fit_follows_in_another_table(width: int, count: int) -> None:
    lines = shown(width)
    assert sum(line.startswith("┏") for line in lines) == count
    assert sum(line.count("12345 ") for line in lines) == 2
    assert not [line for line in lines if "…" in line or len(line) > width]


def test_lines_stand_together_by_what_is_swept_and_what_is_drawn_comes_first() -> None:
    lines = [line.replace("│", " ").split() for line in shown(400)]
    rows = [line for line in lines if {"reno_rto10", "weir"} & set(line)]
    numbers = {
        "reno_rto10": ["12345", "12340", "12341", "12342", "12343", "12344"],
        "weir": ["2005", "2000", "2001", "2002", "2003", "2004"],
    }
    assert rows == [
        [x, line, *numbers[line], "3", "+", "0"] for x in "24" for line in ("reno_rto10", "weir")
    ]
    assert "[12344, 12346] [12339, 12341]" in " ".join(" ".join(line) for line in lines)
