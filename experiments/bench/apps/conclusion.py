"""Overall ratios of ``bench apps``, and the workloads with which the baseline itself suffers.

A workload with which the baseline has retransmission timeouts collapses without Weir's help. It
does not measure harm, so it is listed instead: with the timeouts of both, and whether Weir is
ahead.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.bench.apps import report
from experiments.bench.apps.matrix import BASELINE, CONTENDERS, SETTINGS

JUDGED = "weir"
_WIDTH = 260
_OVERALL = (("throughput", min), ("p50", max), ("p99", max))


def conclude(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is added to the figures of all groups.

    ``min_throughput_ratio``, ``max_p50_ratio`` and ``max_p99_ratio``, each with the workload that
    it is of (``..._of``), are Weir's; those of the other contenders begin with their name.
    ``with_timeouts`` lists the workloads with which the baseline had timeouts.
    """
    rows = cells(figures)
    found: dict[str, Any] = {}
    for contender in CONTENDERS:
        if contender == BASELINE:
            continue
        prefix = "" if contender == JUDGED else f"{contender}."
        judged = {
            where: row[contender]
            for where, row in rows.items()
            if contender in row and not suffers(row) and not _ratios_only(where)
        }
        for figure, worst in _OVERALL:
            key = f"{figure}_ratio"
            known = {where: cell[key] for where, cell in judged.items() if key in cell}
            if known:
                where = worst(known, key=lambda where: known[where])
                name = f"{prefix}{'min' if worst is min else 'max'}_{key}"
                found |= {name: known[where], f"{name}_of": where}
    found["with_timeouts"] = [
        {
            "workload": where,
            "none_timeouts": row[BASELINE]["timeouts_sum"],
            "weir_timeouts": row[JUDGED]["timeouts_sum"],
            "throughput_ratio": row[JUDGED].get("throughput_ratio"),
            "p99_ratio": row[JUDGED].get("p99_ratio"),
            "weir_ahead": row[JUDGED].get("throughput_ratio", 0) >= 1,
        }
        for where, row in rows.items()
        if suffers(row) and JUDGED in row
    ]
    return found


def show(figures: Mapping[str, Any], _out: Path, console: Console) -> None:
    """Print the tables."""
    rows = cells(figures)
    if not rows:
        return
    wide = Console(width=max(console.width, _WIDTH), highlight=False)
    for table in report.tables(rows, figures):
        wide.print(table)


def draw(figures: Mapping[str, Any], out: Path) -> list[Path]:
    """Draw every workload's ratios beside ``out``; return the picture."""
    if not (rows := cells(figures)):
        return []
    picture = out.with_suffix(".png")
    report.draw(rows, picture)
    return [picture]


def cells(figures: Mapping[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures by SETTING.WORKLOAD, contender and name."""
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name, value in figures.items():
        match name.split("."):
            case [setting, workload, contender, figure] if setting in SETTINGS:
                row = rows.setdefault(f"{setting}.{workload}", {})
                row.setdefault(contender, {})[figure] = value
    return rows


def suffers(row: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether the baseline had timeouts, in any turn, or was not measured."""
    return bool(row.get(BASELINE, {"timeouts_sum": 1}).get("timeouts_sum"))


def _ratios_only(where: str) -> bool:
    return SETTINGS[where.partition(".")[0]].ratios_only
