"""Draws a figure: the paper's points and what was measured in the same axes.

Pictures are the same, byte by byte, for the same values: fonts come with matplotlib, identifiers in
SVG are hashed with a fixed salt, and no file has a date.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from experiments.report.colours import LEVEL, LINES
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
# Some figures have more lines than there are.
_COLOURS = (*LINES, "#8C510A", "#5E3C99", "#999933", "#882255")
_MARKERS = "osD^vP*Xp<>"
# The same in all figures, so that nobody has to look twice; others take what is left.
_OF_SCHEMES = {
    "weir": 0, "dctcp": 1, "sdtcp": 2, "cubic": 3, "dctcp_tuned": 4, "bbr": 5, "reno": 6,
    "reno_rto10": 7, "fair": 8, "sdtcp_letter": 9, "acc": 10, "lttp": 0, "dfcp": 0,
}  # fmt: skip


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
            # What was measured in the order of its lines, then the paper's.
            order = [*labels(figure, found).values()]
            shown = sorted(
                handles, key=lambda one: order.index(one) if one in order else len(order)
            )
            picture.legend(
                [handles[one] for one in shown], shown, loc="outside lower center",
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


def _forms(figure: Figure, named: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return colour and marker of each line: its scheme's own, where the lines differ in these."""
    schemes = {line.name: line.scheme_name for line in figure.lines}
    places = {
        name: _OF_SCHEMES[schemes.get(name, name)]
        for name in named
        if schemes.get(name, name) in _OF_SCHEMES
    }
    if len(set(places.values())) < len(places):
        places = {}
    free = (place for place in itertools.count() if place not in places.values())
    return {
        name: (_COLOURS[place % len(_COLOURS)], _MARKERS[place % len(_MARKERS)])
        for name in named
        for place in [places[name] if name in places else next(free)]
    }


def _panel(
    axes: Axes,
    figure: Figure,
    panel: Panel,
    found: Sequence[Cell],
    points: Sequence[Point],
) -> None:
    named = labels(figure, found)
    own_names = {line.paper: line.name for line in figure.lines if line.paper}
    form = _forms(figure, named)
    metric = METRICS.get(panel.metric)
    over_time = metric is not None and metric.over_time
    is_level = figure.bench is not None and figure.bench.is_level(panel.metric)
    for name, label in named.items():
        cells = [
            cell
            for cell in found
            if cell.line == name
            and cell.metric == panel.metric
            and (cell.t is not None) == over_time
            and (not over_time or cell.x == panel.at)
        ]
        if cells and is_level:
            _level(axes, cells, label, form[name][0])
        elif cells:
            _curve(axes, cells, label, *form[name], over_time=over_time, joined=not _named(figure))
    # What has a value of the sweep has no place over time; a level has.
    known = [point for point in points if point.x is None or not over_time]
    _paper(axes, figure, panel, known, own_names, form)
    axes.set_ylabel(panel.label or (metric.label if metric else panel.metric.replace("_", " ")))
    if is_level and all(p.x is None for p in points if p.metric == panel.metric):
        axes.set_xticks([])
    else:
        axes.set_xlabel(_x_label(figure, over_time=over_time))
    if over_time and len(figure.panels) > 1:
        axes.set_title(f"{panel.at:g} {swept(figure)}", fontsize=9.5, loc="left")
    if _named(figure) and not over_time:
        assert figure.bench is not None
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


def _named(figure: Figure) -> bool:
    """Whether what is swept has names, and no order."""
    return figure.bench is not None and bool(figure.bench.names)


def _level(axes: Axes, cells: Sequence[Cell], label: str, colour: str) -> None:
    """What has one value whatever x: a line from side to side, and its band."""
    band = cells[0].band
    axes.axhline(band.median, color=colour, linewidth=1.3, label=label)
    axes.axhspan(band.low, band.high, color=colour, alpha=0.15, linewidth=0)


def _curve(
    axes: Axes,
    cells: Sequence[Cell],
    label: str,
    colour: str,
    marker: str,
    *,
    over_time: bool,
    joined: bool,
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
        elinewidth=0.8, capsize=2.5, label=label, linestyle="-" if joined else "none",
    )  # fmt: skip
    void = [cell for cell in ordered if not cell.runs]
    axes.plot(
        [cell.x for cell in void], [cell.band.median for cell in void], "x", color=LEVEL,
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
        colour, marker = form.get(own_names.get(name, name), (LEVEL, "o"))
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


def swept(figure: Figure) -> str:
    """Return what is varied, in words."""
    if figure.x_label:
        return figure.x_label
    if figure.sweep is None:
        return ""
    return figure.sweep.label or axis(figure.sweep.axis).label


def _x_label(figure: Figure, *, over_time: bool) -> str:
    return "time since the workload began [s]" if over_time else swept(figure)
