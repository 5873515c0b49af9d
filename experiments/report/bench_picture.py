"""Any benchmark's figures as a picture: what is counted by n as curves, all else as bars.

Figures with the same unit, as the endings of their names have it, share a panel. A benchmark that
shows something better draws it by itself.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FormatStrFormatter, NullLocator

from experiments.report.colours import LINES
from experiments.schemes import SCHEMES

_UNITS = (
    "mbps", "gbps", "us", "ms", "ns", "s", "pct", "bytes", "mb", "kb", "share", "per_s", "jain",
    "ratio", "timeouts", "drops", "runs", "mpps", "kpps", "pps",
)  # fmt: skip
_BY_N = re.compile(r"(?P<before>.*)_n(?P<n>\d+)(?P<after>(?:_.*)?)")
# Not results: what describes the machine and the measurement.
_LEFT_OUT = re.compile(
    r"machine\..*|asked\..*|measured_at|commit|code|switch|failed|checks.*|.*_samples.*"
)
_MOST_BARS = 40
_LEAST_CURVE = 3
_MARKERS = "osD^vP*X"
_MOST_CURVES = 8
_COLUMNS, _ROW_INCHES = 3, 2.7


def draw(figures: Mapping[str, Any], path: Path, title: str) -> None:
    """Draw ``figures``, flat as benchmarks write them, to ``path`` (.png).

    Raises ValueError if none of them is a number.
    """
    bars, curves = panels(figures)
    if not bars and not curves:
        raise ValueError(f"{title} holds no figures that could be drawn")
    rows = -(-len(curves) // _COLUMNS)
    heights = [_ROW_INCHES] * rows + [1.1 + 0.19 * len(values) for values in bars.values()]
    with plt.rc_context({"font.size": 8.5, "axes.spines.top": False, "axes.spines.right": False}):
        picture = plt.figure(figsize=(12, sum(heights) + 0.5), layout="constrained")
        grid = picture.add_gridspec(len(heights), _COLUMNS, height_ratios=heights)
        for place, (what, lines) in enumerate(curves.items()):
            _curves(picture.add_subplot(grid[divmod(place, _COLUMNS)]), what, lines)
        for row, (unit, values) in enumerate(bars.items(), rows):
            _bars(picture.add_subplot(grid[row, :]), unit, values)
        picture.suptitle(title)
        picture.savefig(path, dpi=100, metadata={"Software": None})
        plt.close(picture)


Curves = dict[str, dict[str, dict[float, float]]]
Bars = dict[str, dict[str, float]]


def panels(figures: Mapping[str, Any]) -> tuple[Bars, Curves]:
    """Return what is drawn: by unit the bars; by figure the curves, of each its values by n.

    Of a unit with many bars the first _MOST_BARS are drawn.
    """
    by_n: Curves = {}
    for name, value in figures.items():
        found = _BY_N.fullmatch(name)
        if found is None or not _is_number(value) or _LEFT_OUT.fullmatch(name):
            continue
        line, what = _split(found["before"])
        lines = by_n.setdefault(what + found["after"], {})
        lines.setdefault(line, {})[float(found["n"])] = float(value)
    curves = {
        what: lines
        for what, lines in by_n.items()
        if max(map(len, lines.values())) >= _LEAST_CURVE and len(lines) <= _MOST_CURVES
    }
    drawn = {
        name
        for name in figures
        if (found := _BY_N.fullmatch(name))
        and _split(found["before"])[1] + found["after"] in curves
    }
    bars: Bars = {}
    for name, value in figures.items():
        if name in drawn or not _is_number(value) or _LEFT_OUT.fullmatch(name):
            continue
        of_unit = bars.setdefault(_unit(name), {})
        if len(of_unit) < _MOST_BARS:
            of_unit[name] = float(value)
    return bars, curves


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _split(name: str) -> tuple[str, str]:
    """Return who was measured, and what: sdtcp_letter, and goodput_mbps."""
    schemes = [one for one in SCHEMES if name.startswith(f"{one}_")]
    who = max(schemes, key=len) if schemes else name.partition("_")[0]
    return who, name[len(who) + 1 :] or who


def _unit(name: str) -> str:
    words = re.split(r"[_.]", name)
    for unit in _UNITS:
        size = unit.count("_") + 1
        if any("_".join(words[i : i + size]) == unit for i in range(len(words))):
            return unit
    return "others"


def _curves(axes: Axes, what: str, lines: Mapping[str, Mapping[float, float]]) -> None:
    for number, (line, values) in enumerate(lines.items()):
        x = sorted(values)
        axes.plot(
            x, [values[n] for n in x], marker=_MARKERS[number], color=LINES[number],
            markersize=4, linewidth=1.2, label=line,
        )  # fmt: skip
    axes.set_ylabel(what.replace("_", " "))
    axes.set_xlabel("n")
    axes.set_ylim(bottom=0)
    axes.grid(linewidth=0.3)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({n for values in lines.values() for n in values}))
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelsize=7)
    axes.legend(fontsize=6.5, framealpha=0.6, ncols=2)


def _bars(axes: Axes, unit: str, values: Mapping[str, float]) -> None:
    axes.barh(range(len(values)), list(values.values()), color=LINES[0], height=0.65)
    axes.set_yticks(range(len(values)), list(values), fontsize=7)
    # A single bar is not to fill its panel.
    axes.set_ylim(max(len(values), 3) - 0.5, -0.5)
    for at, value in enumerate(values.values()):
        axes.annotate(
            f"{value:.3g}", (value, at), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=6.5,
        )  # fmt: skip
    axes.set_xlabel(unit.replace("_", " "))
