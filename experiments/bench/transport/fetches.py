"""Fetches from many servers at once, in one network and one after the other: LTTP's and ATP's by
processes of ``fountain``, TCP's by the reader and the responder of all benchmarks.

A star of as many hosts as there are servers, 40 at most (then several servers to a host), links of
one rate, the queue of type ``weir`` with 64 KiB at the client's port, a controller only where the
network is made for a scheme that regulates. A server of LTTP or ATP is a process in its host's
namespace, started for one run; TCP's answers come from one process that stands for all hosts,
which is kinder to TCP than 120 processes would be.

    python -m experiments.bench.transport.fetches SPEC FILE

is the first process of a sandbox: SPEC is RunsSpec as JSON, FILE gets a list with a record of every
run, void ones included.
"""

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.bench.valid import VoidRuns, reasons
from experiments.measure import observation, validity
from experiments.measure.netstat import TIMEOUTS
from experiments.measure.sampling import Processors
from experiments.measure.trace import QueueTrace, parse
from experiments.network.acc import beneath
from experiments.runner import incast, usual_host
from experiments.schemes import over_atp, over_lttp, scheme, without_regulation
from experiments.traffic import fountain
from experiments.traffic.fountain import AtpMode, Fetched, FountainError, Mode, Place, Server
from experiments.traffic.program import ProgramError
from experiments.traffic.reader import IncastSpec
from experiments.workloads import reads
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig

KB = 1024
USUAL_RATE_MBPS = 100
_BUFFER_BYTES = 64 * 1024
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 100
_READ_BYTES = 25_000_000


@dataclass(frozen=True)
class RunsSpec:
    """What is fetched in one network: from ``servers``, ``sizes`` in bytes each, by each of
    ``contenders`` (schemes over LTTP or ATP, or the one over TCP that the network is made for),
    ``repeats`` times, over links of ``rate_mbps``. ``records`` is the folder for what each run
    leaves. A run has ``fixed_rounds``, or some seconds' worth. ``host`` has fields of HostSettings,
    beneath what the scheme sets. The first run has ``seed``, each further one one more: it draws
    in which order TCP's reader asks the servers."""

    servers: int
    sizes: Sequence[int]
    contenders: Sequence[str]
    tcp: str
    repeats: int
    records: str
    rate_mbps: int = USUAL_RATE_MBPS
    fixed_rounds: int | None = None
    host: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1

    def __post_init__(self) -> None:
        unknown = set(self.contenders) - {*over_lttp(), *over_atp(), self.tcp}
        if unknown:
            raise ValueError(f"not in a network for {self.tcp}: {', '.join(sorted(unknown))}")


def size_name(size_bytes: int) -> str:
    """Return what files and figures call a size: 64k, or 8500b."""
    whole, rest = divmod(size_bytes, KB)
    return f"{size_bytes}b" if rest else f"{whole}k"


def rounds(servers: int, size_bytes: int, rate_mbps: int = USUAL_RATE_MBPS) -> int:
    """Return how many rounds one run has: some seconds' worth."""
    read_bytes = _READ_BYTES * rate_mbps / USUAL_RATE_MBPS
    wanted = math.ceil(read_bytes / (servers * size_bytes))
    return min(max(wanted, _LEAST_ROUNDS), _MOST_ROUNDS)


def bed_config(
    tcp: str,
    servers: int,
    rate_mbps: int = USUAL_RATE_MBPS,
    host: Mapping[str, Any] | None = None,
) -> BedConfig:
    """Return the network: queues and hosts as the TCP scheme has them, and a controller only if it
    regulates. ``host`` has fields of HostSettings."""
    config = scheme(tcp).on(
        BedConfig(
            topology="star",
            senders=incast(servers, 1).senders,
            rate_bps=rate_mbps * 1_000_000,
            bottleneck_limit_bytes=_BUFFER_BYTES,
            host=usual_host(**(host or {})),
        )
    )
    return replace(config, scheme=None) if tcp in without_regulation() else config


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

    def __init__(self, bed: Bed, spec: RunsSpec) -> None:
        self.bed = bed
        self.spec = spec
        self.objects = _objects(bed.run_dir / "objects", spec.sizes)
        self.log = bed.run_dir / "workload.log"
        self.idle_rtt_ms = observation.idle_rtt(bed)
        self._void = VoidRuns(lambda line: _print(f"  {line}"))

    def valid_run(self, contender: str, size: int, number: int) -> list[dict[str, Any]]:
        """Return the record of a run, after those of void ones (``experiments.bench.valid``), of
        each contender and size. All are reported and kept."""
        records = []
        while True:
            name = f"{contender}-{size_name(size)}-{number}"
            try:
                record, queue = self.run(contender, size, number)
            except (FountainError, ProgramError) as failed:
                record = {"contender": contender, "size": size, "void": [str(failed)]}
                queue = parse("")
            _say(self.spec, record, f"run {number} of {self.spec.repeats}")
            again = self._void.again((contender, size), record["void"])
            if record["void"]:
                name += f"-void{self._void.counts[contender, size]}"
            _keep(Path(self.spec.records) / name, record, queue)
            records.append(record)
            if not again:
                return records

    def run(self, contender: str, size: int, number: int = 1) -> tuple[dict[str, Any], QueueTrace]:
        """Fetch; return what there is to know of run ``number``, ``void`` naming the checks that
        fail."""
        spec, mode = self.spec, scheme(contender).fetch
        count = spec.fixed_rounds or rounds(spec.servers, size, spec.rate_mbps)
        ends: list[dict[str, Any]] = []
        with self._serving(mode, ends) as servers, observation.Observation(self.bed) as seen:
            processors = Processors(self.bed.ovs.vswitchd_pid)
            if mode is not None:
                told = self._fetch(servers, mode, size, count)
            else:
                told = self._read(size, count, spec.seed + number - 1)
            told["processors"] = processors.as_record()
        record = told | seen.record | {"contender": contender, "size": size}
        record["idle_rtt_ms"] = self.idle_rtt_ms
        record |= observation.controller(self.bed, seen.record["start_ns"])
        if isinstance(mode, AtpMode):
            record["atp"] = atp_counters(told["said"], ends)
            record["timeouts"] = sum(end["timeouts"] for end in record["atp"].values())
        else:
            record["timeouts"] = sum(host.get(TIMEOUTS, 0) for host in record["tcp"].values())
        record["receiver"] = self.bed.roles.receiver
        checks = validity.network_checks(record, self.bed.config.rate_bps)
        checks.append(validity.all_carried(record, self.bed.config.rate_bps))
        if self.bed.controller is not None:
            checks += validity.controller_checks(record)
        record["checks"] = [asdict(check) for check in checks]
        record["void"] = reasons(checks)
        return record, seen.queue

    def _serving(
        self, mode: Mode | AtpMode | None, ends: list[dict[str, Any]]
    ) -> AbstractContextManager[list[Server]]:
        if mode is None:
            return nullcontext([])
        return fountain.servers(
            self.objects,
            places(self.bed, self.spec.servers),
            self.log,
            serve=mode.serve,
            options=mode.options if isinstance(mode, AtpMode) else (),
            ends=ends,
        )

    def _fetch(
        self, servers: Sequence[Server], mode: Mode | AtpMode, size: int, count: int
    ) -> dict[str, Any]:
        argv = fountain.fetch_argv(servers, size_name(size), mode, rounds=count)
        client = self.bed.host(self.bed.roles.receiver).pid
        fetch = fountain.atp_get if isinstance(mode, AtpMode) else fountain.fetch
        fetched = fetch(argv, self.log, pid=client)
        if fetched.round_bytes != (len(servers) * size,) * count:
            raise FountainError(f"not {count} whole rounds: {fetched.round_bytes}")
        told: dict[str, Any] = {
            "round_s": fetched.round_s,
            "round_bytes": fetched.round_bytes,
            "said": fetched.said,
        }
        if isinstance(fetched, Fetched):
            told |= {"overhead": fetched.overhead, "symbols_lost": fetched.symbols_lost}
        return told

    def _read(self, size: int, count: int, seed: int) -> dict[str, Any]:
        hosts = len(self.bed.roles.senders)
        spec = IncastSpec(
            senders=hosts,
            rounds=count,
            block_bytes=self.spec.servers * size,
            connections_per_sender=self.spec.servers // hosts,
            seed=seed,
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
            "seed": seed,
        }


def measure(spec: RunsSpec) -> list[dict[str, Any]]:
    """Do all runs of ``spec``, contenders in turns; return what ``_KEPT`` names of each."""
    with Bed(bed_config(spec.tcp, spec.servers, spec.rate_mbps, spec.host)) as bed:
        bed.require_forwarding()
        observation.require_extension(bed)
        network = Network(bed, spec)
        with beneath(scheme(spec.tcp), bed, network.log):
            return [
                {key: record[key] for key in _KEPT if key in record}
                for number in range(1, spec.repeats + 1)
                for size in spec.sizes
                for name in spec.contenders
                for record in network.valid_run(name, size, number)
            ]


_KEPT = (
    "contender", "size", "round_s", "round_bytes", "overhead", "symbols_lost", "timeouts",
    "atp", "dropped", "void",
)  # fmt: skip


def atp_counters(
    client: Mapping[str, Any], servers: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, int]]:
    """Return what the client and, in sum, the servers have counted, from their last messages.

    Raises FountainError where a server has not said it.
    """
    if any("atp" not in end for end in servers):
        raise FountainError(f"a server ended without its counters: {servers}"[:200])
    summed: Counter[str] = Counter()
    for end in servers:
        summed.update(end["atp"])
    return {"client": dict(client["atp"]), "servers": dict(summed)}


def _objects(folder: Path, sizes: Sequence[int]) -> Path:
    """Make files of random bytes, called by their size."""
    folder.mkdir()
    for size in sizes:
        (folder / size_name(size)).write_bytes(os.urandom(size))
    return folder


def _keep(folder: Path, record: dict[str, Any], queue: QueueTrace) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_text(json.dumps(record))
    queue.save(folder / "queue.npz")


def _say(spec: RunsSpec, record: dict[str, Any], which: str) -> None:
    said = f"{record['contender']:9} n={spec.servers} {size_name(record['size'])}, {which}"
    if "round_s" in record:
        goodput = sum(record["round_bytes"]) * 8e-6 / sum(record["round_s"])
        said += f": {goodput:.1f} Mb/s, {record['timeouts']} timeouts, {record['dropped']} drops"
    _print(f"  {said}")


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Entry point of the first process in a sandbox."""
    sandbox.become_first_process()
    spec, file = sys.argv[1:]
    Path(file).write_text(json.dumps(measure(RunsSpec(**json.loads(spec)))))


if __name__ == "__main__":
    main()
