"""Requests and answers: on every connection the next request follows the answer."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from experiments.traffic.program import Program
from experiments.traffic.rpc import PATTERNS
from experiments.workloads import WORKLOADS, Done, Stage, Workload
from experiments.workloads.reads import responders


@dataclass(frozen=True)
class Requests(Workload):
    """Over a connection to each sender; ``pattern`` is of the sizes that are asked for."""

    name: ClassVar = "requests"
    about: ClassVar = f"requests one after the other to each sender; pattern {', '.join(PATTERNS)}"
    unit: ClassVar = "answer"
    senders: int = 32
    seconds: float = 10.0
    pattern: str = "mixed"
    seed: int = 1

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"seconds must be more than 0, not {self.seconds:g}")
        if self.pattern not in PATTERNS:
            raise ValueError(f"pattern must be {', '.join(PATTERNS)}, not {self.pattern!r}")

    def serving(self, stage: Stage) -> AbstractContextManager[Program]:
        return responders(stage.bed, stage.log)

    def run(self, stage: Stage) -> Done:
        bed = stage.bed
        words = [f"--pattern={self.pattern}", f"--seconds={self.seconds}", f"--seed={self.seed}"]
        words += [f"--server={bed.host(name).IP()}" for name in bed.roles.senders]
        pid = bed.host(bed.roles.receiver).pid
        with Program("experiments.traffic.rpc", words, log=stage.log, pid=pid) as rpc:
            rpc.expect("connected")
            stage.say(f"requests to {self.senders} senders for {self.seconds:g} s")
            stage.begin()
            done = rpc.expect("done")
        return Done(done["answers"], done["bytes"])

    def in_words(self) -> str:
        return f"requests ({self.pattern}) to {self.senders} senders for {self.seconds:g} s"


WORKLOADS.add(Requests)
