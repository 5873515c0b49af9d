"""DCTCP over the switch's ECN threshold, and Reno over the same queue without marking beside it.

Long flows from all senders, then barrier reads from them, in a network of their own for each of the
two. The queue's length is that of the switch's own record of it, packet by packet: its mean over
time, and once more as the DCTCP paper took it (Alizadeh et al., SIGCOMM 2010), read every 125 ms.
Timeouts are counted from the first SYN, slow start included.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from experiments.bench import sandboxed
from experiments.measure import netstat, trace
from experiments.measure.record import bytes_between
from experiments.runner import RECEIVE_BUFFER_BYTES
from experiments.schemes import scheme
from experiments.traffic.reader import IncastSpec
from experiments.workloads import long_flows as workload
from experiments.workloads import reads
from testbed import dctcp, sandbox
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig, HostSettings

SENDERS = 12
_SETTLE_S, _MEASURED_S = 3.0, 10.0
_ROUNDS = 30
_SAMPLE_NS = 125_000_000
_TRACE_RECORDS = 1 << 19
# Room for the first flights: 10 segments of every sender, which are on their way before a mark can
# have come back. What is lost then says nothing of how the queue is held later.
_BUFFER_BYTES = 256 * 1024


@dataclass(frozen=True)
class Measured:
    """The result of a workload. All but the first three count from the first SYN to the end.

    Marks are the switch's; ``echoed`` counts the segments that told the senders of them,
    ``received_ce`` those that the receiver got.
    """

    goodput_mbps: float
    mean_queue_bytes: float
    sampled_queue_bytes: float
    timeouts: int
    marks: int
    drops: int
    echoed: int
    received_ce: int


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    figures: dict[str, float] = {}
    for name in ("dctcp", "reno"):
        progress(f"{name}: {SENDERS} long flows, then {_ROUNDS} blocks")
        measured = sandboxed.result("experiments.bench.switch.dctcp", name)
        flows, read = (Measured(**fields) for fields in measured)
        figures |= {
            f"{name}_mean_queue_bytes": flows.mean_queue_bytes,
            f"{name}_goodput_mbps": flows.goodput_mbps,
            f"{name}_reads_goodput_mbps": read.goodput_mbps,
            f"{name}_timeouts_{SENDERS}_senders": flows.timeouts + read.timeouts,
            f"{name}_marks": flows.marks + read.marks,
            f"{name}_drops": flows.drops + read.drops,
        }
        if scheme(name).host.ecn:
            figures |= {
                f"{name}_mean_queue_ratio": flows.mean_queue_bytes / dctcp.K_BYTES,
                f"{name}_sampled_queue_ratio": flows.sampled_queue_bytes / dctcp.K_BYTES,
                f"{name}_reads_mean_queue_ratio": read.mean_queue_bytes / dctcp.K_BYTES,
            }
    return figures


def bed_config(name: str, senders: int = SENDERS) -> BedConfig:
    """Return the network for a scheme: a star without a controller, queues that keep packets."""
    config = BedConfig(
        topology="star",
        senders=senders,
        bottleneck_limit_bytes=_BUFFER_BYTES,
        host=HostSettings(ecn=False, rmem_max_bytes=RECEIVE_BUFFER_BYTES),
    )
    return replace(scheme(name).on(config), scheme=None)


def long_flows(bed: Bed, log: Path, settle_s: float, measured_s: float) -> Measured:
    """Let every sender send to the receiver; rate and queue are those of ``measured_s`` after
    ``settle_s``."""
    before = _trace_from_empty(bed)
    receiver = bed.host(bed.roles.receiver)
    senders = [bed.host(name) for name in bed.roles.senders]
    with workload.long_flows(senders, receiver, log) as bulk:
        time.sleep(settle_s)
        begin_ns = time.monotonic_ns()
        time.sleep(measured_s)
        end_ns = time.monotonic_ns()
        bulk.finish()
        received = bytes_between(bulk.expect("done")["bytes"], begin_ns, end_ns)
    return _measured(bed, received, before, begin_ns, end_ns)


def blocks(bed: Bed, log: Path, rounds: int) -> Measured:
    """Let the receiver read blocks from all senders."""
    before = _trace_from_empty(bed)
    spec = IncastSpec(senders=len(bed.roles.senders), rounds=rounds)
    with reads.responders(bed, log), reads.reader(bed, spec, log) as reader:
        *_rounds, done = reader.messages()
    begin_ns, end_ns = done["rounds"][0]["start_ns"], done["rounds"][-1]["end_ns"]
    return _measured(bed, rounds * spec.block_bytes, before, begin_ns, end_ns)


def _trace_from_empty(bed: Bed) -> Counter[str]:
    """Start the record of the bottleneck's queue, and return the counters as they are now.

    A mean can be taken only of a record that begins when the queue is empty.
    """
    _wait_until_empty(bed)
    bed.ovs.appctl("netdev-egress/trace-start", bed.roles.bottleneck, str(_TRACE_RECORDS))
    return _counts(bed)


def _wait_until_empty(bed: Bed) -> None:
    switch, port = bed.bottleneck_switch, bed.roles.bottleneck
    wait_until(
        lambda: switch.queues()[port]["queue_packets"] == "0",
        timeout_s=10,
        what=f"the queue of {port} is empty",
    )


def _counts(bed: Bed) -> Counter[str]:
    """Read the hosts' counters, all together, and what the bottleneck has marked and dropped."""
    queue = bed.bottleneck_switch.queues()[bed.roles.bottleneck]
    counts = netstat.total(host.pid for host in bed.hosts)
    counts["marks"] = int(queue["marked_packets"])
    counts["drops"] = int(queue["dropped_packets"])
    return counts


def _measured(
    bed: Bed, received: float, before: Counter[str], begin_ns: int, end_ns: int
) -> Measured:
    _wait_until_empty(bed)
    grown = _counts(bed) - before
    queue = trace.parse(bed.ovs.appctl("netdev-egress/trace", bed.roles.bottleneck))
    rate_bps = bed.config.rate_bps
    samples = queue.at(np.arange(begin_ns, end_ns, _SAMPLE_NS), rate_bps)
    return Measured(
        goodput_mbps=received * 8e3 / (end_ns - begin_ns),
        mean_queue_bytes=queue.mean_bytes(begin_ns, end_ns, rate_bps),
        sampled_queue_bytes=float(np.mean(samples)),
        timeouts=grown[netstat.TIMEOUTS],
        marks=grown["marks"],
        drops=grown["drops"],
        echoed=grown["TcpExt.TCPDeliveredCE"],
        received_ce=grown["IpExt.InCEPkts"],
    )


def main() -> None:
    """Entry point of the first process in a sandbox: measure one scheme."""
    sandbox.become_first_process()
    name, file = sys.argv[1:]
    with Bed(bed_config(name)) as bed:
        bed.require_forwarding()
        log = bed.run_dir / "workload.log"
        both = [long_flows(bed, log, _SETTLE_S, _MEASURED_S), blocks(bed, log, _ROUNDS)]
    Path(file).write_text(json.dumps([asdict(measured) for measured in both]))


if __name__ == "__main__":
    main()
