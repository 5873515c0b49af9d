"""One busy flow beside many idle connections to the same receiver, under Weir.

A window that is shared out by the number of connections would strangle the one that is in use. The
flow is alone first, then beside connections that were opened before it and carry nothing; once as a
long transfer, once as blocks that are asked for one after the other. Its goodput counts from
``_SETTLED_NS`` after its start; shares are of what the same flow got alone, on the same test bed.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from experiments.bench import sandboxed
from experiments.bench.sandboxed import Incomplete
from experiments.bench.valid import VoidRuns
from experiments.bench.watched import until_valid, watched
from experiments.measure.record import bytes_between
from experiments.runner import RECEIVE_BUFFER_BYTES, RunSpec, bed_config
from experiments.traffic.program import Program
from experiments.traffic.reader import IncastSpec
from experiments.workloads import reads
from experiments.workloads.long_flows import long_flows
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import HostSettings

IDLE = 500
_HOSTS = 20
_RUNS = 3
_SETTLED_NS = 3_000_000_000
_MEASURED_S = 5.0
# With the link to itself the reader needs 8 s for these.
_BUSY = IncastSpec(senders=1, rounds=95)


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``. Medians, and the worst share, of some runs; of a run what
    is void (``experiments.bench.valid``) is missing."""
    runs = []
    for number in range(1, _RUNS + 1):
        runs.append(sandboxed.result("experiments.bench.incast.idle"))
        told = ", ".join(f"{name} {value:.1f}" for name, value in runs[-1].items())
        progress(f"run {number} of {_RUNS}: {told}")
    figures = {"idle_void_runs": sum(run.pop("void_runs") for run in runs)}
    missing = []
    for flow in _FLOWS:
        alone, beside = f"{flow}_alone_mbps", f"{flow}_beside_{IDLE}_idle_mbps"
        for name in (alone, beside):
            if found := [run[name] for run in runs if name in run]:
                figures[name] = median(found)
        both = [run for run in runs if alone in run and beside in run]
        if len(both) < _RUNS:
            missing.append(flow)
        if both:
            shares = [run[beside] / run[alone] for run in both]
            figures[f"{flow}_share_of_link_beside_{IDLE}_idle"] = median(shares)
            figures[f"{flow}_worst_share_of_link_beside_{IDLE}_idle"] = min(shares)
    if missing:
        raise Incomplete(figures, missing)
    return figures


def measure() -> dict[str, float]:
    """Return the goodputs of both kinds of flow, alone and beside idle connections, those of void
    runs left out, and how many runs were void."""
    spec = RunSpec(
        scheme="weir",
        workload=reads.Reads(senders=_HOSTS, rounds=1),
        topology="star",
        host=HostSettings(rmem_max_bytes=RECEIVE_BUFFER_BYTES),
    )
    void = VoidRuns(lambda line: print(line, file=sys.stderr, flush=True))
    figures: dict[str, float] = {}
    with Bed(bed_config(spec)) as bed:
        bed.require_forwarding()
        log = bed.run_dir / "workload.log"
        receiver = bed.host(bed.roles.receiver)
        args = [f"--connections={IDLE}"]
        args += [f"--server={bed.host(name).IP()}" for name in bed.roles.senders]

        def both(beside: str) -> None:
            for flow, mbps in _FLOWS.items():
                name = f"{flow}_{beside}_mbps"
                one = until_valid(void, name, partial(watched, bed, partial(mbps, bed, log)))
                if not one.void:
                    figures[name] = one.found

        with reads.responders(bed, log):
            both("alone")
            module = "experiments.traffic.idle"
            with Program(module, args, log=log, pid=receiver.pid) as idle:
                idle.expect("connected")
                both(f"beside_{IDLE}_idle")
    return figures | {"void_runs": void.counts.total()}


def _transfer_mbps(bed: Bed, log: Path) -> float:
    sender, receiver = bed.host(bed.roles.background_sender), bed.host(bed.roles.receiver)
    with long_flows([sender], receiver, log) as bulk:
        time.sleep(_SETTLED_NS / 1e9 + _MEASURED_S)
        bulk.finish()
        return _settled_mbps(bulk.expect("done")["bytes"])


def _reader_mbps(bed: Bed, log: Path) -> float:
    with reads.reader(bed, _BUSY, log) as reader:
        *_rounds, done = reader.messages()
    return _settled_mbps(done["bytes"])


def _settled_mbps(series: Mapping[str, Any]) -> float:
    """Return the rate of a series of bytes (see ByteBins) from ``_SETTLED_NS`` to its end."""
    begin_ns = series["start_ns"] + _SETTLED_NS
    # The last bin ended early.
    end_ns = series["start_ns"] + (len(series["bytes"]) - 1) * series["bin_ns"]
    return bytes_between(series, begin_ns, end_ns) * 8e3 / (end_ns - begin_ns)


_FLOWS = {"busy": _transfer_mbps, "busy_reader": _reader_mbps}


def main() -> None:
    """Entry point of the first process in a sandbox."""
    sandbox.become_first_process()
    (file,) = sys.argv[1:]
    Path(file).write_text(json.dumps(measure()))


if __name__ == "__main__":
    main()
