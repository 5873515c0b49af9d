"""What workloads have in common whose flows are planned, and opened when they are due: an open
loop, in which nothing waits for what came before unless the plan says so."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from experiments.traffic.plan import Flow, Plan, rate_of_load
from experiments.traffic.program import Program, ProgramError
from experiments.traffic.sizes import Sizes
from experiments.traffic.wire import Wire
from experiments.workloads import Done, Stage, Workload
from testbed.config import HostSettings
from testbed.ovs import prefer


@dataclass(frozen=True)
class Ground:
    """What a plan is made for: who sends to whom, over a bottleneck of ``bottleneck_bps``."""

    senders: Sequence[str]
    receiver: str
    bottleneck_bps: int
    wire: Wire = field(default_factory=Wire)


@dataclass(frozen=True)
class Planned(Workload):
    """``connections_per_sender`` stay open from each sender, and more are opened where all of them
    are busy; with ``fresh``, each flow has its own. ``asked`` has the receiver ask for each flow;
    without, its sender sends at once. ``seed`` draws what is random."""

    unit: ClassVar = "flow"
    has_background: ClassVar = False
    senders: int = 8
    fresh: bool = False
    asked: bool = True
    connections_per_sender: int = 4
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("senders", "connections_per_sender"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @property
    def connections(self) -> int:
        return self.senders * self.connections_per_sender

    def plan(self, ground: Ground) -> Plan:
        """Return what is to be done on ``ground``; the same for the same seed."""
        raise NotImplementedError

    def operations(
        self, flows: Sequence[Mapping[str, Any]], plan: Plan
    ) -> Sequence[Mapping[str, Any]]:
        """Return what the user of these flows waits for: each of them, unless overridden."""
        del plan
        return flows

    def run(self, stage: Stage) -> Done:
        bed = stage.bed
        names = bed.roles.senders[: self.senders]
        ground = Ground(names, bed.roles.receiver, bed.roles.bottleneck_bps, wire(bed.config.host))
        plan = self.plan(ground)
        if not plan.flows:
            raise ProgramError("not one flow was drawn in so short a time: more seconds, or load")
        ends = dict.fromkeys(end for flow in plan.flows for end in (flow.src, flow.dst))
        hosts = [bed.host(name) for name in ends]
        args = [f"--host={host.name},{host.pid},{host.IP()}" for host in hosts]
        with Program("experiments.traffic.flows", args, log=stage.log) as program:
            # It stands for all hosts: where it waits for a processor, all of them stand still.
            prefer(program.pid)
            apart = bed.ovs.keep_apart(program.pid)
            program.tell(json.dumps(asdict(plan)))
            program.expect("connected")
            stage.say(self.in_words())
            stage.begin()
            for message in program.messages():
                if message["event"] == "done":
                    flows = [flow for flow in message["flows"] if flow["counted"]]
                    operations = self.operations(flows, plan)
                    return Done(
                        operations,
                        message["bytes"],
                        flows=() if operations is flows else flows,
                        warm_up=[flow for flow in message["flows"] if not flow["counted"]],
                        generator=message["generator"]
                        | {"round_trips": plan.round_trips, "has_own_processor": apart},
                    )
                stage.say(f"{message['ended']} of {message['planned']} flows have ended")
        raise ProgramError("the generator of flows ended without a result")

    def opened(self, flows: Sequence[Flow]) -> Plan:
        """Return the plan of these flows, opened as the fields of this workload say."""
        return Plan(flows, self.asked, self.fresh, self.connections_per_sender)

    def draw(self) -> random.Random:
        """Return the randomness of this workload's seed."""
        return random.Random(self.seed)

    def how(self) -> str:
        """Describe how flows are opened, for reports."""
        over = "a connection each" if self.fresh else "open connections"
        return f"{over}{'' if self.asked else ', not asked for'}"


@dataclass(frozen=True)
class AtLoad(Planned):
    """What begins is a Poisson process that offers ``load`` of the bottleneck (1 is all of it,
    headers counted). It lasts ``warm_up_s``, of which nothing counts, and then ``seconds``; the run
    goes on until all have ended."""

    load: float = 0.5
    seconds: float = 20.0
    warm_up_s: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.load < 1:
            raise ValueError(f"load must be between 0 and 1, not {self.load:g}")
        if self.seconds <= 0:
            raise ValueError(f"seconds must be more than 0, not {self.seconds:g}")
        if self.warm_up_s < 0:
            raise ValueError(f"warm_up_s must be at least 0, not {self.warm_up_s:g}")

    @property
    def lasts_s(self) -> float:
        """For how long something begins."""
        return self.warm_up_s + self.seconds

    def rate(self, sizes: Sizes, ground: Ground) -> float:
        """Return how many flows of these sizes a second are the load."""
        return rate_of_load(self.load, sizes, ground.bottleneck_bps, ground.wire)


@dataclass(frozen=True)
class InRounds(Planned):
    """``share_bytes`` over each way, in ``rounds`` that begin when the one before is complete: a
    round is what its user waits for."""

    connections_per_sender: int = 1
    rounds: int = 15
    share_bytes: int = 64_000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rounds", "share_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    def operations(
        self, flows: Sequence[Mapping[str, Any]], plan: Plan
    ) -> Sequence[Mapping[str, Any]]:
        """Return the rounds."""
        del plan
        return blocks(flows)


def wire(host: HostSettings) -> Wire:
    """Return what TCP of hosts that are set so is on the wire."""
    return Wire(host.mtu_bytes or 1500, host.timestamps is not False)


def blocks(flows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each group of flows as one operation: start, end and bytes."""
    return [
        {
            "start_ns": min(flow["start_ns"] for flow in group),
            "end_ns": max(flow["end_ns"] for flow in group),
            "bytes": sum(flow["bytes"] for flow in group),
        }
        for _, group in sorted(by_group(flows).items())
    ]


def by_group(flows: Sequence[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """Return the flows of each group."""
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for flow in flows:
        groups.setdefault(flow["group"], []).append(flow)
    return groups
