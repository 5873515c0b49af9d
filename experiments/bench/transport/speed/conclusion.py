"""What ``bench transport`` should show, and its picture: goodput, and speed for each core."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

from experiments.bench.transport.speed.contenders import CONTENDERS
from experiments.measure.validity import Check

MEDIA = ("loopback", "veth")
_SHOWN = (
    ("goodput_gbps", "goodput [Gb/s]", "#0072B2"),
    ("send_gbps_per_core", "sending, Gb/s a core", "#E69F00"),
    ("receive_gbps_per_core", "receiving, Gb/s a core", "#009E73"),
)
_SEND_GBPS, _FETCH_GBPS = 8, 6
_SLOW_S_PER_GB, _IDLE_SHARE = 5, 0.01
_REQUESTS_PER_S = 100_000


def _bounds() -> Iterator[tuple[str, float, bool]]:
    """Yield figures, their bounds, and whether they have to be at least that."""
    for medium in MEDIA:
        for name in ("lttp_1", "dfcp", "atp"):
            yield f"{medium}_{name}_send_gbps_per_core", _SEND_GBPS, True
        for name in ("lttp_1", "lttp_8"):
            yield f"{medium}_{name}_goodput_gbps", _FETCH_GBPS, True
        yield f"{medium}_dfcp_100m_send_cpu_s_per_gb", _SLOW_S_PER_GB, False
    yield "idle_share", _IDLE_SHARE, False
    yield "requests_per_s", _REQUESTS_PER_S, True


def conclude(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``checks`` of those figures that were measured, and ``checks_missed``."""
    checks = [
        Check(
            name,
            f"{figures[name]:.4g}",
            f"at {'least' if least else 'most'} {bound:g}",
            figures[name] >= bound if least else figures[name] <= bound,
        )
        for name, bound, least in _bounds()
        if name in figures
    ]
    missed = [check.name for check in checks if not check.holds]
    return {"checks": [asdict(check) for check in checks], "checks_missed": " ".join(missed)}


def show(figures: Mapping[str, Any], _out: Path, console: Console) -> None:
    """Print the tables."""
    for medium in MEDIA:
        if rows := _rows(figures, medium):
            console.print(_table(medium, rows, figures))


def draw(figures: Mapping[str, Any], out: Path) -> list[Path]:
    """Draw the goodputs beside ``out``, if they were measured; return the picture."""
    if not any(_rows(figures, medium) for medium in MEDIA):
        return []
    picture = out.with_suffix(".png")
    draw_goodputs(figures, picture)
    return [picture]


def _rows(figures: Mapping[str, Any], medium: str) -> list[str]:
    return [name for name in CONTENDERS if f"{medium}_{name}_goodput_gbps" in figures]


def _table(medium: str, rows: list[str], figures: Mapping[str, Any]) -> Table:
    table = Table(
        medium, "Gb/s", "least, most", "send\nCPU-s/GB", "receive\nCPU-s/GB",
        "send\nGb/s a core", "receive\nGb/s a core", box=None,
    )  # fmt: skip
    for column in table.columns[1:]:
        column.justify = "right"
    for name in rows:
        of = {
            key: figures[f"{medium}_{name}_{key}"]
            for key in (
                *("goodput_gbps", "goodput_gbps_least", "goodput_gbps_most"),
                *("send_cpu_s_per_gb", "receive_cpu_s_per_gb"),
                *("send_gbps_per_core", "receive_gbps_per_core"),
            )
        }
        table.add_row(
            CONTENDERS[name].label,
            f"{of['goodput_gbps']:.2f}",
            f"{of['goodput_gbps_least']:.2f}, {of['goodput_gbps_most']:.2f}",
            *(f"{of[f'{end}_cpu_s_per_gb']:.2f}" for end in ("send", "receive")),
            *(f"{of[f'{end}_gbps_per_core']:.2f}" for end in ("send", "receive")),
        )
    return table


def draw_goodputs(figures: Mapping[str, Any], path: Path) -> None:
    """Draw every contender's bars, a column for each medium, to ``path`` (.png)."""
    media = [medium for medium in MEDIA if _rows(figures, medium)]
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        picture, columns = plt.subplots(
            1, len(media), figsize=(5.2 * len(media) + 1, 5.5), layout="constrained",
            sharey=True, squeeze=False,
        )  # fmt: skip
        for axes, medium in zip(columns[0], media, strict=True):
            _bars(axes, medium, figures)
        handles, labels = columns[0][0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        picture.savefig(path, dpi=130)
        plt.close(picture)


def _bars(axes: Axes, medium: str, figures: Mapping[str, Any]) -> None:
    names = list(CONTENDERS)
    height = 0.8 / len(_SHOWN)
    for n, (figure, label, colour) in enumerate(_SHOWN):
        at = [
            (y + (n - 1) * height, figures[f"{medium}_{name}_{figure}"])
            for y, name in enumerate(names)
            if f"{medium}_{name}_{figure}" in figures
        ]
        bars = axes.barh([y for y, _ in at], [v for _, v in at], height, color=colour, label=label)
        axes.bar_label(bars, fmt="%.2g", padding=2, fontsize=7.5)
    axes.set_yticks(range(len(names)), [CONTENDERS[name].label for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_title(medium, fontsize=10)
    axes.set_xlabel("Gb/s")
    axes.margins(x=0.12)
