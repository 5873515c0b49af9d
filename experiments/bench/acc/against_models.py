"""How often windows ended in a timeout, beside the models: tables and a picture."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from rich.table import Table

from experiments.bench.acc.layer import TCPS
from experiments.bench.acc.risks import MODELS
from experiments.bench.acc.timeouts import CELLS, MEASURED, PREFIX

_COLOURS = ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7")
_GREY = "#444444"
# In the table of models alone.
_SUMMED_UP = ("either",)
# Eq. 1 knows no end.
_LEAST_PCT = 0.02
_DRAWN = {"eq1": "--", "eq2": "-.", "weir": "-", "rules": ":"}

Cell = Mapping[str, Any]


def tables(figures: Mapping[str, Any]) -> Iterator[Table]:
    """Return a table for each kind of TCP, and one of how well the models do."""
    found = _by_tcp(figures)
    for tcp, cells in found.items():
        yield _of_windows(tcp, cells)
    if found:
        yield _of_models(figures, list(found))


def _of_windows(tcp: str, cells: Sequence[Cell]) -> Table:
    models = [name for name in MODELS if name not in _SUMMED_UP]
    count = min(cell["windows"] for cell in cells)
    table = _right(
        *("lost", "w", "timeouts", "waits", *(MODELS[name].name for name in models)),
        title=f"{TCPS[tcp].label}: of {count} windows time out, or wait as long, in %",
    )
    for cell in cells:
        low, high = (_short(cell[f"timeout_{end}_pct"]) for end in ("low", "high"))
        table.add_row(
            f"{cell['loss_pct']:g}",
            str(cell["window"]),
            f"{_short(cell['timeout_pct'])} ({low}-{high})",
            _short(cell["wait_pct"]),
            *(f"{cell[f'{name}_pct']:.2g}" for name in models),
        )
    return table


def _of_models(figures: Mapping[str, Any], tcps: Sequence[str]) -> Table:
    table = _right(
        *("", "", "", "time out", "", "wait", ""),
        title="in how many cells models are within the interval, and by which factor off in the "
        "median",
    )
    for column in table.columns[:3]:
        column.justify = "left"
    for tcp, (name, model) in product(tcps, MODELS.items()):
        row = [tcp, model.name, model.label]
        for measured in MEASURED:
            of = f"{PREFIX}_{tcp}_{measured}_{name}"
            factor = figures.get(f"{of}_factor")
            row.append(f"{figures[f'{of}_within']:.0f} of {figures[f'{PREFIX}_{tcp}_cells']:.0f}")
            row.append("" if factor is None else f"{factor:.2g}")
        table.add_row(*row)
    return table


def _short(pct: float) -> str:
    return f"{pct:.2f}" if pct < 9.995 else f"{pct:.1f}"


def _right(*heads: str, title: str) -> Table:
    table = Table(*heads, box=None, pad_edge=False, title=title, title_justify="left")
    for column in table.columns:
        column.justify = "right"
    return table


def draw(figures: Mapping[str, Any], path: Path) -> None:
    """Draw the shares of windows against their sizes, a panel for each kind of TCP, to ``path``
    (.png)."""
    found = _by_tcp(figures)
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        picture, (row,) = plt.subplots(
            1, len(found), figsize=(5 * len(found) + 0.5, 5), layout="constrained", squeeze=False,
            sharey=True,
        )  # fmt: skip
        for axes, (tcp, cells) in zip(row, found.items(), strict=True):
            _panel(axes, cells)
            axes.set_title(TCPS[tcp].label, fontsize=9)
        row[0].set_ylabel("windows [%]")
        of_losses = row[0].get_legend_handles_labels()
        row[-1].legend(*of_losses, title="lost", loc="lower right", frameon=False)
        kinds = [
            Line2D([], [], marker="o", ls="", color=_GREY, label="timeouts, 95 %"),
            Line2D([], [], marker="o", mfc="none", ls="", color=_GREY, label="waits as long"),
        ]
        for name, style in _DRAWN.items():
            label = f"{MODELS[name].name}: {MODELS[name].label}"
            kinds.append(Line2D([], [], ls=style, color=_GREY, label=label))
        picture.legend(handles=kinds, loc="outside lower center", ncols=3)
        picture.savefig(path, dpi=130)
        plt.close(picture)


def _panel(axes: Axes, cells: Sequence[Cell]) -> None:
    losses = list(dict.fromkeys(cell["loss_pct"] for cell in cells))
    windows = sorted({cell["window"] for cell in cells})
    for number, loss_pct in enumerate(losses):
        colour = _COLOURS[number % len(_COLOURS)]
        of = [cell for cell in cells if cell["loss_pct"] == loss_pct]
        sizes = [cell["window"] for cell in of]
        for name, style in _DRAWN.items():
            axes.plot(sizes, [cell[f"{name}_pct"] for cell in of], style, lw=1, color=colour)
        shares, low, high = (
            [cell[f"timeout_{what}pct"] for cell in of] for what in ("", "low_", "high_")
        )
        errors = [
            [share - end for share, end in zip(shares, low, strict=True)],
            [end - share for share, end in zip(shares, high, strict=True)],
        ]
        axes.errorbar(
            sizes, shares, errors, fmt="o", ms=4, capsize=2, color=colour, label=f"{loss_pct:g} %"
        )
        axes.plot(sizes, [cell["wait_pct"] for cell in of], "o", ms=7, mfc="none", color=colour)
    axes.set_xscale("log", base=2)
    axes.set_xticks(windows, [str(window) for window in windows])
    axes.set_yscale("log")
    axes.set_ylim(_LEAST_PCT, 100)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("window [packets]")
    axes.grid(alpha=0.3)


def _by_tcp(figures: Mapping[str, Any]) -> dict[str, list[Cell]]:
    cells: Sequence[Cell] = figures.get(CELLS, ())
    return {tcp: of for tcp in TCPS if (of := [cell for cell in cells if cell["tcp"] == tcp])}
