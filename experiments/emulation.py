"""One emulated run, in its sandbox: build the test bed, run the workload, record what happened.

    python -m experiments.emulation --spec JSON --out DIR

is what ``experiments.runner`` starts as the first process of a new sandbox.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller import __version__ as controller_version
from experiments.measure import captures, counters, observation, trace, validity
from experiments.measure.machine import code, commit
from experiments.measure.record import FORMAT, QUEUE, RECORD
from experiments.measure.sampling import Processors
from experiments.network.acc import beneath, summed
from experiments.runner import VOID, RunSpec, bed_config
from experiments.schemes import scheme
from experiments.traffic.clock import ByteBins
from experiments.traffic.fountain import FountainError
from experiments.traffic.program import ProgramError
from experiments.workloads import span_ns
from experiments.workloads.long_flows import long_flows
from testbed import sandbox
from testbed.bed import Bed, BedError
from testbed.command import CommandError
from testbed.controller import ControllerError
from testbed.dctcp import DctcpError
from testbed.host import HostError
from testbed.ovs import OvsError
from testbed.shaping import ShapingError

_LOGS = (
    "controller.log",
    "controller.yaml",
    "events.jsonl",
    "ovs/ovs-vswitchd.log",
    "workload.log",
)
_EXPECTED = (
    BedError, CommandError, ControllerError, DctcpError, HostError, OvsError, ShapingError,
    TimeoutError, ProgramError, FountainError, counters.MeasurementError, sandbox.SandboxError,
)  # fmt: skip


class Emulation:
    """A run in progress, on a test bed that stands; the stage of its workload."""

    def __init__(self, spec: RunSpec, bed: Bed, out: Path | None = None) -> None:
        self.spec = spec
        self.out = out or bed.run_dir
        self.bed = bed
        self.log = bed.run_dir / "workload.log"
        self.servers: Any = None
        self._label = scheme(spec.scheme).label

    def say(self, text: str) -> None:
        """Print progress."""
        print(f"{self._label:<6} {text}", file=sys.stderr, flush=True)

    def measure(self) -> tuple[dict[str, Any], trace.QueueTrace]:
        """Drive the workload; return the record, without its checks, and the queue's trace."""
        bed, roles = self.bed, self.bed.roles
        bed.require_forwarding()
        observation.require_extension(bed)
        record: dict[str, Any] = {
            "format": FORMAT,
            "spec": self.spec.as_record(),
            "bed": asdict(bed.config),
            "environment": self._environment(),
            "roles": asdict(roles),
            "idle_rtt_ms": observation.idle_rtt(bed),
        }
        with beneath(scheme(self.spec.scheme), bed, self.log) as layers:
            with observation.Observation(bed) as seen, self._captures():
                record |= self._drive()
            record["acc"] = summed(one.statistics() for one in layers) if layers else {}
        record |= seen.record | observation.controller(bed, seen.record["start_ns"])
        record["longest_bytes"] = seen.queue.longest_bytes(*span_ns(record["operations"]))
        return record, seen.queue

    @contextmanager
    def _captures(self) -> Iterator[None]:
        """Record what the run asks for besides."""
        spec, bed = self.spec, self.bed
        with ExitStack() as stack:
            if spec.captures:
                stack.enter_context(captures.packets(bed, self.out / captures.PACKETS))
            senders = [bed.host(name) for name in bed.roles.senders[: spec.followed]]
            following = captures.Connections(senders)
            if senders:
                stack.enter_context(following)
            yield
        if senders:
            following.save(self.out / captures.CONNECTIONS)

    def begin(self) -> None:
        """The workload's traffic begins now."""
        self._processors = Processors(self.bed.ovs.vswitchd_pid)

    def _drive(self) -> dict[str, Any]:
        """Run the workload, with a background flow if the run has one."""
        spec = self.spec
        with spec.workload.serving(self) as self.servers:
            if not spec.background:
                return self._run() | {"background_bytes": ByteBins().as_record()}
            roles, host = self.bed.roles, self.bed.host
            sender, receiver = host(roles.background_sender), host(roles.background_receiver)
            with long_flows([sender], receiver, self.log) as flow:
                self.say(f"background flow alone for {spec.warm_up_s:g} s")
                time.sleep(spec.warm_up_s)
                driven = self._run()
                self.say(f"background flow alone for {spec.tail_s:g} s")
                time.sleep(spec.tail_s)
                flow.finish()
                return driven | {"background_bytes": flow.expect("done")["bytes"]}

    def _run(self) -> dict[str, Any]:
        self.begin()
        done = self.spec.workload.run(self)
        if not done.operations:
            raise ProgramError(f"workload {self.spec.workload.name} has done nothing")
        return {
            "operations": list(done.operations),
            "workload_bytes": done.received,
            "flows": list(done.flows),
            "warm_up_flows": list(done.warm_up),
            "generator": dict(done.generator),
            "processors": self._processors.as_record(),
        }

    def _environment(self) -> dict[str, Any]:
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "weir": controller_version,
            "commit": commit(),
            "code": code(),
            "switch": self.bed.ovs.version(),
            "switch_build": self.bed.ovs.prefix.name,
            "kernel": platform.release(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "python": platform.python_version(),
        }


def main() -> int:
    """Entry point of the first process in a sandbox."""
    parser = argparse.ArgumentParser(description="One emulated run; started by weir-experiment.")
    parser.add_argument("--spec", type=json.loads, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    spec = RunSpec.from_record(args.spec)
    try:
        sandbox.become_first_process()
        checks = _run(spec, args.out)
    except _EXPECTED as error:
        print(f"weir-experiment: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for check in checks:
        if not check.holds:
            said = f"{check.name}: {check.measured}; should be: {check.bound}"
            print(f"weir-experiment: not valid: {said}", file=sys.stderr)
    return 0 if all(check.holds for check in checks) else VOID


def _run(spec: RunSpec, out: Path) -> list[validity.Check]:
    bed = Bed(bed_config(spec))
    try:
        print(
            f"{scheme(spec.scheme).label:<6} building {spec.topology}", file=sys.stderr, flush=True
        )
        with bed:
            record, queue = Emulation(spec, bed, out).measure()
        checks = validity.checks(record)
        record["checks"] = [asdict(check) for check in checks]
        queue.save(out / QUEUE)
        (out / RECORD).write_text(json.dumps(record))
        return checks
    finally:
        for name in _LOGS:
            if (bed.run_dir / name).exists():
                shutil.copy(bed.run_dir / name, out)


if __name__ == "__main__":
    sys.exit(main())
