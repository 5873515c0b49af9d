"""What follows from the figures of ``bench acc``: what it should show, tables, pictures."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

from experiments.bench.acc import (
    against_models,
    edges,
    following,
    incast,
    loss,
    speed,
    timeouts,
)
from experiments.bench.acc.layer import LINES, TCPS
from experiments.measure.validity import MIN_IDLE_SHARE, Check

_MEAN, _VALID = "_mean_ms", ("_valid_turns", "_valid_runs")
_WORSE, _VOID = "acc_worse", "void"
# What TCP-ACC is to show.
_LOSSY, _LOSSLESS = ("random1", "random2"), "random0"
_MOST_OF_EDGES = {"0": 100 + 5, "1": 100 - 40}
_LEAST_CUT_PCT, _LEAST_GAIN_PCT, _MOST_COST_PCT, _LEAST_GBPS = 40, 40, 5, 5


def conclude(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return what follows from what was measured.

    ``acc_mean_cut_pct_CELL`` is by how much TCP-ACC's mean is below that of the layer with nothing
    coded, and ``acc_worse`` names the cells where it is above. ``void`` names what has no valid
    turn; a check of that does not hold. ``checks`` are those that could be made. ``timeouts_...``
    is how well models of timeouts do (``timeouts.held_against``).
    """
    found: dict[str, Any] = {}
    for cell in cells(figures):
        if (change := _change_pct(figures, cell, "off")) is not None:
            found[f"acc_mean_cut_pct_{cell}"] = -change
    worse = [name.removeprefix("acc_mean_cut_pct_") for name, cut in found.items() if cut < 0]
    checks = list(_checks(figures))
    missed = [check.name for check in checks if not check.holds]
    found |= timeouts.held_against(figures.get(timeouts.CELLS, ()))
    return found | {
        _WORSE: " ".join(worse),
        _VOID: " ".join(_void(figures)),
        "checks": [asdict(check) for check in checks],
        "checks_missed": " ".join(missed),
    }


def cells(figures: Mapping[str, Any]) -> list[str]:
    """Return what flows were measured, TCP_SETTING_SIZE, in the order in which it was."""
    found = (
        name.removesuffix(f"_{line}{_MEAN}")
        for name in figures
        for line in LINES
        if name.endswith(f"_{line}{_MEAN}")
    )
    return list(dict.fromkeys(found))


def rises_and_falls(steps: Sequence[Mapping[str, float]]) -> bool:
    """Return whether coded packets a second change the way the loss does from each step to the
    next."""
    return all(
        (after["coded_per_s"] - before["coded_per_s"]) * (after["set_pct"] - before["set_pct"]) > 0
        for before, after in pairwise(steps)
        if before["set_pct"] != after["set_pct"]
    )


def show(figures: Mapping[str, Any], _out: Path, console: Console) -> None:
    """Print the tables."""
    for cell in cells(figures):
        console.print(_of_flows(cell, figures))
    if table := of_incast(figures):
        console.print(table)
    if steps := figures.get(f"{following.PREFIX}_steps"):
        console.print(_of_steps(steps))
    for table in (
        of_edges(figures),
        of_programs(figures),
        of_speed(figures),
        *against_models.tables(figures),
    ):
        if table:
            console.print(table)
    console.print(_of_checks(figures))
    for name in (_WORSE, _VOID):
        if figures.get(name):
            console.print(f"[bold]{name}[/bold] {figures[name]}")


def draw(figures: Mapping[str, Any], out: Path) -> list[Path]:
    """Draw beside ``out`` what was measured; return the pictures."""
    pictures = []
    for ending, one, there in (
        ("", draw_means, cells(figures)),
        ("_following", draw_following, f"{following.PREFIX}_s" in figures),
        ("_timeouts", against_models.draw, figures.get(timeouts.CELLS)),
    ):
        if there:
            pictures.append(out.with_name(f"{out.stem}{ending}.png"))
            one(figures, pictures[-1])
    return pictures


def _change_pct(figures: Mapping[str, Any], cell: str, line: str) -> float | None:
    """By how much TCP-ACC's mean is above that of another line, if both were measured."""
    ours, theirs = (figures.get(f"{cell}_{who}{_MEAN}") for who in ("acc", line))
    return 100 * (ours / theirs - 1) if ours and theirs else None


def _of_one_link(
    figures: Mapping[str, Any], regulation: str, pct: str, name: str
) -> tuple[float, str] | None:
    """A figure with a protected link, in % of that with one link, and both in words."""
    raw, protected = (
        figures.get(f"{edges.PREFIX}_{regulation}_{pct}_{line}_{name}") for line in edges.LINES
    )
    if not raw or not protected:
        return None
    share = 100 * protected / raw
    return share, f"{share:.1f} ({protected:,.1f} / {raw:,.1f})"


def _checks(figures: Mapping[str, Any]) -> Iterator[Check]:
    void = set(_void(figures))

    def check(name: str, measured: str, bound: str, holds: bool, *of: str) -> Check:
        is_void = not void.isdisjoint(of)
        return Check(
            name, f"{measured}, void" if is_void else measured, bound, holds and not is_void
        )

    for cell in cells(figures):
        _, setting, _ = _split(cell)
        of = [f"{cell}_{who}" for who in ("acc", "off")]
        if setting in (*_LOSSY, _LOSSLESS) and not void.isdisjoint(of):
            yield check(cell, "no valid turn", "a valid turn of each line", False, *of)
        elif setting in _LOSSY and (change := _change_pct(figures, cell, "off")) is not None:
            cut, least = -change, _LEAST_CUT_PCT
            name = f"{cell}: less time than off, %"
            measured = f"{cut:.1f} ({_means(figures, of)})"
            yield check(name, measured, f"at least {least}", cut >= least, *of)
            ours, theirs = (figures[f"{one}_throughput_mbps"] for one in of)
            gain, least = 100 * (ours / theirs - 1), _LEAST_GAIN_PCT
            name = f"{cell}: more throughput than off, %"
            yield check(name, f"{gain:.1f}", f"at least {least}", gain >= least, *of)
        for line in ("off", "tun", "plain") if setting == _LOSSLESS else ():
            if (cost := _change_pct(figures, cell, line)) is not None:
                name, of = f"{cell}: more time than {line}, %", [of[0], f"{cell}_{line}"]
                measured, bound = f"{cost:.1f} ({_means(figures, of)})", f"at most {_MOST_COST_PCT}"
                yield check(name, measured, bound, cost <= _MOST_COST_PCT, *of)
    if steps := figures.get(f"{following.PREFIX}_steps"):
        rates = ", ".join(f"{step['coded_per_s']:.1f} at {step['set_pct']:g} %" for step in steps)
        bound = "more whenever more is lost, less whenever less is"
        holds = rises_and_falls(steps)
        yield check("coded packets a second", rates, bound, holds, following.PREFIX)
    for regulation, (pct, most) in product(edges.REGULATIONS, _MOST_OF_EDGES.items()):
        if of_one := _of_one_link(figures, regulation, pct, f"single{_MEAN}"):
            share, measured = of_one
            name = f"edges, {regulation}: time of one sender's blocks at {pct} %, % of one link's"
            yield check(name, measured, f"at most {most}", share <= most)
    for regulation, app in product(edges.REGULATIONS, edges.PROGRAMS):
        if of_one := _of_one_link(figures, regulation, "0", f"{app.name}_{app.unit}"):
            (share, measured), least = of_one, 100 - _MOST_COST_PCT
            name = f"edges, {regulation}: {app.name} at 0 %, % of one link's"
            yield check(name, measured, f"at least {least}", share >= least)
    for end in ("sender", "receiver"):
        name = f"{speed.PREFIX}_acc_{end}_gbps_per_core"
        if name in figures:
            value = figures[name]
            bound = f"at least {_LEAST_GBPS}"
            yield check(f"{end}'s speed, Gb/s a core", f"{value:.1f}", bound, value >= _LEAST_GBPS)


def _means(figures: Mapping[str, Any], of: Sequence[str]) -> str:
    """The means that are compared, with their standard errors."""
    return " / ".join(
        f"{figures[f'{one}{_MEAN}']:.1f} ± {figures[f'{one}_mean_error_ms']:.1f}" for one in of
    )


def _void(figures: Mapping[str, Any]) -> Iterator[str]:
    for name, value in figures.items():
        for ending in _VALID:
            if name.endswith(ending) and not value:
                yield name.removesuffix(ending)
    idle_pct = figures.get(f"{following.PREFIX}_processors_idle_pct", 100)
    if idle_pct < 100 * MIN_IDLE_SHARE:
        yield following.PREFIX


def _right(*heads: str, title: str) -> Table:
    table = Table(*heads, box=None, pad_edge=False, title=title, title_justify="left")
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _shown(figures: Mapping[str, Any], of: str, names: Sequence[str], form: str) -> Iterator[str]:
    for name in names:
        value = figures.get(f"{of}_{name}")
        yield "" if value is None else f"{value:{form}}"


def _of_flows(cell: str, figures: Mapping[str, Any]) -> Table:
    tcp, setting, size = _split(cell)
    times = ("mean", *loss.QUANTILES)
    table = _right(
        "", *times, "Mb/s", "timeouts", "coded", "flows", "void",
        title=f"{TCPS[tcp].label}: {setting}, {size} (ms; coded packets for 100 of TCP's)",
    )  # fmt: skip
    for line in LINES:
        of = f"{cell}_{line}"
        if f"{of}{_MEAN}" in figures:
            sent, coded = (figures.get(f"{of}_layer_{name}") for name in ("sent", "coded"))
            table.add_row(
                line,
                *_shown(figures, of, [f"{time}_ms" for time in times], ".1f"),
                *_shown(figures, of, ["throughput_mbps"], ".1f"),
                *_shown(figures, of, ["timeouts"], ".0f"),
                f"{100 * coded / sent:.1f}" if sent and coded is not None else "",
                *_shown(figures, of, ["flows", "void_turns"], ".0f"),
            )
    return table


def of_incast(figures: Mapping[str, Any]) -> Table | None:
    """Return the table of the answers of many servers at once, if any was measured."""
    heads = ("Mb/s", *incast.QUANTILES, "timeouts", "drops", "coded", "void")
    table = _right("", "", *heads, title=f"{incast.SERVERS} servers at once (rounds in ms)")
    times = [f"round_{name}_ms" for name in incast.QUANTILES]
    for tcp, line in product(TCPS, LINES):
        of = f"{incast.PREFIX}_{tcp}_{line}"
        if f"{of}_goodput_mbps" in figures:
            table.add_row(
                tcp,
                line,
                *_shown(figures, of, ["goodput_mbps"], ".1f"),
                *_shown(figures, of, times, ".0f"),
                *_shown(figures, of, ["timeouts", "dropped", "layer_coded", "void_runs"], ".0f"),
            )
    return table if table.row_count else None


def _of_steps(steps: Sequence[Mapping[str, float]]) -> Table:
    names = list(steps[0])
    table = _right(*names, title="one long flow, each step's second half")
    for step in steps:
        table.add_row(*(f"{step[name]:.4g}" for name in names))
    return table


def of_edges(figures: Mapping[str, Any]) -> Table | None:
    """Return the table of TCP-ACC between switches, if that was measured."""
    heads = [
        f"{load},\n{head}"
        for load in edges.LOADS
        for head in ("Mb/s", "mean", *edges.QUANTILES, "timeouts")
    ]
    title = "between two switches (ms; all timeouts of a run)"
    table = _right("", "%", "", *heads, "decided\nafter, s", title=title)
    for of, *names in _of_edges(figures):
        shown: list[str] = []
        for load in edges.LOADS:
            times = [f"{name}_ms" for name in ("mean", *edges.QUANTILES)]
            shown += _shown(figures, f"{of}_{load}", ["goodput_mbps", *times], ".1f")
            shown += _shown(figures, f"{of}_{load}", ["timeouts"], ".0f")
        decided = _shown(figures, of, ["decided_s"], ".1f")
        table.add_row(*names, *shown, *decided)
    return table if table.row_count else None


def of_programs(figures: Mapping[str, Any]) -> Table | None:
    """Return the table of programs between two switches, if that was measured."""
    apps = {app.name: app.unit for app in edges.PROGRAMS}
    heads = [f"{name},\n{what}" for name in apps for what in ("a second", "p99, ms")]
    table = _right("", "%", "", *heads, title="programs between two switches")
    for of, *names in _of_edges(figures):
        shown: list[str] = []
        for name, unit in apps.items():
            shown += _shown(figures, f"{of}_{name}", [unit], ",.0f")
            shown += _shown(figures, f"{of}_{name}", ["p99_ms"], ".1f")
        if any(shown):
            table.add_row(*names, *shown)
    return table if table.row_count else None


def _of_edges(figures: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Where the figures of each row begin, and the row in words: regulation, loss, line."""
    pattern = re.compile(rf"({edges.PREFIX}_(\w+?)_([\d.]+)_(\w+?))_single{_MEAN}")
    for match in filter(None, map(pattern.fullmatch, figures)):
        yield match[1], match[2], match[3], edges.LINES[match[4]]


def of_speed(figures: Mapping[str, Any]) -> Table | None:
    """Return the table of what the layer carries where nothing limits it, if it was measured."""
    names = ["gbps", "gbps_least", "gbps_most"]
    ends = [f"{end}_gbps_per_core" for end in ("sender", "receiver")]
    heads = ("Gb/s", "least", "most", "sender,\nGb/s a core", "receiver,\nGb/s a core", "idle, %")
    table = _right("", *heads, title="over veth, no loss")
    for name, label in speed.SPEED_LINES.items():
        of = f"{speed.PREFIX}_{name}"
        if f"{of}_gbps" in figures:
            table.add_row(
                label,
                *_shown(figures, of, [*names, *ends], ".2f"),
                *_shown(figures, of, ["processors_idle_pct"], ".0f"),
            )
    return table if table.row_count else None


def _of_checks(figures: Mapping[str, Any]) -> Table:
    table = Table("check", "measured", "bound", "", box=None, pad_edge=False)
    for check in figures.get("checks", ()):
        held = "held" if check["holds"] else "[bold]not held[/bold]"
        table.add_row(check["name"], check["measured"], check["bound"], held)
    return table


def draw_means(figures: Mapping[str, Any], path: Path) -> None:
    """Draw mean times, with their standard errors, against losses, a row for each TCP, a column for
    each size and kind of loss, to ``path`` (.png)."""
    parts = [_split(cell) for cell in cells(figures)]
    tcps = [tcp for tcp in TCPS if any(part[0] == tcp for part in parts)]
    columns = list(dict.fromkeys((_kind(setting)[0], size) for _, setting, size in parts))
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        picture, rows = plt.subplots(
            len(tcps), len(columns), figsize=(3.2 * len(columns) + 1, 3.2 * len(tcps) + 0.5),
            layout="constrained", squeeze=False,
        )  # fmt: skip
        for tcp, row in zip(tcps, rows, strict=True):
            for (kind, size), axes in zip(columns, row, strict=True):
                _curves(axes, figures, tcp, kind, size)
                axes.set_title(f"{TCPS[tcp].label}\n{size}, {kind}", fontsize=9)
            row[0].set_ylabel("mean completion [ms]")
        for axes in rows[-1]:
            axes.set_xlabel("frames lost [%]")
        handles, labels = rows[0][0].get_legend_handles_labels()
        picture.legend(
            handles, labels, loc="outside lower center", ncols=min(len(labels), 2 * len(columns))
        )
        picture.savefig(path, dpi=130)
        plt.close(picture)


def _kind(setting: str) -> tuple[str, float]:
    """The kind of losses, and how many, in %."""
    kind = setting.rstrip("0123456789.")
    return kind, float(setting[len(kind) :])


def _curves(axes: Axes, figures: Mapping[str, Any], tcp: str, kind: str, size: str) -> None:
    settings = sorted(
        {setting for of, setting, of_size in map(_split, cells(figures))
         if (of, of_size) == (tcp, size) and (_kind(setting)[0] == kind or setting == _LOSSLESS)},
        key=lambda setting: _kind(setting)[1],
    )  # fmt: skip
    for name, line in LINES.items():
        points = [
            (_kind(setting)[1], figures[f"{of}{_MEAN}"], figures[f"{of}_mean_error_ms"])
            for setting in settings
            if f"{(of := f'{tcp}_{setting}_{size}_{name}')}{_MEAN}" in figures
        ]
        if points:
            losses, means, errors = zip(*points, strict=True)
            axes.errorbar(
                losses,
                means,
                errors,
                fmt="o-",
                ms=3,
                capsize=2,
                color=line.colour,
                label=line.label,
            )
    axes.set_yscale("log")
    for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        which("{x:g}")
    axes.tick_params(axis="y", which="minor", labelsize=7)
    axes.grid(alpha=0.3, which="both")


def _split(cell: str) -> tuple[str, str, str]:
    tcp, setting, size = cell.split("_")
    return tcp, setting, size


def draw_following(figures: Mapping[str, Any], path: Path) -> None:
    """Draw the loss, what the layer takes it for, and what it sends for it, over time."""
    of = {
        name: figures[f"{following.PREFIX}_{name}"]
        for name in ("s", "set_pct", "loss_pct", "c1", "c2", "coded_per_s")
    }
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        picture, (above, middle, below) = plt.subplots(
            3, 1, figsize=(7.5, 6), layout="constrained", sharex=True
        )
        above.step(of["s"], of["set_pct"], where="post", color="#000000", label="set")
        above.plot(of["s"], of["loss_pct"], color="#009E73", label="p, as the layer knows it")
        above.set_ylabel("loss [%]")
        middle.plot(of["s"], of["c1"], color="#0072B2", label="C1")
        middle.plot(of["s"], of["c2"], color="#E69F00", label="C2")
        middle.set_ylabel("packets")
        below.plot(of["s"], of["coded_per_s"], color="#009E73", label="coded packets a second")
        below.set_xlabel("s")
        for axes in (above, middle, below):
            axes.legend(loc="upper right", frameon=False)
            axes.grid(alpha=0.3)
        picture.savefig(path, dpi=130)
        plt.close(picture)
