"""Flows that arrive at random times, whatever became of others, at a load of the bottleneck."""

from dataclasses import dataclass
from typing import ClassVar

from experiments.traffic.plan import Plan, poisson_flows, warmed_up
from experiments.traffic.sizes import Sizes
from experiments.workloads import WORKLOADS
from experiments.workloads.planned import AtLoad, Ground


@dataclass(frozen=True)
class Arrivals(AtLoad):
    """Flows at random times, each from a sender that is drawn.

    ``rpcs_per_s`` adds answers of ``rpc_bytes``, over connections of their own. They are a Poisson
    process too, and come on top of ``load``.
    """

    rpcs_per_s: float = 0.0
    rpc_bytes: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rpcs_per_s < 0 or self.rpc_bytes < 1:
            raise ValueError("rpcs_per_s must be at least 0, and rpc_bytes at least 1")

    def sizes(self) -> Sizes:
        """Return how large flows are."""
        raise NotImplementedError

    def plan(self, ground: Ground) -> Plan:
        draw, sizes = self.draw(), self.sizes()
        pairs = [(sender, ground.receiver) for sender in ground.senders]
        flows = poisson_flows(sizes, self.rate(sizes, ground), self.lasts_s, pairs, draw)
        if self.rpcs_per_s:
            rpc = Sizes.fixed(self.rpc_bytes)
            flows += poisson_flows(rpc, self.rpcs_per_s, self.lasts_s, pairs, draw, "rpc")
        return self.opened(warmed_up(flows, self.warm_up_s))

    def in_words(self) -> str:
        rpcs = f" and {self.rpcs_per_s:g} RPCs a second" if self.rpcs_per_s else ""
        return (
            f"{self.name} at a load of {self.load:g}{rpcs} from {self.senders} senders for "
            f"{self.seconds:g} s ({self.how()})"
        )


@dataclass(frozen=True)
class Measured(Arrivals):
    """Sizes as they were measured, times ``scale``; with ``largest_bytes``, larger ones have that
    size. The load is as asked for all the same."""

    scale: float = 1.0
    largest_bytes: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale <= 0:
            raise ValueError(f"scale must be more than 0, not {self.scale:g}")
        if self.largest_bytes < 0:
            raise ValueError(f"largest_bytes must be at least 0, not {self.largest_bytes}")

    def sizes(self) -> Sizes:
        sizes = Sizes.measured(self.name).scaled(self.scale)
        return sizes.at_most(self.largest_bytes) if self.largest_bytes else sizes


@dataclass(frozen=True)
class WebSearch(Measured):
    """Half of the flows have less than 80 kB; a third has more than 1 MB, and almost all bytes."""

    name: ClassVar = "web-search"
    about: ClassVar = "flows at random times, sizes as measured of web search (DCTCP's paper)"


@dataclass(frozen=True)
class DataMining(Measured):
    """Half of the flows have one packet. As it was measured the largest have 1 GB: that is 80 s at
    100 Mb/s, longer than a run. So there is a largest size unless one chooses none, 0."""

    name: ClassVar = "data-mining"
    about: ClassVar = "flows at random times, sizes as measured of data mining (VL2's paper)"
    largest_bytes: int = 30_000_000


@dataclass(frozen=True)
class FixedSize(Arrivals):
    """Of ``size_bytes`` each: short ones are RPCs."""

    name: ClassVar = "fixed-size"
    about: ClassVar = "flows at random times that all have one size, as RPCs do"
    size_bytes: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size_bytes < 1:
            raise ValueError(f"size_bytes must be at least 1, not {self.size_bytes}")

    def sizes(self) -> Sizes:
        return Sizes.fixed(self.size_bytes)


WORKLOADS.add(WebSearch)
WORKLOADS.add(DataMining)
WORKLOADS.add(FixedSize)
