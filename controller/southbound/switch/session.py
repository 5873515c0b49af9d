"""One switch after the handshake: its messages become events, orders become messages to it.

No socket and no clock: messages come in by `receive` and go out by a function. A switch is `Ready`
once it has said what it can do and what it holds; events that come earlier are kept until then.
Whatever a switch sends, only events come out: what cannot be read is counted, and logged once.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar

from controller.model.entries import Entry
from controller.model.flow import SegmentFields
from controller.model.packet_ins import NeighbourMessage, PacketClass
from controller.ops.logs import about
from controller.southbound.codec import (
    discovery,
    extension,
    groups,
    meters,
    openflow,
    packet_in,
)
from controller.southbound.codec.extension import Capability
from controller.southbound.codec.match import output
from controller.southbound.codec.openflow import FlowStats, Type
from controller.southbound.switch import encoding, pipeline, segments
from controller.southbound.switch.backlog import Backlog
from controller.southbound.switch.budgets import Limits
from controller.southbound.switch.events import (
    Acknowledged,
    AuditRead,
    ConnectionsSampled,
    ControlTimed,
    CopiesDropped,
    EntryRefused,
    Event,
    FlowCounterExpired,
    FlowCountersRead,
    FrameFlooded,
    FrameMissed,
    GroupMessageReceived,
    LinkDiscovered,
    NeighbourMessageReceived,
    PortChanged,
    PortRemoved,
    PortsCounted,
    QueueNotice,
    QueuesRead,
    Ready,
    SegmentsCopied,
    TunnelsCounted,
)
from controller.southbound.switch.resync import Resync
from controller.southbound.switch.sender import Sender

LOG = logging.getLogger("weir.session")

# How many reasons of unusable messages are counted one by one, and of how many queues the sequence
# numbers are checked.
_REASONS, _SEQUENCES = 64, 65_536
_NOTHING_ASKED = -1
_TELL_LIMIT = 1000
_READINGS_UNDER_WAY = 16
_REGULATES = Capability.TCP_RWND | Capability.TCP_RWND_REGISTER


T = TypeVar("T")


class _Pages(Generic[T]):
    """An answer in several messages, of which only that to the latest request counts."""

    def __init__(self) -> None:
        self._xid = _NOTHING_ASKED
        self._entries: list[T] = []

    def ask(self, xid: int) -> None:
        self._xid, self._entries = xid, []

    def take(self, entries: Iterable[T], more: bool, xid: int) -> list[T] | None:
        """The whole answer, once it is there."""
        if xid != self._xid:
            return None
        self._entries += entries
        if more:
            return None
        self._xid = _NOTHING_ASKED
        return self._entries


class Session:
    """The session with one switch. `counters` counts unusable messages, by reason.

    `told` holds what was logged about the switch already, by this or an earlier session.
    """

    def __init__(
        self,
        switch: int,
        send: Callable[[bytes], object],
        secret: bytes,
        told: set[str],
        limits: Limits,
    ) -> None:
        self.switch = switch
        self.ready = False
        self.capabilities = extension.NO_CAPABILITY
        self.counters: Counter[str] = Counter()
        self._limits = limits
        self._sender = Sender(send)
        self._secret = secret
        self._told = told
        self._n_registers = 0
        self._backlog: Backlog[Event] = Backlog()
        self._sequences: dict[tuple[int, int], int] = {}
        self._queues: _Pages[extension.QueueStats] = _Pages()
        self._samples: _Pages[extension.TcpStats] = _Pages()
        self._timed_xid = self._subscribe_xid = _NOTHING_ASKED
        self._ready_xid = _NOTHING_ASKED
        self._ports_xid = self._tunnels_xid = _NOTHING_ASKED
        self._timed_from_ns = 0
        self._flow_counters_xids: deque[int] = deque(maxlen=_READINGS_UNDER_WAY)

    def start(self, ports: Iterable[int]) -> None:
        """Ask what the switch can do and what it holds. `ports` are the numbers of its ports."""
        subscribe = extension.Subscribe(extension.SubscribeFlag.QUEUE_EVENTS)
        self._subscribe_xid = self._extension(extension.MessageType.SUBSCRIBE, subscribe.pack())
        ports = [port for port in ports if port < openflow.MAX_PORT]
        self._resync = Resync(self._sender, self._limits, ports)
        self._ready_xid = self._sender.send(openflow.barrier_request)

    @property
    def depths(self) -> dict[str, int]:
        """How many events wait for the switch to be ready, and how many changes are unconfirmed."""
        return {"events": len(self._backlog), "unacknowledged": len(self._resync.ledger)}

    # What is wanted of the switch

    def install(self, entry: Entry) -> None:
        """Add an entry, or replace the one of its key. Events will name it by its key."""
        self._resync.install(encoding.encode(entry), entry.key)

    def withdraw(self, entry: Entry) -> None:
        self._resync.withdraw(encoding.encode(entry))

    def limit(self, limits: Limits) -> None:
        """Use these limits of packet-ins from now on."""
        self._resync.limit(limits)

    def audit(self) -> None:
        """Read what the switch holds, and put the session's own entries right. An audit that is not
        finished is abandoned."""
        self._resync.audit()

    def read_meters(self) -> None:
        """Ask what the meters have dropped."""
        self._resync.read_meters()

    def transmit(self, ports: Iterable[int], frame: bytes) -> None:
        """Send a frame out of these ports."""
        actions = b"".join(output(port) for port in ports)
        self._sender.send(partial(openflow.packet_out, actions, frame))

    def set_windows(self, windows: Iterable[extension.Window]) -> None:
        """Set registers, in one message."""
        message = extension.WindowSet(tuple(windows))
        self._extension(extension.MessageType.WINDOW_SET, message.pack())

    def repeat_notices(self, port: int, interval_us: int) -> None:
        """Have the notice of a port repeated at this interval; 0 as its queue is configured."""
        flags = extension.SubscribeFlag.QUEUE_EVENTS
        message = extension.Subscribe(flags, port, repeat_us=interval_us)
        self._extension(extension.MessageType.SUBSCRIBE, message.pack())

    def read_queues(self) -> None:
        """Ask for all egress queues, and what becomes of TCP connections through them. An earlier
        request that is not answered yet is abandoned."""
        thresholds = Capability.THRESHOLDS in self.capabilities
        request = extension.QueueStatsRequest(thresholds=thresholds).pack()
        self._queues.ask(self._extension(extension.MessageType.QUEUE_STATS_REQUEST, request))
        if Capability.TCP_STATS in self.capabilities:
            request = extension.TcpStatsRequest().pack()
            self._samples.ask(self._extension(extension.MessageType.TCP_STATS_REQUEST, request))

    def read_ports(self) -> None:
        """Ask for the counters of all ports. Answers to earlier requests are ignored."""
        self._ports_xid = self._sender.send(openflow.port_stats_request)

    def read_tunnels(self) -> None:
        """Ask what has come in within tunnels. Answers to earlier requests are ignored."""
        cookie, mask = pipeline.TUNNEL_COUNTER_COOKIE, pipeline.ALL_OF_COOKIE
        ask = partial(openflow.flow_stats_request, pipeline.Table.COUNT, cookie, mask)
        self._tunnels_xid = self._sender.send(ask)

    def time_control(self, sent_ns: int) -> None:
        """Measure the round trip to the switch; one measurement at a time."""
        self._timed_xid, self._timed_from_ns = self._sender.send(openflow.barrier_request), sent_ns

    def read_flow_counters(self) -> None:
        cookie, mask = pipeline.FLOW_COUNTER_COOKIE, pipeline.FLOW_COUNTER_COOKIE_MASK
        ask = partial(openflow.flow_stats_request, pipeline.Table.COUNT, cookie, mask)
        xid = self._sender.send(ask)
        self._flow_counters_xids.append(xid)

    # What the switch says

    def receive(self, message: bytes) -> list[Event]:
        """The events of a message."""
        try:
            events = self._receive(message)
        except ValueError as error:
            self._count(f"{type(error).__name__} in a message of type {message[1]}", error)
            return []
        return self._pass(events)

    def receive_segments(self, copied: list[SegmentFields]) -> list[Event]:
        """The events of copied segments, which were unpacked before."""
        return self._pass([SegmentsCopied(copied)])

    def _pass(self, events: list[Event]) -> list[Event]:
        if self.ready:
            return events
        for event in events:
            if not self._hold(event):
                self.counters["held back too long"] += 1
                self._tell_once("sent so much before it was ready that some of it was dropped")
        return []

    def _hold(self, event: Event) -> bool:
        backlog = self._backlog
        match event:
            case PortChanged(port):
                return backlog.put_state(("port", port.number), event)
            case PortRemoved(number):
                return backlog.put_state(("port", number), event)
            case FlowCounterExpired(key):
                return backlog.put_state(("flow counter", key), event)
            case QueueNotice(notice, missed):
                queue = "queue", notice.port, notice.queue
                before = backlog.last(queue)
                if isinstance(before, QueueNotice):
                    event = QueueNotice(notice, before.missed + 1 + missed)
                return backlog.put_state(queue, event)
            case SegmentsCopied(copied):
                return backlog.put_frames(event, len(copied))
        return backlog.put_frames(event, 1)

    def _receive(self, message: bytes) -> list[Event]:
        _, kind, _, xid = openflow.HEADER.unpack_from(message)
        match kind:
            case Type.PACKET_IN:
                return self._packet_in(openflow.unpack_packet_in(message))
            case Type.EXPERIMENTER:
                return self._experimenter(*openflow.unpack_experimenter(message), xid)
            case Type.MULTIPART_REPLY:
                return self._multipart(message, xid)
            case Type.FLOW_REMOVED:
                return self._flow_removed(openflow.unpack_flow_removed(message))
            case Type.PORT_STATUS:
                reason, port = openflow.unpack_port_status(message)
                if port.number >= openflow.MAX_PORT:
                    return []
                if reason == openflow.PORT_DELETED:
                    self._resync.port_gone(port.number)
                    return [PortRemoved(port.number)]
                self._resync.port_there(port.number)
                return [PortChanged(port)]
            case Type.ERROR:
                return self._error(openflow.unpack_error(message))
            case Type.BARRIER_REPLY:
                return self._barrier(xid)
        return []

    def _barrier(self, xid: int) -> list[Event]:
        if xid == self._ready_xid:
            return self._become_ready()
        if xid == self._timed_xid:
            self._timed_xid = _NOTHING_ASKED
            return [ControlTimed(self._timed_from_ns)]
        tags = self._resync.answered(xid)
        return [Acknowledged(tags)] if tags else []

    def _become_ready(self) -> list[Event]:
        """All questions are answered: install the static entries; the switch may be used."""
        self.ready = True
        self._say_what_is_missing()
        held = self._resync.begin()
        keeps_accounts = Capability.CREDIT in self.capabilities
        tells_queues = Capability.QUEUE_STATS in self.capabilities
        repeats_notices = Capability.REPEAT in self.capabilities
        has_meters = self._resync.guard.metered
        ready = Ready(
            *(self._n_registers, held),
            *(keeps_accounts, tells_queues, repeats_notices, has_meters),
        )
        return [ready, *self._backlog.take()]

    def _say_what_is_missing(self) -> None:
        missing = []
        if self.capabilities & _REGULATES != _REGULATES:
            missing.append("it cannot lower TCP windows")
            self._n_registers = 0
        if not self.capabilities & Capability.QUEUE_EVENT:
            missing.append("it does not report congested queues")
        guard = self._resync.guard
        if not guard.metered:
            self._tell_once(
                "has no meters: packet-ins are limited for the whole switch, not for each port"
            )
        elif uncovered := guard.uncovered():
            self._tell_once(f"has too few meters for its ports {uncovered}")
        if missing:
            self._tell_once(
                f"lacks Weir's extension of OpenFlow: {' and '.join(missing)}; "
                "forwarding and monitoring of connections go on there; to have it regulated, "
                "install weir-switch"
            )

    def _packet_in(self, message: openflow.PacketIn) -> list[Event]:
        in_port = message.in_port
        if message.table >= pipeline.Table.FORWARD:
            other = packet_in.addresses(message.data)
            if pipeline.packet_class(message.cookie) is PacketClass.FLOODED:
                return [FrameFlooded(in_port, other.src_mac)]
            if pipeline.kind_of(message.cookie) == pipeline.Kind.GROUP_MESSAGES:
                about = groups.parse(message.data)
                if about is not None:
                    return [GroupMessageReceived(in_port, other.src_mac, about)]
            return [FrameMissed(in_port, other.src_mac, other.dst_mac, message.data)]
        match packet_in.parse(message.data):
            case packet_in.TcpSegment() as segment:
                return [SegmentsCopied([segments.copied(in_port, message.register, segment)])]
            case NeighbourMessage() as said:
                return [NeighbourMessageReceived(in_port, said)]
            case packet_in.Discovery(payload):
                return [
                    LinkDiscovered(
                        in_port, discovery.unpack(payload, self._secret), message.by_tunnel
                    )
                ]
        return []

    def _experimenter(self, experimenter: int, exp_type: int, body: bytes, xid: int) -> list[Event]:
        if experimenter != extension.EXPERIMENTER:
            self._count(f"experimenter message of 0x{experimenter:08x}")
            return []
        match extension.unpack(exp_type, body):
            case extension.Subscribe() as answer if xid == self._subscribe_xid:
                self.capabilities = answer.capabilities
                self._n_registers = answer.n_registers
            case extension.Subscribe(port=port) if port != extension.ANY_PORT:
                pass  # To `repeat_notices`.
            case extension.QueueEvent() as notice:
                return [QueueNotice(notice, self._missed(notice))]
            case extension.QueueStatsReply(queues, more):
                if (told := self._queues.take(queues, more, xid)) is not None:
                    return [QueuesRead(told)]
            case extension.TcpStatsReply(ports, more):
                if (sampled := self._samples.take(ports, more, xid)) is not None:
                    return [ConnectionsSampled(sampled)]
            case unexpected:
                self._count(f"unexpected {type(unexpected).__name__}")
        return []

    def _missed(self, notice: extension.QueueEvent) -> int:
        queue = notice.port, notice.queue
        last = self._sequences.get(queue)
        if len(self._sequences) >= _SEQUENCES:
            self._sequences.clear()
        self._sequences[queue] = notice.sequence
        if last is None or notice.sequence == last + 1:
            return 0
        # A sequence that starts again is a queue that was set up again.
        missed = max(0, notice.sequence - last - 1) if notice.sequence > last else 0
        LOG.warning(
            "notices were lost: number %d follows number %d",
            *(notice.sequence, last),
            extra=about(switch=self.switch, port=notice.port),
        )
        return missed

    def _multipart(self, message: bytes, xid: int) -> list[Event]:
        kind, more = meters.multipart_kind(message)
        match kind:
            case meters.FEATURES | meters.CONFIG:
                self._resync.meters_told(kind, message, more, xid)
            case meters.STATS:
                dropped = self._resync.guard.counted(meters.unpack_stats(message))
                return [CopiesDropped(dropped)] if dropped else []
            case openflow.MULTIPART_PORTS:
                counted, more = openflow.unpack_port_stats(message)
                return [PortsCounted(counted, more)] if xid == self._ports_xid else []
            case _:
                return self._flow_stats(*openflow.unpack_flow_stats(message), xid)
        return []

    def _flow_stats(self, entries: list[FlowStats], more: bool, xid: int) -> list[Event]:
        if xid == self._tunnels_xid:
            tunnels = ((encoding.counted_tunnel(one.match), one.packet_count) for one in entries)
            return [TunnelsCounted([(*tunnel, packets) for tunnel, packets in tunnels])]
        if xid not in self._flow_counters_xids:
            read = self._resync.entries_told(entries, more, xid)
            return [AuditRead(*read)] if read else []
        readings = [
            (encoding.counted_flow(stats.match).pack(), stats.byte_count, stats.packet_count)
            for stats in entries
        ]
        return [FlowCountersRead(readings, more)]

    def _flow_removed(self, message: openflow.FlowRemoved) -> list[Event]:
        is_counter = (
            message.cookie & pipeline.FLOW_COUNTER_COOKIE_MASK == pipeline.FLOW_COUNTER_COOKIE
        )
        if is_counter and message.reason == openflow.REASON_IDLE_TIMEOUT:
            return [FlowCounterExpired(encoding.counted_flow(message.match).pack())]
        return []

    def _error(self, error: openflow.Error) -> list[Event]:
        kind, xid = 0, 0
        if len(error.request) >= openflow.HEADER.size:
            _, kind, _, xid = openflow.HEADER.unpack_from(error.request)
        why = _why(error)
        if xid == self._subscribe_xid or xid in self._resync.questions:
            if why == extension.ErrorCode.BAD_VERSION.name:
                self._tell_once(
                    f"does not speak version {extension.VERSION} of Weir's extension; controller "
                    "and switch must be of the same release"
                )
            return []
        self.counters["refused"] += 1
        sent = self._resync.ledger.refused(xid)
        if sent is None:
            LOG.error(
                "refused a message of type %d with %s; it begins %s",
                *(kind, why, error.request[:64].hex()),
                extra=about(switch=self.switch),
            )
            return []
        text = f"refused, with {why}, to {sent}"
        if text not in self._told and len(self._told) < _TELL_LIMIT:
            self._told.add(text)
            LOG.error(text, extra=about(switch=self.switch))
        if sent.tag is None:
            return []
        return [EntryRefused(sent.tag)]

    def _count(self, reason: str, detail: object = "") -> None:
        if reason not in self.counters and len(self.counters) >= _REASONS:
            reason, detail = "and more", ""
        self.counters[reason] += 1
        if self.counters[reason] == 1:
            self._tell_once(f"sent what cannot be used: {reason} {detail}")

    def _tell_once(self, text: str) -> None:
        if text not in self._told and len(self._told) < 2 * _REASONS:
            self._told.add(text)
            LOG.warning(text, extra=about(switch=self.switch))

    def _extension(self, kind: extension.MessageType, body: bytes) -> int:
        """Send a message of the extension; returns its transaction id."""
        return self._sender.send(partial(openflow.experimenter, extension.EXPERIMENTER, kind, body))


def _why(error: openflow.Error) -> str:
    is_ours = error.experimenter == extension.EXPERIMENTER
    if is_ours and error.code in list(extension.ErrorCode):
        return extension.ErrorCode(error.code).name
    return f"error type {error.kind} code {error.code}"
