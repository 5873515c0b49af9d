"""Draws a figure: the paper's points and what was measured in the same axes.

Pictures are the same, byte by byte, for the same values: fonts come with matplotlib, identifiers in
SVG are hashed with a fixed salt, and no file has a date.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from experiments.figures.axes import axis
from experiments.figures.catalogue import Point, is_scheme
from experiments.figures.metrics import METRICS
from experiments.figures.results import Cell
from experiments.figures.spec import Figure, Panel
from experiments.schemes import scheme

FORMATS = ("svg", "png", "pdf")
_STYLE = {
    "font.family": "DejaVu Sans", "font.size": 9.5, "axes.spines.top": False,
    "axes.spines.right": False, "svg.hashsalt": "weir", "svg.fonttype": "path",
    "pdf.fonttype": 3,
}  # fmt: skip
# Without these keys matplotlib writes the time, and its own version.
_METADATA: Mapping[str, Mapping[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
}
# Okabe and Ito's, distinct to colour-blind eyes; every line differs in its marker, too.
_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F",
    "#8C510A", "#5E3C99",
)  # fmt: skip
_MARKERS = "osD^vP*Xp<>"
_LINE = "#444444"


@contextmanager
def _style() -> Iterator[None]:
    with mpl.rc_context(_STYLE):
        yield


def draw(
    figure: Figure, found: Sequence[Cell], points: Sequence[Point], stem: Path
) -> dict[str, Path]:
    """Draw ``figure`` to files that are called ``stem`` with the suffixes of FORMATS, and return
    them by format."""
    with _style():
        columns = len(figure.panels)
        picture, axes = plt.subplots(
            1, columns, figsize=(6.2 * columns, 4.6), squeeze=False, layout="constrained"
        )
        for panel, one in zip(figure.panels, axes[0], strict=True):
            _panel(one, figure, panel, found, points)
        handles: dict[str, Any] = {}
        for one in axes[0]:
            for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if handles:
            picture.legend(
                handles.values(), handles.keys(), loc="outside lower center",
                ncols=min(4, len(handles)), frameon=False, fontsize=8.5,
            )  # fmt: skip
        files = {}
        for kind in FORMATS:
            files[kind] = stem.with_name(f"{stem.name}.{kind}")
            picture.savefig(files[kind], dpi=130, metadata=dict(_METADATA[kind]))
            # What the first format has laid out is right for the others.
            picture.set_layout_engine("none")
        plt.close(picture)
    return files


def labels(figure: Figure, found: Sequence[Cell]) -> dict[str, str]:
    """Return what each line is called, in the order of the figure's lines."""
    named = {line.name: line.label or _scheme_label(line.scheme_name) for line in figure.lines}
    for cell in found:
        named.setdefault(cell.line, _scheme_label(cell.line))
    return named


def _scheme_label(name: str) -> str:
    return scheme(name).label if is_scheme(name) else name


def _panel(
    axes: Axes,
    figure: Figure,
    panel: Panel,
    found: Sequence[Cell],
    points: Sequence[Point],
) -> None:
    named = labels(figure, found)
    own_names = {line.paper: line.name for line in figure.lines if line.paper}
    form = {
        name: (_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)])
        for i, name in enumerate(named)
    }
    metric = METRICS.get(panel.metric)
    over_time = metric is not None and metric.over_time
    for name, label in named.items():
        cells = [
            cell
            for cell in found
            if cell.line == name
            and cell.metric == panel.metric
            and (cell.t is not None) == over_time
            and (not over_time or cell.x == panel.at)
        ]
        if cells:
            _curve(axes, cells, label, *form[name], over_time=over_time)
    if not over_time:
        _paper(axes, figure, panel, points, own_names, form)
    axes.set_ylabel(panel.label or (metric.label if metric else panel.metric.replace("_", " ")))
    axes.set_xlabel(_x_label(figure, over_time=over_time))
    if over_time and len(figure.panels) > 1:
        axes.set_title(f"{panel.at:g} {_swept(figure)}", fontsize=9.5, loc="left")
    if figure.bench is not None and figure.bench.names and not over_time:
        names = figure.bench.names
        axes.set_xticks(list(names.values()), list(names), rotation=30, ha="right", fontsize=8)
    if panel.log:
        axes.set_yscale("log")
    if figure.x_log and not over_time:
        axes.set_xscale("log")
    if panel.high is not None:
        axes.set_ylim(top=panel.high)
    if panel.low is not None:
        axes.set_ylim(bottom=panel.low)
    elif not panel.log:
        axes.set_ylim(bottom=0)
    axes.grid(linewidth=0.3)


def _curve(
    axes: Axes, cells: Sequence[Cell], label: str, colour: str, marker: str, *, over_time: bool
) -> None:
    ordered = sorted(cells, key=lambda cell: cell.x if cell.t is None else cell.t)
    x = [cell.x if cell.t is None else cell.t for cell in ordered]
    middle = [cell.band.median for cell in ordered]
    if over_time:
        axes.plot(x, middle, color=colour, linewidth=1.1, label=label)
        return
    low = [cell.band.median - cell.band.low for cell in ordered]
    high = [cell.band.high - cell.band.median for cell in ordered]
    axes.errorbar(
        x, middle, yerr=(low, high), color=colour, marker=marker, markersize=4.5, linewidth=1.3,
        elinewidth=0.8, capsize=2.5, label=label,
    )  # fmt: skip
    void = [cell for cell in ordered if not cell.runs]
    axes.plot(
        [cell.x for cell in void], [cell.band.median for cell in void], "x", color=_LINE,
        markersize=9, linestyle="none", label="void runs only" if void else None, zorder=4,
    )  # fmt: skip


def _paper(
    axes: Axes,
    figure: Figure,
    panel: Panel,
    points: Sequence[Point],
    own_names: Mapping[str, str],
    form: Mapping[str, tuple[str, str]],
) -> None:
    """The paper's points, dashed and hollow, in the colours of our lines that they belong to."""
    factor = figure.scale.values.get(panel.metric, 1.0)
    lines: dict[str, list[Point]] = {}
    for point in points:
        if point.metric == panel.metric:
            lines.setdefault(point.line, []).append(point)
    for name, given in lines.items():
        colour, marker = form.get(own_names.get(name, name), (_LINE, "o"))
        label = f"paper: {name}"
        at = sorted((p.x * figure.scale.x, p.value * factor) for p in given if p.x is not None)
        if at:
            x, y = zip(*at, strict=True)
            axes.plot(
                x, y, color=colour, marker=marker, markerfacecolor="white", markersize=6.5,
                linewidth=1.0, linestyle="--", label=label, zorder=3,
            )  # fmt: skip
        for point in given:
            if point.x is None:
                axes.axhline(
                    point.value * factor, color=colour, linewidth=1.0, linestyle="--", label=label
                )


def _swept(figure: Figure) -> str:
    if figure.x_label:
        return figure.x_label
    if figure.sweep is None:
        return ""
    return figure.sweep.label or axis(figure.sweep.axis).label


def _x_label(figure: Figure, *, over_time: bool) -> str:
    return "time since the workload began [s]" if over_time else _swept(figure)
