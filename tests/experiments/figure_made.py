"""A small figure, made up by hand, for tests of what is made of figures."""

from typing import Any

from experiments.figures.results import Cell
from experiments.figures.spec import Figure, parse
from experiments.statistics import Band


def written(**changes: Any) -> dict[str, Any]:
    """Return what the file of a figure holds."""
    return {
        "title": "Goodput against senders",
        "setting": {"topology": "star"},
        "workload": {"name": "reads", "rounds": 2},
        "sweep": {"axis": "senders", "values": [2, 4]},
        "lines": [{"name": "reno", "paper": "TCP"}, "weir"],
        "panels": [{"metric": "goodput_mbps"}],
        "repeats": 2,
        "quick": {"values": [2], "lines": ["weir"], "workload": {"rounds": 1}},
        **changes,
    }


def figure(**changes: Any) -> Figure:
    """Return the figure of ``written``."""
    return parse(written(**changes), "made.toml")


def cell(
    line: str, x: float, median: float, *, spread: float = 0.0, runs: int = 3, void: int = 0,
    metric: str = "goodput_mbps",
) -> Cell:  # fmt: skip
    """Return a point with a band of ``spread`` around it."""
    return Cell(line, x, None, metric, Band(median, median - spread, median + spread), runs, void)
