"""Many servers answer one client at once through a short buffer, with the layer at every host: the
group ``incast``, for each kind of TCP in a network of its own.

Network and rounds are those of ``bench lttp`` (``experiments.bench.transport.fetches``). Lines take
turns. How long rounds take is of all rounds of all valid runs.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any

from experiments.bench.acc.layer import LINES, TCPS, layers
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.transport.fetches import KB, Network, RunsSpec, bed_config
from experiments.bench.valid import VoidRuns, valid
from experiments.measure import observation
from experiments.network.acc import End, summed
from experiments.statistics import percentile
from experiments.traffic.program import ProgramError
from testbed.bed import Bed
from testbed.command import CommandError
from testbed.command import run as run_command
from testbed.sandbox import RUN_DIR

PREFIX = "incast"
SERVERS = 32
_SIZE = 32 * KB
_LINES = tuple(name for name, line in LINES.items() if not line.tun)
QUANTILES = {"p50": 50, "p99": 99, "max": 100}

Run = dict[str, Any]


def run(
    progress: Callable[[str], None],
    *,
    tcp: str,
    rounds: int,
    repeats: int,
    lines: Sequence[str] = _LINES,
) -> Figures:
    """Measure; see ``experiments.bench``. ``tcp`` is one of TCPS."""
    scheme = TCPS[tcp].control
    spec = RunsSpec(SERVERS, [_SIZE], [scheme], scheme, repeats, str(RUN_DIR), fixed_rounds=rounds)
    runs: dict[str, list[Run]] = {line: [] for line in lines}
    failed = []
    with Bed(bed_config(scheme, SERVERS)) as bed:
        bed.require_forwarding()
        observation.require_extension(bed)
        words = [f"net.ipv4.{name}={value}" for name, value in TCPS[tcp].sysctls.items()]
        for host in bed.hosts:
            run_command(["sysctl", "-q", "-w", *words], pid=host.pid)
        network, void = Network(bed, spec), VoidRuns(progress)
        for number in range(1, repeats + 1):
            for line in lines:
                try:
                    found = _valid_run(network, scheme, tcp, line, number, void)
                except (CommandError, ProgramError, TimeoutError) as error:
                    failed.append(f"{line}, run {number}")
                    progress(f"{tcp}, {line}, run {number}: {error}")
                    continue
                runs[line] += found
                progress(f"{tcp}, {line}, run {number}: {_in_words(of_runs(found))}")
    figures: Figures = {}
    for line, taken in runs.items():
        if taken:
            of = of_runs(taken)
            figures |= {f"{PREFIX}_{tcp}_{line}_{name}": value for name, value in of.items()}
        if len(valid(taken)) < repeats:
            failed.append(f"{line}: too few valid runs")
    if failed:
        raise Incomplete(figures, failed)
    return figures


def of_runs(runs: Sequence[Mapping[str, Any]]) -> Figures:
    """Return the figures of a line: of its valid runs, and how many these and the others are."""
    good = valid(runs)
    figures: Figures = {
        "valid_runs": float(len(good)),
        "void_runs": float(len(runs) - len(good)),
    }
    if not good:
        return figures
    times_s = list(chain.from_iterable(one["round_s"] for one in good))
    goodputs = [sum(one["round_bytes"]) * 8e-6 / sum(one["round_s"]) for one in good]
    figures |= {"goodput_mbps": median(goodputs), "worst_goodput_mbps": min(goodputs)}
    for name, percent in QUANTILES.items():
        figures[f"round_{name}_ms"] = 1000 * percentile(times_s, percent)
    figures |= {"rounds": float(len(times_s))}
    for name in ("timeouts", "dropped", "layer_coded", "layer_sent", "layer_recovered"):
        if name in good[0]:
            figures[name] = float(max(one[name] for one in good))
    figures["processors_idle_pct"] = 100 * min(one["processors"]["idle_share"] for one in good)
    return figures


def _valid_run(
    network: Network, scheme: str, tcp: str, line: str, number: int, void: VoidRuns
) -> list[Run]:
    """Return a run that is valid, after those that were not, as far as it is done again."""
    taken: list[Run] = []
    while True:
        taken.append(_run(network, scheme, tcp, line, number))
        if not void.again(line, taken[-1]["void"]):
            return taken


def _run(network: Network, scheme: str, tcp: str, line: str, number: int) -> Run:
    bed = network.bed
    receiver = bed.host(bed.roles.receiver)
    senders = [bed.host(name) for name in bed.roles.senders]
    ends = [End(sender.pid, [receiver.IP()]) for sender in senders]
    ends.append(End(receiver.pid, [sender.IP() for sender in senders]))
    for host in (*senders, receiver):
        run_command(["ip", "tcp_metrics", "flush", "all"], pid=host.pid)
    with layers(LINES[line], ends, TCPS[tcp], RUN_DIR, network.log) as running:
        record, _ = network.run(scheme, _SIZE, number)
        counted = summed(one.statistics() for one in running)
    if running:
        record |= {f"layer_{name}": value for name, value in counted.items()}
    return record


def _in_words(found: Mapping[str, float]) -> str:
    times = ", ".join(f"{found[f'round_{name}_ms']:.0f}" for name in QUANTILES)
    if not found["valid_runs"]:
        return "no valid run"
    return (
        f"{found['goodput_mbps']:.1f} Mb/s; rounds {times} ms ({', '.join(QUANTILES)}); "
        f"{found['timeouts']:.0f} timeouts, {found['dropped']:.0f} drops"
    )
