"""Staggered long flows: senders begin one after another, and end so."""

from dataclasses import dataclass
from typing import ClassVar

from experiments.traffic.plan import Plan, staggered_flows
from experiments.workloads import WORKLOADS
from experiments.workloads.planned import Ground, Planned


@dataclass(frozen=True)
class Staggered(Planned):
    """A flow from each sender, each of which begins ``interval_s`` after the one before and lasts
    that long for each sender: as the last one begins all of them are there, and then the first to
    come is the first to go. What came of each is recorded over time.
    """

    name: ClassVar = "staggered"
    fills: ClassVar = True
    about: ClassVar = "long flows that begin one after another and end so, for fairness over time"
    senders: int = 5
    connections_per_sender: int = 1
    interval_s: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.interval_s <= 0:
            raise ValueError(f"interval_s must be more than 0, not {self.interval_s:g}")

    def plan(self, ground: Ground) -> Plan:
        flows = staggered_flows(ground.senders, ground.receiver, self.interval_s)
        return self.opened(flows)

    def in_words(self) -> str:
        return (
            f"{self.senders} long flows, one after another every {self.interval_s:g} s "
            f"({self.how()})"
        )


WORKLOADS.add(Staggered)
