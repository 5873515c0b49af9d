"""Partition and aggregate: queries that are divided over workers, whose answers have a deadline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.traffic.plan import Plan, queries, warmed_up
from experiments.traffic.sizes import Sizes
from experiments.workloads import WORKLOADS
from experiments.workloads.planned import AtLoad, Ground, by_group


@dataclass(frozen=True)
class PartitionAggregate(AtLoad):
    """A query asks ``fan_out`` of the senders at once (0: all of them) for ``answer_bytes`` each;
    the answers are the load. A query is complete with its last answer; ``deadline_ms`` counts from
    its first request."""

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

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.fan_out <= self.senders:
            raise ValueError(
                f"fan_out must be 0 (all) to {self.senders}, the senders, not {self.fan_out}"
            )
        if self.answer_bytes < 1:
            raise ValueError(f"answer_bytes must be at least 1, not {self.answer_bytes}")
        if self.deadline_ms <= 0:
            raise ValueError(f"deadline_ms must be more than 0, not {self.deadline_ms:g}")

    def plan(self, ground: Ground) -> Plan:
        fan_out = self.fan_out or len(ground.senders)
        sizes = Sizes.fixed(self.answer_bytes)
        rate, draw = self.rate(sizes, ground) / fan_out, self.draw()
        flows = queries(ground.senders, ground.receiver, sizes, rate, self.lasts_s, fan_out, draw)
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
