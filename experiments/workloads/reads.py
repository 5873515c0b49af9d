"""Barrier reads: a client reads blocks, each divided over all senders, which all answer at once."""

import json
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from experiments.traffic.program import Program, ProgramError
from experiments.traffic.reader import PORT, IncastSpec
from experiments.workloads import WORKLOADS, Done, Stage, Workload
from testbed.bed import Bed
from testbed.ovs import prefer

_SAY_EVERY_S = 2.0


@dataclass(frozen=True)
class Reads(IncastSpec, Workload):
    """Over connections that stay open."""

    name: ClassVar = "reads"
    about: ClassVar = "blocks, read over connections that stay open"
    unit: ClassVar = "block"
    fresh: ClassVar = False
    senders: int = 32
    rounds: int = 30

    def serving(self, stage: Stage) -> AbstractContextManager[Program]:
        return responders(stage.bed, stage.log, repairs=True)

    def run(self, stage: Stage) -> Done:
        with reader(stage.bed, self, stage.log, fresh=self.fresh) as process:
            process.expect("connected")
            stage.say(f"{self.rounds} blocks over {self.connections} connections")
            stage.begin()
            said_s = time.monotonic()
            for message in process.messages():
                if message["event"] == "done":
                    stage.servers.tell("repairs")
                    served = stage.servers.expect("repairs")["connections"]
                    rounds = with_repairs(message["rounds"], message["ends"], served)
                    return Done(rounds, message["bytes"])
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


def with_repairs(
    rounds: Sequence[Mapping[str, Any]],
    ends: Sequence[Sequence[tuple[str, str]]],
    served: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return ``rounds`` with what both ends of each connection have repaired in each of them.

    The reader has recorded it of its own (``traffic.reader``), and which connections ``ends`` a
    round has; ``served`` is what the senders have counted (``traffic.responder``). Without
    ``timeouts`` where the kernel does not count them.
    """
    # Where every request has a connection of its own, a later one may have an earlier one's port.
    counts: dict[tuple[str, str], deque[tuple[int, int | None]]] = defaultdict(deque)
    for one in served:
        for_each = zip(one["segments"], one["timeouts"], strict=True)
        counts[one["server"], one["client"]].extend(for_each)
    found = []
    for read, connections in zip(rounds, ends, strict=True):
        sent = [counts[server, client].popleft() for server, client in connections]
        own = zip(read["retransmitted"], read["timeouts"], strict=True)
        segments: list[int] = []
        timeouts: list[int | None] = []
        for (one_s, one_t), (other_s, other_t) in zip(own, sent, strict=True):
            segments.append(one_s + other_s)
            timeouts.append(None if one_t is None or other_t is None else one_t + other_t)
        both = {**read, "retransmitted": segments, "timeouts": timeouts}
        if None in timeouts:
            del both["timeouts"]
        found.append(both)
    return found


@contextmanager
def responders(bed: Bed, log: Path, *, repairs: bool = False) -> Iterator[Program]:
    """Context manager: every sender of ``bed`` answers requests, and with ``repairs`` counts what
    connections repair. Yields the process that stands for them."""
    pids = [f"--pid={bed.host(name).pid}" for name in bed.roles.senders]
    module, args = "experiments.traffic.responder", [f"--port={PORT}", *pids]
    args += ["--repairs"] * repairs
    with Program(module, args, log=log) as responder:
        responder.expect("ready")
        # It stands for all senders: where it waits for a processor, all of them stop, and then all
        # answer at once, which no network of hosts would do.
        prefer(responder.pid)
        yield responder


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
