"""Comparisons as a picture: a column per run, goodput above, the bottleneck's queue below."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from experiments.measure.record import Run, binned
from experiments.report.colours import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LEVEL,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
)
from experiments.report.table import setting

_WORKLOAD, _BACKGROUND, _QUEUE = BLUE, ORANGE, SKY
# Areas side by side.
_FLOWS = (BLUE, SKY, GREEN, YELLOW, ORANGE, VERMILION, PURPLE, GREY)
_NOTICES = {
    "CN-L": ("v", GREEN),
    "CN-M": ("D", PURPLE),
    "CN-H": ("^", VERMILION),
    "CR": ("o", BLACK),
}
_THRESHOLD = {"CN-L": "low", "CN-M": "mid", "CN-H": "high"}
_QUEUE_BINS = 1200
_GOODPUT_BINS = 2
_TITLE_WIDTH = 72
_HEADROOM = 1.15
_BESIDE: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"),
    "xytext": (3, 0),
    "textcoords": "offset points",
    "va": "center",
    "fontsize": 8.5,
    "color": LEVEL,
}
_KIB = 1024


def draw(settings: Sequence[Sequence[Run]], path: Path) -> None:
    """Draw the runs of each setting side by side, a setting below the other, and write the picture
    to ``path`` (.png)."""
    columns = max(map(len, settings))
    with plt.rc_context({"font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False}):
        picture = plt.figure(figsize=(5.6 * columns, 6.6 * len(settings)), layout="constrained")
        panels = picture.subfigures(len(settings), squeeze=False)[:, 0]
        for panel, runs in zip(panels, settings, strict=True):
            _comparison(panel, runs)
        picture.savefig(path, dpi=150 if columns < 3 else 110)
        plt.close(picture)


def _comparison(panel: SubFigure, runs: Sequence[Run]) -> None:
    rows = panel.subplots(2, len(runs), sharex="col", sharey="row", squeeze=False)
    for column, run in enumerate(runs):
        _goodput(rows[0][column], run)
        _queue(rows[1][column], run)
        rows[1][column].set_xlabel(f"time since the first {run.workload.unit} began [s]")
        rows[1][column].margins(x=0.01)
    rows[0][0].set_ylabel("goodput, stacked [Mb/s]")
    rows[1][0].set_ylabel("queue at the bottleneck [KiB]")
    panel.suptitle(fill(setting(runs[0]), _TITLE_WIDTH * len(runs)), fontsize=10.5)
    for row in rows:
        handles, labels = row[0].get_legend_handles_labels()
        row[0].legend(
            handles, labels, loc="upper left", ncols=len(labels), fontsize=8.5,
            frameon=False, handletextpad=0.5, columnspacing=1.2, borderaxespad=0.1,
        )  # fmt: skip


def _goodput(axes: Axes, run: Run) -> None:
    link_mbps = run.data["roles"]["bottleneck_bps"] / 1e6
    shown = _series(run)
    if run.has_background:
        shown.append((run.data["background_bytes"], _BACKGROUND, "background flow"))
    series, colours, labels = zip(*shown, strict=True)
    at_s, rates = _rates(run, series)
    axes.stackplot(at_s, *rates, colors=colours, step="post", labels=labels)
    axes.axhline(link_mbps, color=LEVEL, linewidth=0.9)
    axes.annotate("link", (1.0, link_mbps), **_BESIDE)
    for at in (0, run.burst_s):
        axes.axvline(at, color=LEVEL, linewidth=0.9, linestyle=":", ymax=1 / _HEADROOM)
    axes.set_ylim(0, link_mbps * _HEADROOM)
    done = len(run.data["operations"])
    axes.set_title(
        f"$\\bf{{{run.scheme.label}}}$\n{done} {run.workload.unit}s in {run.burst_s:.1f} s: "
        f"{run.goodput_mbps:.0f} Mb/s, {run.timeouts} timeouts",
        loc="left",
        fontsize=10.5,
    )


def _series(run: Run) -> list[tuple[Mapping[str, Any], str, str]]:
    """Return what the workload has received, with colour and label: of each sender if its flows are
    recorded over time, and they are few."""
    each = [flow for flow in run.flows if "received" in flow]
    if not 1 < len(each) <= len(_FLOWS):
        return [(run.data["workload_bytes"], _WORKLOAD, run.workload.name)]
    return [
        (flow["received"], colour, flow["src"]) for flow, colour in zip(each, _FLOWS, strict=False)
    ]


def _rates(
    run: Run, series: Sequence[Mapping[str, Any]]
) -> tuple[npt.NDArray[Any], list[npt.NDArray[Any]]]:
    """Return series of bytes as Mb/s over the same seconds since the workload began."""
    width_ns = series[0]["bin_ns"] * _GOODPUT_BINS
    each = [binned(one, width_ns) for one in series]
    begin = min((first for first, total in each if len(total)), default=0)
    # One more, at which what was stacked in steps ends.
    end = max(first + len(total) for first, total in each) + 1
    rates = [np.zeros(end - begin) for _ in each]
    for rate, (first, total) in zip(rates, each, strict=True):
        rate[first - begin :][: len(total)] = total * 8e3 / width_ns
    return _since(run, (begin + np.arange(end - begin)) * width_ns), rates


def _queue(axes: Axes, run: Run) -> None:
    queue = run.data["queue"]
    bin_ns = max(1, (run.data["end_ns"] - run.data["start_ns"]) // _QUEUE_BINS)
    starts, low, high = run.queue.envelope(bin_ns, run.data["roles"]["bottleneck_bps"])
    axes.fill_between(
        _since(run, starts), low / _KIB, high / _KIB, color=_QUEUE, linewidth=0.4,
        edgecolor=_QUEUE, step="post", label="queue",
    )  # fmt: skip
    for kind, name in _THRESHOLD.items():
        level = int(queue[name]) / _KIB
        axes.axhline(level, color=LEVEL, linewidth=0.8, linestyle="--")
        axes.annotate(kind[-1], (1.0, level), **_BESIDE)
    limit_kib = int(queue["limit_bytes"]) / _KIB
    axes.axhline(limit_kib, color=LEVEL, linewidth=0.9)
    axes.annotate("full", (1.0, limit_kib), **_BESIDE)
    for kind, (marker, colour) in _NOTICES.items():
        times = run.queue.times_of(kind)
        level = int(queue[_THRESHOLD[kind]]) / _KIB if kind in _THRESHOLD else 0.0
        # An empty series that is not clipped has no extent, which would upset the layout.
        axes.plot(
            _since(run, times), np.full(len(times), level), marker, color=colour, markersize=7,
            markeredgecolor="white", markeredgewidth=0.6, linestyle="none", clip_on=not len(times),
            label=kind, zorder=3,
        )  # fmt: skip
    for at in (0, run.burst_s):
        axes.axvline(at, color=LEVEL, linewidth=0.9, linestyle=":", ymax=1 / _HEADROOM)
    axes.set_ylim(0, limit_kib * _HEADROOM)


def _since(run: Run, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    seconds: npt.NDArray[np.float64] = (times_ns - run.burst_ns[0]) / 1e9
    return seconds
