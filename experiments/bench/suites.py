"""All suites and their groups, and how they are measured, told and written down."""

import json
import os
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.bench import namespace
from experiments.bench.apps import conclusion, matrix
from experiments.bench.incast import checks as incast_checks
from experiments.bench.incast import plan as incast_plan
from experiments.report.goodputs import goodputs
from experiments.schemes import SCHEMES
from experiments.traffic.fountain import MODES
from testbed.ovs import find_prefix


@dataclass(frozen=True)
class Group:
    """``module`` measures it; ``arguments``, values of JSON, are for its ``run``.

    ``schemes`` are those that it compares: it takes, besides, ``schemes``, some or all of these,
    ``repeats`` and ``records``, the folder where each run may leave what it has recorded.
    ``quick``, if not None, is what of ``arguments`` is other in a short benchmark. What is
    ``tabled`` has its place in a table of the whole suite, and is not listed.
    """

    module: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    schemes: Sequence[str] = ()
    quick: Mapping[str, Any] | None = None
    tabled: bool = False


@dataclass(frozen=True)
class Comparison:
    """What is compared (None: all that there is), how often each is run, and what its hosts have
    otherwise (fields of HostSettings)."""

    schemes: Sequence[str] | None = None
    repeats: int = 3
    host: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = (*SCHEMES, *MODES, *matrix.CONTENDERS)
        unknown = [name for name in self.schemes or () if name not in known]
        if unknown or self.schemes == []:
            raise ValueError(f"schemes are {', '.join(known)}, not {', '.join(unknown)!r}")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")


_CONNECTIONS = (1, 2, 4, 8, 16, 32, 40, 120)
_SCHEMES = ("weir", "sdtcp", "reno", "dctcp")
_COUNTED = (*_SCHEMES, "fair")
_SERVERS = (1, 6, 16, 36, 40, 120)
_LTTP_SCHEMES = (*MODES, "reno", "dctcp")


# What more servers send that nobody holds back is more than a switch on two processors carries.
_MOST_UNPACED = 16


def _lttp(servers: int) -> Group:
    quick = {"sizes_kb": (64, 256)} if servers in (1, 6, 40) else None
    held_back = [name for name in _LTTP_SCHEMES if name != "lttp_tfrc"]
    schemes = _LTTP_SCHEMES if servers <= _MOST_UNPACED else tuple(held_back)
    return Group("transport.lttp", {"servers": servers}, schemes, quick, tabled=True)


def _apps(name: str, setting: matrix.Setting) -> Group:
    quick = {"quick": True} if setting.quick else None
    return Group("apps.setting", {"setting": name}, setting.contenders, quick, tabled=True)


SUITES: Mapping[str, Mapping[str, Group]] = {
    "switch": {
        name: Group(f"switch.{name}")
        for name in ("latency", "shaping", "forwarding", "credit", "dctcp")
    },
    "incast": {
        **{f"n{n}": Group("incast.reads", {"connections": n}, _COUNTED) for n in _CONNECTIONS},
        "n32_own_buffers": Group(
            "incast.reads", {"connections": 32, "own_buffers": True}, _SCHEMES
        ),
        "background": Group("incast.background", schemes=_SCHEMES),
        **{
            name: Group("incast.cells", {"cells": name}, ("weir", "reno"))
            for name in incast_plan.GROUPS
            if name != "paper"
        },
        "paper": Group("incast.cells", {"cells": "paper"}, incast_plan.PAPER_SCHEMES),
        "idle": Group("incast.idle"),
    },
    "apps": {name: _apps(name, setting) for name, setting in matrix.SETTINGS.items()},
    "lttp": {
        **{f"n{n}": _lttp(n) for n in _SERVERS},
        "fairness": Group("transport.fairness", quick={"mixes": ("5l5t",), "measured_s": 10}),
        "loopback": Group("transport.loopback", quick={}),
    },
    "controller": {
        name: Group(f"controller.{name}")
        for name in ("connections", "delay", "memory", "listeners")
    },
    "bandwidth": {"bandwidth": Group("controller.bandwidth", quick={"loads": 3})},
    "dfcp": {
        "links": Group(
            "transport.dfcp", quick={"losses_pct": (1.0,), "rtts_ms": (0, 50), "tcps": ("bbr",)}
        ),
        "codes": Group("transport.dfcp_codes", quick={"losses_pct": (5.0,)}),
        "updates": Group("transport.dfcp_updates", quick={"joins": 20}),
        "sharing": Group(
            "transport.dfcp_sharing", quick={"mixes": ("2", "1d8t"), "measured_s": 10}
        ),
    },
}


@dataclass(frozen=True)
class Conclusion:
    """What follows from all figures of a suite: ``conclude`` returns what is added to them, and
    ``show`` prints it, when it is given all of them and the file that they are in."""

    conclude: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    show: Callable[[Mapping[str, Any], Path, Console], None]


_CONCLUSIONS = {
    "apps": Conclusion(conclusion.conclude, conclusion.show),
    "incast": Conclusion(incast_checks.conclude, incast_checks.show),
}


def run(
    suite: str,
    only: Sequence[str],
    out: Path,
    comparison: Comparison | None = None,
    *,
    quick: bool = False,
) -> int:
    """Measure a suite (or some of its groups), print a table and write ``out``, a flat object.

    A group that fails is told, and costs its own figures only. Returns an exit status: 0, or 1 if
    a group failed. Progress goes to stderr.
    """
    comparison = comparison or Comparison()
    figures: dict[str, object] = _machine()
    if suite != "controller":
        figures["switch"] = find_prefix().name
    failed = []
    measured: dict[str, dict[str, float]] = {}
    for name in only or SUITES[suite]:
        group = SUITES[suite][name]
        if quick and group.quick is None:
            continue
        arguments = {**group.arguments, **(group.quick or {} if quick else {})}
        if group.schemes:
            records = str((out.with_suffix("") / name).resolve())
            schemes = comparison.schemes or group.schemes
            arguments |= {"schemes": schemes, "repeats": comparison.repeats, "records": records}
            if comparison.host:
                arguments["host"] = dict(comparison.host)
        words = (name, group.module, json.dumps(arguments))
        try:
            found = namespace.result("experiments.bench.in_namespace", *words)
        except namespace.NamespaceError as ended:
            if ended.status in namespace.INTERRUPTED:
                return ended.status
            failed.append(name)
            continue
        measured[name] = found["figures"]
        figures |= found["figures"]
        failed += [f"{name}:{what}" for what in found["failed"]]
    if suite in _CONCLUSIONS:
        figures |= _CONCLUSIONS[suite].conclude(figures)
    figures["failed"] = " ".join(failed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(figures, indent=2) + "\n")
    tabled = {name for name in measured if SUITES[suite][name].tabled}
    console = Console(highlight=False)
    if suite in _CONCLUSIONS:
        _CONCLUSIONS[suite].show(figures, out, console)
    _print(measured, tabled, failed, out, console)
    return 1 if failed else 0


def _machine() -> dict[str, object]:
    return {
        "machine.kernel": platform.release(),
        "machine.processors": os.cpu_count(),
        "machine.load_before": round(os.getloadavg()[0], 2),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _print(
    measured: Mapping[str, Mapping[str, float]],
    tabled: Collection[str],
    failed: Sequence[str],
    out: Path,
    console: Console,
) -> None:
    table = Table("figure", "value", box=None)
    table.columns[1].justify = "right"
    for group, figures in measured.items():
        if group in tabled:
            continue
        table.add_row(f"[bold]{group}[/bold]")
        for name, value in figures.items():
            table.add_row(f"  {name}", f"{value:,.4g}" if abs(value) < 100 else f"{value:,.0f}")
    together = {name: value for group in tabled for name, value in measured[group].items()}
    for shown in (goodputs(together), table if table.row_count else None):
        if shown is not None:
            console.print(shown)
    for group in failed:
        console.print(f"[bold red]{group} failed[/bold red]")
    console.print(f"figures: {out}", soft_wrap=True)
