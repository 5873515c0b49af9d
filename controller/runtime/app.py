"""The Ryu application: events become calls of the core, the core's effects become messages.

No decision is taken here. Everything runs in Eventlet's one thread and nothing blocks, so the core
sees one event at a time. An exception that escapes from a handler ends the process; the next one
takes up from what the switches hold.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ryu.base.app_manager import RyuApp
from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3

from controller.config.schema import Config
from controller.core.congestion.regulation import Features
from controller.core.engine import Engine, QueueReport
from controller.model import effects
from controller.model.effects import Effect
from controller.model.flow import SegmentFields
from controller.model.values import Notice, PortId
from controller.ops.event_log import EventLog, Recent
from controller.ops.failure import fatal, fatal_and_raised
from controller.ops.logs import about
from controller.runtime import translate
from controller.runtime.announcements import Broker
from controller.runtime.busy_poll import BusyPoll
from controller.runtime.bypassing import Bypassing
from controller.runtime.tallies import Tallies
from controller.southbound.codec import discovery, groups, neighbours, openflow
from controller.southbound.switch import events
from controller.southbound.switch.budgets import Limits
from controller.southbound.switch.session import Session
from controller.southbound.transport.channel import Channel, refuse_duplicate

LOG = logging.getLogger("weir.app")

_TEND_S = 0.25
_WATCH_S = 2.0
_LOOK_S = 1.0
_FLOW_COUNTERS_S = 0.05
_PORT_COUNTERS_S = 0.05
_REFRESHES_PER_TTL = 6
# Of how many switches it is remembered what was logged about them.
_REMEMBERED = 1024

Work = Callable[[Engine, int], list[Effect]]


class Weir(RyuApp):
    """The application. Clocks, the secret of discovery and `fail` come from the launcher; `kept` is
    the file of what is turned off."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 - Ryu's interface

    def __init__(
        self,
        config: Config,
        event_log: EventLog,
        clock_ns: Callable[[], int],
        wall_s: Callable[[], float],
        secret: bytes,
        fail: Callable[[], None],
        kept: Path | None = None,
    ) -> None:
        super().__init__()
        self._config = config
        self._event_log = event_log
        self._goes_on = False
        self._clock_ns = clock_ns
        self._wall_s = wall_s
        self._secret = secret
        self.fail = fail
        self.tallies = Tallies()
        self._busy_poll = BusyPoll(clock_ns)
        self._engine = Engine(config.engine_settings())
        self.broker = Broker(lambda: self._engine, self._apply, clock_ns)
        self.bypassing = Bypassing(lambda: self._engine, self._apply, clock_ns, wall_s, kept)
        self.bypassing.restore()
        self._channels: dict[int, Channel] = {}
        self._sessions: dict[int, Session] = {}
        self._unsent: set[Channel] = set()
        self._told: dict[int, set[str]] = {}
        self._has_other_ttl = hub.Event()
        self._link_ttl_s = max(1, config.fabric.link_timeout // 10**9)

    def start(self) -> None:
        super().start()
        periodic: tuple[tuple[Work, Callable[[], float]], ...] = (
            (Engine.probe_links, lambda: self._config.fabric.lldp_interval / 1e9),
            (Engine.read_flow_counters, lambda: _FLOW_COUNTERS_S),
            (Engine.look_at_switches, lambda: _LOOK_S),
            (Engine.read_port_counters, lambda: _PORT_COUNTERS_S),
            (Engine.tend, lambda: _TEND_S),
            (lambda _, now_ns: self.watch_budgets(now_ns), lambda: _WATCH_S),
        )
        for work, period_s in periodic:
            hub.spawn(self._repeat, work, period_s)
        hub.spawn(self._refresh_windows)

    # For inspection

    @property
    def config(self) -> Config:
        return self._config

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def channels(self) -> Mapping[int, Channel]:
        """The channels of the connected switches."""
        return self._channels

    @property
    def sessions(self) -> Mapping[int, Session]:
        """The sessions of the connected switches."""
        return self._sessions

    @property
    def recent(self) -> Recent:
        """The latest events."""
        return self._event_log.recent

    @property
    def writes_events(self) -> bool | None:
        """Whether the event log is written; None without one."""
        return self._event_log.is_written

    def now_ns(self) -> int:
        return self._clock_ns()

    def record(self, event: str, fields: dict[str, object]) -> None:
        self.tallies.record(event, fields)
        self._event_log.write(event, fields, self._clock_ns(), self._wall_s())
        LOG.debug("%s %s", event, fields)

    def reopen_event_log(self) -> None:
        self._event_log.reopen()

    @fatal
    def _repeat(self, work: Work, period_s: Callable[[], float]) -> None:
        while True:
            hub.sleep(period_s())
            self._apply(work(self._engine, self._clock_ns()))

    @fatal
    def _refresh_windows(self) -> None:
        while True:
            if self._has_other_ttl.wait(self._refresh_s()):
                # Whoever has set it has refreshed them.
                self._has_other_ttl.clear()
            else:
                self._apply(self._engine.refresh_windows(self._clock_ns()))

    @fatal
    def _widen(self) -> None:
        self._apply(self._engine.widen(self._clock_ns()))

    @fatal
    def _go_on(self) -> None:
        self._goes_on = False
        self._apply(self._engine.go_on(self._clock_ns()))

    def _refresh_s(self) -> float:
        return self._config.regulation.window_ttl / 1e9 / _REFRESHES_PER_TTL

    @fatal_and_raised
    def reconfigure(self, config: Config) -> None:
        """Use this configuration from now on, as far as a running core can. If it fails, the
        controller ends, and the caller gets the exception."""
        has_other_ttl = config.regulation.window_ttl != self._config.regulation.window_ttl
        self._config = config
        limits = self.limits
        for switch, target in self._sessions.items():
            target.limit(limits)
            self._channels[switch].admission.limit(limits)
        self._apply(self._engine.reconfigure(config.engine_settings(), self._clock_ns()))
        if has_other_ttl:
            # The next time is up to a sixth of the former one away: later than a shorter one ends.
            self._apply(self._engine.refresh_windows(self._clock_ns()))
            self._has_other_ttl.set()

    @property
    def limits(self) -> Limits:
        """The present budgets of packet-ins."""
        return translate.limits(self._config)

    @fatal
    def forget(self) -> None:
        """Forget everything, and send nothing to the switches: they have another master now."""
        for switch, target in self._sessions.items():
            self.tallies.left(switch, target.counters)
        self._channels.clear()
        self._sessions.clear()
        bypasses = self._engine.regulation.bypasses
        self._engine = Engine(self._config.engine_settings())
        self._engine.restore_bypasses(bypasses)

    def watch_budgets(self, now_ns: int) -> list[Effect]:
        """Read the meters of the switches; tell the core which packet-ins were dropped here."""
        wanted = []
        for switch, target in self._sessions.items():
            target.read_meters()
            dropped = self._channels[switch].admission.take_dropped()
            if dropped and target.ready:
                wanted += self._engine.packet_ins_dropped(switch, dropped, now_ns)
        return wanted

    # From the switches

    @fatal
    def connected(self, channel: Channel) -> None:
        switch = channel.id
        previous = self._channels.get(switch)
        if previous is not None:
            refuse_duplicate(previous, channel)
            return
        LOG.info("connected from %s:%d", *channel.address[:2], extra=about(switch=switch))
        self._channels[switch] = channel
        self.tallies.came(switch)
        told = self._told.setdefault(switch, set())
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        send = functools.partial(self._send, channel)
        self._sessions[switch] = Session(switch, send, self._secret, told, self.limits)
        self._sessions[switch].start(port.number for port in channel.port_descriptions)

    @fatal
    def disconnected(self, channel: Channel) -> None:
        if self._channels.get(channel.id) is channel:
            LOG.warning("disconnected", extra=about(switch=channel.id))
            self._leave(channel.id)

    @fatal
    def received(self, channel: Channel, message: bytes) -> None:
        if self._channels.get(channel.id) is channel:
            began_ns = self._clock_ns()
            for event in self._sessions[channel.id].receive(message):
                is_notice = isinstance(event, events.QueueNotice)
                self._apply(self._tell(channel, event), began_ns if is_notice else None)
                self.tallies.count(channel.id, event)
                if is_notice:
                    self._busy_poll.keep()

    @fatal
    def received_segments(self, channel: Channel, copied: list[SegmentFields]) -> None:
        if self._channels.get(channel.id) is channel:
            for event in self._sessions[channel.id].receive_segments(copied):
                self.tallies.count(channel.id, event)
                self._apply(self._tell(channel, event))

    def _leave(self, switch: int) -> None:
        was_ready = self._sessions[switch].ready
        self.tallies.left(switch, self._sessions[switch].counters)
        del self._channels[switch], self._sessions[switch]
        if was_ready:
            self._apply(self._engine.switch_down(switch, self._clock_ns()))

    def _tell(self, channel: Channel, event: events.Event) -> list[Effect]:
        """Pass an event to the core."""
        engine, switch, now_ns = self._engine, channel.id, self._clock_ns()
        match event:
            case events.SegmentsCopied(segments):
                return engine.segments(switch, segments, now_ns)
            case events.QueueNotice(notice, missed):
                report = QueueReport(
                    Notice(notice.event),
                    notice.packets,
                    notice.queue_bytes,
                    notice.limit_bytes,
                    notice.time_ns,
                    notice.sequence,
                    missed,
                )
                return engine.queue_event(PortId(switch, notice.port), report, now_ns)
            case events.Ready(n_registers, held) as ready:
                # Those that frames can come from; the switch's own ones are left out.
                described = channel.port_descriptions
                ports = [port for port in described if port.number < openflow.MAX_PORT]
                LOG.info(
                    "is ready: %d ports, %d window registers, %d entries held",
                    *(len(ports), n_registers, len(held)),
                    extra=about(switch=switch),
                )
                features = Features(n_registers, *ready[2:])
                return engine.switch_up(switch, ports, features, held, now_ns)
            case events.NeighbourMessageReceived(in_port, message):
                return engine.resolve(PortId(switch, in_port), message, now_ns)
            case events.LinkDiscovered(in_port, origin, by_tunnel):
                peer = PortId(origin.switch, origin.port)
                times = origin.sent_ns, now_ns
                return engine.link_seen(peer, PortId(switch, in_port), *times, by_tunnel=by_tunnel)
            case events.FrameMissed(in_port, src_mac, dst_mac, frame):
                return engine.frame(PortId(switch, in_port), src_mac, dst_mac, frame, now_ns)
            case events.FrameFlooded(in_port, src_mac):
                return engine.flooded(PortId(switch, in_port), src_mac, now_ns)
            case events.GroupMessageReceived(in_port, src_mac, said):
                return engine.said_of_groups(PortId(switch, in_port), src_mac, said, now_ns)
            case events.FlowCountersRead(readings, more):
                return engine.flow_counters_read(switch, readings, more, now_ns)
            case events.FlowCounterExpired(key):
                return engine.flow_counter_expired(switch, key, now_ns)
            case events.PortChanged(port):
                return engine.port_changed(switch, port, now_ns)
            case events.PortRemoved(number):
                return engine.port_removed(PortId(switch, number), now_ns)
            case events.QueuesRead(queues):
                return engine.queues_read(switch, translate.queues(queues), now_ns)
            case events.ConnectionsSampled():
                return []
            case events.PortsCounted(ports, more):
                return engine.ports_counted(switch, ports, more, now_ns)
            case events.TunnelsCounted(readings):
                return engine.tunnels_counted(switch, readings, now_ns)
            case events.ControlTimed(sent_ns):
                return engine.control_timed(switch, sent_ns, now_ns)
            case events.Acknowledged(tags):
                return engine.acknowledged(switch, tags)
            case events.EntryRefused(tag):
                return engine.refused(switch, tag)
            case events.AuditRead(held, restored, removed, more):
                entries = [one.entry for one in held]
                wanted = engine.audit_read(switch, entries, now_ns)
                if not more:
                    wanted += engine.audited(switch, restored, removed, now_ns)
                return wanted
            case events.CopiesDropped(dropped):
                return engine.packet_ins_dropped(switch, dropped, now_ns)

    # To the switches

    def _apply(self, wanted: Iterable[Effect], noticed_ns: int | None = None) -> None:
        """Carry out effects. The event log is written once the messages are sent.

        `noticed_ns` is when the notice arrived that the effects answer, if they answer one.
        """
        records = []
        for effect in wanted:
            match effect:
                case effects.Record():
                    records.append(effect)
                case effects.TellShare(flow):
                    self.broker.told(flow)
                case effects.Warn(switch, text):
                    LOG.warning(text, extra=about(switch=switch))
                case effects.Remind(at_ns):
                    hub.spawn_after(max(0, at_ns - self._clock_ns()) / 1e9, self._widen)
                case effects.GoOn():
                    if not self._goes_on:
                        self._goes_on = True
                        hub.spawn_after(0, self._go_on)
                case effects.Deliver(port_ids, frame):
                    self._deliver(port_ids, frame)
                case effects.LinkProbe(port_id, mac):
                    origin = discovery.Origin(*port_id, self._clock_ns())
                    frame = discovery.pack(origin, mac, self._link_ttl_s, self._secret)
                    self._transmit(port_id, frame)
                case effects.NeighbourReply(port_id, mac, address, asker_mac, asker_address, tags):
                    frame = neighbours.reply(mac, address, asker_mac, asker_address, tags)
                    self._transmit(port_id, frame)
                case effects.AddressProbe(port_id, mac, address, asker_mac, tags):
                    self._transmit(port_id, neighbours.probe(mac, address, asker_mac, tags))
                case effects.GroupQuery(port_id, group, within_s, asker_mac, tags):
                    self._transmit(port_id, groups.query(asker_mac, group, within_s, tags))
                case _:
                    target = self._sessions.get(effect.switch)
                    if target is not None:
                        _order(target, effect)
        while self._unsent:
            self._unsent.pop().flush()
        if noticed_ns is not None and any(record.event == "window_set" for record in records):
            self.tallies.control_delay.observe(self._clock_ns() - noticed_ns)
        for record in records:
            self.record(record.event, record.fields)

    def _send(self, channel: Channel, message: bytes) -> None:
        channel.queue(message)
        self._unsent.add(channel)

    def _deliver(self, port_ids: Iterable[PortId], frame: bytes) -> None:
        by_switch: dict[int, list[int]] = {}
        for switch, port in port_ids:
            by_switch.setdefault(switch, []).append(port)
        for switch, ports in by_switch.items():
            if switch in self._sessions:
                self._sessions[switch].transmit(ports, frame)

    def _transmit(self, port_id: PortId, frame: bytes) -> None:
        self._deliver([port_id], frame)


def _order(target: Session, effect: effects.Order) -> None:
    match effect:
        case effects.Install(_, entry):
            target.install(entry)
        case effects.Withdraw(_, entry):
            target.withdraw(entry)
        case effects.SetWindows(_, windows, ttl_ms):
            target.set_windows(translate.window(window, ttl_ms) for window in windows)
        case effects.RepeatNotices(_, port, interval_us):
            target.repeat_notices(port, interval_us)
        case effects.ReadFlowCounters():
            target.read_flow_counters()
        case effects.Audit():
            target.audit()
        case effects.ReadQueues():
            target.read_queues()
        case effects.ReadPorts():
            target.read_ports()
        case effects.ReadTunnels():
            target.read_tunnels()
        case effects.TimeControl(_, sent_ns):
            target.time_control(sent_ns)
