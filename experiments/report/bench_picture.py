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

_UNITS = (
    "mbps", "gbps", "us", "ms", "ns", "s", "pct", "bytes", "mb", "kb", "share", "per_s", "jain",
    "ratio", "timeouts", "drops", "runs", "mpps", "kpps", "pps",
)  # fmt: skip
_BY_N = re.compile(r"(?P<before>.*)_n(?P<n>\d+)(?P<after>(?:_.*)?)")
# Not results: what describes the machine and the measurement.
_LEFT_OUT = re.compile(r"machine\..*|measured_at|commit|switch|failed|checks.*|.*_samples.*")
_MOST_BARS = 40
_LEAST_CURVE = 3
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
_MARKERS = "osD^vP*X"
_MOST_CURVES = 8


def draw(figures: Mapping[str, Any], path: Path, title: str) -> None:
    """Draw ``figures``, flat as benchmarks write them, to ``path`` (.png).

    Raises ValueError if none of them is a number.
    """
    bars, curves = panels(figures)
    if not bars and not curves:
        raise ValueError(f"{title} holds no figures that could be drawn")
    heights = [3.4] * len(curves) + [0.6 + 0.19 * len(values) for values in bars.values()]
    with plt.rc_context({"font.size": 8.5, "axes.spines.top": False, "axes.spines.right": False}):
        picture, axes = plt.subplots(
            len(heights), 1, figsize=(10, sum(heights) + 0.5), squeeze=False,
            layout="constrained", height_ratios=heights,
        )  # fmt: skip
        places = list(axes[:, 0])
        for what, lines in curves.items():
            _curves(places.pop(0), what, lines)
        for unit, values in bars.items():
            _bars(places.pop(0), unit, values)
        picture.suptitle(title)
        picture.savefig(path, dpi=110, metadata={"Software": None})
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
    """Return who was measured, and what: reno, and goodput_mbps."""
    who, _, what = name.partition("_")
    return who, what or who


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
            x, [values[n] for n in x], marker=_MARKERS[number], color=_COLOURS[number],
            markersize=4, linewidth=1.2, label=line,
        )  # fmt: skip
    axes.set_ylabel(what.replace("_", " "))
    axes.set_xlabel("n")
    axes.set_ylim(bottom=0)
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=7.5, frameon=False, ncols=len(lines))


def _bars(axes: Axes, unit: str, values: Mapping[str, float]) -> None:
    axes.barh(range(len(values)), list(values.values()), color=_COLOURS[0], height=0.65)
    axes.set_yticks(range(len(values)), list(values), fontsize=7)
    axes.invert_yaxis()
    for at, value in enumerate(values.values()):
        axes.annotate(
            f"{value:.3g}", (value, at), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=6.5,
        )  # fmt: skip
    axes.set_xlabel(unit.replace("_", " "))
    axes.margins(y=0.01)
