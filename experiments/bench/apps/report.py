"""Ordinary programs under each scheme, as tables and a picture: ratios to no regulation."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator
from rich.table import Table

from experiments.bench.apps.matrix import BASELINE
from experiments.traffic.programs.app import MBPS, REQUESTS

Row = Mapping[str, Mapping[str, float]]
Rows = Mapping[str, Row]

# From Okabe and Ito's set, distinct to colour-blind eyes; every series also differs in form.
_FORMS = {
    "weir": ("o", "#0072B2"), "sdtcp": ("D", "#009E73"),
    "kernel": ("s", "#E69F00"), "drr": ("^", "#CC79A7"), "weir_drr": ("v", "#D55E00"),
    "again": (".", "#777777"),
}  # fmt: skip
_LINE = "#444444"
_MARGIN = 1.25
_TICKS = (1, 2, 5)


def tables(rows: Rows, figures: Mapping[str, Any]) -> Iterator[Table]:
    """Yield a table for each setting, and one of the overall figures."""
    for setting in dict.fromkeys(where.partition(".")[0] for where in rows):
        of_setting = {w: row for w, row in rows.items() if w.startswith(f"{setting}.")}
        others = dict.fromkeys(c for row in of_setting.values() for c in row if c != BASELINE)
        compared = ("ratio (range)", "p50, p99", "RTOs")
        table = Table(
            f"{setting}\n", "none\n", "\np50, p99 ms", "\nRTOs",
            *(f"{name * (not n)}\n{what}" for name in others for n, what in enumerate(compared)),
            box=None,
        )  # fmt: skip
        for column in table.columns:
            column.no_wrap = True
        for column in table.columns[1:]:
            column.justify = "right"
        for where, row in of_setting.items():
            words = [where.partition(".")[2], *_baseline(row.get(BASELINE, {}))]
            for contender in others:
                words += _compared(row.get(contender, {}))
            table.add_row(*words)
        yield table
    overall = Table("overall, where none has no timeouts", "ratio", "of", box=None)
    for name, value in figures.items():
        if name.endswith("_ratio") and f"{name}_of" in figures:
            overall.add_row(name, f"{value:.3g}", figures[f"{name}_of"])
    if overall.row_count:
        yield overall


def draw(rows: Rows, path: Path) -> None:
    """Draw every workload's ratios of throughput and of p99 to ``path`` (.png)."""
    with plt.rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}):
        height = 1.5 + 0.19 * len(rows)
        picture, (throughput, p99) = plt.subplots(
            1, 2, figsize=(12, height), layout="constrained", sharey=True
        )
        _ratios(throughput, rows, "throughput_ratio", "throughput over that without regulation")
        _ratios(p99, rows, "p99_ratio", "99th percentile of times over that without regulation")
        names = [f"{'* ' * _suffers(row)}{where}" for where, row in rows.items()]
        throughput.set_yticks(range(len(rows)), names)
        throughput.set_ylim(len(rows) - 0.5, -0.5)
        handles, labels = throughput.get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside upper center", ncols=len(labels) or 1)
        picture.supxlabel("lines: least and most of a turn.  *: timeouts without regulation")
        picture.savefig(path, dpi=110)
        plt.close(picture)


def _ratios(axes: Axes, rows: Rows, figure: str, title: str) -> None:
    extremes = [1.0]
    for contender, (marker, colour) in _FORMS.items():
        at = [
            (y, row[contender])
            for y, row in enumerate(rows.values())
            if figure in row.get(contender, {})
        ]
        if not at:
            continue
        for y, cell in at:
            span = (cell[f"{figure}_least"], cell[f"{figure}_most"])
            axes.plot(span, (y, y), color=colour, linewidth=0.8, alpha=0.7)
            extremes += span
        axes.plot(
            [cell[figure] for _, cell in at], [y for y, _ in at], marker, color=colour,
            markersize=4.5, markeredgecolor="white", markeredgewidth=0.4, label=contender,
        )  # fmt: skip
    axes.axvline(1, color=_LINE, linewidth=0.9)
    axes.set_xscale("log")
    # Powers of ten say little about ratios.
    axes.xaxis.set_major_locator(LogLocator(subs=_TICKS))
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(extremes) / _MARGIN, max(extremes) * _MARGIN)
    axes.set_xlabel(title)
    axes.grid(axis="x", which="both", linewidth=0.3)


def _suffers(row: Row) -> bool:
    return bool(row.get(BASELINE, {}).get("timeouts_sum"))


def _baseline(cell: Mapping[str, float]) -> list[str]:
    unit, name = (MBPS, "Mb/s") if MBPS in cell else (REQUESTS, "/s")
    throughput = f"{cell[unit]:,.4g} {name}" if unit in cell else "-"
    return [throughput, _pair(cell, "p50_ms", "p99_ms"), _count(cell)]


def _compared(cell: Mapping[str, float]) -> list[str]:
    if "throughput_ratio" not in cell:
        return ["-", "-", _count(cell)]
    least, most = cell["throughput_ratio_least"], cell["throughput_ratio_most"]
    ratio = f"{cell['throughput_ratio']:.2f} ({least:.2f}-{most:.2f})"
    return [ratio, _pair(cell, "p50_ratio", "p99_ratio"), _count(cell)]


def _pair(cell: Mapping[str, float], *names: str) -> str:
    known = [f"{cell[name]:.3g}" for name in names if name in cell]
    return ", ".join(known) or "-"


def _count(cell: Mapping[str, float]) -> str:
    return f"{cell['timeouts']:.0f}" if "timeouts" in cell else "-"
