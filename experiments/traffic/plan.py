"""Plans: which flows there are to be, drawn before the first one begins. No clock, no sockets.

A plan is executed by ``experiments.traffic.flows``, and could be by a simulator. All that is random
in a run is drawn here, with the randomness that is given.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from experiments.traffic.sizes import Sizes
from experiments.traffic.wire import Wire

_STEPS = 20_000


@dataclass(frozen=True)
class Flow:
    """``size_bytes`` from host ``src`` to host ``dst``, from ``at_ns`` on.

    ``at_ns`` counts from the beginning or, if ``after`` is a group, from the end of the last flow
    of that group. ``group`` tells which flows belong together (the answers of a query); ``kind`` is
    a name for reports. A flow with ``lasts_ns`` has something to send for just that long, whatever
    its size, and is recorded over time. What is not ``counted`` is there to warm up: it is recorded
    apart.
    """

    at_ns: int
    src: str
    dst: str
    size_bytes: int
    kind: str = "flow"
    group: int = 0
    after: int | None = None
    lasts_ns: int | None = None
    counted: bool = True


@dataclass(frozen=True)
class Plan:
    """``flows``, and how they are opened.

    A flow is ``asked`` for by its receiver or sent by its sender at once. It has a ``fresh``
    connection, or is over one of those between its hosts that stay open, ``connections`` of them,
    and of further ones if all of them are busy. Flows that have not ended ``drain_s`` after the
    last one was opened are given up.
    """

    flows: Sequence[Flow]
    asked: bool = True
    fresh: bool = False
    connections: int = 4
    drain_s: float = 60.0

    @property
    def round_trips(self) -> float:
        """From the start of a flow until its first bit can arrive; see ``Wire.ideal_ns``."""
        return (1.0 if self.asked else 0.5) + (1.0 if self.fresh else 0.0)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Plan":
        """Make one of what ``dataclasses.asdict`` gives."""
        return cls(**{**record, "flows": [Flow(**flow) for flow in record["flows"]]})


def rate_of_load(load: float, sizes: Sizes, link_bps: float, wire: Wire) -> float:
    """Return how many flows a second offer ``load`` of a link (1 is all of it), headers counted."""
    # The mean of the frames, not the frames of the mean: each flow has a last one that is not full.
    shares = ((k + 0.5) / _STEPS for k in range(_STEPS))
    frames_bytes = sum(wire.frames_bytes(sizes.at(share)) for share in shares) / _STEPS
    return load * link_bps / (8 * frames_bytes)


def poisson_ns(rate_per_s: float, seconds: float, draw: random.Random) -> Iterator[int]:
    """Yield the times of a Poisson process, in ns, from 0 to ``seconds``."""
    now_s = draw.expovariate(rate_per_s)
    while now_s < seconds:
        yield round(now_s * 1e9)
        now_s += draw.expovariate(rate_per_s)


def warmed_up(flows: Sequence[Flow], warm_up_s: float) -> list[Flow]:
    """Return the same flows, of which those that begin before that time are not counted."""
    return [replace(flow, counted=flow.at_ns >= warm_up_s * 1e9) for flow in flows]


def poisson_flows(
    sizes: Sizes,
    rate_per_s: float,
    seconds: float,
    pairs: Sequence[tuple[str, str]],
    draw: random.Random,
    kind: str = "flow",
) -> list[Flow]:
    """Return flows at the times of a Poisson process, each between hosts (src, dst) drawn from
    ``pairs``."""
    return [
        Flow(at_ns, *draw.choice(pairs), sizes.at(draw.random()), kind)
        for at_ns in poisson_ns(rate_per_s, seconds, draw)
    ]


def staggered_flows(senders: Sequence[str], receiver: str, interval_s: float) -> list[Flow]:
    """Return a flow from each sender, each beginning an interval after the one before, and lasting
    an interval for each sender: the first one to begin is the first to end."""
    interval_ns = round(interval_s * 1e9)
    return [
        Flow(
            number * interval_ns, sender, receiver, 0, "long", number,
            lasts_ns=len(senders) * interval_ns,
        )
        for number, sender in enumerate(senders)
    ]  # fmt: skip


def queries(
    workers: Sequence[str],
    aggregator: str,
    answers: Sizes,
    rate_per_s: float,
    seconds: float,
    fan_out: int,
    draw: random.Random,
) -> list[Flow]:
    """Return the answers to queries of an aggregator, at the times of a Poisson process; a query
    asks ``fan_out`` of the workers, all at once, and its answers are a group."""
    flows = []
    for number, at_ns in enumerate(poisson_ns(rate_per_s, seconds, draw)):
        for worker in draw.sample(list(workers), fan_out):
            size_bytes = answers.at(draw.random())
            flows.append(Flow(at_ns, worker, aggregator, size_bytes, "answer", number))
    return flows


def barriers(
    senders: Sequence[str],
    receiver: str,
    size_bytes: int,
    each: int,
    rounds: int,
    draw: random.Random,
) -> list[Flow]:
    """Return rounds in each of which every sender sends ``each`` times to the receiver, all at once
    and in an order that is drawn; a round begins when the one before is complete."""
    flows = []
    order = [sender for sender in senders for _ in range(each)]
    for number in range(rounds):
        draw.shuffle(order)
        after = number - 1 if number else None
        flows += [Flow(0, one, receiver, size_bytes, "read", number, after) for one in order]
    return flows


def shuffles(hosts: Sequence[str], size_bytes: int, rounds: int, draw: random.Random) -> list[Flow]:
    """Return rounds in each of which every host sends to every other one, all at once and in an
    order that is drawn; a round begins when the one before is complete."""
    flows = []
    pairs = list(permutations(hosts, 2))
    for number in range(rounds):
        draw.shuffle(pairs)
        after = number - 1 if number else None
        flows += [Flow(0, *pair, size_bytes, "shuffle", number, after) for pair in pairs]
    return flows
