"""The northbound's views of the running application. It changes nothing.

Long listings are produced piece by piece while the controller goes on, so nothing here iterates
over a table that may change in between.
"""

import functools
import platform
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from ipaddress import IPv4Address, IPv6Address, ip_address

from controller import __version__
from controller.config.readiness import lifetimes
from controller.config.schema import Config
from controller.core.flows.host_pairs import Connection
from controller.ha.mastership import Mastership
from controller.model.flow import FlowKey, vlan_of_key
from controller.model.values import FlowClass, Notice, Port, PortId, datapath_id
from controller.model.vlans import number_of, vlan_numbered
from controller.northbound.interfaces import UnknownError
from controller.northbound.views import (
    AccountView,
    ControllerView,
    EventView,
    ExcessView,
    ExpiryView,
    FlowDetailView,
    FlowPage,
    FlowView,
    GroupView,
    HistogramView,
    HoldView,
    HopView,
    LevelsView,
    PacketLevelsView,
    PathView,
    PortView,
    QueueView,
    RegulationView,
    ShareView,
    SnoopingView,
    SwitchView,
    TablesView,
    TcpView,
)
from controller.rpc.methods import FlowEnds, FlowQuery
from controller.runtime.app import Weir
from controller.runtime.flow_pages import Flow, FlowPages
from controller.runtime.tallies import Histogram, kind_of
from controller.southbound.codec.extension import (
    ANSWER_BOUNDS_NS,
    ANSWER_SIZES,
    HELD_BOUNDS_NS,
    NO_ACCOUNT,
    Capability,
    CreditStats,
    QueueStats,
    TcpStats,
)
from controller.southbound.codec.roles import UNDEFINED
from controller.southbound.transport.channel import Channel

_EXPIRIES_FOR_NS = 60 * 10**9


class Inspection:
    """The northbound's source (`northbound.interfaces.Source`)."""

    def __init__(self, weir: Weir, mastership: Mastership | None = None) -> None:
        self._weir = weir
        self._mastership = mastership
        self._started_ns = weir.now_ns()
        self._run = secrets.token_hex(8)
        self._expiries: list[ExpiryView] = []
        self._expiries_of: Config | None = None
        self._expiries_ns = 0

    def controller(self) -> ControllerView:
        mastership = self._mastership
        election = mastership.election if mastership else None
        known = election is not None and election.generation != UNDEFINED
        beats = election.live_peers(self._weir.now_ns()) if election else []
        heard = {beat.name for beat in beats}
        return {
            "version": __version__,
            "python": platform.python_version(),
            "ryu": version("ryu"),
            "scheme": self._weir.config.regulation.scheme.value,
            "uptime_s": (self._weir.now_ns() - self._started_ns) / 1e9,
            "cpu_s": time.process_time(),
            "rank": election.rank.value if election else "alone",
            "generation": election.generation if election and known else None,
            "peers": sorted(heard),
            "silent": sorted(self._weir.config.standby.peers.keys() - heard),
            "writes_events": self._weir.writes_events,
        }

    def tables(self) -> TablesView:
        engine = self._weir.engine
        table, connections = engine.flow_table, engine.connections
        return {
            "connections": len(table),
            "dormant": table.n_dormant,
            "background_flows": table.background,
            "burst_flows": 2 * len(table) - table.background,
            "idle_flows": table.idle,
            "half_open": table.half_open,
            "host_pairs": table.n_host_pairs,
            "hosts": len(engine.fabric.hosts),
            "links": len(engine.fabric.links()),
            "multipath": engine.fabric.multipath,
            "without_path_id": connections.routes.without_path_id,
            "opened": connections.opened,
            "adopted": connections.adopted,
            "woken": connections.woken,
            "closed": dict(connections.counters),
            "given_up": {str(reason): n for reason, n in table.counters.items()},
            "bounds": {
                name: {"entries": entries, "limit": limit}
                for name, (entries, limit) in engine.fullness().items()
            },
            "disbelieved": [
                {
                    "datapath_id": datapath_id(port_id.switch),
                    "port": port_id.port,
                    "reason": refusal.value,
                    "refused": refused,
                }
                for (port_id, refusal), refused in sorted(engine.port_security.refused.items())
            ],
            "window_entries_refused": engine.enforcer.refused,
        }

    # Switches and ports

    def known(self) -> set[int]:
        return {*self._weir.engine.tables.switches(), *self._channels}

    def switches(self) -> Iterator[SwitchView]:
        for switch in sorted(self.known()):
            yield self._switch(switch)

    @property
    def _channels(self) -> Mapping[int, Channel]:
        """The channels of all connected switches, also of those with another master."""
        return self._mastership.channels if self._mastership else self._weir.channels

    def _role(self, switch: int) -> str | None:
        if switch not in self._channels:
            return None
        if self._mastership is None:
            return "equal"
        return "master" if switch in self._weir.channels else "slave"

    def _switch(self, switch: int) -> SwitchView:
        engine, tallies = self._weir.engine, self._weir.tallies
        channel, session = self._channels.get(switch), self._weir.sessions.get(switch)
        sync_state = engine.sync_state(switch)
        depths = session.depths if session else {}
        used, registers = engine.regulation.registers.usage(switch)
        rtt_ns = engine.round_trips.control_ns.get(switch)
        unusable = dict(tallies.unusable.get(switch, {}))
        for reason, n in session.counters.items() if session else ():
            unusable[kind_of(reason)] = unusable.get(kind_of(reason), 0) + n
        capabilities = session.capabilities if session else Capability(0)
        return {
            "switch": switch,
            "datapath_id": datapath_id(switch),
            "connected": channel is not None,
            "ready": session is not None and session.ready,
            "role": self._role(switch),
            "address": "{}:{}".format(*channel.address[:2]) if channel else None,
            "capabilities": list(_names(capabilities)),
            "ports": len(engine.regulation.ports_of(switch)),
            "registers": registers,
            "registers_used": used,
            "entries_wanted": sync_state.applied.wanted,
            "entries_confirmed": sync_state.applied.confirmed,
            "entries_refused": sync_state.applied.refused,
            "entries_restored": sync_state.restored,
            "entries_removed": sync_state.removed,
            "audited_s": self._since_s(sync_state.audited_ns),
            "waiting_bytes": channel.queued_bytes if channel else 0,
            "waiting_messages": channel.queued_messages if channel else 0,
            "waiting_events": depths.get("events", 0),
            "unacknowledged": depths.get("unacknowledged", 0),
            "control_rtt_s": None if rtt_ns is None else rtt_ns / 1e9,
            "protected_destinations": engine.protection.protected_from(switch),
            "packet_ins": dict(tallies.packet_ins.get(switch, {})),
            "unusable": unusable,
            "notices_missed": tallies.missed_notices[switch],
            "windows_set": tallies.windows[switch, False],
            "windows_refreshed": tallies.windows[switch, True],
            "disconnections": tallies.disconnections[switch],
        }

    def _since_s(self, time_ns: int | None) -> float | None:
        return None if time_ns is None else (self._weir.now_ns() - time_ns) / 1e9

    def excesses(self, switch: int | None = None) -> Iterator[ExcessView]:
        engine = self._weir.engine
        active = {(one.port, one.packets): one for one in engine.offenders.active}
        for (port_id, packets), dropped in sorted(engine.offenders.dropped.items()):
            if switch not in (None, port_id.switch):
                continue
            now = active.get((port_id, packets))
            hosts = engine.fabric.hosts_at(engine.fabric.place(port_id))
            yield {
                "switch": port_id.switch,
                "datapath_id": datapath_id(port_id.switch),
                "port": port_id.port,
                "class": packets,
                "dropped": dropped,
                "limited": now is not None,
                "dropped_per_s": now.dropped_per_s if now else 0.0,
                "hosts": [host.mac.hex(":") for host in hosts],
            }

    def ports(self, switch: int | None = None) -> Iterator[PortView]:
        engine = self._weir.engine
        peers = dict(engine.fabric.links())
        peers |= {b: a for a, b in peers.items()}
        hosts = Counter(host.port for host in engine.fabric.hosts.values())
        now_ns = self._weir.now_ns()
        for of in self._of_interest(switch):
            queues: dict[int, list[QueueView]] = {}
            for told in self._weir.tallies.queues.get(of, ()):
                queues.setdefault(told.port, []).append(_queue(told))
            samples = {told.port: told for told in self._weir.tallies.samples.get(of, ())}
            id_ = datapath_id(of)
            for port_id, port in self._ports_of(of):
                sample = samples.get(port_id.port)
                peer, rtt_ns = peers.get(port_id), engine.round_trips.link_ns.get(port_id)
                loss = engine.estimation.loss(port_id, now_ns)
                bond = engine.fabric.bonds.bond(port_id)
                yield {
                    "switch": of,
                    "datapath_id": id_,
                    "port": port_id.port,
                    "name": port.name,
                    "up": port.up,
                    "speed_bps": port.speed_bps,
                    "peer": str(peer) if peer else None,
                    "link_rtt_s": None if rtt_ns is None else rtt_ns / 1e9,
                    "protected": peer is not None and engine.fabric.is_protected((port_id, peer)),
                    "loss": loss.loss if loss else None,
                    "loss_error": loss.error if loss else None,
                    "hosts": hosts[port_id],
                    "bond": sorted(bond.ports) if bond else [],
                    "tunnel": engine.fabric.is_tunnel(port_id),
                    "tunnels": [kind.label for kind in engine.tunnels.carried(port_id, now_ns)],
                    "queues": queues.get(port_id.port, []),
                    "tcp": _tcp(sample) if sample else None,
                }

    def regulation(self, switch: int | None = None) -> Iterator[RegulationView]:
        engine, tallies = self._weir.engine, self._weir.tallies
        regulation = engine.regulation
        for of in self._of_interest(switch):
            for port_id, port in self._ports_of(of):
                counts, limits = engine.flow_table.counts(port_id), regulation.limits(port_id)
                notice = regulation.notice(port_id)
                numbers = {n.label: tallies.notices[(*port_id, n.label)] for n in Notice}
                yield {
                    "switch": of,
                    "datapath_id": datapath_id(of),
                    "port": port_id.port,
                    "name": port.name,
                    "scheme": regulation.scheme(port_id).value,
                    "capacity_bps": limits.capacity_bps if limits else None,
                    "buffer_bytes": limits.buffer_bytes if limits else None,
                    "rtt_s": limits.rtt_ns / 1e9 if limits else None,
                    "background_flows": counts.background,
                    "burst_flows": counts.burst,
                    "idle_flows": counts.idle,
                    "mss_bytes": counts.mss_bytes,
                    "notice": notice.label if notice is not None else None,
                    "holds": {cls.value: self._hold(port_id, cls) for cls in FlowClass},
                    "notices": {label: n for label, n in numbers.items() if n},
                }

    def _hold(self, port_id: PortId, cls: FlowClass) -> HoldView:
        hold = self._weir.engine.regulation.in_force(port_id, cls)
        credit = hold.credit
        return {
            "window_bytes": hold.window_bytes,
            "credit": None
            if credit is None
            else {
                "bound_bytes": credit.bound_bytes,
                "max_hold_ms": credit.max_hold_ms,
                "weight": credit.weight,
            },
        }

    def _of_interest(self, switch: int | None) -> list[int]:
        return [
            known
            for known in sorted(self._weir.engine.tables.switches())
            if switch in (None, known)
        ]

    def _ports_of(self, switch: int) -> list[tuple[PortId, Port]]:
        fabric = self._weir.engine.fabric
        ports = [
            (port_id, fabric.port(port_id))
            for port_id in sorted(self._weir.engine.regulation.ports_of(switch))
        ]
        return [(port_id, port) for port_id, port in ports if port is not None]

    # Flows

    def flows(self, query: FlowQuery, checkpoint: Callable[[], None]) -> FlowPage:
        found = FlowPages(self._weir.engine.flow_table, checkpoint).page(query)
        return FlowPage(map(self._flow, found.flows), found.total)

    def _flow(self, found: Flow) -> FlowView:
        lane, connection = found
        pair, flow = connection.pair, FlowKey.unpack(found.key)
        record = lane.record(connection)
        return {
            "src": str(ip_address(flow.src)),
            "src_port": flow.src_port,
            "dst": str(ip_address(flow.dst)),
            "dst_port": flow.dst_port,
            "vlan": number_of(flow.vlan) or None,
            "class": lane.cls(connection).value,
            "counted": record is not None,
            "idle": record is not None and record.idle,
            "volume_bytes": record.volume_bytes if record else 0,
            "age_s": (self._weir.now_ns() - connection.opened_ns) / 1e9,
            "mss_bytes": pair.mss_bytes,
            "window_scale": lane.window_scale,
            "treatment": pair.treatment.value,
            "ports": [str(port_id) for port_id in lane.ports],
        }

    def flow(self, ends: FlowEnds) -> FlowDetailView:
        key, connection = self._connection(ends)
        pair = connection.pair
        lane, mac = pair.forward, pair.initiator_mac
        if key != connection.key:
            lane, mac = pair.reverse, pair.responder_mac
        record, host = lane.record(connection), self._weir.engine.fabric.hosts.get(mac)
        cls = lane.cls(connection)
        return {
            "flow": self._flow(Flow(lane, connection)),
            "enters": str(host.port) if host else None,
            "quiet_s": self._since_s(record.grown_ns) if record else None,
            "hops": [self._hop(port_id, cls) for port_id in lane.ports],
        }

    def _connection(self, ends: FlowEnds) -> tuple[bytes, Connection]:
        """The connection of a flow, and the flow's packed key. Raises UnknownError."""
        src, dst = ip_address(ends.src), ip_address(ends.dst)
        table = self._weir.engine.flow_table
        vlans: Iterable[bytes] = table.vlans if ends.vlan is None else [vlan_numbered(ends.vlan)]
        found: dict[bytes, Connection] = {}
        for one in vlans if src.version == dst.version else ():
            key = FlowKey(src.packed, ends.src_port, dst.packed, ends.dst_port, one).pack()
            if connection := table.find(key):
                found[key] = connection
        flow = f"{_endpoint(src, ends.src_port)} to {_endpoint(dst, ends.dst_port)}"
        if not found:
            raise UnknownError(
                f"no flow from {flow} is known: its connection has ended, or has not begun"
            )
        if len(found) > 1:
            numbers = sorted(number_of(vlan_of_key(key)) for key in found)
            raise UnknownError(
                f"there are flows from {flow} in several VLANs: say which, "
                + " or ".join(f"vlan={number}" for number in numbers)
            )
        return found.popitem()

    def _hop(self, port_id: PortId, cls: FlowClass) -> HopView:
        engine = self._weir.engine
        port, regulation = engine.fabric.port(port_id), engine.regulation
        limits, notice = regulation.limits(port_id), regulation.notice(port_id)
        told = self._weir.tallies.queues.get(port_id.switch, ())
        queues = [queue for queue in told if queue.port == port_id.port]
        longest = max(queues, key=lambda queue: (queue.level, queue.queue_bytes), default=None)
        return {
            "port": str(port_id),
            "name": port.name if port else str(port_id),
            "up": port is not None and port.up,
            "scheme": regulation.scheme(port_id).value,
            "notice": notice.label if notice is not None else None,
            "capacity_bps": limits.capacity_bps if limits else None,
            "rtt_s": limits.rtt_ns / 1e9 if limits else None,
            "hold": self._hold(port_id, cls) if limits else None,
            "queue": _queue(longest) if longest else None,
        }

    # Bandwidth

    def path_bandwidth(self, src: str, dst: str) -> PathView:
        return self._weir.broker.path(src, dst)

    def groups(self) -> Iterator[GroupView]:
        multicast = self._weir.engine.multicast
        for (vlan, address), ports in sorted(multicast.members.items()) if multicast else ():
            yield {
                "group": str(ip_address(address)),
                "vlan": number_of(vlan) or None,
                "ports": [str(port_id) for port_id in sorted(ports)],
            }

    def snooping(self) -> SnoopingView:
        multicast = self._weir.engine.multicast
        return {
            "snooping": multicast is not None,
            "routers": [str(one) for one in sorted(multicast.routers)] if multicast else [],
            "unsure": [str(one) for one in sorted(multicast.unsure)] if multicast else [],
        }

    def shares(self) -> Iterator[ShareView]:
        return self._weir.broker.shares()

    def follow_shares(self) -> Iterator[list[ShareView]]:
        return self._weir.broker.follow()

    # What happens

    def events_after(self, serial: int) -> list[EventView]:
        return [EventView(event.serial, event.line()) for event in self._weir.recent.after(serial)]

    def last_event(self) -> int:
        return self._weir.recent.last

    def run(self) -> str:
        return self._run

    def events(self) -> dict[str, int]:
        return dict(self._weir.tallies.events)

    def control_delay(self) -> HistogramView:
        return _histogram(self._weir.tallies.control_delay)

    def loop_lag(self) -> HistogramView:
        return _histogram(self._weir.tallies.loop_lag)

    def loop_turns(self) -> HistogramView:
        return _histogram(self._weir.tallies.loop_turns)

    def expiries(self) -> list[ExpiryView]:
        """Read from the files once in a minute, and when the configuration was read again."""
        now_ns, config = self._weir.now_ns(), self._weir.config
        if config is not self._expiries_of or now_ns - self._expiries_ns >= _EXPIRIES_FOR_NS:
            self._expiries_of, self._expiries_ns = config, now_ns
            self._expiries = [
                {
                    "kind": one.kind,
                    "name": one.name,
                    "file": str(one.file),
                    "expires_s": one.ends.timestamp(),
                }
                for one in lifetimes(config)
                if one.ends is not None
            ]
        return self._expiries

    def not_ready(self) -> str | None:
        if self._mastership is not None and not self._mastership.election.master:
            return "is a standby: another one has the switches"
        awaited = [switch for switch, session in self._weir.sessions.items() if not session.ready]
        if awaited:
            named = ", ".join(map(datapath_id, sorted(awaited)))
            return f"has not heard yet what is on switch {named}"
        if self._weir.engine.connections.relearning:
            return "learns from the switches what connections there are"
        return None


def _endpoint(address: IPv4Address | IPv6Address, port: int) -> str:
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


@functools.cache
def _names(capabilities: Capability) -> tuple[str, ...]:
    """The same for most switches, and slow to find out."""
    return tuple(str(flag.name).lower() for flag in Capability if flag in capabilities)


def _queue(told: QueueStats) -> QueueView:
    levels: LevelsView | None = None
    packet_levels: PacketLevelsView | None = None
    if told.thresholds is not None:
        low, mid, high, in_packets = told.thresholds
        if in_packets:
            packet_levels = {"low_packets": low, "mid_packets": mid, "high_packets": high}
        else:
            levels = {"low_bytes": low, "mid_bytes": mid, "high_bytes": high}
    return {
        "queue": told.queue,
        "switch_time_ns": told.time_ns,
        "level": told.level,
        "queue_bytes": told.queue_bytes,
        "queue_packets": told.queue_pkts,
        "max_queue_bytes": told.max_queue_bytes,
        "limit_bytes": told.limit_bytes,
        "rate_bps": told.rate_bps,
        "sent_packets": told.tx_pkts,
        "sent_bytes": told.tx_bytes,
        "dropped_packets": told.dropped_pkts,
        "dropped_bytes": told.dropped_bytes,
        "marked_packets": told.marked_pkts,
        "can_have_account": told.can_have_account,
        "account": None if told.credit == NO_ACCOUNT else _account(told.credit),
        "levels": levels,
        "packet_levels": packet_levels,
    }


def _tcp(told: TcpStats) -> TcpView:
    below = (*ANSWER_SIZES, None)
    return {
        "switch_time_ns": told.time_ns,
        "connections": told.connections,
        "segments": told.segments,
        "new_bytes": told.new_bytes,
        "retransmitted": told.retransmitted,
        "timeouts": told.timeouts,
        "timeouts_s": told.timeout_ns / 1e9,
        "bounds_s": [bound_ns / 1e9 for bound_ns in ANSWER_BOUNDS_NS],
        "answers": [
            {
                "below_bytes": size,
                "answers": answers.number,
                "seconds": answers.ns / 1e9,
                "counts": list(answers.times),
            }
            for size, answers in zip(below, told.answers, strict=True)
        ],
    }


def _account(told: CreditStats) -> AccountView:
    return {
        "connections": told.connections,
        "held": told.held,
        "expected_bytes": told.expected_bytes,
        "requests": told.requests,
        "held_requests": told.held_requests,
        "overdue_requests": told.overdue_requests,
        "full_requests": told.full_requests,
        "held_s": told.held_ns / 1e9,
        "max_held_s": told.max_held_ns / 1e9,
        "held_bounds_s": [bound_ns / 1e9 for bound_ns in HELD_BOUNDS_NS],
        "held_counts": list(told.held_for),
        "window_updates": told.window_updates,
        "charged_bytes": told.charged_bytes,
        "given_back_bytes": told.given_back_bytes,
        "expired_bytes": told.expired_bytes,
    }


def _histogram(histogram: Histogram) -> HistogramView:
    bounds_s = [bound_ns / 1e9 for bound_ns in histogram.bounds_ns]
    sum_s, longest_s = histogram.sum_ns / 1e9, histogram.longest_ns / 1e9
    return HistogramView(bounds_s, histogram.cumulative(), sum_s, longest_s)
