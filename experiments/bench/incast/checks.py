"""What ``bench incast`` should show of Weir: bounds of its figures, and whether they hold."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.bench.incast.plan import (
    BUFFERS_KIB,
    FIG8_SENDERS,
    FRESH,
    HOST_CONNECTIONS,
    HOSTS,
    MANY,
    PAPER_ALONE,
    PAPER_BESIDE,
)
from experiments.measure.validity import Check

_HOSTS_MBPS = 88
_MANY_MBPS = dict(zip(MANY, (88, 85, 80), strict=True))
_FRESH_SHARE = 0.95
_FIG8_MBPS = 90
_BUFFER_MBPS = dict(zip(BUFFERS_KIB, (88, 75), strict=True))
# Of SDTCP: beyond 40 connections a segment for each fills more than the buffer.
_PAPER_MBPS = {f"n{n}": mbps for n, mbps in zip(PAPER_ALONE, (93, 92, 84, 83), strict=False)} | {
    f"background_n{n}": mbps for n, mbps in zip(PAPER_BESIDE, (88, 86, 78), strict=True)
}
_FIG11_MBPS, _FIG11_S = 85, 2


def least() -> Iterator[tuple[str, float]]:
    """Yield the names of figures that must be at least so much."""
    for suffix in host_suffixes():
        yield f"weir_goodput_mbps{suffix}", _HOSTS_MBPS
    for n, mbps in _MANY_MBPS.items():
        yield f"weir_goodput_mbps_n{n}", mbps
    for servers, size_kb in FRESH:
        yield f"weir_vs_fifo_8mib_fresh_n{servers}_{size_kb}kb", _FRESH_SHARE
    for kind in ("", "_quickack"):
        yield f"weir_goodput_mbps_fig8_n32{kind}", _FIG8_MBPS
        for n in FIG8_SENDERS:
            yield f"weir_total_mbps_fig8_background_n{n}{kind}", _FIG8_MBPS
    for kib, mbps in _BUFFER_MBPS.items():
        yield f"weir_goodput_mbps_n32_{kib}kib", mbps
    for cell, mbps in _PAPER_MBPS.items():
        yield f"sdtcp_goodput_mbps_paper_{cell}", mbps
    yield "sdtcp_background_alone_mbps_paper_fig11", _FIG11_MBPS


def most() -> Iterator[tuple[str, float]]:
    """Yield the names of figures that must be at most so much."""
    for n in PAPER_BESIDE:
        yield f"sdtcp_timeouts_paper_background_n{n}", 1
    yield "sdtcp_background_recovery_s_paper_fig11", _FIG11_S


def none() -> Iterator[str]:
    """Yield the names of figures that must be 0."""
    for suffix in host_suffixes():
        yield f"weir_timeouts{suffix}"
        yield f"weir_drops{suffix}"


def host_suffixes() -> list[str]:
    """Return the endings of the figures of all kinds of hosts."""
    return [f"_n{n}{kind}" for kind in HOSTS for n in HOST_CONNECTIONS]


def checks(figures: Mapping[str, Any]) -> list[Check]:
    """Return the checks of those figures that have been measured."""
    found = [
        Check(name, f"{figures[name]:.4g}", f"at least {bound:g}", figures[name] >= bound)
        for name, bound in least()
        if name in figures
    ]
    found += [
        Check(name, f"{figures[name]:.4g}", f"at most {bound:g}", figures[name] <= bound)
        for name, bound in most()
        if name in figures
    ]
    return found + [
        Check(name, f"{figures[name]:.4g}", "0", not figures[name])
        for name in none()
        if name in figures
    ]


def conclude(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is added to the figures: ``checks``, and how many of them do not hold."""
    found = checks(figures)
    missed = sum(not check.holds for check in found)
    return {"checks": [asdict(check) for check in found], "checks_missed": missed}


def show(figures: Mapping[str, Any], _out: Path, console: Console) -> None:
    """Print the checks that do not hold, and how many do."""
    found = [Check(**check) for check in figures["checks"]]
    for check in found:
        if not check.holds:
            said = f"does not hold: {check.name}: {check.measured}; should be: {check.bound}"
            console.print(said, soft_wrap=True)
    if found:
        console.print(f"{sum(check.holds for check in found)} of {len(found)} checks hold")
