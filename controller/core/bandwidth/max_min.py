"""Max-min fair shares of flows over the links of their paths, as fair queueing gives them.

Bertsekas and Gallager, Data Networks, section 6.5.2.

A link may also carry local flows, which nobody has announced: TCP connections. Each of them counts
as a flow over this link alone.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

Flow = TypeVar("Flow", bound=Hashable)
Link = TypeVar("Link", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Contention:
    """A link of `capacity_bps`, of which `local_flows` want `local_bps` together (`inf`: all).

    With a `reserved` share (0 to 1), announced flows together get at least that part of the
    capacity, and local flows at least the rest. Without, all flows count alike.
    """

    capacity_bps: float
    local_flows: int = 0
    local_bps: float = 0.0
    reserved: float | None = None


@dataclass(frozen=True, slots=True)
class Demand(Generic[Link]):
    """A flow that wants `most_bps`, over these links."""

    links: tuple[Link, ...]
    most_bps: float = inf


@dataclass(slots=True)
class _Link:
    """The capacity that is left for flows whose share is still open, and how many these are. Each
    of the open local flows wants `local_each_bps`."""

    left_bps: float
    open_flows: int = 0
    open_local: int = 0
    local_each_bps: float = 0.0

    @property
    def level_bps(self) -> float:
        """What each open flow would get."""
        open_flows = self.open_flows + self.open_local
        return self.left_bps / open_flows if open_flows else inf


def max_min(
    links: Mapping[Link, Contention], demands: Mapping[Flow, Demand[Link]]
) -> dict[Flow, float]:
    """The share of each flow in bit/s. `links` must hold all links of all flows.

    All shares rise together. The share of a flow is fixed when it has what it wants, or when one of
    its links is full.
    """
    state = {link: _begin(links[link]) for demand in demands.values() for link in demand.links}
    for demand in demands.values():
        for link in dict.fromkeys(demand.links):
            state[link].open_flows += 1
    open_flows = {
        flow: demand for flow, demand in demands.items() if demand.links or demand.most_bps < inf
    }
    shares = dict.fromkeys(demands, inf)
    while open_flows:
        levels = [link.level_bps for link in state.values()]
        level_bps = min(levels + [demand.most_bps for demand in open_flows.values()])
        # Local flows that want less than the present level leave the rest to others.
        modest = [
            one for one in state.values() if one.open_local and one.local_each_bps <= level_bps
        ]
        if modest:
            least = min(modest, key=lambda one: one.local_each_bps)
            least.left_bps -= least.open_local * least.local_each_bps
            least.open_local = 0
            continue
        full = {key for key, link in state.items() if link.level_bps <= level_bps}
        done = [
            flow
            for flow, demand in open_flows.items()
            if demand.most_bps <= level_bps or not full.isdisjoint(demand.links)
        ]
        for key in full:
            # The local flows have their part; nothing is left for others.
            state[key].left_bps -= state[key].open_local * level_bps
            state[key].open_local = 0
        for flow in done:
            shares[flow] = max(0.0, level_bps)
            for key in dict.fromkeys(open_flows.pop(flow).links):
                state[key].left_bps -= level_bps
                state[key].open_flows -= 1
    return shares


def _begin(link: Contention) -> _Link:
    if link.reserved is not None:
        least_bps = link.reserved * link.capacity_bps
        return _Link(max(least_bps, link.capacity_bps - link.local_bps))
    flows = link.local_flows
    if not flows or not link.local_bps:
        return _Link(link.capacity_bps)
    return _Link(link.capacity_bps, 0, flows, link.local_bps / flows)
