"""What is drawn, and where."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

import figure_made
from experiments.figures import catalogue, plot
from experiments.figures.catalogue import Point
from experiments.figures.spec import Figure
from figure_made import cell


@pytest.fixture
def axes() -> Iterator[Axes]:
    picture, made = plt.subplots()
    yield made
    plt.close(picture)


def of_benchmark(pattern: str) -> Figure:
    return figure_made.figure(
        lines=["dfcp"], sweep=None, quick={}, panels=[{"metric": "drops_pct"}],
        x_label="response time [ms]",
        bench={"suite": "dfcp", "line": "dfcp", "patterns": {"drops_pct": pattern}},
    )  # fmt: skip


def test_what_has_no_x_is_a_level(axes: Axes) -> None:
    figure = of_benchmark("drops")
    point = Point("paper", 5, "drops_pct", 0.6, "quoted", "Table 5")
    cells = [cell("dfcp", 0, 0.5, spread=0.1, metric="drops_pct")]
    plot._panel(axes, figure, figure.panels[0], cells, [point])
    level, paper = axes.get_lines()
    assert np.asarray(level.get_ydata()).tolist() == [0.5, 0.5]
    assert np.asarray(level.get_xdata()).tolist() == [0, 1], "from side to side"
    assert np.asarray(paper.get_xdata()).tolist() == [5]
    assert not axes.containers, "no point at 0"
    assert axes.get_xlabel() == "response time [ms]"


def test_an_axis_on_which_nothing_lies_has_no_label(axes: Axes) -> None:
    figure = of_benchmark("drops")
    cells = [cell("dfcp", 0, 0.5, metric="drops_pct")]
    plot._panel(axes, figure, figure.panels[0], cells, [])
    assert axes.get_xlabel() == ""


@pytest.mark.parametrize("name", catalogue.names())
def test_no_two_lines_of_a_figure_look_alike(name: str) -> None:
    figure = catalogue.entry(name).figure
    forms = plot._forms(figure, plot.labels(figure, []))
    assert len(set(forms.values())) == len(forms)
    if name == "weir-incast":
        assert len({colour for colour, _ in forms.values()}) == len(forms)


def test_what_has_x_is_a_curve(axes: Axes) -> None:
    figure = of_benchmark(r"drops_n(?P<x>\d+)")
    cells = [cell("dfcp", x, 0.5, metric="drops_pct") for x in (2, 4)]
    plot._panel(axes, figure, figure.panels[0], cells, [])
    assert len(axes.containers) == 1
