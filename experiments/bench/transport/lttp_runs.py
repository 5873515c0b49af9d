"""Fetches from many servers at once, in one network and one after the other: LTTP's by processes of
``fountain``, TCP's by the reader and the responder of all benchmarks.

A star of as many hosts as there are servers, 40 at most (then several servers to a host), links of
one rate, the queue of type ``weir`` with 64 KiB at the client's port, no controller. An LTTP server
is a process in its host's namespace; TCP's answers come from one process that stands for all hosts,
which is kinder to TCP than 120 processes would be. One server process more or less is idle
meanwhile, whoever is measured.

    python -m experiments.bench.transport.lttp_runs SPEC FILE

is the first process of a sandbox: SPEC is RunsSpec as JSON, FILE gets a list with a record of every
run, void ones included.
"""

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.measure import observation, validity
from experiments.measure.netstat import TIMEOUTS
from experiments.measure.sampling import Processors
from experiments.measure.trace import QueueTrace, parse
from experiments.runner import RECEIVE_BUFFER_BYTES, incast
from experiments.schemes import over_lttp, scheme
from experiments.traffic import fountain
from experiments.traffic.fountain import FountainError, Mode, Place, Server
from experiments.traffic.program import ProgramError
from experiments.traffic.reader import IncastSpec
from experiments.workloads import reads
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig, HostSettings

KB = 1024
MOST_VOID_RUNS = 2
USUAL_RATE_MBPS = 100
_BUFFER_BYTES = 64 * 1024
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 100
_READ_BYTES = 25_000_000


@dataclass(frozen=True)
class RunsSpec:
    """What is fetched in one network: from ``servers``, ``sizes_kb`` KiB each, by each of
    ``contenders`` (schemes over LTTP, or the one over TCP that the network is made for),
    ``repeats`` times, over links of ``rate_mbps``. ``records`` is the folder for what each run
    leaves."""

    servers: int
    sizes_kb: Sequence[int]
    contenders: Sequence[str]
    tcp: str
    repeats: int
    records: str
    rate_mbps: int = USUAL_RATE_MBPS

    def __post_init__(self) -> None:
        unknown = set(self.contenders) - {*over_lttp(), self.tcp}
        if unknown:
            raise ValueError(f"not in a network for {self.tcp}: {', '.join(sorted(unknown))}")


def rounds(servers: int, size_bytes: int, rate_mbps: int = USUAL_RATE_MBPS) -> int:
    """Return how many rounds one run has: some seconds' worth."""
    read_bytes = _READ_BYTES * rate_mbps / USUAL_RATE_MBPS
    wanted = math.ceil(read_bytes / (servers * size_bytes))
    return min(max(wanted, _LEAST_ROUNDS), _MOST_ROUNDS)


def bed_config(tcp: str, servers: int, rate_mbps: int = USUAL_RATE_MBPS) -> BedConfig:
    """Return the network: queues and hosts as the TCP scheme has them, and no controller."""
    chosen = scheme(tcp)
    return BedConfig(
        topology="star",
        senders=incast(servers, 1).senders,
        scheme=None,
        rate_bps=rate_mbps * 1_000_000,
        bottleneck_limit_bytes=_BUFFER_BYTES,
        queue=chosen.queue,
        host=chosen.host.over(HostSettings(rmem_max_bytes=RECEIVE_BUFFER_BYTES)),
    )


def places(bed: Bed, servers: int) -> list[Place]:
    """Spread ``servers`` evenly over the sending hosts of ``bed``."""
    each = servers // len(bed.roles.senders)
    return [
        Place(bed.host(name).pid, bed.host(name).IP(), fountain.PORT + number)
        for name in bed.roles.senders
        for number in range(each)
    ]


class Network:
    """A test bed that stands, and the runs on it."""

    def __init__(self, bed: Bed, spec: RunsSpec, servers: Sequence[Server]) -> None:
        self.bed = bed
        self.spec = spec
        self.servers = servers
        self.log = bed.run_dir / "workload.log"
        self.settings = observation.settings(bed)
        self._void: Counter[tuple[str, int]] = Counter()

    def valid_run(self, contender: str, size_kb: int, number: int) -> list[dict[str, Any]]:
        """Return the record of a run, after those of runs that were not valid and therefore done
        again: at most MOST_VOID_RUNS for each contender and size. All are reported and kept."""
        records = []
        while True:
            name = f"{contender}-{size_kb}k-{number}"
            try:
                record, queue = self.run(contender, size_kb)
            except (FountainError, ProgramError) as failed:
                record = {"contender": contender, "size_kb": size_kb, "void": [str(failed)]}
                queue = parse("")
            void = bool(record["void"])
            if void:
                self._void[contender, size_kb] += 1
                name += f"-void{self._void[contender, size_kb]}"
            _keep(Path(self.spec.records) / name, record, queue)
            _say(self.spec, record, f"run {number} of {self.spec.repeats}")
            records.append(record)
            if not void or self._void[contender, size_kb] > MOST_VOID_RUNS:
                return records

    def run(self, contender: str, size_kb: int) -> tuple[dict[str, Any], QueueTrace]:
        """Fetch; return what there is to know of it, ``void`` naming the checks that fail."""
        count = rounds(self.spec.servers, size_kb * KB, self.spec.rate_mbps)
        with observation.Observation(self.bed) as seen:
            processors = Processors(self.bed.ovs.vswitchd_pid)
            if (mode := scheme(contender).fetch) is not None:
                told = self._fetch(mode, size_kb, count)
            else:
                told = self._read(size_kb, count)
            told["processors"] = processors.as_record()
        record = told | self.settings | seen.record
        record |= {"contender": contender, "size_kb": size_kb}
        record["receiver"] = self.bed.roles.receiver
        record["timeouts"] = sum(host.get(TIMEOUTS, 0) for host in record["tcp"].values())
        checks = validity.network_checks(record, self.bed.config.rate_bps)
        checks.append(validity.all_carried(record, self.bed.config.rate_bps))
        record["checks"] = [asdict(check) for check in checks]
        record["void"] = [
            f"{check.name}: {check.measured}; should be: {check.bound}"
            for check in checks
            if not check.holds
        ]
        return record, seen.queue

    def _fetch(self, mode: Mode, size_kb: int, count: int) -> dict[str, Any]:
        argv = fountain.fetch_argv(self.servers, f"{size_kb}k", mode, rounds=count)
        client = self.bed.host(self.bed.roles.receiver).pid
        fetched = fountain.fetch(argv, self.log, pid=client)
        if fetched.round_bytes != (len(self.servers) * size_kb * KB,) * count:
            raise FountainError(f"not {count} whole rounds: {fetched.round_bytes}")
        return {
            "round_s": fetched.round_s,
            "round_bytes": fetched.round_bytes,
            "overhead": fetched.overhead,
            "symbols_lost": fetched.symbols_lost,
            "said": fetched.said,
        }

    def _read(self, size_kb: int, count: int) -> dict[str, Any]:
        hosts = len(self.bed.roles.senders)
        spec = IncastSpec(
            senders=hosts,
            rounds=count,
            block_bytes=self.spec.servers * size_kb * KB,
            connections_per_sender=self.spec.servers // hosts,
        )
        with (
            reads.responders(self.bed, self.log),
            reads.reader(self.bed, spec, self.log) as reader,
        ):
            *_progress, done = reader.messages()
        # A round lasts until the next one begins.
        starts = [one["start_ns"] for one in done["rounds"]] + [done["rounds"][-1]["end_ns"]]
        return {
            "round_s": [(b - a) / 1e9 for a, b in pairwise(starts)],
            "round_bytes": [spec.block_bytes] * count,
        }


def measure(spec: RunsSpec) -> list[dict[str, Any]]:
    """Do all runs of ``spec``, contenders in turns; return what ``_KEPT`` names of each."""
    with ExitStack() as stack:
        bed = stack.enter_context(Bed(bed_config(spec.tcp, spec.servers, spec.rate_mbps)))
        bed.require_forwarding()
        serving: list[Server] = []
        if any(scheme(name).fetch for name in spec.contenders):
            folder = _objects(bed.run_dir / "objects", spec.sizes_kb)
            log = bed.run_dir / "workload.log"
            listening = fountain.servers(folder, places(bed, spec.servers), log)
            serving = stack.enter_context(listening)
        network = Network(bed, spec, serving)
        return [
            {key: record[key] for key in _KEPT if key in record}
            for number in range(1, spec.repeats + 1)
            for size_kb in spec.sizes_kb
            for name in spec.contenders
            for record in network.valid_run(name, size_kb, number)
        ]


_KEPT = (
    "contender", "size_kb", "round_s", "round_bytes", "overhead", "symbols_lost", "timeouts",
    "dropped", "void",
)  # fmt: skip


def _objects(folder: Path, sizes_kb: Sequence[int]) -> Path:
    """Make files of random bytes, called by their size."""
    folder.mkdir()
    for size_kb in sizes_kb:
        (folder / f"{size_kb}k").write_bytes(os.urandom(size_kb * KB))
    return folder


def _keep(folder: Path, record: dict[str, Any], queue: QueueTrace) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_text(json.dumps(record))
    queue.save(folder / "queue.npz")


def _say(spec: RunsSpec, record: dict[str, Any], which: str) -> None:
    said = f"{record['contender']:9} n={spec.servers} {record['size_kb']} KiB, {which}"
    if "round_s" in record:
        goodput = sum(record["round_bytes"]) * 8e-6 / sum(record["round_s"])
        said += f": {goodput:.1f} Mb/s, {record['timeouts']} timeouts, {record['dropped']} drops"
    print(f"  {said}", file=sys.stderr, flush=True)
    for reason in record["void"]:
        print(f"  not valid: {reason}", file=sys.stderr, flush=True)


def main() -> None:
    """Entry point of the first process in a sandbox."""
    sandbox.become_first_process()
    spec, file = sys.argv[1:]
    Path(file).write_text(json.dumps(measure(RunsSpec(**json.loads(spec)))))


if __name__ == "__main__":
    main()
