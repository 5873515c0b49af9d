"""Announced flows, of fountain-coded senders, and the bandwidth that they may use.

The controller knows the paths, the capacities and, from counters, the use of all links; OpenNetMon,
PayLess and FlowSense show that this suffices (DFCP, section 7.6). An announced flow gets its
max-min fair share over its path, as the fair queues of the switches would give it, against other
announced flows and the TCP connections on each link. Shares are computed again when a flow joins
or leaves, without waiting for counters. What counters say of a link is looked at soon after they
were read: of _AT_ONCE links at a time, so that thousands of readings stop nothing else.

If there are several paths between two hosts, their announced flows take the one that has most left
when the first of them is announced, and stay on it. Otherwise switches would choose the path by a
hash of the ports, which are not announced.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import islice
from math import inf
from typing import NamedTuple

from controller.core.bandwidth.losses import LinkLoss
from controller.core.bandwidth.max_min import Contention, Demand, FairShares
from controller.core.bandwidth.usage import WINDOW_NS, RateEstimator, Use
from controller.core.topology.fabric import Fabric, Host
from controller.model.entries import Steer
from controller.model.values import N_PATH_IDS, PortId
from controller.model.vlans import number_of

# A link is full if this part of its capacity is used, and its TCP connections are greedy if they
# have this part of their fair share.
_FULL, _GREEDY = 0.95, 0.9
# TCP connections that are not greedy may want more than they have by this part of the capacity.
_GROWTH = 0.02
# Smaller relative changes of a share are not reported.
_NEWS = 0.01
# Of so many links what counters say is looked at in one event.
_AT_ONCE = 16
# What one more flow would get is computed with it among the others.
_ONE_MORE = ""


class UnknownPathError(ValueError):
    """There is no host with this address, or no path; the message says which."""


@dataclass(frozen=True, slots=True)
class BandwidthSettings:
    """`spare` is the part of every link that is left free for bursts and errors. `reserved` is the
    part of the capacity that is for announced flows; if it is None, all flows count alike. Switches
    recognise packets of announced flows by `dscp`. A flow that is not renewed is removed after
    `expiry_ns`."""

    spare: float = 0.01
    reserved: float | None = None
    expiry_ns: int = 5 * 10**9
    dscp: int | None = None


class Uplink(NamedTuple):
    """The link from a host into the fabric, by its port: what comes in there uses it."""

    port: PortId


PathLink = PortId | Uplink


class Announced(NamedTuple):
    """An announced flow between two packed addresses, with a rate of `most_bps` at most. `owner` is
    who announced it; None: the operator."""

    src: bytes
    dst: bytes
    most_bps: float = inf
    owner: str | None = None


class _Ends(NamedTuple):
    """Two hosts in one VLAN (empty: none), with the addresses that they are asked for by."""

    vlan: bytes
    src_address: bytes
    src: Host
    dst_address: bytes
    dst: Host


class Share(NamedTuple):
    """What a flow may send, in bit/s of whole frames. `narrowest` is the link that limits it, None
    if only its own demand does."""

    flow: str
    rate_bps: float
    narrowest: PathLink | None


class LinkState(NamedTuple):
    """A link of a path: its capacity, use and loss."""

    link: PathLink
    capacity_bps: float
    use: Use | None
    loss: LinkLoss | None = None


class PathBandwidth(NamedTuple):
    """The bandwidth of a path between hosts.

    `available_bps` is what the narrowest link has left, within `error_bps` with a probability of
    95 %. `share_bps` is what one more announced flow would get. If `error_bps` is None, a link is
    not measured, and both are at most that. `loss` is that of the links between switches, within
    `loss_error`; both are None if there are none, or that of one is not known.
    """

    available_bps: float
    error_bps: float | None
    share_bps: float
    links: tuple[LinkState, ...]
    loss: float | None = None
    loss_error: float | None = None


@dataclass(slots=True)
class _Flow:
    announced: Announced
    renewed_ns: int
    links: tuple[PathLink, ...] = ()
    share: Share | None = None
    told_bps: float | None = None
    sends_most_bps: float = inf
    # What its links count as sent by it.
    counted_bps: float = 0.0

    @property
    def sends_bps(self) -> float:
        """What it presumably sends: its share, unless it has said that it sends less."""
        return min(self.share.rate_bps, self.sends_most_bps) if self.share else 0.0


@dataclass(slots=True)
class _Port:
    """A link: `whole` estimates all that it carries, `local` the part not of announced flows.

    The bytes of announced flows are computed from their rates: `sent_bytes` until `sent_ns`, and
    `sends_bps` since then.
    """

    whole: RateEstimator
    local: RateEstimator
    n_bytes: int = 0
    at_ns: int = -1
    sent_bytes: float = 0.0
    sent_ns: int = 0
    sends_bps: float = 0.0

    def pass_time(self, now_ns: int) -> None:
        self.sent_bytes += self.sends_bps * (now_ns - self.sent_ns) / 8e9
        self.sent_ns = now_ns


class Bandwidth:
    """`capacity` returns that of a port in bit/s, None if it is unknown; `tcp_flows` returns how
    many active TCP flows leave by it."""

    def __init__(
        self,
        settings: BandwidthSettings,
        fabric: Fabric,
        capacity: Callable[[PortId], float | None],
        tcp_flows: Callable[[PortId], int],
    ) -> None:
        self.settings = settings
        self._fabric = fabric
        self._capacity = capacity
        self._tcp_flows = tcp_flows
        self._ports: dict[PathLink, _Port] = {}
        self._changed: set[int] = set()
        self._flows: dict[str, _Flow] = {}
        # By their ends, the path that announced flows take.
        self._path_ids: dict[tuple[bytes, bytes], int] = {}
        # Flows to be reported, whatever their shares are.
        self._news: dict[str, None] = {}
        self._fabric_seen = -1, -1
        self._shares: FairShares[str, PathLink] = FairShares()
        # Flows whose shares have changed, which is not reported yet.
        self._changed_shares: set[str] = set()
        # Links that were read since they were looked at, first come first.
        self._read: dict[PathLink, None] = {}
        # Counters were read, or time has passed: nothing urgent waits.
        self._looks = False
        # Flows have joined or left.
        self._joined = self._steering_stale = False

    def reconfigure(self, settings: BandwidthSettings) -> None:
        """Use these settings from now on."""
        self.settings = settings
        self._looks = True
        self._read.update(dict.fromkeys(self._shares.links))

    # Counters

    def read(
        self, link: PathLink, n_bytes: int, at_ns: int, now_ns: int, dropped_bytes: int = 0
    ) -> None:
        """Enter a reading: how many bytes of frames a link had carried, and its queue dropped, at
        `at_ns` of its switch's clock."""
        capacity_bps = self._capacity(_port_of(link))
        port = self._ports.get(link)
        if capacity_bps is None or (port is not None and at_ns == port.at_ns):
            return
        restarted = port is not None and (at_ns < port.at_ns or n_bytes < port.n_bytes)
        if port is None or restarted or port.whole.capacity_bps != capacity_bps:
            # `local` follows changes at once, because shares depend on it.
            local = RateEstimator(capacity_bps, window_ns=WINDOW_NS)
            port = _Port(RateEstimator(capacity_bps), local, sent_ns=now_ns)
            port.sends_bps = self._sends_bps(link)
            self._ports[link] = port
        port.n_bytes, port.at_ns = n_bytes, at_ns
        port.pass_time(now_ns)
        # Packets of announced flows may be among those that left or those that were dropped, so
        # they are subtracted from the sum of both.
        port.local.read(n_bytes + dropped_bytes - round(port.sent_bytes), at_ns)
        self._looks = True
        if self._shares.flows_over(link):
            self._read[link] = None
        if port.whole.read(n_bytes, at_ns):
            self._changed.add(_port_of(link).switch)

    def take_changed(self, switch: int) -> bool:
        """Whether the use of a link of this switch has changed since the last call."""
        changed = switch in self._changed
        self._changed.discard(switch)
        return changed

    def forget_port(self, port_id: PortId) -> None:
        self._ports.pop(port_id, None)
        self._ports.pop(Uplink(port_id), None)

    def estimator(self, link: PathLink) -> RateEstimator | None:
        """The estimate of the use of a link."""
        port = self._ports.get(link)
        return port.whole if port else None

    def _sends_bps(self, link: PathLink) -> float:
        return sum(flow.counted_bps for flow in self._flows.values() if link in flow.links)

    def _count_sending(self, flow: _Flow, sends_bps: float, now_ns: int) -> None:
        """A flow sends so much from now on."""
        more_bps = sends_bps - flow.counted_bps
        flow.counted_bps = sends_bps
        if more_bps:
            for link in flow.links:
                port = self._ports.get(link)
                if port is not None:
                    port.pass_time(now_ns)
                    port.sends_bps += more_bps

    # Flows

    @property
    def flows(self) -> Iterable[str]:
        """The names of the announced flows."""
        return self._flows.keys()

    def announced(self, name: str) -> tuple[Announced, Share | None] | None:
        """A flow and its latest share (None: it has no path now); None if it is not announced."""
        flow = self._flows.get(name)
        return (flow.announced, flow.share) if flow else None

    def announce(self, name: str, announced: Announced, now_ns: int) -> None:
        """Announce a flow, or change its maximum rate. Raises UnknownPathError."""
        ends = announced.src, announced.dst
        known = self._flows.get(name)
        # Another rate for the same flow does not change its path.
        if known is None or (known.announced.src, known.announced.dst) != ends:
            self._steering_stale = True
        if ends not in self._path_ids:
            self._path_ids[ends] = self._best_path_id(*ends)
        flow = _Flow(announced, now_ns)
        links = self._links(*ends)
        if known is not None:
            flow.told_bps = known.told_bps
            self._leave(name, known, now_ns)
        self._flows[name] = flow
        self._join(name, flow, links)

    def renew(self, name: str, now_ns: int, sends_bps: float = inf) -> bool:
        """A flow goes on, and sends `sends_bps` at most. Returns whether it is announced."""
        flow = self._flows.get(name)
        if flow is not None:
            flow.renewed_ns, flow.sends_most_bps = now_ns, sends_bps
            self._count_sending(flow, flow.sends_bps, now_ns)
        return flow is not None

    def withdraw(self, name: str, now_ns: int) -> bool:
        """A flow has ended. Returns whether it was announced."""
        flow = self._flows.pop(name, None)
        if flow is None:
            return False
        self._leave(name, flow, now_ns)
        self._news[name] = None
        self._steering_stale = True
        return True

    def _join(self, name: str, flow: _Flow, links: tuple[PathLink, ...]) -> None:
        """A flow goes over these links from now on."""
        flow.links = links
        if links:
            self._admit(name, Demand(links, flow.announced.most_bps))
        self._look_at(links)
        self._joined = True

    def _admit(self, name: str, demand: Demand[PathLink]) -> None:
        for link in demand.links:
            if not self._shares.flows_over(link):
                self._shares.set_link(link, self._contention(link))
        self._shares.put(name, demand)

    def _leave(self, name: str, flow: _Flow, now_ns: int) -> None:
        """A flow does not go over its links any more."""
        self._count_sending(flow, 0.0, now_ns)
        self._shares.remove(name)
        self._changed_shares.discard(name)
        self._look_at(flow.links)
        flow.links = ()
        self._joined = True

    def expire(self, now_ns: int) -> list[str]:
        """Remove the flows that were not renewed; returns them."""
        self._looks = True
        lost = [
            name
            for name, flow in self._flows.items()
            if now_ns - flow.renewed_ns >= self.settings.expiry_ns
        ]
        for name in lost:
            self.withdraw(name, now_ns)
        return lost

    def take_news(self, now_ns: int) -> list[str]:
        """The flows whose shares have changed since the last call, or that are gone."""
        seen = self._fabric.changes, self._fabric.address_changes
        if self._fabric_seen != seen:
            self._fabric_seen = seen
            self._find_links(now_ns)
        # Called after every event, so it must be quick if nothing is to be done.
        if not self._joined and not (self._read and self._looks):
            return []
        if self._looks:
            links = list(islice(self._read, _AT_ONCE))
            self._look_at(links)
            for link in links:
                del self._read[link]
        self._joined = self._looks = False
        self._changed_shares |= self._shares.settle()
        for name in self._changed_shares:
            flow, rate_bps = self._flows[name], self._shares.share(name)
            flow.share = Share(name, rate_bps, self._shares.bottleneck(name))
            self._count_sending(flow, flow.sends_bps, now_ns)
            told_bps = flow.told_bps
            if told_bps is None or abs(rate_bps - told_bps) > _NEWS * told_bps:
                flow.told_bps = rate_bps
                self._news[name] = None
        self._changed_shares.clear()
        news, self._news = list(self._news), {}
        return news

    def _find_links(self, now_ns: int) -> None:
        """Links or hosts have changed: find the links of all flows again."""
        for name, flow in self._flows.items():
            links: tuple[PathLink, ...] = ()
            with suppress(UnknownPathError):
                links = self._links(flow.announced.src, flow.announced.dst)
            if links != flow.links:
                self._leave(name, flow, now_ns)
                self._join(name, flow, links)
            if not links and flow.share is not None:
                self._news[name] = None
                flow.share = flow.told_bps = None
        # Ports may have another speed.
        self._read.update(dict.fromkeys(self._shares.links))
        self._joined = self._steering_stale = True

    def _look_at(self, links: Iterable[PathLink]) -> None:
        """The use of links, or how many flows go over them, may have changed."""
        for link in links:
            # A port that is gone has no capacity: its flows are about to get other links.
            known = self._capacity(_port_of(link)) is not None
            if known and self._shares.flows_over(link):
                self._shares.set_link(link, self._contention(link))

    # Paths

    def take_steering(self) -> set[tuple[int, Steer]] | None:
        """The entries that steer announced flows where there are several paths, by switch; None if
        they have not changed since the last call. To be called after `take_news`."""
        if not self._steering_stale:
            return None
        self._steering_stale = False
        wanted = {(flow.announced.src, flow.announced.dst) for flow in self._flows.values()}
        self._path_ids = {
            ends: path_id for ends, path_id in self._path_ids.items() if ends in wanted
        }
        if not self._fabric.multipath:
            return set()
        steering: set[tuple[int, Steer]] = set()
        for (src, dst), path_id in self._path_ids.items():
            try:
                ends = self._ends(src, dst)
                path = self._path(ends, path_id)
            except UnknownPathError:
                continue
            entry = Steer(src, dst, path_id, ends.vlan)
            # The last port is that of the host; if it is of a bond, the path id chooses it.
            hops = path if self._fabric.bonds.bond(path[-1]) else path[:-1]
            steering.update((port.switch, entry) for port in hops)
        return steering

    def path(self, src: bytes, dst: bytes) -> PathBandwidth:
        """The bandwidth from one packed address to another. Raises UnknownPathError."""
        links = self._links(src, dst)
        states = tuple(self._state(link) for link in links)
        # Among equal ones, one that is measured.
        narrowest = min(states, key=lambda state: (_left_bps(state), state.use is None))
        known = all(state.use for state in states)
        return PathBandwidth(
            max(0.0, _left_bps(narrowest)),
            narrowest.use.error_bps if narrowest.use and known else None,
            self._share_of_one_more(links),
            states,
        )

    def _share_of_one_more(self, links: tuple[PathLink, ...]) -> float:
        self._admit(_ONE_MORE, Demand(links))
        self._changed_shares |= self._shares.settle()
        share_bps = self._shares.share(_ONE_MORE)
        self._shares.remove(_ONE_MORE)
        self._changed_shares |= self._shares.settle()
        self._changed_shares.discard(_ONE_MORE)
        return share_bps

    def _links(self, src: bytes, dst: bytes) -> tuple[PathLink, ...]:
        path_id = self._path_ids.get((src, dst))
        if path_id is None:
            path_id = self._best_path_id(src, dst)
        ends = self._ends(src, dst)
        links: tuple[PathLink, ...] = self._path(ends, path_id)
        if self._fabric.bonds.bond(ends.src.port) is None:
            # Which of several links a host will send by, nobody knows.
            links = (Uplink(ends.src.port), *links)
        return tuple(link for link in links if self._capacity(_port_of(link)) is not None)

    def _path(self, ends: _Ends, path_id: int) -> tuple[PortId, ...]:
        path = self._fabric.path(ends.src.mac, ends.dst.mac, path_id)
        if path is None:
            raise UnknownPathError(
                f"there is no path from {_written(ends.src_address)} to "
                f"{_written(ends.dst_address)}"
            )
        return path

    def _ends(self, src: bytes, dst: bytes) -> _Ends:
        """The hosts of two addresses, in the VLAN that has both. Raises UnknownPathError."""
        if len(src) != len(dst):
            raise UnknownPathError(f"{_written(src)} and {_written(dst)} are of different families")
        sources, destinations = self._owners(src), self._owners(dst)
        common = sources.keys() & destinations.keys()
        # Where hosts may use any VLAN, one may claim addresses of others there: those outside come
        # first.
        if b"" in common or len(common) == 1:
            vlan = min(common)
            return _Ends(vlan, src, sources[vlan], dst, destinations[vlan])
        if not common:
            raise UnknownPathError(
                f"{_written(src)} is in {_named(sources)}, {_written(dst)} in "
                f"{_named(destinations)}: what is between them is beyond a router; ask for the "
                "paths to it and from it"
            )
        raise UnknownPathError(
            f"{_written(src)} and {_written(dst)} are in several VLANs: {_named(common)}"
        )

    def _owners(self, address: bytes) -> dict[bytes, Host]:
        """The hosts that have an address, by its VLAN. Raises UnknownPathError."""
        owners = self._fabric.owners(address)
        if not owners:
            raise UnknownPathError(
                f"no host of this address is known: {_written(address)}; it has to send something "
                "first, such as a ping"
            )
        return owners

    def _best_path_id(self, src: bytes, dst: bytes) -> int:
        """The path id whose path has most for one more announced flow.

        What counts is the narrowest link of a path, then the next one. Among equal paths, one that
        few announced flows have, so that they part where there will be several paths. Raises
        UnknownPathError.
        """
        taken = Counter(self._path_ids.values())

        def part_bps(link: PortId) -> float:
            """The equal part, of what TCP leaves there, that one more flow would have."""
            capacity_bps = self._capacity(link)
            if capacity_bps is None:
                return inf
            port = self._ports.get(link)
            use = port.local.use if port else None
            left_bps = capacity_bps - (max(0.0, use.used_bps) if use else 0.0)
            return left_bps / (1 + self._shares.flows_over(link))

        ends = self._ends(src, dst)
        paths = [self._path(ends, path_id) for path_id in range(N_PATH_IDS)]
        parts = {path: sorted(map(part_bps, path)) for path in dict.fromkeys(paths)}
        return max(range(N_PATH_IDS), key=lambda path_id: (parts[paths[path_id]], -taken[path_id]))

    def _state(self, link: PathLink) -> LinkState:
        estimator = self.estimator(link)
        capacity_bps = self._capacity(_port_of(link))
        assert capacity_bps is not None
        return LinkState(link, capacity_bps, estimator.use if estimator else None)

    # Shares

    def _contention(self, link: PathLink) -> Contention:
        whole_bps = self._capacity(_port_of(link))
        assert whole_bps is not None
        capacity_bps = whole_bps * (1 - self.settings.spare)
        port = self._ports.get(link)
        if port is None:
            return Contention(capacity_bps)
        whole, local = port.whole.use, port.local.use
        if whole is None or local is None:
            return Contention(capacity_bps)
        announced_flows = self._shares.flows_over(link)
        # Its host divides an uplink, in which all else that it sends is one flow.
        tcp_flows = 1 if isinstance(link, Uplink) else self._tcp_flows(link)
        local_bps, local_flows = max(0.0, local.used_bps), max(1, tcp_flows)
        reserved = self.settings.reserved
        if reserved is None:
            fair_bps = capacity_bps * local_flows / (local_flows + announced_flows)
        else:
            fair_bps = capacity_bps * (1 - reserved)
        # Fair queues would give them more than they have if they wanted it.
        if whole.used_bps >= _FULL * whole_bps and local_bps >= _GREEDY * fair_bps:
            local_bps = inf
        elif local_bps > local.error_bps:
            local_bps += _GROWTH * capacity_bps
        return Contention(capacity_bps, local_flows, local_bps, reserved)


def _port_of(link: PathLink) -> PortId:
    return link.port if isinstance(link, Uplink) else link


def _left_bps(state: LinkState) -> float:
    """At most that, if the link is not measured."""
    return state.capacity_bps - (state.use.used_bps if state.use else 0.0)


def _written(address: bytes) -> str:
    return str(ip_address(address))


def _named(vlans: Iterable[bytes]) -> str:
    """VLANs for people."""
    return ", ".join(f"VLAN {number_of(vlan)}" if vlan else "no VLAN" for vlan in sorted(vlans))
