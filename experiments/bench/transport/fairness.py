"""Long LTTP flows beside TCP's and beside each other, each from a server of its own to one client.

After section V.H of the LTTP paper: five of each, and ten of LTTP. A flow's normalised throughput
is what came of it, in frames, over its fair share of the link; taken for every 200 ms and for all
of the measured time. Every LTTP flow has a ``fountain serve`` and a ``fountain fetch`` of its own,
so nobody but the network makes them share. TCP's flows always have something to send (``bulk``).
A mix whose run is not valid is measured again (``experiments.bench.transport.mixes``).
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.comparison import Figures
from experiments.bench.transport.fetches import bed_config, places
from experiments.bench.transport.mixes import measure_each, observe
from experiments.measure import observation
from experiments.schemes import scheme
from experiments.statistics import jain, percentile
from experiments.traffic import fountain
from experiments.traffic.program import Command
from experiments.workloads.long_flows import long_flows
from testbed import sandbox
from testbed.bed import Bed

FLOWS = 10
PERIOD_S = 0.2
FAIR = (0.8, 1.2)
_SETTLE_S, _MEASURED_S = 5.0, 30.0
# More than one flow could fetch in all that time. A file with a hole: nothing of it is stored.
_OBJECT_BYTES = 1 << 30


@dataclass(frozen=True)
class Mix:
    """``lttp`` flows under one scheme, and TCP's under another for the rest."""

    lttp: int
    scheme: str = "lttp"
    tcp: str = "reno"


MIXES = {
    "5l5t": Mix(5),
    "10l": Mix(10),
    "5l5c": Mix(5, tcp="cubic"),
    "10l_mtu": Mix(10, "lttp_mtu"),
    "5l5t_tfrc": Mix(5, "lttp_tfrc"),
    "10l_tfrc": Mix(10, "lttp_tfrc"),
    "10t": Mix(0),
}


def run(
    progress: Callable[[str], None],
    *,
    mixes: Sequence[str] = tuple(MIXES),
    measured_s: float = _MEASURED_S,
) -> Figures:
    """Measure; see ``experiments.bench``."""
    return measure_each(
        progress,
        "experiments.bench.transport.fairness",
        mixes,
        measured_s,
        "fairness",
        lambda _, measured: of_mix(measured),
    )


def of_mix(measured: Mapping[str, Any]) -> Figures:
    """Return the figures of a mix, by their short names.

    ``measured`` has ``time_ns``, and ``bytes`` by then of each flow, LTTP's ``lttp`` first, in a
    link of ``rate_bps``.
    """
    times = np.array(measured["time_ns"], dtype=np.float64)
    counts = np.array(measured["bytes"], dtype=np.float64)
    fair_bytes = measured["rate_bps"] / 8e9 / len(counts) * np.diff(times)
    periods = np.diff(counts, axis=1) / fair_bytes
    overall = (counts[:, -1] - counts[:, 0]) / fair_bytes.sum()
    lttp = measured["lttp"]
    figures = {
        "min": float(overall.min()),
        "max": float(overall.max()),
        "jain": jain(overall),
        "utilisation": float(overall.mean()),
        "p5_200ms": percentile(periods.ravel(), 5),
        "p95_200ms": percentile(periods.ravel(), 95),
        "within_200ms": float(np.mean((periods >= FAIR[0]) & (periods <= FAIR[1]))),
        "jain_200ms": float(np.mean([jain(column) for column in periods.T])),
    }
    if 0 < lttp < len(counts):
        figures["lttp_mean"] = float(overall[:lttp].mean())
        figures["tcp_mean"] = float(overall[lttp:].mean())
        # The paper's Figure 10 has a curve for each protocol.
        for name, part in (("lttp", periods[:lttp]), ("tcp", periods[lttp:])):
            means = part.mean(axis=0)
            figures[f"{name}_mean_min_200ms"] = float(means.min())
            figures[f"{name}_mean_max_200ms"] = float(means.max())
    return figures


def measure(mix: Mix, measured_s: float) -> dict[str, Any]:
    """Run the flows of ``mix``, and return what arrived from each of them."""
    with Bed(bed_config("reno", FLOWS)) as bed:
        senders = [bed.host(name) for name in bed.roles.senders]
        for sender in senders[mix.lttp :]:
            sender.apply(scheme(mix.tcp).host.over(sender.settings))
        bed.require_forwarding()
        flows = _flows(bed, mix)
        seen = observe(
            bed,
            flows,
            observation.idle_rtt(bed),
            # What TCP finds of the link it takes.
            filled=mix.lttp < FLOWS,
            settle_s=_SETTLE_S,
            measured_s=measured_s,
            period_s=PERIOD_S,
        )
    return {
        "time_ns": seen.time_ns,
        "bytes": seen.bytes,
        "lttp": mix.lttp,
        "rate_bps": bed.config.rate_bps,
        **seen.verdict,
    }


@contextmanager
def _flows(bed: Bed, mix: Mix) -> Iterator[list[Command]]:
    """Context manager: all flows of ``mix`` send to the client. Yields LTTP's clients."""
    log = bed.run_dir / "workload.log"
    client = bed.host(bed.roles.receiver)
    with ExitStack() as stack:
        # TCP first: a sender that is alone for long would find the end of its slow start in its own
        # host's queue instead of the link's.
        if others := bed.roles.senders[mix.lttp :]:
            hosts = [bed.host(name) for name in others]
            stack.enter_context(long_flows(hosts, client, log))
        fetches = []
        if mix.lttp:
            folder = bed.run_dir / "objects"
            folder.mkdir()
            fountain.make_hollow(folder / "long", _OBJECT_BYTES)
            mode = scheme(mix.scheme).fetch
            assert mode is not None
            where = places(bed, FLOWS)[: mix.lttp]
            for server in stack.enter_context(fountain.servers(folder, where, log)):
                argv = fountain.fetch_argv([server], "long", mode, rounds=1)
                process = Command(argv, name="fountain fetch", log=log, pid=client.pid)
                fetches.append(stack.enter_context(process))
                process.ignore()
        yield fetches


def main() -> None:
    """Entry point of the first process in a sandbox: one mix."""
    sandbox.become_first_process()
    name, measured_s, file = sys.argv[1:]
    Path(file).write_text(json.dumps(measure(MIXES[name], float(measured_s))))


if __name__ == "__main__":
    main()
