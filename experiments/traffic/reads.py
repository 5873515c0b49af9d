"""Barrier reads on a test bed: the processes that do them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from experiments.traffic.program import Program
from experiments.traffic.reader import PORT, IncastSpec
from testbed.bed import Bed
from testbed.ovs import prefer


@contextmanager
def responders(bed: Bed, log: Path) -> Iterator[None]:
    """While it lasts, every sender of ``bed`` answers requests."""
    pids = [f"--pid={bed.host(name).pid}" for name in bed.roles.senders]
    with Program("experiments.traffic.responder", [f"--port={PORT}", *pids], log=log) as responder:
        responder.expect("ready")
        # It stands for all senders: where it waits for a processor, all of them stop, and then all
        # answer at once, which no network of hosts would do.
        prefer(responder.pid)
        yield


@contextmanager
def reader(bed: Bed, spec: IncastSpec, log: Path, *, fresh: bool = False) -> Iterator[Program]:
    """Have the receiver of ``bed`` read as ``spec`` says, with ``fresh`` over a new connection for
    every request; ``reader.py`` tells what it says."""
    servers = [f"--server={bed.host(name).IP()}" for name in bed.roles.senders[: spec.senders]]
    args = ["--spec", json.dumps(asdict(spec)), *servers]
    pid = bed.host(bed.roles.receiver).pid
    module = f"experiments.traffic.{'fresh' if fresh else 'reader'}"
    with Program(module, args, log=log, pid=pid) as program:
        yield program
