"""What ``bench incast`` measures besides numbers of connections: cells, in groups.

A cell is a run (``RunSpec``) and the contenders compared in it; unless it says otherwise it is as
in ``reads``. The names of its figures end in its suffix: ``weir_goodput_mbps_n48_quickack``.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any

from experiments.runner import RunSpec, incast, usual_host
from experiments.workloads.reads import FreshReads, Reads

ROUNDS = 15
KIB = 1024
DEEP_BUFFER_BYTES = 8 * KIB * KIB
_FRESH_BYTES = 20_000_000

HOSTS: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "_quickack": {"quickack": True},
    "_iw1": {"initcwnd": 1},
    "_iw4": {"initcwnd": 4},
}
HOST_CONNECTIONS = (16, 32, 40, 48, 60, 80, 100, 120)
MANY = (200, 400, 1000)
FRESH = tuple((servers, size_kb) for servers in (16, 40, 120) for size_kb in (25, 100))
FIG8_SENDERS = (16, 32)
# SDTCP section 5.1: no delayed ACKs; section 5.2.1: an initial window of one segment.
PAPER_HOST: Mapping[str, Any] = {"quickack": True, "initcwnd": 1}
PAPER_SCHEMES = ("sdtcp", "sdtcp_letter", "reno", "dctcp", "weir")
PAPER_ALONE = (8, 16, 32, 40, 48, 80, 120)
PAPER_BESIDE = (10, 16, 32)
# Section 5.2.1, Figure 11.
_FIG11_SENDERS, _FIG11_BYTES = 10, 512 * KIB
BUFFERS_KIB = (32, 16)


@dataclass(frozen=True)
class Cell:
    """``spec``, and by contender what differs from it: its ``scheme`` at least."""

    suffix: str
    spec: RunSpec
    contenders: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {"weir": {"scheme": "weir"}}
    )


def _reads(connections: int, rounds: int = ROUNDS, **changes: Any) -> Reads:
    return replace(incast(connections, rounds), **changes)


def _spec(workload: Reads, **changes: Any) -> RunSpec:
    host = usual_host(**changes.pop("host", {}))
    changes = {"topology": "star", "background": False, **changes}
    return RunSpec(scheme="weir", workload=workload, host=host, **changes)


def _schemes(*names: str) -> dict[str, dict[str, Any]]:
    return {name: {"scheme": name} for name in names}


def _hosts() -> list[Cell]:
    # What incast's own groups have is not measured twice.
    there = (16, 32, 40, 120)
    return [
        Cell(f"_n{n}{kind}", _spec(_reads(n), host=host))
        for kind, host in HOSTS.items()
        for n in HOST_CONNECTIONS
        if kind or n not in there
    ]


def _many() -> list[Cell]:
    """25 kB a connection."""
    return [Cell(f"_n{n}", _spec(_reads(n, 5, block_bytes=25_000 * n))) for n in MANY]


def _fresh() -> list[Cell]:
    """A connection for every request, and the same through a buffer that loses nothing: what
    opening connections costs where there is no incast."""
    contenders = _schemes("weir", "reno") | {
        "fifo_8mib": {"scheme": "fifo", "buffer_bytes": DEEP_BUFFER_BYTES}
    }
    cells = []
    for servers, size_kb in FRESH:
        block_bytes = servers * size_kb * 1000
        rounds = min(20, max(3, ceil(_FRESH_BYTES / block_bytes)))
        reads = _reads(servers, rounds, block_bytes=block_bytes)
        spec = _spec(FreshReads(**asdict(reads)))
        cells.append(Cell(f"_fresh_n{servers}_{size_kb}kb", spec, contenders))
    return cells


def _fig8() -> list[Cell]:
    usual, quick = _schemes("weir", "reno"), _schemes("weir")
    beside: dict[str, Any] = {"background": True, "warm_up_s": 3.0, "tail_s": 1.0}
    cells = []
    for kind in ("", "_quickack"):
        who = quick if kind else usual
        changes: dict[str, Any] = {"topology": "fig8", "host": HOSTS[kind]}
        cells.append(Cell(f"_fig8_n32{kind}", _spec(_reads(32), **changes), who))
        for n in FIG8_SENDERS:
            name = f"_fig8_background_n{n}{kind}"
            cells.append(Cell(name, _spec(_reads(n), **changes, **beside), who))
    return cells


def _buffers() -> list[Cell]:
    return [
        Cell(f"_n32_{kib}kib", _spec(_reads(32), buffer_bytes=kib * KIB), _schemes("weir", "reno"))
        for kib in BUFFERS_KIB
    ]


def _paper() -> list[Cell]:
    """SDTCP on the hosts of its paper: its Figures 9 and 10 without and with a background flow, and
    its Figure 11, at a tenth of its rate."""
    who = _schemes(*PAPER_SCHEMES)
    beside: dict[str, Any] = {"topology": "fig8", "background": True, "host": PAPER_HOST}
    cells = [Cell(f"_paper_n{n}", _spec(_reads(n), host=PAPER_HOST), who) for n in PAPER_ALONE]
    cells += [
        Cell(f"_paper_background_n{n}", _spec(_reads(n), **beside), who) for n in PAPER_BESIDE
    ]
    burst = _reads(_FIG11_SENDERS, 1, block_bytes=_FIG11_SENDERS * _FIG11_BYTES)
    cells.append(Cell("_paper_fig11", _spec(burst, **beside, warm_up_s=11.0, tail_s=6.0), who))
    return cells


GROUPS: Mapping[str, Callable[[], list[Cell]]] = {
    "hosts": _hosts, "many": _many, "fresh": _fresh, "fig8": _fig8, "buffers": _buffers,
    "paper": _paper,
}  # fmt: skip
