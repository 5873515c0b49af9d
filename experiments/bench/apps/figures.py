"""Figures of a setting: medians and spread over its turns, and ratios to the one without
regulation.

Their names are ``SETTING.WORKLOAD.CONTENDER.FIGURE``. Medians bear the bare name (``p99_ms``), the
extremes end in ``_least`` and ``_most``. ``throughput_ratio``, ``p50_ratio`` and ``p99_ratio`` are
those of the medians; their extremes are of single turns, which are moments apart. ``timeouts`` and
``drops`` are the most of a turn, ``timeouts_sum`` is of all turns. ``idle_share`` tells how far a
workload was from having all processors of the machine.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from experiments.bench.apps.matrix import BASELINE, SETTINGS, Setting
from experiments.bench.valid import reasons
from experiments.measure.validity import Check

Figures = dict[str, float]
Turn = Mapping[str, Any]

_TIMES = ("p50_ms", "p99_ms", "p999_ms")


def order(contenders: Sequence[str], turn: int) -> list[str]:
    """Return the order of a turn, counted from 0: each begins with another one."""
    first = turn % len(contenders)
    return [*contenders[first:], *contenders[:first]]


def wanted(setting: Setting, *, quick: bool) -> list[str]:
    """Return the names of the workloads that are measured."""
    return [
        workload.name
        for workload in setting.workloads
        if not quick or workload.name in setting.quick
    ]


def of_setting(name: str, turns: Mapping[str, Sequence[Turn]]) -> Figures:
    """Return the figures of a setting from its ``turns``, by contender. Turns that failed or are
    void have played nothing."""
    figures: Figures = {}
    workloads = dict.fromkeys(w for done in turns.values() for turn in done for w in turn["played"])
    for workload in workloads:
        runs = {
            contender: [turn["played"].get(workload, {}) for turn in done]
            for contender, done in turns.items()
        }
        for contender, played in runs.items():
            prefix = f"{name}.{workload}.{contender}"
            found = _of_workload([run for run in played if "result" in run])
            found |= _ratios(played, runs.get(BASELINE, ())) if contender != BASELINE else {}
            if SETTINGS[name].ratios_only:
                found = {key: value for key, value in found.items() if not key.startswith("p")}
            figures |= {f"{prefix}.{figure}": value for figure, value in found.items()}
    return figures


def failures(turns: Mapping[str, Sequence[Turn]]) -> list[str]:
    """Name what failed, with how often, as WORKLOAD/CONTENDER."""
    failed = [
        f"{workload}/{contender}"
        for contender, done in turns.items()
        for turn in done
        for workload, played in turn["played"].items()
        if "error" in played
    ]
    return [f"{what} x{failed.count(what)}" for what in dict.fromkeys(failed)]


def void(turn: Turn) -> list[str]:
    """Name the checks of a turn that do not hold."""
    return reasons(Check(**check) for check in turn["checks"])


def _of_workload(played: Sequence[Mapping[str, Any]]) -> Figures:
    if not played:
        return {}
    results = [run["result"] for run in played]
    found = _spread(played[0]["unit"], [one["throughput"] for one in results])
    for key in _TIMES:
        if all(one[key] is not None for one in results):
            found |= _spread(key, [one[key] for one in results])
    for part in results[0]["parts"]:
        found[f"{part}_mbps"] = median(one["parts"][part] for one in results)
    timeouts = [run["timeouts"] for run in played]
    return found | {
        "timeouts": max(timeouts),
        "timeouts_sum": sum(timeouts),
        "drops": max(sum(run["drops"].values()) for run in played),
        "idle_share": median(run["idle_share"] for run in played),
        "turns": len(played),
    }


def _ratios(played: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]]) -> Figures:
    """Return the ratios to the baseline, of the turns in which both were done."""
    pairs = [
        (own["result"], other["result"])
        for own, other in zip(played, baseline, strict=False)
        if "result" in own and "result" in other
    ]
    found: Figures = {}
    for key, figure in (("throughput", "throughput"), ("p50_ms", "p50"), ("p99_ms", "p99")):
        both = [(own[key], other[key]) for own, other in pairs if own[key] and other[key]]
        if both:
            owns, others = zip(*both, strict=True)
            single = [own / other for own, other in both]
            found[f"{figure}_ratio"] = median(owns) / median(others)
            found[f"{figure}_ratio_least"] = min(single)
            found[f"{figure}_ratio_most"] = max(single)
    return found


def _spread(name: str, values: Sequence[float]) -> Figures:
    return {name: median(values), f"{name}_least": min(values), f"{name}_most": max(values)}
