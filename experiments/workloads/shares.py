"""Barrier reads of a fixed amount from each sender, so that more senders carry more."""

from dataclasses import dataclass
from typing import ClassVar

from experiments.traffic.plan import Plan, barriers
from experiments.workloads import WORKLOADS
from experiments.workloads.planned import Ground, InRounds


@dataclass(frozen=True)
class Shares(InRounds):
    """As ``reads``, whose blocks are a fixed total, but with ``share_bytes`` over each of
    ``connections_per_sender``; each share is recorded as a flow."""

    name: ClassVar = "shares"
    about: ClassVar = "blocks that have a fixed amount from each sender, where reads' have a total"
    unit: ClassVar = "block"
    has_background: ClassVar = True
    senders: int = 32

    def plan(self, ground: Ground) -> Plan:
        flows = barriers(
            ground.senders, ground.receiver, self.share_bytes, self.connections_per_sender,
            self.rounds, self.draw(),
        )  # fmt: skip
        return self.opened(flows)

    def in_words(self) -> str:
        each = self.connections_per_sender
        return (
            f"{self.rounds} blocks of {self.share_bytes / 1000:g} kB "
            f"{f'over each of {each} connections ' if each > 1 else ''}"
            f"from each of {self.senders} senders ({self.how()})"
        )


WORKLOADS.add(Shares)
