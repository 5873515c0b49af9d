"""How evenly a port sends, and how fairly: its packets are timed where they arrive.

A single sender offers more than the port takes, so that there is always a packet waiting and each
gap is to be one packet time. Eight senders offer more than their share each, at unequal rates.
Peers: the same port shaped by the kernel alone (``linux-htb`` of the unpatched switch).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.bench.switch.unpatched import unpatched_prefix
from experiments.network.bridge import Network
from experiments.statistics import jain, percentile
from experiments.traffic.program import Program
from testbed import shaping
from testbed.ovs import find_prefix
from testbed.sandbox import RUN_DIR
from testbed.shaping import Egress

_RATE_BPS = 100_000_000
_LIMIT_BYTES = 65_536
_SECONDS = 5.0
# What is backlogged at the beginning, and settled.
_SKIPPED = 200
_OVERLOAD_BPS = 150_000_000
# All above the fair share of 12.5 Mb/s.
_UNEQUAL_BPS = tuple(mbps * 10**6 for mbps in (15, 18, 22, 26, 32, 38, 46, 60))
_LOG = RUN_DIR / "frames.log"


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    patched, unpatched = find_prefix(), unpatched_prefix()
    kernel: dict[str, object] = {"max_rate": _RATE_BPS, "limit_bytes": _LIMIT_BYTES}
    thread = kernel | {"release": "thread"}
    htb: dict[str, object] = {"type": "linux-htb", "max_rate": _RATE_BPS}
    figures: dict[str, float] = {}
    for name, prefix, queue in (
        ("kernel_dequeue_gap", patched, kernel),
        ("dequeue_gap", patched, thread),
        ("htb_dequeue_gap", unpatched, htb),
    ):
        progress(f"{name}: one sender")
        errors = _gap_errors_us(_record(prefix, queue, (_OVERLOAD_BPS,)))
        figures[f"{name}_p50_error_us"] = percentile(errors, 50)
        figures[f"{name}_p99_error_us"] = percentile(errors, 99)
    for name, prefix, queue in (
        ("drr_jain_index", patched, thread | {"scheduler": "drr"}),
        ("fifo_jain_index", patched, kernel),
        ("htb_jain_index", unpatched, htb),
    ):
        progress(f"{name}: {len(_UNEQUAL_BPS)} senders")
        figures[name] = _jain(_record(prefix, queue, _UNEQUAL_BPS))
    return figures


def _record(
    prefix: Path, queue: Mapping[str, object], rates_bps: Sequence[int]
) -> dict[str, list[int]]:
    """What arrives at host 1, behind ``queue``, while a host sends at each rate."""
    with Network(prefix, 1 + len(rates_bps)) as network, ExitStack() as programs:
        network.deliver()
        network.set_queue(1, **queue)

        def start(number: int, *args: str) -> Program:
            pid = network.hosts[number - 1].pid
            program = Program("experiments.network.frames", args, log=_LOG, pid=pid)
            programs.enter_context(program).expect("ready")
            return program

        for number, rate_bps in enumerate(rates_bps, 2):
            shaping.install(
                "eth0", Egress(rate_bps, _LIMIT_BYTES), pid=network.hosts[number - 1].pid
            )
            start(number, "flood", "--host", str(number))
        recorded: dict[str, Any] = start(1, "record", "--seconds", str(_SECONDS)).expect("recorded")
    if recorded["lost"]:
        raise ValueError(f"{recorded['lost']} frames came faster than they could be recorded")
    return recorded


def _gap_errors_us(recorded: Mapping[str, list[int]]) -> list[float]:
    """How far each gap is from the time its packet takes at the port's rate."""
    times_ns, lengths = recorded["times_ns"][_SKIPPED:], recorded["lengths"][_SKIPPED:]
    return [
        abs((after - before) - length * 8e9 / _RATE_BPS) / 1000
        for (before, after), length in zip(pairwise(times_ns), lengths[1:], strict=True)
    ]


def _jain(recorded: Mapping[str, list[int]]) -> float:
    """Jain's fairness index of what each sender got through: 1 is equal, 1/n is one alone."""
    got: Counter[int] = Counter()
    for source, length in zip(
        recorded["sources"][_SKIPPED:], recorded["lengths"][_SKIPPED:], strict=True
    ):
        got[source] += length
    shares = [got[number] for number in range(2, 2 + len(_UNEQUAL_BPS))]
    return jain(shares)
