"""Tables of results: what does not fit the terminal follows below, and no name is lost."""

import io

import pytest
from rich.console import Console

from experiments.figures.results import Cell
from experiments.figures.spec import Figure
from experiments.figures.table import tables
from figure_made import cell, figure

METRICS = ("goodput_mbps", "fct_mean_ms", "fct_p99_ms", "timeouts", "drops", "short_slowdown_p99")


def printed(figure: Figure | None, cells: list[Cell], width: int = 400) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    for table in tables(figure, cells, console):
        console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def shown(width: int) -> list[str]:
    cells = [
        cell(line, x, first + number, spread=1, metric=metric)
        for line, first in (("reno_rto10", 12340.4), ("weir", 2000.04))
        for x in (4.0, 2.0)
        for number, metric in enumerate(METRICS)
    ]
    panels = [{"metric": "short_slowdown_p99"}, {"metric": "goodput_mbps"}]
    return printed(figure(panels=panels), cells, width)


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


def test_what_looks_like_markup_is_shown() -> None:
    sweep = {"axis": "hosts.rto_min_ms", "values": [10, 1048576], "label": "least RTO [ms]"}
    text = "\n".join(printed(figure(sweep=sweep), [cell("[fast]", 1048576, 1)]))
    assert "[ms]" in text
    assert "[Mb/s]" in text
    assert "[fast]" in text
    assert "1048576" in text


def test_values_that_are_no_numbers() -> None:
    sweep = {"axis": "hosts.quickack", "values": [False, True]}
    text = "\n".join(printed(figure(sweep=sweep), [cell("weir", 0, 5), cell("weir", 1, 5)]))
    assert text.index("false") < text.index("true")
    bench = {"patterns": {"rps": "(?P<line>.*).(?P<x>.*)"}, "names": {"redis": 1, "nginx": 2}}
    of_bench = figure(sweep=None, workload={}, bench=bench, panels=[{"metric": "rps"}], quick={})
    text = "\n".join(printed(of_bench, [cell("weir", 2, 5, metric="rps")]))
    assert "nginx" in text


def test_runs_without_a_figure() -> None:
    lines = printed(None, [cell("weir", 1, 5, void=2)])
    assert "3 + 2" in "".join(lines)


def test_a_row_is_of_what_its_table_shows() -> None:
    lines = printed(figure(), [cell("weir", 2, 5), cell("weir", 9, 5, metric="unheard_of")])
    assert not [line for line in lines if line.startswith("│") and " 9 " in line]
