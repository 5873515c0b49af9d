"""Barrier reads of a fixed amount from each sender, so that more senders carry more."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from experiments.traffic.program import Program
from experiments.workloads import WORKLOADS, Done, Stage, Workload
from experiments.workloads.reads import FreshReads, Reads


@dataclass(frozen=True)
class Shares(Workload):
    """As ``reads``, whose blocks are a fixed total, but with ``share_bytes`` over each
    connection. With ``fresh`` every share has a new connection."""

    name: ClassVar = "shares"
    about: ClassVar = "blocks that have a fixed amount from each sender, where reads' have a total"
    unit: ClassVar = "block"
    senders: int = 32
    rounds: int = 15
    share_bytes: int = 64_000
    connections_per_sender: int = 1
    fresh: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        if self.share_bytes < 1:
            raise ValueError(f"share_bytes must be at least 1, not {self.share_bytes}")
        # Complains of the other fields.
        self.reads()

    @property
    def connections(self) -> int:
        return self.senders * self.connections_per_sender

    def reads(self) -> Reads:
        """Return the same as reads of a block."""
        return (FreshReads if self.fresh else Reads)(
            senders=self.senders,
            rounds=self.rounds,
            block_bytes=self.share_bytes * max(1, self.connections),
            connections_per_sender=self.connections_per_sender,
            seed=self.seed,
        )

    def serving(self, stage: Stage) -> AbstractContextManager[Program]:
        return self.reads().serving(stage)

    def run(self, stage: Stage) -> Done:
        return self.reads().run(stage)

    def in_words(self) -> str:
        return f"{self.reads().in_words()}: {self.share_bytes / 1000:g} kB over each connection"


WORKLOADS.add(Shares)
