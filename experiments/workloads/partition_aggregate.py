"""Partition and aggregate: queries that are divided over workers, whose answers have a deadline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.traffic.plan import Plan, queries, rate_of_load, warmed_up
from experiments.traffic.sizes import Sizes
from experiments.workloads import WORKLOADS
from experiments.workloads.planned import Ground, Planned, by_group


@dataclass(frozen=True)
class PartitionAggregate(Planned):
    """A query asks ``fan_out`` of the senders at once (0: all of them) for ``answer_bytes`` each.
    Queries are a Poisson process, whose answers offer ``load`` of the bottleneck. It lasts
    ``warm_up_s``, of which no query counts, and then ``seconds``. A query is complete with its last
    answer; ``deadline_ms`` counts from its first request.
    """

    name: ClassVar = "partition-aggregate"
    about: ClassVar = "queries to many senders at once, whose answers have a deadline"
    unit: ClassVar = "query"
    senders: int = 32
    connections_per_sender: int = 2
    fan_out: int = 0
    answer_bytes: int = 20_000
    load: float = 0.3
    deadline_ms: float = 100.0
    seconds: float = 10.0
    warm_up_s: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.fan_out <= self.senders:
            raise ValueError(
                f"fan_out must be 0 (all) to {self.senders}, the senders, not {self.fan_out}"
            )
        if self.answer_bytes < 1:
            raise ValueError(f"answer_bytes must be at least 1, not {self.answer_bytes}")
        if not 0 < self.load < 1:
            raise ValueError(f"load must be between 0 and 1, not {self.load:g}")
        if self.warm_up_s < 0:
            raise ValueError(f"warm_up_s must be at least 0, not {self.warm_up_s:g}")
        for name in ("deadline_ms", "seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name):g}")

    def plan(self, ground: Ground) -> Plan:
        fan_out = self.fan_out or len(ground.senders)
        sizes = Sizes.fixed(self.answer_bytes)
        rate = rate_of_load(self.load, sizes, ground.bottleneck_bps, ground.wire) / fan_out
        seconds = self.warm_up_s + self.seconds
        flows = queries(ground.senders, ground.receiver, sizes, rate, seconds, fan_out, self.draw())
        return self.opened(warmed_up(flows, self.warm_up_s))

    def operations(
        self, flows: Sequence[Mapping[str, Any]], plan: Plan
    ) -> Sequence[Mapping[str, Any]]:
        """Return the queries all of whose answers have come."""
        return answered(flows, plan, self.deadline_ms)

    def in_words(self) -> str:
        return (
            f"queries to {self.fan_out or self.senders} of {self.senders} senders, "
            f"{self.answer_bytes / 1000:g} kB from each within {self.deadline_ms:g} ms, at a load "
            f"of {self.load:g} for {self.seconds:g} s ({self.how()})"
        )


def answered(
    flows: Sequence[Mapping[str, Any]], plan: Plan, deadline_ms: float
) -> list[dict[str, Any]]:
    """Return the queries that are complete: start, end, bytes, how many answers they had, how many
    of these were ``in_time``, and whether the deadline was ``met``, which is by all of them."""
    asked: dict[int, int] = {}
    for flow in plan.flows:
        asked[flow.group] = asked.get(flow.group, 0) + 1
    done = []
    for group, answers in sorted(by_group(flows).items()):
        if len(answers) < asked[group]:
            continue
        start_ns = min(answer["start_ns"] for answer in answers)
        until_ns = start_ns + deadline_ms * 1e6
        in_time = sum(answer["end_ns"] <= until_ns for answer in answers)
        done.append(
            {
                "start_ns": start_ns,
                "end_ns": max(answer["end_ns"] for answer in answers),
                "bytes": sum(answer["bytes"] for answer in answers),
                "answers": len(answers),
                "in_time": in_time,
                "met": in_time == len(answers),
            }
        )
    return done


WORKLOADS.add(PartitionAggregate)
