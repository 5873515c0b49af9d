"""Barrier reads over one link, many senders to one receiver, under every scheme.

Hosts have the defaults of Linux, but for the congestion control of the scheme and the bound of the
receive buffer (``runner.RECEIVE_BUFFER_BYTES``; the window scale follows from it). With
``own_buffers`` that is the kernel's default as well.
Connections are opened right before, and nothing warms up: goodput is counted from the first request
of the first round, timeouts from the first SYN.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.bench.comparison import Figures, common, compare, named, ratios, require_all
from experiments.bench.incast.plan import ROUNDS
from experiments.runner import RunSpec, incast, usual_host


def run(
    progress: Callable[[str], None],
    *,
    connections: int,
    schemes: Sequence[str],
    repeats: int,
    records: str,
    own_buffers: bool = False,
    host: Mapping[str, Any] | None = None,
) -> Figures:
    """Measure; see ``experiments.bench``. ``host`` has fields of HostSettings."""
    suffix = f"_n{connections}" + "_own_buffers" * own_buffers
    spec = RunSpec(
        scheme=schemes[0],
        workload=incast(connections, ROUNDS),
        topology="star",
        background=False,
        host=usual_host(**({"rmem_max_bytes": None} if own_buffers else {}), **(host or {})),
    )
    runs = compare(spec, schemes, repeats, Path(records), progress)
    figures: Figures = {}
    for name, done in runs.items():
        figures |= named(name, common(done, runs.void[name]), suffix)
    figures |= ratios(figures, "weir", ["reno"], "goodput_mbps", suffix)
    require_all(figures, runs, repeats)
    return figures
