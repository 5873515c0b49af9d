"""One switch after the handshake: what it says becomes events, what is wanted becomes messages.

No socket and no clock: bytes come in by `receive`, go out by the function that was given. A switch
is `Ready` once it has said what it can do and what it holds; nothing is told of it before. Whatever
a switch sends, nothing but events comes out: what cannot be read is counted and told once.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from controller.southbound import extension, frames, openflow, packet_in, pipeline, segments
from controller.southbound.extension import Capability
from controller.southbound.match import output
from controller.southbound.openflow import FlowEntry, FlowStats, PortDescription, Type

LOG = logging.getLogger("weir.session")

_HELD_EVENTS = 4096
_NOTHING_ASKED = -1
_REGULATES = Capability.TCP_RWND | Capability.TCP_RWND_REGISTER


class Held(NamedTuple):
    """An entry that a switch had when it connected, with its counters and its age."""

    decoded: pipeline.Decoded
    byte_count: int
    packet_count: int
    age_ns: int


class Ready(NamedTuple):
    """The switch can be used. `held` are the entries it had."""

    n_registers: int
    held: list[Held]
    paces: bool = False
    tells_queues: bool = False


class SegmentsCopied(NamedTuple):
    """TCP segments in the order in which they entered."""

    segments: list[segments.Copied]


class ArpReceived(NamedTuple):
    in_port: int
    arp: packet_in.ArpPacket
    frame: bytes


class LinkDiscovered(NamedTuple):
    """A discovery frame from `peer_port` of `peer_switch` entered by `in_port`."""

    in_port: int
    peer_switch: int
    peer_port: int


class FrameMissed(NamedTuple):
    """A frame whose destination the switch does not know."""

    in_port: int
    src_mac: bytes
    dst_mac: bytes
    frame: bytes


class AccountsRead(NamedTuple):
    """Accounts with the bytes and packets of their frames; `more` of the same answer follow."""

    counters: list[tuple[pipeline.FiveTuple, int, int]]
    more: bool


class AccountExpired(NamedTuple):
    flow: pipeline.FiveTuple


class PortChanged(NamedTuple):
    port: PortDescription


class PortRemoved(NamedTuple):
    number: int


class QueueNotice(NamedTuple):
    """`missed` is how many notices of this queue were lost just before this one."""

    notice: extension.QueueEvent
    missed: int


class QueuesRead(NamedTuple):
    """The egress queues of the switch, all of them."""

    queues: list[extension.QueueStats]


class ControlTimed(NamedTuple):
    """What was asked at that time has been answered just now."""

    sent_ns: int


Event = (
    Ready
    | SegmentsCopied
    | ArpReceived
    | LinkDiscovered
    | FrameMissed
    | AccountsRead
    | AccountExpired
    | PortChanged
    | PortRemoved
    | QueueNotice
    | QueuesRead
    | ControlTimed
)


class Session:
    """The conversation with one switch. `counters` counts what could not be used, by reason.

    `told` holds what was said of the switch already, by this or by an earlier session.
    """

    def __init__(
        self, switch: int, send: Callable[[bytes], object], secret: bytes, told: set[str]
    ) -> None:
        self.switch = switch
        self.ready = False
        self.capabilities = extension.NO_CAPABILITY
        self.counters: Counter[str] = Counter()
        self._send = send
        self._secret = secret
        self._told = told
        self._xid = 0
        self._n_registers = 0
        self._held_events: list[Event] = []
        self._read_back: list[FlowStats] = []
        self._stale: dict[pipeline.Place, FlowStats] = {}
        self._sequences: dict[tuple[int, int], int] = {}
        self._queues: list[extension.QueueStats] = []
        self._queues_xid = self._timed_xid = _NOTHING_ASKED
        self._timed_from_ns = 0
        self._subscribe_xid = self._read_back_xid = self._ready_xid = self._static_xid = 0

    def start(self) -> None:
        """Ask what the switch can do and what it holds."""
        subscribe = extension.Subscribe(extension.SubscribeFlag.QUEUE_EVENTS)
        self._subscribe_xid = self._extension(extension.MessageType.SUBSCRIBE, subscribe.pack())
        self._read_back_xid = self._next_xid()
        self._send(
            openflow.flow_stats_request(
                openflow.ALL_TABLES, pipeline.COOKIE, pipeline.COOKIE_MASK, self._read_back_xid
            )
        )
        self._ready_xid = self._next_xid()
        self._send(openflow.barrier_request(self._ready_xid))

    # What is wanted of the switch

    def install(self, entries: Iterable[FlowEntry]) -> None:
        for entry in entries:
            self._stale.pop(pipeline.place(entry), None)
            self._send(openflow.flow_mod(openflow.Command.ADD, entry, self._next_xid()))

    def withdraw(self, entries: Iterable[FlowEntry]) -> None:
        for entry in entries:
            self._send(openflow.flow_mod(openflow.Command.DELETE_STRICT, entry, self._next_xid()))

    def transmit(self, ports: Iterable[int], frame: bytes) -> None:
        """Send a frame out of these ports."""
        actions = b"".join(output(port) for port in ports)
        self._send(openflow.packet_out(actions, frame, self._next_xid()))

    def set_windows(self, windows: Iterable[tuple[int, int, int, int]], ttl_ms: int) -> None:
        """Set registers, all at once: (register, window in bytes, rate in bytes/s, transit bytes).

        What the switch does not know of is left out.
        """
        paces = Capability.PACING in self.capabilities
        bounds = paces and Capability.TRANSIT in self.capabilities
        message = extension.WindowSet(
            tuple(
                extension.Window(
                    register,
                    window_bytes,
                    ttl_ms,
                    rate if paces else 0,
                    transit_bytes if bounds else 0,
                )
                for register, window_bytes, rate, transit_bytes in windows
            )
        )
        self._extension(extension.MessageType.WINDOW_SET, message.pack())

    def read_queues(self) -> None:
        """Ask for all egress queues. What is not answered before the next time is given up."""
        self._queues = []
        request = extension.QueueStatsRequest().pack()
        self._queues_xid = self._extension(extension.MessageType.QUEUE_STATS_REQUEST, request)

    def time_control(self, sent_ns: int) -> None:
        """Ask for an answer, to see how long it takes; one question at a time."""
        self._timed_xid, self._timed_from_ns = self._next_xid(), sent_ns
        self._send(openflow.barrier_request(self._timed_xid))

    def read_accounts(self) -> None:
        self._send(
            openflow.flow_stats_request(
                pipeline.Table.ACCOUNT,
                pipeline.ACCOUNT_COOKIE,
                pipeline.ACCOUNT_COOKIE_MASK,
                self._next_xid(),
            )
        )

    # What the switch says

    def receive(self, message: bytes) -> list[Event]:
        """The events that a message amounts to."""
        try:
            events = self._receive(message)
        except ValueError as error:
            self._count(f"{type(error).__name__} in a message of type {message[1]}", error)
            return []
        return self._pass(events)

    def receive_segments(self, copied: list[segments.Copied]) -> list[Event]:
        """The same for packet-ins that were read already."""
        return self._pass([SegmentsCopied(copied)])

    def _pass(self, events: list[Event]) -> list[Event]:
        if self.ready:
            return events
        if len(self._held_events) < _HELD_EVENTS:
            self._held_events += events
        else:
            self.counters["held back too long"] += len(events)
        return []

    def _receive(self, message: bytes) -> list[Event]:
        _, kind, _, xid = openflow.HEADER.unpack_from(message)
        match kind:
            case Type.PACKET_IN:
                return self._packet_in(openflow.unpack_packet_in(message))
            case Type.EXPERIMENTER:
                return self._experimenter(*openflow.unpack_experimenter(message), xid)
            case Type.MULTIPART_REPLY:
                return self._flow_stats(*openflow.unpack_flow_stats(message), xid)
            case Type.FLOW_REMOVED:
                return self._flow_removed(openflow.unpack_flow_removed(message))
            case Type.PORT_STATUS:
                reason, port = openflow.unpack_port_status(message)
                if port.number >= openflow.MAX_PORT:
                    return []
                deleted = reason == openflow.PORT_DELETED
                return [PortRemoved(port.number) if deleted else PortChanged(port)]
            case Type.ERROR:
                self._error(openflow.unpack_error(message))
            case Type.BARRIER_REPLY:
                return self._barrier(xid)
        return []

    def _barrier(self, xid: int) -> list[Event]:
        if xid == self._ready_xid:
            return self._become_ready()
        if xid == self._timed_xid:
            self._timed_xid = _NOTHING_ASKED
            return [ControlTimed(self._timed_from_ns)]
        if xid == self._static_xid:
            for stats in self._stale.values():
                self._send(openflow.delete_read_back(stats, self._next_xid()))
            self._stale = {}
        return []

    def _become_ready(self) -> list[Event]:
        """All questions are answered: the fixed entries go in, then the switch may be used."""
        self.ready = True
        self._say_what_is_missing()
        held = []
        for stats in self._read_back:
            decoded = pipeline.decode(stats)
            if decoded is not None:
                counters = stats.byte_count, stats.packet_count
                held.append(Held(decoded, *counters, stats.duration_ns))
            else:
                self._stale[pipeline.place_read_back(stats)] = stats
        self._read_back = []
        self.install(pipeline.STATIC)
        self._static_xid = self._next_xid()
        self._send(openflow.barrier_request(self._static_xid))
        events, self._held_events = self._held_events, []
        paces = Capability.PACING in self.capabilities
        tells_queues = Capability.QUEUE_STATS in self.capabilities
        return [Ready(self._n_registers, held, paces, tells_queues), *events]

    def _say_what_is_missing(self) -> None:
        missing = []
        if self.capabilities & _REGULATES != _REGULATES:
            missing.append("it cannot lower TCP windows")
            self._n_registers = 0
        if not self.capabilities & Capability.QUEUE_EVENT:
            missing.append("it does not tell when a queue is congested")
        if missing:
            self._tell_once(
                f"lacks Weir's extension of OpenFlow: {' and '.join(missing)}; "
                "forwarding and monitoring of connections go on there"
            )

    def _packet_in(self, message: openflow.PacketIn) -> list[Event]:
        in_port = message.in_port
        if message.table == pipeline.Table.FORWARD:
            other = packet_in.addresses(message.data)
            return [FrameMissed(in_port, other.src_mac, other.dst_mac, message.data)]
        match packet_in.parse(message.data):
            case packet_in.TcpSegment() as segment:
                return [SegmentsCopied([segments.copied(in_port, segment)])]
            case packet_in.ArpPacket() as arp:
                return [ArpReceived(in_port, arp, message.data)]
            case packet_in.Discovery(payload):
                return [LinkDiscovered(in_port, *frames.unpack(payload, self._secret))]
        return []

    def _experimenter(self, experimenter: int, exp_type: int, body: bytes, xid: int) -> list[Event]:
        if experimenter != extension.EXPERIMENTER:
            self._count(f"experimenter message of 0x{experimenter:08x}")
            return []
        match extension.unpack(exp_type, body):
            case extension.Subscribe() as answer if xid == self._subscribe_xid:
                self.capabilities = answer.capabilities
                self._n_registers = answer.n_registers
            case extension.QueueEvent() as notice:
                return [QueueNotice(notice, self._missed(notice))]
            case extension.QueueStatsReply(queues, more):
                return self._queue_stats(queues, more, xid)
            case unexpected:
                self._count(f"unexpected {type(unexpected).__name__}")
        return []

    def _queue_stats(
        self, queues: tuple[extension.QueueStats, ...], more: bool, xid: int
    ) -> list[Event]:
        if xid != self._queues_xid:
            return []
        self._queues += queues
        if more:
            return []
        self._queues_xid = _NOTHING_ASKED
        return [QueuesRead(self._queues)]

    def _missed(self, notice: extension.QueueEvent) -> int:
        queue = notice.port, notice.queue
        last = self._sequences.get(queue)
        self._sequences[queue] = notice.sequence
        if last is None or notice.sequence == last + 1:
            return 0
        # A sequence that starts again is a queue that was set up again.
        missed = max(0, notice.sequence - last - 1) if notice.sequence > last else 0
        LOG.warning(
            "switch %d port %d: notice %d follows notice %d",
            *(self.switch, notice.port, notice.sequence, last),
        )
        return missed

    def _flow_stats(self, entries: list[FlowStats], more: bool, xid: int) -> list[Event]:
        if xid == self._read_back_xid:
            self._read_back += entries
            return []
        counters = [
            (pipeline.decode_account(stats.match), stats.byte_count, stats.packet_count)
            for stats in entries
        ]
        return [AccountsRead(counters, more)]

    def _flow_removed(self, message: openflow.FlowRemoved) -> list[Event]:
        is_account = message.cookie & pipeline.ACCOUNT_COOKIE_MASK == pipeline.ACCOUNT_COOKIE
        if is_account and message.reason == openflow.REASON_IDLE_TIMEOUT:
            return [AccountExpired(pipeline.decode_account(message.match))]
        return []

    def _error(self, error: openflow.Error) -> None:
        kind, xid = 0, 0
        if len(error.request) >= openflow.HEADER.size:
            _, kind, _, xid = openflow.HEADER.unpack_from(error.request)
        if xid == self._subscribe_xid:
            return
        self.counters["refused"] += 1
        LOG.error(
            "switch %d refused a message of type %d with error type %d code %d; it begins %s",
            *(self.switch, kind, error.kind, error.code, error.request[:64].hex()),
        )

    def _count(self, reason: str, detail: object = "") -> None:
        self.counters[reason] += 1
        if self.counters[reason] == 1:
            self._tell_once(f"sent what is of no use: {reason} {detail}")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            LOG.warning("switch %d %s", self.switch, text)

    def _extension(self, kind: extension.MessageType, body: bytes) -> int:
        """Send a message of the extension; returns its transaction id."""
        xid = self._next_xid()
        self._send(openflow.experimenter(extension.EXPERIMENTER, kind, body, xid))
        return xid

    def _next_xid(self) -> int:
        self._xid = self._xid % 0x7FFFFFFF + 1
        return self._xid
