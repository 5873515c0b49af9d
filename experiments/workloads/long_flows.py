"""Long flows: TCP connections that always have something to send."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from experiments.traffic.program import Program
from experiments.workloads import WORKLOADS, Done, Stage, Workload
from testbed.host import Host


@dataclass(frozen=True)
class LongFlows(Workload):
    """One from each sender. Each counts as an operation, which lasts as long as all of them."""

    name: ClassVar = "long-flows"
    about: ClassVar = "a connection from each sender that always has something to send"
    unit: ClassVar = "flow"
    fills: ClassVar = True
    senders: int = 2
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"seconds must be more than 0, not {self.seconds:g}")

    def run(self, stage: Stage) -> Done:
        bed = stage.bed
        senders = [bed.host(name) for name in bed.roles.senders]
        with long_flows(senders, bed.host(bed.roles.receiver), stage.log) as flows:
            stage.say(f"{len(senders)} long flows for {self.seconds:g} s")
            stage.begin()
            start_ns = time.monotonic_ns()
            time.sleep(self.seconds)
            end_ns = time.monotonic_ns()
            flows.finish()
            done = flows.expect("done")
        whole = {"start_ns": start_ns, "end_ns": end_ns}
        return Done([whole | {"bytes": count} for count in done["flows"]], done["bytes"])

    def in_words(self) -> str:
        return f"{self.senders} long flows for {self.seconds:g} s"


WORKLOADS.add(LongFlows)


@contextmanager
def long_flows(
    senders: Iterable[Host], receiver: Host, log: Path, *, to: str | None = None
) -> Iterator[Program]:
    """Context manager: a connection from each of ``senders`` to ``receiver`` (to its address
    ``to``, if given) always has something to send. ``traffic.bulk`` lists the program's
    messages."""
    ends = [f"--sender-pid={sender.pid}" for sender in senders]
    ends += [f"--receiver-pid={receiver.pid}", f"--receiver={to or receiver.IP()}"]
    with Program("experiments.traffic.bulk", ends, log=log) as bulk:
        bulk.expect("connected")
        yield bulk
