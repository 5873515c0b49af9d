"""What follows from the times of ``bench short-flows``: ATP's beside TCP's, tables, a picture."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

from experiments.bench.short_flows import fan_in
from experiments.bench.short_flows.flows import PERCENTILES, SETTINGS, TIMES
from experiments.bench.short_flows.lines import LINES
from experiments.bench.short_flows.programs import APPS, GROUPS, WAYS
from experiments.bench.transport.fetches import size_name
from experiments.schemes import SCHEMES
from experiments.traffic.programs.app import REQUESTS

_RATIOS = (("p99", "loss1"), ("p99", "tcp"), ("median", "none"))
# TCP as it is, and with what ATP's connections always have.
_OURS, _THEIRS = "atp", {"tcp": "", "tls": "_tls"}
_MEASURED = "_whole_median_ms"
# The flows themselves leave nine tenths of two processors idle.
_IDLE, _LEAST_IDLE_PCT = "_processors_idle_pct", 75


def conclude(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return what follows from what was measured.

    ``atp_p99_ratio_SETTING_TIME`` is how many times ATP's tail TCP's is,
    ``atp_median_ratio_SETTING_TIME`` how many times TCP's median ATP's is; with ``_tls`` at the
    end, the same of TLS over TCP. ``disturbed`` names where others used the processors meanwhile,
    so that tails are the machine's.
    """
    ratios: dict[str, Any] = {"disturbed": " ".join(_disturbed(figures))}
    for (quantile, setting), time, (their, suffix) in product(_RATIOS, TIMES, _THEIRS.items()):
        ours, theirs = (f"{setting}_{who}_{time}_{quantile}_ms" for who in (_OURS, their))
        if ours in figures and theirs in figures:
            name = f"{_OURS}_{quantile}_ratio_{setting}_{time}{suffix}"
            ratio = figures[ours] / figures[theirs]
            ratios[name] = ratio if quantile == "median" else 1 / ratio
    return ratios


def ccdf(values: Sequence[float]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the values in their order, and of each the share of all that are at least as large."""
    ordered = np.sort(np.asarray(values, dtype=float))
    return ordered, 1 - np.arange(len(ordered)) / len(ordered)


def show(figures: Mapping[str, Any], _out: Path, console: Console) -> None:
    """Print the tables."""
    for setting in _settings(figures):
        console.print(_table(setting, figures))
    if fairness := _fairness(figures):
        console.print(fairness)
    if fan := of_fan_in(figures):
        console.print(fan)
    for group in GROUPS:
        if programs := of_programs(group, figures):
            console.print(programs)
    for name, value in conclude(figures).items():
        if name != "disturbed":
            console.print(f"{name} {value:.3f}")
        elif value:
            console.print(f"[bold]other programs used the processors during[/bold] {value}")


def draw(figures: Mapping[str, Any], out: Path) -> list[Path]:
    """Draw the times of flows beside ``out``, if they were measured; return the picture."""
    if not any(f"{setting}_{line}_whole_us" in figures for setting in SETTINGS for line in LINES):
        return []
    picture = out.with_suffix(".png")
    draw_times(figures, picture)
    return [picture]


def _disturbed(figures: Mapping[str, Any]) -> Iterator[str]:
    for name, value in figures.items():
        if name.endswith(_IDLE) and value < _LEAST_IDLE_PCT:
            yield name.removesuffix(_IDLE)


def _settings(figures: Mapping[str, Any]) -> list[str]:
    """What was measured, in the order in which it was."""
    found = (
        name.removesuffix(f"_{line}{_MEASURED}")
        for name in figures
        for line in LINES
        if name.endswith(f"_{line}{_MEASURED}")
    )
    return list(dict.fromkeys(found))


def _lines(figures: Mapping[str, Any], setting: str) -> Iterator[str]:
    return (line for line in LINES if f"{setting}_{line}{_MEASURED}" in figures)


def _table(setting: str, figures: Mapping[str, Any]) -> Table:
    label = SETTINGS[setting].label if setting in SETTINGS else setting
    heads = ("median", "p95", "p99", "p99.9", "max", "fail", "lost", "beside")
    table = Table("", "", *heads, box=None, pad_edge=False, title_justify="left")
    table.title = f"{label} (ms; frames lost in %)"
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for column in table.columns[2:]:
        column.justify = "right"
    for line in _lines(figures, setting):
        of = f"{setting}_{line}"
        counts = (
            f"{figures[f'{of}_failures']:.0f}",
            *(f"{figures[f'{of}_{what}']:.2f}" for what in ("lost_pct", "background_lost_pct")),
        )
        for first, time in enumerate(TIMES):
            times = (figures[f"{of}_{time}_{name}_ms"] for name in PERCENTILES)
            shown = (f"{value:.2f}" if value < 100 else f"{value:.0f}" for value in times)
            table.add_row(
                "" if first else LINES[line].label, time, *shown, *(() if first else counts)
            )
    return table


def _fairness(figures: Mapping[str, Any]) -> Table | None:
    table = Table("20 MB beside 20 MB of TCP", "s", "TCP, s", "ratio", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, line in LINES.items():
        if f"fairness_{name}_ratio" in figures:
            values = (figures[f"fairness_{name}_{what}"] for what in ("s", "tcp_s", "ratio"))
            table.add_row(line.label, *(f"{value:.3f}" for value in values))
    return table if table.row_count else None


def of_fan_in(figures: Mapping[str, Any]) -> Table | None:
    """Return the table of the answers of many servers at once, if any was measured."""
    heads = ("Mb/s", "round p50", "p99", "max", "timeouts", "drops")
    table = Table(f"{fan_in.SERVERS} servers at once (ms)", "", *heads, box=None)
    for column in table.columns[2:]:
        column.justify = "right"
    shown = ("goodput_mbps", *(f"round_{name}_ms" for name in fan_in.QUANTILES))
    for size in map(size_name, fan_in.SIZES):
        for name, one in SCHEMES.items():
            of = f"fanin_{name}_{size}"
            if f"{of}_goodput_mbps" in figures:
                values = (f"{figures[f'{of}_{what}']:.1f}" for what in shown)
                counts = (figures.get(f"{of}_{what}") for what in ("timeouts", "drops"))
                told = ("" if count is None else f"{count:.0f}" for count in counts)
                table.add_row(size, one.label, *values, *told)
    return table if table.row_count else None


def of_programs(group: str, figures: Mapping[str, Any]) -> Table | None:
    """Return the table of programs over ATP's proxies and over TCP, if any was measured."""
    table = Table(
        f"programs, {GROUPS[group]}", "", "requests/s", "median", "p99", "p99.9", box=None
    )
    for column in table.columns[2:]:
        column.justify = "right"
    for name in APPS:
        for way in WAYS:
            of = f"{group}_{name}_{way}"
            if f"{of}_{REQUESTS}" in figures:
                times = (figures.get(f"{of}_{what}_ms") for what in ("p50", "p99", "p999"))
                shown = ("" if time is None else f"{time:.2f}" for time in times)
                table.add_row(name, way, f"{figures[f'{of}_{REQUESTS}']:.0f}", *shown)
    return table if table.row_count else None


def draw_times(figures: Mapping[str, Any], path: Path) -> None:
    """Draw the shares of flows that take longer, a column for each setting, to ``path`` (.png)."""
    settings = [one for one in SETTINGS if any(_lines(figures, one))]
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        picture, rows = plt.subplots(
            len(TIMES), len(settings), figsize=(3.6 * len(settings) + 0.5, 6.5),
            layout="constrained", sharex=True, sharey=True, squeeze=False,
        )  # fmt: skip
        for time, row in zip(TIMES, rows, strict=True):
            for setting, axes in zip(settings, row, strict=True):
                _curves(axes, figures, setting, time)
            row[0].set_ylabel("share of flows that take as long")
        for setting, axes in zip(settings, rows[0], strict=True):
            axes.set_title(SETTINGS[setting].label, fontsize=10)
        for axes in rows[-1]:
            axes.set_xlabel("ms")
        handles, labels = rows[0][0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        picture.savefig(path, dpi=130)
        plt.close(picture)


def _curves(axes: Axes, figures: Mapping[str, Any], setting: str, time: str) -> None:
    for name in _lines(figures, setting):
        line = LINES[name]
        ordered, shares = ccdf(figures[f"{setting}_{name}_{time}_us"])
        axes.step(ordered / 1000, shares, where="pre", color=line.colour, label=line.label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
    what = "data alone" if time == "transfer" else "with the opening"
    axes.text(0.97, 0.95, what, transform=axes.transAxes, ha="right", va="top")
