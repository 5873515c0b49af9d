"""TCP over TCP-ACC's layer where no network limits it: the group ``speed``.

Two namespaces, joined by a pair of veth devices with all their offloads, and iperf3. Lines take
turns. ``..._gbps_per_core`` is the rate over the share of a processor that a process of the layer
takes: how fast it would be with one of its own, if nothing else held it back. The line ``tun`` is a
program that only carries what comes out of a TUN device: what such a layer costs at least.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from experiments.bench.acc.layer import LINES, in_namespace, layers, tuns
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.transport.speed.medium import Medium, medium
from experiments.measure.process import processor_s
from experiments.measure.sampling import share_of_processors
from experiments.network.acc import End
from experiments.traffic.program import ProgramError
from testbed.command import CommandError
from testbed.command import run as run_command
from testbed.sandbox import RUN_DIR

PREFIX = "speed"
SPEED_LINES = {"plain": "TCP", "acc": "TCP-ACC, nothing lost", "tun": "a TUN device alone"}
_PORT = 5201
_CONTROL = "cubic"
_ENDS = ("sender", "receiver")


def run(
    progress: Callable[[str], None],
    *,
    turns: int,
    seconds: float,
    lines: Sequence[str] = tuple(SPEED_LINES),
) -> Figures:
    """Measure; see ``experiments.bench``."""
    samples: dict[str, list[Figures]] = {line: [] for line in lines}
    failed = []
    with medium("veth") as between:
        for turn in range(1, turns + 1):
            for line, taken in samples.items():
                try:
                    taken.append(_measure(between, line, seconds))
                except (CommandError, ProgramError, TimeoutError) as error:
                    failed.append(f"{line}, turn {turn}")
                    progress(f"{line}, turn {turn}: {error}")
                    continue
                told = ", ".join(f"{name} {value:.2f}" for name, value in taken[-1].items())
                progress(f"{SPEED_LINES[line]}, turn {turn} of {turns}: {told}")
    figures: Figures = {}
    for line, taken in samples.items():
        if taken:
            figures |= {f"{PREFIX}_{line}_{name}": v for name, v in of_turns(taken).items()}
    if failed:
        raise Incomplete(figures, failed)
    return figures


def of_turns(taken: Sequence[Mapping[str, float]]) -> Figures:
    """Return the medians of turns, and the least and the most goodput."""
    figures = {name: median(one[name] for one in taken) for name in taken[0]}
    rates = [one["gbps"] for one in taken]
    return figures | {"gbps_least": min(rates), "gbps_most": max(rates)}


def of_transfer(end: Mapping[str, Any], cpu_s: Sequence[float]) -> Figures:
    """Return the figures of a transfer from the end of what iperf3 says, and from the processor
    time that the layer's processes have taken."""
    received = end["sum_received"]
    gbps = received["bits_per_second"] / 1e9
    figures = {"gbps": gbps, "retransmissions": float(end["sum_sent"].get("retransmits", 0))}
    for name, spent_s in zip(_ENDS, cpu_s, strict=False):
        share = max(spent_s, 1e-3) / received["seconds"]
        figures |= {f"{name}_share_of_core": share, f"{name}_gbps_per_core": gbps / share}
    return figures


def _measure(between: Medium, line: str, seconds: float) -> Figures:
    log = RUN_DIR / "workload.log"
    with ExitStack() as stack:
        pids = stack.enter_context(_carried(between, line, log))
        _serve(between, stack, log)
        spent_s, processors = [processor_s(pid) for pid in pids], psutil.cpu_times()
        client = ["iperf3", "-c", between.far, "-p", str(_PORT), "-C", _CONTROL, "--json"]
        said = json.loads(run_command([*client, "-t", str(seconds)], timeout_s=seconds + 30))
        spent_s = [processor_s(pid) - had for pid, had in zip(pids, spent_s, strict=True)]
        idle = 100 * share_of_processors(processors, "idle")
    if "error" in said:
        raise ProgramError(f"iperf3: {said['error']}")
    return of_transfer(said["end"], spent_s) | {"processors_idle_pct": idle}


def _serve(between: Medium, stack: ExitStack, log: Path) -> None:
    serve = ["iperf3", "-s", "-B", between.far, "-p", str(_PORT)]
    said = stack.enter_context(log.open("ab"))
    argv = in_namespace(between.far_pid, serve)
    server = stack.enter_context(subprocess.Popen(argv, stdout=said, stderr=said))
    stack.callback(server.terminate)
    between.wait_for_tcp(_PORT)


@contextmanager
def _carried(between: Medium, line: str, log: Path) -> Iterator[list[int]]:
    """Context manager: TCP between the ends goes as ``line`` has it. Yields the processes by which
    it goes, the sender's first."""
    ends = [End(None, [between.far]), End(between.far_pid, [between.near])]
    if LINES[line].tun:
        with tuns(ends, log) as pids:
            yield pids
        return
    with layers(LINES[line], ends, None, RUN_DIR, log) as running:
        yield [one.pid for one in running]
