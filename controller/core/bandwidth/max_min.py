"""Max-min fair shares of flows over the links of their paths, as fair queueing gives them, kept as
flows and links change.

Shares are max-min fair if each flow has what it wants, or a link that is full and on which nobody
has more (Bertsekas and Gallager, Data Networks, section 6.5.2). So a link has a *level*, the most
that any of its flows gets there, and a flow has the least of the levels of its links and of what it
wants. The level of a link follows from what its flows may have elsewhere: if all of that fits, it
is the capacity. After a change the levels are computed again of those links alone where something
has changed that matters there, until nothing does; the levels at which that ends are the only ones
for which all of this holds. It does end, as in schemes for ATM whose switches do the same with
messages (Charny, Clark and Jain, ICC 1995): the least level of all is right after each link was
looked at once, then the next one.

A link may also carry local flows, which nobody has announced: TCP connections. Each of them counts
as a flow over this link alone.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

Flow = TypeVar("Flow", bound=Hashable)
Link = TypeVar("Link", bound=Hashable)

# A smaller relative change is none: sums of floats are no more exact than that.
_EQUAL = 1e-9


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

    @property
    def shared_bps(self) -> float:
        """What announced flows share with the local ones, or, if something is reserved for them,
        have by themselves."""
        if self.reserved is None:
            return self.capacity_bps
        return max(self.reserved * self.capacity_bps, self.capacity_bps - self.local_bps)

    @property
    def sharing(self) -> tuple[int, float]:
        """How many local flows share it, and what they want together."""
        shares = self.reserved is None and self.local_bps
        return (self.local_flows, self.local_bps) if self.local_flows and shares else (0, 0.0)


@dataclass(frozen=True, slots=True)
class Demand(Generic[Link]):
    """A flow that wants `most_bps`, over these links."""

    links: tuple[Link, ...]
    most_bps: float = inf


@dataclass(slots=True)
class _Flow(Generic[Flow, Link]):
    key: Flow
    links: tuple["_Link[Flow, Link]", ...]
    most_bps: float
    share_bps: float = 0.0

    def may_have_bps(self, but: "_Link[Flow, Link] | None" = None) -> float:
        """What it gets by all of its links but one."""
        least_bps = self.most_bps
        for link in self.links:
            if link.level_bps < least_bps and link is not but:
                least_bps = link.level_bps
        return least_bps


@dataclass(slots=True, eq=False)
class _Link(Generic[Flow, Link]):
    key: Link
    contention: Contention
    level_bps: float
    # Some of its flows might have more than the level elsewhere.
    is_full: bool = False
    # The sum of the shares of its flows, or a little more until it is filled again.
    load_bps: float = 0.0
    flows: dict[Flow, _Flow[Flow, Link]] = field(default_factory=dict)

    def fill(self) -> None:
        """Compute the level, from what its flows may have elsewhere."""
        left_bps, (local_flows, local_bps) = self.contention.shared_bps, self.contention.sharing
        if not self.is_full and self.level_bps == left_bps >= self.load_bps + local_bps:
            return
        # Whoever has less than the level has what it may have elsewhere.
        wanted = [
            (flow.share_bps if flow.share_bps < self.level_bps else flow.may_have_bps(but=self), 1)
            for flow in self.flows.values()
        ]
        if local_flows:
            wanted.append((local_bps / local_flows, local_flows))
        self.load_bps = sum(flow.share_bps for flow in self.flows.values())
        self.is_full = sum(most_bps * flows for most_bps, flows in wanted) > left_bps
        self.level_bps = left_bps
        if not self.is_full:
            return
        wanted.sort()
        count = sum(flows for _, flows in wanted)
        for most_bps, flows in wanted:
            if most_bps * count >= left_bps:
                self.level_bps = left_bps / count
                return
            left_bps -= most_bps * flows
            count -= flows

    def is_affected(self, before_bps: float, after_bps: float) -> bool:
        """Whether its level may change as one of its flows has another share."""
        if self.is_full:
            # Those whose share is the level may have more elsewhere, and that is all that matters.
            return min(before_bps, after_bps) < self.level_bps
        _, local_bps = self.contention.sharing
        return self.load_bps + local_bps > self.contention.shared_bps * (1 - _EQUAL)


class FairShares(Generic[Flow, Link]):
    """The shares of flows, in bit/s. Changes take effect with `settle`."""

    def __init__(self) -> None:
        self._flows: dict[Flow, _Flow[Flow, Link]] = {}
        self._links: dict[Link, _Link[Flow, Link]] = {}
        # Links whose levels are to be computed again, first come first.
        self._pending: dict[_Link[Flow, Link], None] = {}
        self._changed: set[Flow] = set()

    @property
    def links(self) -> list[Link]:
        """Those that flows go over."""
        return list(self._links)

    def flows_over(self, link: Link) -> int:
        """How many flows go over a link."""
        known = self._links.get(link)
        return len(known.flows) if known else 0

    def share(self, flow: Flow) -> float:
        """What a flow has since the last `settle`."""
        return self._flows[flow].share_bps

    def bottleneck(self, flow: Flow) -> Link | None:
        """The link that keeps a flow from having more; None: it has what it wants."""
        known = self._flows[flow]
        if known.share_bps >= known.most_bps:
            return None
        return min(known.links, key=lambda link: link.level_bps).key

    def put(self, flow: Flow, demand: Demand[Link]) -> None:
        """A flow joins, or wants something else. Its links are to be set."""
        links = tuple(self._links[key] for key in dict.fromkeys(demand.links))
        self.remove(flow)
        known = self._flows[flow] = _Flow(flow, links, demand.most_bps)
        for link in links:
            self._links[link.key] = link
            link.flows[flow] = known
            self._pending[link] = None
        self._reshare(known)
        self._changed.add(flow)

    def remove(self, flow: Flow) -> None:
        """A flow leaves. Links that no flow goes over are forgotten."""
        known = self._flows.pop(flow, None)
        if known is None:
            return
        self._changed.discard(flow)
        for link in known.links:
            del link.flows[flow]
            if link.flows:
                self._pending[link] = None
            else:
                del self._links[link.key]
                self._pending.pop(link, None)

    def set_link(self, key: Link, contention: Contention) -> None:
        """A link is like this from now on."""
        link = self._links.get(key)
        if link is None:
            self._links[key] = _Link(key, contention, contention.shared_bps)
        elif link.contention != contention:
            link.contention = contention
            self._pending[link] = None

    def settle(self) -> set[Flow]:
        """Make the shares fair. Returns the flows whose shares have changed since the last time."""
        while self._pending:
            link = next(iter(self._pending))
            del self._pending[link]
            before_bps = link.level_bps
            link.fill()
            if not _differ(before_bps, link.level_bps):
                # A share is one of the levels exactly, or it would seem to be limited elsewhere.
                link.level_bps = before_bps
                continue
            for flow in link.flows.values():
                self._reshare(flow, by=link)
        changed, self._changed = self._changed, set()
        return changed

    def _reshare(self, flow: _Flow[Flow, Link], by: _Link[Flow, Link] | None = None) -> None:
        """A link of a flow, `by` (None: all of them), may have another level than before."""
        before_bps, after_bps = flow.share_bps, flow.may_have_bps()
        flow.share_bps = after_bps
        if not _differ(before_bps, after_bps):
            return
        self._changed.add(flow.key)
        for link in flow.links:
            link.load_bps += after_bps - before_bps
            if link is not by and link.is_affected(before_bps, after_bps):
                self._pending[link] = None


def _differ(one: float, other: float) -> bool:
    if one == other:
        return False
    return inf in (one, other) or abs(one - other) > _EQUAL * max(one, other)
