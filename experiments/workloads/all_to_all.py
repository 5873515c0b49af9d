"""All to all, as in a shuffle of MapReduce: every host sends to every other one at once."""

from dataclasses import dataclass
from typing import ClassVar

from experiments.traffic.plan import Plan, shuffles
from experiments.workloads import WORKLOADS
from experiments.workloads.planned import Ground, InRounds


@dataclass(frozen=True)
class AllToAll(InRounds):
    """``share_bytes`` from each of the senders and the receiver to each other one, in ``rounds``
    that begin when the one before is complete."""

    name: ClassVar = "all-to-all"
    about: ClassVar = "every host sends to every other one at once (a shuffle), in rounds"
    unit: ClassVar = "round"
    fills_every_port: ClassVar = True
    senders: int = 4
    rounds: int = 5
    share_bytes: int = 200_000

    @property
    def connections(self) -> int:
        return self.senders * (self.senders + 1) * self.connections_per_sender

    def plan(self, ground: Ground) -> Plan:
        hosts = [*ground.senders, ground.receiver]
        flows = shuffles(hosts, self.share_bytes, self.rounds, self.draw())
        return self.opened(flows)

    def in_words(self) -> str:
        return (
            f"{self.rounds} rounds of {self.share_bytes / 1000:g} kB from each of "
            f"{self.senders + 1} hosts to each other ({self.how()})"
        )


WORKLOADS.add(AllToAll)
