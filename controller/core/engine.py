"""The front of the core: each method takes an event and returns a list of effects.

It joins hosts, connections, regulation and bandwidth, and has no rules of its own beyond that.
Every method takes the time as `now_ns`, of any monotonic clock.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.core.bandwidth.announced import Announced, BandwidthSettings, PathBandwidth
from controller.core.bandwidth.estimation import Estimation, PortReading
from controller.core.bandwidth.protection import Protection, ProtectionSettings
from controller.core.congestion.bypasses import Bypass, Place
from controller.core.congestion.egress_ports import EgressQueue, PortOverride
from controller.core.congestion.enforcer import Enforcer
from controller.core.congestion.regulation import Features, Regulation
from controller.core.congestion.regulator import RegulatorSettings
from controller.core.congestion.windows import PortLimits
from controller.core.desired.audits import Audits, SyncState
from controller.core.desired.tables import Tables
from controller.core.flows.connections import Connections, ConnectionSettings
from controller.core.flows.exemptions import Exemptions
from controller.core.flows.flow_table import GlobalFlowTable
from controller.core.flows.policy import Policy, Rule
from controller.core.flows.relearning import Relearning
from controller.core.flows.tunnels import TunnelReading, Tunnels
from controller.core.hosts.broadcast import Broadcast
from controller.core.hosts.edge_filter import EdgeFilter
from controller.core.hosts.forwarding import Forwarding
from controller.core.hosts.multicast import GROUPS_LIMIT, Multicast
from controller.core.hosts.over_budget import Offenders
from controller.core.hosts.port_security import PortSecurity
from controller.core.hosts.resolution import Resolver, ResolverSettings
from controller.core.topology.bonds import Bonds
from controller.core.topology.departures import Departures
from controller.core.topology.discovery import Discovery
from controller.core.topology.fabric import Fabric
from controller.core.topology.named_ports import NamedPorts
from controller.core.topology.rtt import RoundTrips
from controller.core.topology.vlans import VlanRule, Vlans
from controller.model.effects import Effect, Record
from controller.model.entries import (
    Entry,
    FlowCounter,
    HeldEntry,
    HostWindow,
    PortWindow,
    ProtectedHop,
    ServiceWatch,
)
from controller.model.flow import Reading, SegmentFields, source_of, vlan_of_key
from controller.model.packet_ins import GroupMessage, NeighbourMessage, OverBudget
from controller.model.values import Notice, Port, PortId


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """After `control_grace_ns` without its control channel, paths avoid a switch where they can;
    after `switch_grace_ns` it is given up."""

    connections: ConnectionSettings
    regulator: RegulatorSettings
    limits: PortLimits
    overrides: tuple[PortOverride, ...]
    link_timeout_ns: int
    control_grace_ns: int = 5 * 10**8
    switch_grace_ns: int = 60 * 10**9
    audit_interval_ns: int = 300 * 10**9
    policies: tuple[Rule, ...] = ()
    resolver: ResolverSettings = field(default_factory=ResolverSettings)
    bandwidth: BandwidthSettings = field(default_factory=BandwidthSettings)
    protection: ProtectionSettings = field(default_factory=ProtectionSettings)
    vlans: tuple[VlanRule, ...] = ()
    bonds: tuple[NamedPorts, ...] = ()
    multicast_snooping: bool = False


class QueueReport(NamedTuple):
    """A notice of an egress queue. `missed` counts the notices of it lost just before."""

    notice: Notice
    packets: int
    queue_bytes: int
    limit_bytes: int
    switch_time_ns: int
    sequence: int
    missed: int


class Engine:
    """All state and all decisions of the controller."""

    def __init__(self, settings: EngineSettings) -> None:
        self._out: list[Effect] = []
        self._fabric = Fabric(
            settings.link_timeout_ns,
            settings.control_grace_ns,
            Vlans(settings.vlans),
            Bonds(settings.bonds),
        )
        self._tables = Tables(self._out.append)
        self._resolver = Resolver(self._fabric, settings.resolver, self._out.append)
        self._forwarding = Forwarding(self._fabric, self._resolver, self._tables, self._out.append)
        self._broadcast = Broadcast(
            self._fabric,
            self._tables,
            self._out.append,
            Multicast(self._fabric, self._tables, self._out.append, self._resolver)
            if settings.multicast_snooping
            else None,
        )
        self._regulation = Regulation(
            settings.regulator,
            settings.overrides,
            settings.limits,
            self._tables,
            self._out.append,
            lambda port: self._fabric.may_protect(port) or self._fabric.is_tunnel(port),
        )
        self._enforcer = Enforcer(self._tables, self._regulation.registers, self._fabric.is_inside)
        self._policies = settings.policies
        policy = Policy(settings.policies)
        self._exemptions = Exemptions(self._tables, self._regulation.can_lower, policy)
        self._connections = Connections(
            self._fabric,
            self._tables,
            self._enforcer,
            policy,
            settings.connections,
            self._out.append,
        )
        self._departures = Departures(settings.switch_grace_ns)
        self._discovery = Discovery(settings.link_timeout_ns, self._out.append)
        self._relearning = Relearning(
            self._fabric, self._tables, self._connections, self._out.append
        )
        self._audits = Audits(settings.audit_interval_ns, self._tables, self._out.append)
        self.offenders = Offenders(self._fabric, self._out.append)
        self.tunnels = Tunnels(self._tables, self._out.append)
        self._edge_filter = EdgeFilter(self._fabric, self._resolver)
        self.estimation = Estimation(
            settings.bandwidth,
            self._fabric,
            self._regulation,
            lambda port_id: self.flow_table.counts(port_id).active_flows,
            self._tables,
            self._out.append,
        )
        self.protection = Protection(
            settings.protection, self._fabric, self.estimation.loss, self._tables, self._out.append
        )

    def reconfigure(self, settings: EngineSettings, now_ns: int) -> list[Effect]:
        """Use other policies and settings of regulation, classification, audits, bandwidth and
        protection.

        All other settings stay as they were at the start.
        """
        if settings.policies != self._policies:
            self._set_policies(settings.policies, now_ns)
        if self._regulation.reconfigure(settings.regulator, now_ns):
            self._enforcer.renew(self.flow_table.host_pairs)
        self._connections.reconfigure(settings.connections, now_ns)
        self._audits.reconfigure(settings.audit_interval_ns, now_ns)
        self.estimation.bandwidth.reconfigure(settings.bandwidth)
        self.protection.reconfigure(settings.protection)
        return self._finish(now_ns)

    def _set_policies(self, policies: tuple[Rule, ...], now_ns: int) -> None:
        policy, self._policies = Policy(policies), policies
        self._exemptions.set_policy(policy)
        self._connections.set_policy(policy, now_ns)

    # Turning regulation off and on

    def turn_off(self, bypass: Bypass, now_ns: int) -> list[Effect]:
        """Do not regulate a place any more."""
        self._regulation.turn_off(bypass, now_ns)
        return self._finish(now_ns)

    def turn_on(self, place: Place, by: str, now_ns: int) -> tuple[list[Bypass], list[Effect]]:
        """Regulate a place, and all within it, again; returns the bypasses that ended, too."""
        ended = self._regulation.turn_on(place, by, now_ns)
        return ended, self._finish(now_ns)

    def replace_bypasses(self, bypasses: Iterable[Bypass], by: str, now_ns: int) -> list[Effect]:
        """Another controller has turned regulation off at these places, and on at all others."""
        self._regulation.replace_bypasses(bypasses, by, now_ns)
        return self._finish(now_ns)

    def restore_bypasses(self, bypasses: Iterable[Bypass]) -> None:
        """Regulation was off at these places before this core was made."""
        for bypass in bypasses:
            self._regulation.bypasses.add(bypass)

    # Switches, ports and links

    def switch_up(
        self,
        switch: int,
        ports: Iterable[Port],
        features: Features,
        held: Iterable[HeldEntry],
        now_ns: int,
    ) -> list[Effect]:
        """A switch is connected: its ports, what it can do, and what it holds."""
        ports, held = list(ports), list(held)
        fields: dict[str, object] = {"switch": switch, "registers": features.registers}
        self._out.append(Record("switch_up", fields))
        returns = self._departures.come_back(switch)
        is_known = switch in self._tables.switches()
        present = {PortId(switch, port.number) for port in ports}
        for port_id in set(self._regulation.ports_of(switch)) - present:
            self._leave_port(port_id, now_ns)
        self._regulation.connect(switch, ports, features)
        entries = [one.entry for one in held]
        # A switch that holds nothing has been restarted, and does not tell what is over.
        by_key = {entry.key: entry for entry in entries}
        over = self._tables.missing(switch, by_key, FlowCounter) if held else []
        for counter in over:
            self._connections.flow_counter_expired(switch, counter.flow.pack(), now_ns)
        if not held:
            self._connections.restarted(switch)
        self._connections.switch_up(switch, returns or bool(held), now_ns)
        self._tables.connect(switch, by_key)
        self._audits.connect(switch, now_ns)
        self._forwarding.connect(switch, ports, entries, now_ns)
        self.tunnels.connect(switch, [port.number for port in ports], now_ns)
        self._broadcast.connect(switch, entries, now_ns, metered=features.has_meters)
        for entry in entries:
            if isinstance(entry, ProtectedHop) and not is_known:
                self.protection.adopt(switch, entry, now_ns)
        # What is not adopted may lead into a link that is down.
        self._tables.sweep(switch, ProtectedHop)
        for entry in entries:
            if isinstance(entry, PortWindow):
                self._regulation.adopt(switch, entry)
        for entry in entries:
            if isinstance(entry, HostWindow):
                self._enforcer.adopt(switch, entry, now_ns)
            if isinstance(entry, ServiceWatch) and not is_known:
                self._connections.adopt_watch(switch, entry, now_ns)
        if held or returns:
            self._connections.remember(held)
            for counter in over:
                self._connections.forget_remembered(counter.flow)
            self._relearning.connected(switch, now_ns)
        self._exemptions.connect(switch)
        self._regulation.restart(switch, now_ns)
        return self._finish(now_ns)

    def switch_down(self, switch: int, now_ns: int) -> list[Effect]:
        """The control channel is lost; the switch itself goes on forwarding."""
        self._out.append(Record("switch_down", {"switch": switch}))
        self._fabric.disconnect(switch, now_ns)
        self._tables.disconnect(switch)
        self._audits.disconnect(switch)
        self.estimation.forget_switch(switch)
        self._connections.switch_down(switch, now_ns)
        self._relearning.disconnected(switch)
        self.tunnels.disconnect(switch)
        self._departures.leave(switch, now_ns)
        return self._finish(now_ns)

    def port_changed(self, switch: int, port: Port, now_ns: int) -> list[Effect]:
        self._forwarding.set_port(switch, port, now_ns)
        self._broadcast.port_changed(PortId(switch, port.number))
        self.tunnels.port_there(PortId(switch, port.number))
        self._regulation.set_port(switch, port, now_ns)
        return self._finish(now_ns)

    def port_removed(self, port_id: PortId, now_ns: int) -> list[Effect]:
        self._forwarding.remove_port(port_id)
        self._broadcast.port_changed(port_id)
        self._leave_port(port_id, now_ns)
        return self._finish(now_ns)

    def link_seen(
        self, a: PortId, b: PortId, sent_ns: int, now_ns: int, *, by_tunnel: bool = False
    ) -> list[Effect]:
        """A discovery frame that left by `a` at `sent_ns` came in by `b`, the end of a tunnel if
        `by_tunnel`. An old one is ignored."""
        if self._discovery.is_fresh(a, b, sent_ns, now_ns):
            self._fabric.set_tunnel(b, is_tunnel=by_tunnel)
            self._forwarding.link_seen(a, b, now_ns)
            self._regulation.link_seen(a, b, now_ns)
        return self._finish(now_ns)

    # Frames

    def resolve(self, port_id: PortId, said: NeighbourMessage, now_ns: int) -> list[Effect]:
        """A message of ARP or neighbour discovery came in by a port."""
        self._resolver.resolve(port_id, said, now_ns)
        return self._finish(now_ns)

    def frame(
        self, port_id: PortId, src_mac: bytes, dst_mac: bytes, frame: bytes, now_ns: int
    ) -> list[Effect]:
        """A frame for which a switch has no entry."""
        self._resolver.frame(port_id, src_mac, dst_mac, frame, now_ns)
        return self._finish(now_ns)

    def flooded(self, port_id: PortId, src_mac: bytes, now_ns: int) -> list[Effect]:
        """A frame to a group, which its switch has flooded."""
        if self._fabric.is_edge(port_id, now_ns):
            self._resolver.learn(src_mac, port_id, now_ns)
        return self._finish(now_ns)

    def said_of_groups(
        self, port_id: PortId, src_mac: bytes, said: GroupMessage, now_ns: int
    ) -> list[Effect]:
        """A message about multicast groups, which its switch has not flooded."""
        is_there = self._fabric.is_edge(port_id, now_ns) and self._resolver.learn(
            src_mac, port_id, now_ns
        )
        if is_there and self.multicast is not None:
            self.multicast.said(port_id, said, now_ns)
        return self._finish(now_ns)

    def segments(self, switch: int, batch: list[SegmentFields], now_ns: int) -> list[Effect]:
        """Copies of TCP segments that entered this switch, in order."""
        from_edges = self._edge_filter.admit(switch, batch, now_ns)
        if from_edges:
            self._connections.observe(from_edges, now_ns)
            for _, macs, key, *_ in self.flow_table.take_forged():
                address, vlan = source_of(key), vlan_of_key(key)
                self.port_security.refuse_segment(macs[6:], vlan, address, now_ns)
        if self._connections.watches and len(from_edges) < len(batch):
            inside = [s for s in batch if self._fabric.is_link(PortId(switch, s[0]))]
            self._connections.observe_inside(switch, inside, now_ns)
        return self._finish(now_ns)

    # Counters and queues

    def flow_counters_read(
        self, switch: int, readings: Iterable[Reading], more: bool, now_ns: int
    ) -> list[Effect]:
        """Some of a switch's flow counters, the last ones unless `more` come."""
        self._connections.read(switch, readings, more, now_ns)
        return self._finish(now_ns)

    def flow_counter_expired(self, switch: int, key: bytes, now_ns: int) -> list[Effect]:
        """A switch has removed a flow counter because the flow was idle for long."""
        self._connections.flow_counter_expired(switch, key, now_ns)
        return self._finish(now_ns)

    def queue_event(self, port_id: PortId, report: QueueReport, now_ns: int) -> list[Effect]:
        """A congestion or recovery notice of an egress queue."""
        counts = self.flow_table.counts(port_id)
        self._out.append(
            Record(
                "queue_event",
                {
                    "switch": port_id.switch,
                    "port": port_id.port,
                    "notice": report.notice.label,
                    "packets": report.packets,
                    "bytes": report.queue_bytes,
                    "limit_bytes": report.limit_bytes,
                    "switch_time_ns": report.switch_time_ns,
                    "sequence": report.sequence,
                    "missed": report.missed,
                    "background": counts.background,
                    "burst": counts.burst,
                },
            )
        )
        self._regulation.queue_event(
            port_id, report.notice, report.queue_bytes, report.limit_bytes, now_ns
        )
        return self._finish(now_ns)

    def queues_read(self, switch: int, queues: dict[int, EgressQueue], now_ns: int) -> list[Effect]:
        """The egress queues of a switch, all of them, by port number."""
        self._regulation.queues_read(switch, queues, now_ns)
        self.estimation.queues_read(switch, queues, now_ns)
        return self._finish(now_ns)

    def ports_counted(
        self, switch: int, counted: Iterable[PortReading], more: bool, now_ns: int
    ) -> list[Effect]:
        """The counters of some of a switch's ports, the last ones unless `more` come."""
        self.estimation.ports_counted(switch, counted, more, now_ns)
        return self._finish(now_ns)

    def tunnels_counted(
        self, switch: int, readings: Iterable[TunnelReading], now_ns: int
    ) -> list[Effect]:
        """Some of a switch's counters of what comes in within tunnels."""
        self.tunnels.counted(switch, readings, now_ns)
        return []

    def control_timed(self, switch: int, sent_ns: int, now_ns: int) -> list[Effect]:
        """A switch has answered the question of `sent_ns`."""
        self._regulation.round_trips.control_timed(switch, now_ns - sent_ns)
        return []

    # Announced flows

    def announce(self, name: str, announced: Announced, now_ns: int) -> list[Effect]:
        """Announce a flow, or change its maximum rate. Raises UnknownPathError."""
        self.estimation.announce(name, announced, now_ns)
        return self._finish(now_ns)

    def withdraw(self, name: str, now_ns: int) -> list[Effect]:
        """An announced flow has ended."""
        self.estimation.withdraw(name, now_ns)
        return self._finish(now_ns)

    def path_bandwidth(self, src: bytes, dst: bytes, now_ns: int) -> PathBandwidth:
        """The bandwidth between two packed addresses. Raises UnknownPathError."""
        return self.estimation.path(src, dst, now_ns)

    # Whether switches hold what is wanted

    def acknowledged(self, switch: int, keys: Iterable[Hashable]) -> list[Effect]:
        """A switch has installed the entries of these keys."""
        self._tables.acknowledged(switch, keys)
        return []

    def refused(self, switch: int, key: Hashable) -> list[Effect]:
        """A switch has refused the entry of this key."""
        self._tables.refused(switch, key)
        return []

    def audit_read(self, switch: int, held: Iterable[Entry], now_ns: int) -> list[Effect]:
        """A part of what an audit has found on a switch."""
        self._audits.read(switch, held)
        return self._finish(now_ns)

    def audited(self, switch: int, restored: int, removed: int, now_ns: int) -> list[Effect]:
        """An audit has ended. It has put right so many entries that are not the core's."""
        self._audits.end(switch, restored, removed, now_ns)
        return self._finish(now_ns)

    def sync_state(self, switch: int) -> SyncState:
        """How far a switch holds what is wanted."""
        return self._audits.sync_state(switch)

    def packet_ins_dropped(
        self, switch: int, over_budget: Iterable[OverBudget], now_ns: int
    ) -> list[Effect]:
        """Packet-ins of a switch that were over budget."""
        self.offenders.report(switch, over_budget, now_ns)
        return self._finish(now_ns)

    # For inspection

    @property
    def flow_table(self) -> GlobalFlowTable:
        """The GVT."""
        return self._connections.table

    @property
    def connections(self) -> Connections:
        return self._connections

    @property
    def fabric(self) -> Fabric:
        return self._fabric

    @property
    def regulation(self) -> Regulation:
        return self._regulation

    @property
    def enforcer(self) -> Enforcer:
        """The window entries of flows."""
        return self._enforcer

    def fullness(self) -> dict[str, tuple[int, int]]:
        """How full the tables are that hosts can fill, and how full they can be."""
        groups = {}
        if self.multicast is not None:
            groups["multicast groups"] = self.multicast.n_groups, GROUPS_LIMIT
        return (
            self.port_security.fullness()
            | self._connections.fullness()
            | self._enforcer.fullness()
            | groups
        )

    @property
    def port_security(self) -> PortSecurity:
        """What hosts are believed."""
        return self._resolver.security

    @property
    def multicast(self) -> Multicast | None:
        """The members of multicast groups; None if what is sent to them goes everywhere."""
        return self._broadcast.multicast

    @property
    def tables(self) -> Tables:
        """What every switch should hold."""
        return self._tables

    @property
    def round_trips(self) -> RoundTrips:
        """The measured round trips of control channels and links."""
        return self._regulation.round_trips

    def queue(self, port_id: PortId) -> EgressQueue | None:
        """An egress queue as its switch last reported it."""
        return self._regulation.queue(port_id)

    def limits(self, port_id: PortId) -> PortLimits | None:
        """The limits of an egress port, with the RTT as measured; None without a queue."""
        return self._regulation.limits(port_id)

    # Periodic work

    def probe_links(self, now_ns: int) -> list[Effect]:
        """Send discovery frames; drop the links that are no longer seen."""
        self.round_trips.probed(self._fabric.live_ports(), now_ns)
        self._forwarding.probe()
        self._forwarding.expire(now_ns)
        return self._finish(now_ns)

    def read_flow_counters(self, now_ns: int) -> list[Effect]:
        """Install the flow counters that are due, and ask the switches for those to be read."""
        self._connections.open_counters(now_ns)
        return self._finish(now_ns)

    def refresh_windows(self, now_ns: int) -> list[Effect]:
        """Renew windows before they expire on the switches."""
        self._regulation.refresh(now_ns)
        return self._finish(now_ns)

    def widen(self, now_ns: int) -> list[Effect]:
        """Widen the windows whose time has come."""
        self._regulation.widen(now_ns)
        return self._finish(now_ns)

    def go_on(self, now_ns: int) -> list[Effect]:
        """Do more of what takes too long to be done at once."""
        self._broadcast.go_on(now_ns)
        self._connections.go_on(now_ns)
        return self._finish(now_ns, has_time=True)

    def look_at_switches(self, now_ns: int) -> list[Effect]:
        """Ask the switches for the state of their egress queues, and time their answers."""
        for switch in self._fabric.connected():
            self._regulation.look(switch, now_ns)
        self.tunnels.look(now_ns)
        return self._finish(now_ns)

    def read_port_counters(self, now_ns: int) -> list[Effect]:
        """Ask the switches whose port counters are due."""
        self.estimation.look(now_ns)
        return self._finish(now_ns)

    def tend(self, now_ns: int) -> list[Effect]:
        """Do what is due by now: expiries, audits, and the relearning of reconnected switches; end
        bypasses whose time is over."""
        self._regulation.expire_bypasses(now_ns)
        self.estimation.tend(now_ns)
        self.protection.tend(now_ns)
        self._forwarding.distrust(now_ns)
        self._fabric.settle_bonds(now_ns)
        self._resolver.tend(now_ns)
        self._broadcast.tend(now_ns)
        self._connections.tend(now_ns)
        self._audits.tend(now_ns)
        self.offenders.tend(now_ns)
        self._relearning.tend(now_ns)
        for switch in self._departures.give_up(now_ns):
            self._connections.give_up(switch, now_ns)
            in_use = any(other == switch for other, _ in self._tables.entries(HostWindow))
            self._regulation.forget(switch, in_use)
            self.offenders.forget(switch)
            self.port_security.forget(switch)
        for switch in self._departures.given_up:
            if not self._fabric.has_links(switch):
                self._forget_switch(switch, now_ns)
        return self._finish(now_ns)

    # What follows from an event

    def _leave_port(self, port_id: PortId, now_ns: int) -> None:
        """A port is gone: stop its regulation, and remove entries that name its registers."""
        self._discovery.forget_port(port_id)
        self.tunnels.port_gone(port_id)
        self.estimation.forget_port(port_id)
        self._regulation.remove_port(port_id, now_ns)
        self._enforcer.remove_port(port_id)

    def _forget_switch(self, switch: int, now_ns: int) -> None:
        """Forget a switch that was given up and has no links any more."""
        self._departures.forget(switch)
        for port_id in self._fabric.ports_of(switch):
            self._forwarding.remove_port(port_id)
            self._leave_port(port_id, now_ns)
        self._connections.forget_switch(switch)
        self._forwarding.forget_switch(switch)
        self._broadcast.forget_switch(switch)
        self._tables.forget(switch)

    def _finish(self, now_ns: int, *, has_time: bool = False) -> list[Effect]:
        """Bring forwarding, routes and windows up to date, in this order; returns the effects."""
        changed_hosts = self._forwarding.install(has_time=has_time)
        self.protection.install(now_ns)
        if changed_hosts:
            self._connections.reroute(changed_hosts, now_ns)
            self._connections.adopt_remembered(now_ns)
        for port_id in self.flow_table.take_touched():
            counts = self.flow_table.counts(port_id)
            self._regulation.flows_changed(port_id, counts, now_ns)
        self._regulation.send()
        self.estimation.send(now_ns)
        out = self._out.copy()
        self._out.clear()
        return out
