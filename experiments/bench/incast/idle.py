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
from pathlib import Path
from statistics import median
from typing import Any

from experiments.bench import sandboxed
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
    """Measure; see ``experiments.bench``. Medians, and the worst share, of some runs."""
    runs = []
    for number in range(1, _RUNS + 1):
        runs.append(sandboxed.result("experiments.bench.incast.idle"))
        told = ", ".join(f"{name} {value:.1f}" for name, value in runs[-1].items())
        progress(f"run {number} of {_RUNS}: {told}")
    figures = {name: median(run[name] for run in runs) for name in runs[0]}
    for flow in ("busy", "busy_reader"):
        shares = [
            run[f"{flow}_beside_{IDLE}_idle_mbps"] / run[f"{flow}_alone_mbps"] for run in runs
        ]
        figures[f"{flow}_share_of_link_beside_{IDLE}_idle"] = median(shares)
        figures[f"{flow}_worst_share_of_link_beside_{IDLE}_idle"] = min(shares)
    return figures


def measure() -> dict[str, float]:
    """Return the goodputs of both kinds of flow, alone and beside idle connections."""
    spec = RunSpec(
        scheme="weir",
        workload=reads.Reads(senders=_HOSTS, rounds=1),
        topology="star",
        host=HostSettings(rmem_max_bytes=RECEIVE_BUFFER_BYTES),
    )
    with Bed(bed_config(spec)) as bed:
        bed.require_forwarding()
        log = bed.run_dir / "workload.log"
        receiver = bed.host(bed.roles.receiver)
        args = [f"--connections={IDLE}"]
        args += [f"--server={bed.host(name).IP()}" for name in bed.roles.senders]
        with reads.responders(bed, log):
            figures = {
                "busy_alone_mbps": _transfer_mbps(bed, log),
                "busy_reader_alone_mbps": _reader_mbps(bed, log),
            }
            module = "experiments.traffic.idle"
            with Program(module, args, log=log, pid=receiver.pid) as idle:
                idle.expect("connected")
                figures[f"busy_beside_{IDLE}_idle_mbps"] = _transfer_mbps(bed, log)
                figures[f"busy_reader_beside_{IDLE}_idle_mbps"] = _reader_mbps(bed, log)
    return figures


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


def main() -> None:
    """Entry point of the first process in a sandbox."""
    sandbox.become_first_process()
    (file,) = sys.argv[1:]
    Path(file).write_text(json.dumps(measure()))


if __name__ == "__main__":
    main()
