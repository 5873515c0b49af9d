"""Barrier reads over one link, many senders to one receiver, under every scheme.

Hosts are Linux as it comes, but for the congestion control that the scheme names and the bound of
the receive buffer (``runner.RECEIVE_BUFFER_BYTES``; the window scale follows from it), and with
``own_buffers`` that is left to the kernel as well.
Connections are opened right before, and nothing warms up: goodput is counted from the first request
of the first round, timeouts from the first SYN.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.bench.comparison import Figures, common, compare, named, ratios, require_all
from experiments.runner import RECEIVE_BUFFER_BYTES, RunSpec
from experiments.workloads.reader import IncastSpec
from testbed.config import HostSettings

MOST_HOSTS = 40
ROUNDS = 15


def run(
    progress: Callable[[str], None],
    *,
    connections: int,
    schemes: Sequence[str],
    repeats: int,
    records: str,
    own_buffers: bool = False,
) -> Figures:
    """Measure; see ``experiments.bench``."""
    suffix = f"_n{connections}" + "_own_buffers" * own_buffers
    spec = RunSpec(
        scheme=schemes[0],
        incast=incast(connections, ROUNDS),
        topology="star",
        background=False,
        host=HostSettings(rmem_max_bytes=None if own_buffers else RECEIVE_BUFFER_BYTES),
    )
    runs = compare(spec, schemes, repeats, Path(records), progress)
    figures: Figures = {}
    for name, done in runs.items():
        if done:
            figures |= named(name, common(done), suffix)
    figures |= ratios(figures, "weir", ["reno"], "goodput_mbps", suffix)
    require_all(figures, runs, repeats)
    return figures


def incast(connections: int, rounds: int) -> IncastSpec:
    """Spread ``connections`` over as few as one and as many as MOST_HOSTS hosts, evenly.

    Raises ValueError if they cannot be spread evenly.
    """
    hosts = min(connections, MOST_HOSTS)
    if connections % hosts:
        raise ValueError(f"{connections} connections cannot be spread evenly over {hosts} hosts")
    return IncastSpec(senders=hosts, rounds=rounds, connections_per_sender=connections // hosts)
