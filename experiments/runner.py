"""Runs: what specifies a run, and how it is done in a sandbox of its own.

A run is: the background flow alone for ``warm_up_s``; the workload beside it; the background flow
alone again for ``tail_s``. Without a background flow it is the workload alone, from the first SYN
on. Its folder gets ``record.json``, ``queue.npz`` (the bottleneck's queue, packet by packet) and
the logs. Nothing is drawn or compared here: reports read the records.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments import workloads
from experiments.measure.captures import CONNECTIONS, PACKETS
from experiments.measure.record import QUEUE, RECORD, Run
from experiments.schemes import carried_by_tcp
from experiments.workloads import Workload
from experiments.workloads.reads import Reads
from testbed import sandbox
from testbed.config import BedConfig, HostSettings
from testbed.topologies import topology_of

# The exit status of a run that was done and recorded, but was not what it was meant to be.
VOID = 3

# The window scale follows from it, and with it how finely a window can be set: 7 here; 10 with the
# 32 MiB that Linux 6.18 has by default, where a window of one segment rounds up to 2048 bytes.
RECEIVE_BUFFER_BYTES = 6 * 2**20
# Of a topology with many connections: further ones share these.
MOST_HOSTS = 40


def usual_host(**changes: Any) -> HostSettings:
    """Return the hosts of benchmarks: the defaults of Linux, but for the bound of the receive
    buffer and for ``changes``, which are fields of HostSettings."""
    return HostSettings(**{"rmem_max_bytes": RECEIVE_BUFFER_BYTES, **changes})


def spread(connections: int) -> tuple[int, int]:
    """Spread ``connections`` evenly over as many as MOST_HOSTS hosts: return how many of these, and
    how many connections each has.

    Raises ValueError if that would be less than half of the hosts that there may be.
    """
    most = min(connections, MOST_HOSTS)
    hosts = max(n for n in range(1, most + 1) if connections % n == 0)
    if hosts < most / 2:
        raise ValueError(f"{connections} connections cannot be spread evenly over {most} hosts")
    return hosts, connections // hosts


def incast(connections: int, rounds: int) -> Reads:
    """Return reads over so many connections, which are ``spread`` over hosts."""
    hosts, each = spread(connections)
    return Reads(senders=hosts, rounds=rounds, connections_per_sender=each)


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides a run.

    ``shape`` is what the topology lets choose. ``buffer_bytes`` is the bottleneck's, ``delay_us``
    what the port of every switch adds to the way of a packet. ``background`` has a long flow beside
    the workload. ``ovs_prefix`` None takes the switch that ``testbed.ovs.find_prefix`` finds.
    ``followed`` is of how many senders windows and round trips are recorded over time,
    ``captures`` whether the packets on the bottleneck's link are (``measure.captures``).
    """

    scheme: str
    workload: Workload
    topology: str = "fig8"
    shape: Mapping[str, int] = field(default_factory=dict)
    rate_bps: int = 100_000_000
    buffer_bytes: int = 64 * 1024
    delay_us: int = 0
    background: bool = True
    warm_up_s: float = 5.0
    tail_s: float = 3.0
    host: HostSettings = field(default_factory=HostSettings)
    ovs_prefix: str | None = None
    followed: int = 0
    captures: bool = False

    def as_record(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return asdict(self) | {"workload": workloads.as_record(self.workload)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "RunSpec":
        """Make one of what ``as_record`` gives."""
        made = {
            "workload": workloads.from_record(record["workload"]),
            "host": HostSettings(**record["host"]),
        }
        return cls(**{**record, **made})


def bed_config(spec: RunSpec) -> BedConfig:
    """Return the test bed of a run. Raises ValueError where TCP does not carry its data."""
    chosen = carried_by_tcp(spec.scheme)
    config = BedConfig(
        topology=spec.topology,
        shape=spec.shape,
        senders=spec.workload.senders,
        rate_bps=spec.rate_bps,
        bottleneck_limit_bytes=spec.buffer_bytes,
        edge_limit_bytes=spec.buffer_bytes if spec.workload.fills_every_port else None,
        queue={"delay-us": str(spec.delay_us)} if spec.delay_us else {},
        host=spec.host,
        ovs_prefix=spec.ovs_prefix,
    )
    return chosen.on(config)


class RunError(RuntimeError):
    """A run failed, or was interrupted: there is no record. ``status`` is its exit status."""

    def __init__(self, spec: RunSpec, status: int) -> None:
        super().__init__(f"the run under {spec.scheme} ended with status {status}")
        self.status = status


def measure(spec: RunSpec, out: Path, *, log: Path | None = None) -> Run:
    """Do a run as ``run`` does, and return its record; ``is_valid`` of it says whether it is to be
    believed.

    Raises RunError if it failed, ValueError where there cannot be such a run.
    """
    status = run(spec, out, log=log)
    if status not in (0, VOID):
        raise RunError(spec, status)
    return Run.load(out)


def run(spec: RunSpec, out: Path, *, log: Path | None = None) -> int:
    """Do a run in a new sandbox; return its exit status, VOID if it is not valid. Its progress goes
    to stderr, or to the file ``log``.

    Raises ValueError, before anything starts, where there cannot be such a run.
    """
    topology_of(bed_config(spec))
    out.mkdir(parents=True, exist_ok=True)
    for name in (RECORD, QUEUE, CONNECTIONS, PACKETS):
        (out / name).unlink(missing_ok=True)
    argv = [sys.executable, "-m", "experiments.emulation", "--spec", json.dumps(spec.as_record())]
    argv += ["--out", str(out.resolve())]
    if log is None:
        return sandbox.run(argv)
    with log.open("wb") as said:
        return sandbox.run(argv, stderr=said.fileno())
