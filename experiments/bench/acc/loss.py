"""Flows that follow one another over a link that loses frames both ways: the group ``loss``.

Lines take turns. A flow lasts from before its connection is opened until the sender knows that all
has arrived. Of each cell the first flows do not count: the layer learns from them what is lost.
Counters of TCP are the sender's, those of the layer both ends' in sum. A turn during which the
processors were hardly idle is void (``experiments.bench.valid``).
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import stdev
from typing import Any

import psutil

from experiments.bench.acc.layer import LINES, TCPS, layers, sent_bytes
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.short_flows.dumbbell import Dumbbell, address, dumbbell
from experiments.bench.short_flows.flows import finished, served, sweep
from experiments.bench.short_flows.lines import LINES as PROTOCOLS
from experiments.bench.valid import VoidRuns, reasons, valid
from experiments.measure import netstat
from experiments.measure.netstat import TIMEOUTS
from experiments.measure.sampling import share_of_processors
from experiments.measure.validity import enough_idle
from experiments.network.acc import End, set_control, summed
from experiments.statistics import percentile
from experiments.traffic.program import ProgramError
from testbed.bottleneck import Loss
from testbed.command import CommandError
from testbed.sandbox import RUN_DIR
from testbed.shaping import FULL_FRAME_BYTES

QUANTILES = {"median": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
RETRANSMISSIONS = "Tcp.RetransSegs"
_KINDS = ("random", "bursts")
_MOST_FLOWS = 1000
# About as many packets for each size, by which the loss is known.
_WARM_UP_BYTES, _LEAST_WARM_UP = 1_000_000, 1
_GAP_MS = 2
_PATIENCE_S = 30.0

Sample = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """What all lines are measured in: ``tcp`` is one of TCPS; flows begin for ``seconds``."""

    tcp: str
    loss: Loss
    size_bytes: int
    seconds: float


def run(
    progress: Callable[[str], None],
    *,
    losses_pct: Sequence[float],
    sizes_kb: Sequence[int],
    seconds: Sequence[float],
    turns: int,
    kinds: Sequence[str] = _KINDS,
) -> Figures:
    """Measure; see ``experiments.bench``. ``seconds`` is how long flows begin in a turn of a cell,
    for each size."""
    figures: Figures = {}
    failed = []
    void = VoidRuns(progress)
    with dumbbell(both_ways=True, red=None) as network:
        settings = cells(kinds, losses_pct)
        sizes = list(zip(sizes_kb, seconds, strict=True))
        for (name, loss), (size_kb, each_s), tcp in product(settings.items(), sizes, TCPS):
            cell = Cell(tcp, loss, size_kb * 1000, each_s)
            samples: dict[str, list[Sample]] = {line: [] for line in LINES}
            for turn, line in product(range(1, turns + 1), LINES):
                what = f"{tcp}_{name}_{size_kb}k_{line}"
                try:
                    found = _valid(network, cell, line, turn, void)
                except (CommandError, ProgramError, TimeoutError) as error:
                    failed.append(f"{what}, turn {turn}")
                    progress(f"{what}, turn {turn}: {error}")
                    continue
                samples[line] += found
            for line, taken in samples.items():
                what = f"{tcp}_{name}_{size_kb}k_{line}"
                if taken:
                    of = of_cell(taken, size_kb * 1000)
                    figures |= {f"{what}_{key}": value for key, value in of.items()}
                    progress(f"{what}: {_in_words(of)}")
                if taken and len(valid(taken)) < turns:
                    failed.append(f"{what}: too few valid turns")
    if failed:
        raise Incomplete(figures, failed)
    return figures


def cells(kinds: Iterable[str], losses_pct: Sequence[float]) -> dict[str, Loss]:
    """Return the losses of each kind by the name of the setting; losing nothing has one name."""
    found: dict[str, Loss] = {}
    for kind in kinds:
        of_kind = [pct for pct in losses_pct if pct or kind == _KINDS[0]]
        found |= {name: setting.loss for name, setting in sweep(kind, of_kind).items()}
    return found


def of_cell(samples: Sequence[Sample], size_bytes: int) -> Figures:
    """Return the figures of a cell: of its valid turns, and how many these and the others are."""
    good = valid(samples)
    figures: Figures = {
        "valid_turns": float(len(good)),
        "void_turns": float(len(samples) - len(good)),
    }
    if not good:
        return figures
    times_ms = [us / 1000 for one in good for us in one["whole_us"]]
    mean_ms = sum(times_ms) / len(times_ms)
    figures |= {"flows": float(len(times_ms)), "mean_ms": mean_ms}
    for name, percent in QUANTILES.items():
        figures[f"{name}_ms"] = percentile(times_ms, percent)
    # A SYN that is lost costs a second: few flows decide on the mean.
    deviation_ms = stdev(times_ms) if len(times_ms) > 1 else 0.0
    figures["mean_error_ms"] = deviation_ms / len(times_ms) ** 0.5
    figures["throughput_mbps"] = size_bytes * 8e-3 / mean_ms
    # Counts, added up.
    for name in sorted({name for one in good for name in one["counts"]}):
        figures[name] = float(sum(one["counts"].get(name, 0) for one in good))
    figures["wire_bytes_per_byte"] = figures["wire_bytes"] / (len(times_ms) * size_bytes)
    figures["timeouts_per_flow"] = figures["timeouts"] / len(times_ms)
    frames = figures["frames"]
    figures["lost_pct"] = 100 * figures["frames_lost"] / frames if frames else 0.0
    for kind in ("idle", "steal"):
        figures[f"processors_{kind}_pct"] = min(one[f"{kind}_pct"] for one in good)
    return figures


def _valid(network: Dumbbell, cell: Cell, line: str, seed: int, void: VoidRuns) -> list[Sample]:
    """Return a sample that is valid, after those that were not, as far as it is done again."""
    taken: list[Sample] = []
    while True:
        taken.append(_measure(network, cell, line, seed))
        if not void.again((cell, line), taken[-1]["void"]):
            return taken


def _measure(network: Dumbbell, cell: Cell, of: str, seed: int) -> Sample:
    tcp, line = TCPS[cell.tcp], LINES[of]
    log = RUN_DIR / "workload.log"
    h1, h2 = network.hosts[:2]
    ends = [End(h1.pid, [address(2)]), End(h2.pid, [address(1)])]
    # Nothing is lost while hosts find each other.
    network.start(Loss(), tcp.sysctls, seed)
    for host in (h1, h2):
        set_control(host.pid, tcp.control)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=RUN_DIR)))
        running = stack.enter_context(layers(line, ends, tcp, folder, log))
        argv = stack.enter_context(served(PROTOCOLS["tcp"], h2, 2, log))
        argv += [f"--bytes={cell.size_bytes}", f"--gap-ms={_GAP_MS}"]
        network.set_loss(cell.loss, seed)
        warm_up = max(_LEAST_WARM_UP, _WARM_UP_BYTES // cell.size_bytes)
        finished([*argv, f"--count={warm_up}"], h1, log, (warm_up + 1) * _PATIENCE_S)
        network.set_loss(cell.loss, seed + 100)
        full_before = network.tail_drops()
        before, tcp_before, sent_before, processors = (
            summed(one.statistics() for one in running),
            netstat.counters(h1.pid),
            sent_bytes(h1.pid),
            psutil.cpu_times(),
        )
        words = (f"--count={_MOST_FLOWS}", f"--seconds={cell.seconds}")
        said = finished([*argv, *words], h1, log, cell.seconds + 2 * _PATIENCE_S)
        shares = {
            f"{kind}_pct": 100 * share_of_processors(processors, kind) for kind in ("idle", "steal")
        }
        after = summed(one.statistics() for one in running)
        grown = netstat.grown(tcp_before, netstat.counters(h1.pid))
        seen = network.link.seen()
        counts: dict[str, float] = {
            "failures": len(said["failures"]),
            "timeouts": grown.get(TIMEOUTS, 0),
            "retransmissions": grown.get(RETRANSMISSIONS, 0),
            "wire_bytes": sent_bytes(h1.pid) - sent_before,
            "tail_drops": network.tail_drops() - full_before,
            "frames": seen.first.seen,
            "frames_lost": seen.first.lost,
        }
        if running:
            counts |= {f"layer_{name}": value - before[name] for name, value in after.items()}
    if seen.longest_bytes > FULL_FRAME_BYTES:
        raise ProgramError(f"frames of {seen.longest_bytes} bytes: hosts segment too late")
    void = reasons([enough_idle(shares["idle_pct"] / 100)])
    return {"whole_us": said["whole_us"], "counts": counts, "void": void, **shares}


def _in_words(found: Mapping[str, float]) -> str:
    times = ", ".join(f"{found[f'{name}_ms']:.1f}" for name in ("mean", *QUANTILES))
    if not found["valid_turns"]:
        return "no valid turn"
    coded = f", {found['layer_coded']:.0f} coded" if "layer_coded" in found else ""
    return (
        f"{times} ms ({', '.join(('mean', *QUANTILES))}) of {found['flows']:.0f}; "
        f"{found['timeouts']:.0f} timeouts, {found['retransmissions']:.0f} sent again{coded}"
    )
