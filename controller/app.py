"""The Ryu shell: messages become calls of the core, the core's effects become messages.

No decision is taken here. All of it runs in Eventlet's one thread and none of it blocks, so the
core sees one event at a time. A bug must not turn into a half-dead controller: what escapes from a
handler ends the process, whose successor takes up from what the switches hold.
"""

import contextlib
import functools
import gc
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Concatenate, ParamSpec

from ryu.base.app_manager import RyuApp
from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3

from controller import translate
from controller.config import Config
from controller.core import effects
from controller.core.effects import Effect
from controller.core.engine import Engine, QueueReport
from controller.core.fabric import Port
from controller.core.forwarding import Arp
from controller.core.regulation import Features
from controller.core.values import Notice, PortId
from controller.eventlog import EventLog
from controller.southbound import frames, openflow, session
from controller.southbound.channel import Channel
from controller.southbound.openflow import PortDescription
from controller.southbound.segments import Copied
from controller.southbound.session import Session

LOG = logging.getLogger("weir.app")

_ACCEPT_AGAIN_S = 0.1
_TEND_S = 0.25
_LOOK_S = 1.0
_ACCOUNTS_S = 0.05
_REFRESHES_PER_TTL = 6
_FULL_COLLECTION_S = 3600.0
_NEVER = 2**31 - 1

P = ParamSpec("P")


def _fatal(
    handler: Callable[Concatenate["Weir", P], None],
) -> Callable[Concatenate["Weir", P], None]:
    """Whatever escapes from this handler ends the controller."""

    @functools.wraps(handler)
    def guarded(self: "Weir", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            handler(self, *args, **kwargs)
        except Exception:
            LOG.critical("%s failed; the controller ends", handler.__name__, exc_info=True)
            self.fail()

    return guarded


class Weir(RyuApp):
    """The application. Clocks, the secret of discovery and `fail` come from the launcher."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 - Ryu's interface

    def __init__(
        self,
        config: Config,
        event_log: EventLog,
        clock_ns: Callable[[], int],
        wall_s: Callable[[], float],
        secret: bytes,
        fail: Callable[[], None],
    ) -> None:
        super().__init__()
        self._config = config
        self._event_log = event_log
        self._clock_ns = clock_ns
        self._wall_s = wall_s
        self._secret = secret
        self.fail = fail
        self._engine = Engine(config.engine_settings())
        self._channels: dict[int, Channel] = {}
        self._sessions: dict[int, Session] = {}
        self._unsent: set[Channel] = set()
        self._told: dict[int, set[str]] = {}
        self._link_ttl_s = max(1, config.fabric.link_timeout // 10**9)

    def start(self) -> None:
        super().start()
        engine, fabric = self._engine, self._config.fabric
        periodic: tuple[tuple[Callable[[int], list[Effect]], float], ...] = (
            (engine.probe_links, fabric.lldp_interval / 1e9),
            (engine.read_accounts, _ACCOUNTS_S),
            (engine.refresh_windows, self._config.regulation.window_ttl / 1e9 / _REFRESHES_PER_TTL),
            (engine.look_at_switches, _LOOK_S),
            (engine.tend, _TEND_S),
        )
        for method, period_s in periodic:
            hub.spawn(self._repeat, method, period_s)
        # A million connections take the collector long to walk through, and are no garbage: so it
        # looks at what is new, and only rarely at all there is.
        gc.set_threshold(*gc.get_threshold()[:2], _NEVER)
        hub.spawn(self._collect_garbage)

    @_fatal
    def _collect_garbage(self) -> None:
        while True:
            hub.sleep(_FULL_COLLECTION_S)
            gc.collect()

    @_fatal
    def serve(self, listening: socket.socket) -> None:
        """Accept switches, for ever."""
        while True:
            try:
                sock, address = listening.accept()
            except OSError as error:
                LOG.error("cannot accept a switch: %s", error)
                hub.sleep(_ACCEPT_AGAIN_S)
                continue
            hub.spawn(self._converse, sock, address)

    def record(self, event: str, fields: dict[str, object]) -> None:
        self._event_log.write(event, fields, self._clock_ns(), self._wall_s())
        LOG.debug("%s %s", event, fields)

    def _converse(self, sock: socket.socket, address: tuple[str, int]) -> None:
        with contextlib.closing(Channel(sock, address, self)) as channel:
            channel.serve()

    @_fatal
    def _repeat(self, method: Callable[[int], list[Effect]], period_s: float) -> None:
        while True:
            hub.sleep(period_s)
            self._apply(method(self._clock_ns()))

    # From the switches

    @_fatal
    def connected(self, channel: Channel) -> None:
        switch = channel.id
        previous = self._channels.get(switch)
        if previous is not None:
            LOG.warning("switch %d connects anew; its former connection is closed", switch)
            self._leave(switch)
            previous.abort()
        LOG.info("switch %d connected from %s:%d", switch, *channel.address[:2])
        self._channels[switch] = channel
        told = self._told.setdefault(switch, set())
        send = functools.partial(self._send, channel)
        self._sessions[switch] = Session(switch, send, self._secret, told)
        self._sessions[switch].start()

    @_fatal
    def disconnected(self, channel: Channel) -> None:
        if self._channels.get(channel.id) is channel:
            LOG.warning("switch %d disconnected", channel.id)
            self._leave(channel.id)

    @_fatal
    def received(self, channel: Channel, message: bytes) -> None:
        if self._channels.get(channel.id) is channel:
            for event in self._sessions[channel.id].receive(message):
                self._apply(self._tell(channel, event))

    @_fatal
    def received_segments(self, channel: Channel, copied: list[Copied]) -> None:
        if self._channels.get(channel.id) is channel:
            for event in self._sessions[channel.id].receive_segments(copied):
                self._apply(self._tell(channel, event))

    def _leave(self, switch: int) -> None:
        was_ready = self._sessions[switch].ready
        del self._channels[switch], self._sessions[switch]
        if was_ready:
            self._apply(self._engine.switch_down(switch, self._clock_ns()))

    def _tell(self, channel: Channel, event: session.Event) -> list[Effect]:
        """Tell the core of an event."""
        engine, switch, now_ns = self._engine, channel.id, self._clock_ns()
        match event:
            case session.SegmentsCopied(segments):
                return engine.segments(switch, segments, now_ns)
            case session.QueueNotice(notice, missed):
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
            case session.Ready(n_registers, held, paces, tells_queues):
                ports = _ports(channel.port_descriptions)
                survivors = [translate.survivor(entry) for entry in held]
                LOG.info(
                    "switch %d is ready: %d ports, %d window registers, %d entries held",
                    *(switch, len(ports), n_registers, len(survivors)),
                )
                features = Features(n_registers, paces, tells_queues)
                return engine.switch_up(switch, ports, features, survivors, now_ns)
            case session.ArpReceived(in_port, arp, frame):
                packet = Arp(
                    arp.operation,
                    arp.sender_mac,
                    arp.sender_address,
                    arp.target_address,
                    arp.dst_mac,
                    frame,
                )
                return engine.arp(PortId(switch, in_port), packet, now_ns)
            case session.LinkDiscovered(in_port, peer_switch, peer_port):
                peer = PortId(peer_switch, peer_port)
                return engine.link_seen(peer, PortId(switch, in_port), now_ns)
            case session.FrameMissed(in_port, src_mac, dst_mac, frame):
                return engine.frame(PortId(switch, in_port), src_mac, dst_mac, frame, now_ns)
            case session.AccountsRead(counters, more):
                readings = [translate.reading(*account) for account in counters]
                return engine.accounts_read(switch, readings, more, now_ns)
            case session.AccountExpired(flow):
                return engine.account_expired(switch, translate.packed(flow), now_ns)
            case session.PortChanged(port):
                return engine.port_changed(switch, _port(port), now_ns)
            case session.PortRemoved(number):
                return engine.port_removed(PortId(switch, number), now_ns)
            case session.QueuesRead(queues):
                return engine.queues_read(switch, translate.queues(queues), now_ns)
            case session.ControlTimed(sent_ns):
                return engine.control_timed(switch, sent_ns, now_ns)

    # To the switches

    def _apply(self, wanted: Iterable[Effect]) -> None:
        """Do what the core wants; the log is written when the messages are on their way."""
        records = []
        for effect in wanted:
            match effect:
                case effects.Record():
                    records.append(effect)
                case effects.Complain(switch, text):
                    LOG.warning("switch %d %s", switch, text)
                case effects.Deliver(port_ids, frame):
                    self._deliver(port_ids, frame)
                case effects.Probe(port_id, mac):
                    self._transmit(
                        port_id, frames.pack(*port_id, mac, self._link_ttl_s, self._secret)
                    )
                case effects.AnswerArp(port_id, mac, address, asker_mac, asker_address):
                    frame = frames.arp_reply(mac, address, asker_mac, asker_address)
                    self._transmit(port_id, frame)
                case _:
                    target = self._sessions.get(effect.switch)
                    if target is not None:
                        _order(target, effect)
        while self._unsent:
            self._unsent.pop().flush()
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
            target.install(translate.flow_entries(entry))
        case effects.Withdraw(_, entry):
            target.withdraw(translate.flow_entries(entry))
        case effects.SetWindows(_, windows, ttl_ms):
            target.set_windows(windows, ttl_ms)
        case effects.ReadAccounts():
            target.read_accounts()
        case effects.ReadQueues():
            target.read_queues()
        case effects.TimeControl(_, sent_ns):
            target.time_control(sent_ns)


def _ports(descriptions: Iterable[PortDescription]) -> list[Port]:
    """The ports that frames can come from; the switch's own ones are left out."""
    return [_port(port) for port in descriptions if port.number < openflow.MAX_PORT]


def _port(port: PortDescription) -> Port:
    return Port(port.number, port.name, port.mac, port.up, port.speed_bps)
