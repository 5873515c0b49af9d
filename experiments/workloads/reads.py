"""Barrier reads: a client reads blocks, each divided over all senders, which all answer at once."""

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from experiments.traffic.program import Program, ProgramError
from experiments.traffic.reader import PORT, IncastSpec
from experiments.workloads import WORKLOADS, Done, Stage, Workload
from testbed.bed import Bed
from testbed.ovs import prefer

_SAY_EVERY_S = 2.0
ANSWERED = "answered.json"


@dataclass(frozen=True)
class Reads(IncastSpec, Workload):
    """Over connections that stay open."""

    name: ClassVar = "reads"
    about: ClassVar = "blocks, read over connections that stay open"
    unit: ClassVar = "block"
    fresh: ClassVar = False
    senders: int = 32
    rounds: int = 30

    def serving(self, stage: Stage) -> AbstractContextManager[None]:
        return responders(stage.bed, stage.log)

    def run(self, stage: Stage) -> Done:
        with reader(stage.bed, self, stage.log, fresh=self.fresh) as process:
            process.expect("connected")
            stage.say(f"{self.rounds} blocks over {self.connections} connections")
            stage.begin()
            said_s = time.monotonic()
            for message in process.messages():
                if message["event"] == "done":
                    return Done(message["rounds"], message["bytes"])
                if time.monotonic() - said_s > _SAY_EVERY_S:
                    said_s = time.monotonic()
                    done, took_ms = message["round"] + 1, message["block_ns"] / 1e6
                    stage.say(f"block {done} of {self.rounds} took {took_ms:.0f} ms")
        raise ProgramError("reader ended without a result")

    def in_words(self) -> str:
        each = self.connections_per_sender
        return (
            f"{self.rounds} blocks of {self.block_bytes / 1000:g} kB from {self.senders} senders"
            f"{f' with {each} connections each' if each > 1 else ''}"
            f"{', a connection for every request' if self.fresh else ''}"
        )


@dataclass(frozen=True)
class FreshReads(Reads):
    """Over a new connection for every request."""

    name: ClassVar = "fresh"
    about: ClassVar = "blocks, read over a new connection for every request"
    fresh: ClassVar = True


WORKLOADS.add(Reads)
WORKLOADS.add(FreshReads)


@contextmanager
def responders(bed: Bed, log: Path) -> Iterator[None]:
    """Context manager: every sender of ``bed`` answers requests. Afterwards ANSWERED in its
    ``run_dir`` has what each connection has sent and repaired (``traffic.responder``)."""
    pids = [f"--pid={bed.host(name).pid}" for name in bed.roles.senders]
    words = [f"--port={PORT}", f"--summary={bed.run_dir / ANSWERED}", *pids]
    with Program("experiments.traffic.responder", words, log=log) as responder:
        responder.expect("ready")
        # It stands for all senders: where it waits for a processor, all of them stop, and then all
        # answer at once, which no network of hosts would do.
        prefer(responder.pid)
        yield
        responder.finish()
        responder.await_end()


@contextmanager
def reader(bed: Bed, spec: IncastSpec, log: Path, *, fresh: bool = False) -> Iterator[Program]:
    """Start the reader at the receiver of ``bed``, as ``spec`` says, with ``fresh`` over a new
    connection for every request; ``traffic.reader`` lists its messages."""
    servers = [f"--server={bed.host(name).IP()}" for name in bed.roles.senders[: spec.senders]]
    args = ["--spec", json.dumps(asdict(spec)), *servers]
    pid = bed.host(bed.roles.receiver).pid
    module = f"experiments.traffic.{'fresh' if fresh else 'reader'}"
    with Program(module, args, log=log, pid=pid) as program:
        yield program
