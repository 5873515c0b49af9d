"""The life of connections: opened, routed, counted, classified, dormant, awake, adopted, closed.

It keeps the GVT and the entries of switches in step. It does not decide how large windows are: that
follows from the counts of the ports.
"""

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from controller.core.desired.tables import Tables
from controller.core.flows.channel_history import ChannelHistory
from controller.core.flows.counting import Counting, CountingSettings
from controller.core.flows.dormant import DormantConnections
from controller.core.flows.flow_table import (
    CONNECTIONS_PER_PORT,
    ConnectionEvent,
    GlobalFlowTable,
)
from controller.core.flows.host_pairs import Connection, FlowRecord, HostPair, Lane
from controller.core.flows.policy import Policy, Treatment
from controller.core.flows.recovery import SurvivingFlows
from controller.core.flows.routes import Routes
from controller.core.flows.senders import Senders
from controller.core.topology.fabric import Fabric
from controller.model.effects import Effect, GoOn, ReadFlowCounters, Record
from controller.model.entries import FlowCounter, HeldEntry, ServiceWatch
from controller.model.flow import (
    FIN,
    MAX_WINDOW_SCALE,
    RST,
    SYN,
    FlowKey,
    Reading,
    SegmentFields,
    reverse,
    source_of,
    vlan_of_key,
)
from controller.model.values import FlowClass

ADOPTED_MSS_BYTES = 1460
_TREATED_PER_TURN = 4096
_FORGOTTEN_PER_TURN = 1024
_DROPPED_PER_TURN = 128
_REROUTED_PER_TURN = 64
_MOVED_PER_TURN = 64
# What is copied up of a connection may be read after its end, from another switch.
_JUST_CLOSED_NS = 2 * 10**9
# No pool is that old.
DORMANT_FOR_NS = 30 * 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class ConnectionSettings(CountingSettings):
    """A connection that is idle for long is dormant. Of dormant ones, those for longest are
    forgotten if there are more than `dormant`; no switch watches for more than `watches_per_switch`
    services. Hosts at one port may open `per_port` connections. With `log`, every connection is in
    the event log."""

    log: bool = False
    dormant: int = 1_000_000
    watches_per_switch: int = 4096
    per_port: int = CONNECTIONS_PER_PORT


class WindowEntries(Protocol):
    """Keeps the window entries of flows: implemented by `congestion.enforcer.Enforcer`."""

    def scale(self, end: bytes) -> int | None:
        """The window scale that an end is known to announce: a VLAN, if any, and an address."""

    def apply(self, lane: Lane, connection: Connection) -> None:
        """A flow has begun, or its class has changed."""

    def release(self, connection: Connection) -> None:
        """A connection is gone."""

    def reroute(self, pair: HostPair) -> None:
        """The route of a pair is known, or has changed."""

    def leave(self, lane: Lane, now_ns: int) -> None:
        """A lane is gone."""

    def forget_unused(self, unused_since_ns: int, kept: Container[bytes]) -> None:
        """Forget the hosts that have had no connection since then, but those to be `kept`."""


class Connections:
    """All connections of the fabric. `table` is the GVT.

    `opened` and `adopted` count the connections whose handshake was and was not seen, `woken` how
    often one was dormant no more, `counters` the closed ones, by reason.
    """

    def __init__(
        self,
        fabric: Fabric,
        tables: Tables,
        window_entries: WindowEntries,
        policy: Policy,
        settings: ConnectionSettings,
        emit: Callable[[Effect], None],
    ) -> None:
        self.table = GlobalFlowTable(
            treat=policy.treatment if policy else None,
            senders=Senders(fabric.together, fabric.owns),
            charge=fabric.port_of,
            per_port=settings.per_port,
        )
        self.opened = self.adopted = self.woken = 0
        self.counters: Counter[str] = Counter()
        self.routes = Routes(fabric, self.table, window_entries.reroute, emit)
        self._fabric = fabric
        self._tables = tables
        self._window_entries = window_entries
        self._settings = settings
        self._emit = emit
        self._surviving = SurvivingFlows()
        self._dormant = DormantConnections(tables, settings.watches_per_switch)
        self._counting = Counting(self.table, tables, settings, self._reclassified)
        self._policy = policy
        self._untreated: deque[Connection] = deque()
        self._unrouted: dict[HostPair, None] = {}
        self._unmoved: deque[Connection] = deque()
        self._just_closed: dict[bytes, int] = {}  # The first closed first.
        self._channel_history = ChannelHistory()

    def reconfigure(self, settings: ConnectionSettings, now_ns: int) -> None:
        """Use these settings from now on."""
        self._settings = settings
        self.table.per_port = settings.per_port
        self._counting.reconfigure(settings, now_ns)

    def set_policy(self, policy: Policy, now_ns: int) -> None:
        """Use this policy from now on.

        Connections that it treats differently start anew, as if they were adopted, and their counts
        begin again. If there are many, `tend` goes on with them.
        """
        self._policy = policy
        self.table.treat = policy.treatment if policy else None
        self._untreated = deque(self.table.connections)
        self._treat_some(now_ns)

    def observe(self, segments: Sequence[SegmentFields], now_ns: int) -> None:
        """Copied segments that entered at edge ports, from hosts that the fabric knows."""
        changes = self.table.observe(segments, now_ns)
        if self._surviving:
            for segment in segments:
                if segment[3] & (FIN | RST) and self.table.find(segment[2]) is None:
                    self.forget_remembered(FlowKey.unpack(segment[2]))
        for pair in self.routes.route_new():
            if pair.path_id is None and self._fabric.multipath and pair.edges:
                self.routes.miss_path_id(pair.edges[0])
        for change, connection in changes:
            if change == ConnectionEvent.OPENED:
                self.opened += 1
                if self._settings.log:
                    self._tell_opened(connection, adopted=False)
                self._begin(connection)
            else:
                self._closed(connection, change)
        for stray in self.table.take_strays():
            self._learn(stray, now_ns)

    def observe_inside(self, switch: int, segments: Iterable[SegmentFields], now_ns: int) -> None:
        """Copied segments that entered this switch from another one: data of services that it
        watches for dormant connections."""
        for segment in segments:
            key, flags, payload = segment[2], segment[3], segment[6]
            if payload and not flags & (SYN | FIN | RST) and self._dormant.is_watched(switch, key):
                self._learn(segment, now_ns)

    @property
    def watches(self) -> bool:
        """Whether any switch watches for data of dormant connections."""
        return self._dormant.n_watches > 0

    def _learn(self, segment: SegmentFields, now_ns: int) -> None:
        """Data of a connection that is dormant, or whose handshake was not seen. (A bare ACK may be
        a dead connection's last.)"""
        _, macs, key, *_, path_id = segment
        connection = self.table.find(key)
        if connection is not None:
            if connection.dormant and self.table.is_from(segment, connection):
                self._wake(connection, now_ns)
        elif (
            not self.table.is_opening(key)
            and key not in self._just_closed
            and self._fabric.owns(macs[6:], source_of(key), vlan_of_key(key)) is not False
        ):
            self._adopt(key, (macs[6:], macs[:6]), self._known_scales(key), path_id, now_ns)

    def read(self, switch: int, readings: Iterable[Reading], more: bool, now_ns: int) -> None:
        """A part of a switch's flow counters, the last unless `more` follow: classify anew."""
        for connection in self._counting.read(switch, readings, more, now_ns):
            self._make_dormant(connection)

    def flow_counter_expired(self, switch: int, key: bytes, now_ns: int) -> None:
        """A switch has removed a flow counter: the flow was idle for long, or has ended."""
        self._tables.vanished(switch, FlowCounter(FlowKey.unpack(key), forward=True).key)
        connection = self.table.find(key)
        if connection is None or connection.record is None:
            return
        if switch in connection.record.switches:
            if self._counting.is_idle_for_long(connection, now_ns):
                self._make_dormant(connection)
            else:
                self._remove(connection, "expired")

    def open_counters(self, now_ns: int) -> None:
        """Install some of the flow counters that are due, and ask for those to be read."""
        for connection in self._counting.count_due(self._channel_history, now_ns):
            # It may have ended. If not, it counts again when it moves something.
            self._make_dormant(connection)
        for switch in self._fabric.connected():
            if self._counting.polling.due(switch, now_ns):
                self._emit(ReadFlowCounters(switch))

    def switch_up(self, switch: int, has_past: bool, now_ns: int) -> None:
        """A switch is connected. If it `has_past`, connections may have ended unseen before."""
        self.routes.given_up.discard(switch)
        self._channel_history.connected(switch, has_past, now_ns)
        self._counting.polling.reconnected(switch)

    def switch_down(self, switch: int, now_ns: int) -> None:
        """The channel to a switch is lost: the ends of its connections are not seen."""
        self._channel_history.disconnected(switch, now_ns)
        self.relearning.discard(switch)

    def fullness(self) -> dict[str, tuple[int, int]]:
        """How full the tables of connections are, and how full they can be."""
        settings, table = self._settings, self.table
        return {
            "half-open connections": (table.half_open, table.half_open_limit),
            "connections of one port": (table.most_of_one_port, settings.per_port),
            "dormant connections": (table.n_dormant, settings.dormant),
            "watches of one switch": (self._dormant.most_watches, settings.watches_per_switch),
            "counted connections of one switch": (
                self._counting.polling.most,
                settings.counted_per_switch,
            ),
        }

    @property
    def relearning(self) -> set[int]:
        """The switches that copy up uncounted flows."""
        return self._counting.relearning

    def restarted(self, switch: int) -> None:
        """A switch has lost all its entries, so it cannot report which connections ended while its
        channel was lost. Those that may have count again when they move something."""
        lost_ns = self._channel_history.lost_ns(switch)
        for pair in self.table.host_pairs:
            if switch in pair.edges:
                for connection in list(pair.members):
                    record = connection.record
                    if (
                        record is not None
                        and switch in record.switches
                        and self._channel_history.may_have_ended_unseen(
                            pair.edges, record.traced_ns, lost_ns
                        )
                    ):
                        self._make_dormant(connection)

    def give_up(self, switch: int, now_ns: int) -> None:
        """A switch stays away: remove its own connections, and count others elsewhere."""
        self.routes.given_up.add(switch)
        for pair in self.table.host_pairs:
            if pair in self._unrouted:
                self._unmoved.extend(pair.members)
            pair.edges = self.routes.edges(pair)
            if pair.edges:
                self._watch_elsewhere(pair)
            for connection in [*pair.dormant, *pair.members]:
                if not pair.edges:
                    self._remove(connection, "lost")
                elif connection.record is not None and switch in connection.record.switches:
                    self._counting.move(connection, now_ns)

    def forget_switch(self, switch: int) -> None:
        """Forget a switch that was given up."""
        self.routes.given_up.discard(switch)
        self._dormant.forget_adopted(switch)
        self._channel_history.forget(switch)
        self._counting.polling.forget(switch)

    def reroute(self, hosts: set[bytes], now_ns: int) -> None:
        """The paths of these hosts may have changed. If they have many connections, `go_on` goes
        on with them."""
        for mac in hosts:
            self._unrouted.update(dict.fromkeys(self.table.pairs_of(mac)))
        self._reroute_some(now_ns)

    def go_on(self, now_ns: int) -> None:
        """Do some more of what has been left for later turns."""
        self._drop_some(now_ns)
        self._reroute_some(now_ns)

    def _reroute_some(self, now_ns: int) -> None:
        for pair in list(islice(self._unrouted, _REROUTED_PER_TURN)):
            del self._unrouted[pair]
            before = pair.edges
            self.routes.route(pair)
            self._watch_elsewhere(pair)
            if pair.edges != before:
                self._unmoved.extend(pair.members)
        for _ in range(min(_MOVED_PER_TURN, len(self._unmoved))):
            connection = self._unmoved.popleft()
            if connection.established and not connection.dormant:
                self._counting.move(connection, now_ns)
        if self._unrouted or self._unmoved:
            self._emit(GoOn())

    def _drop_some(self, now_ns: int) -> None:
        """Forget some of the host pairs that have had no connection for long."""
        dropped = self.table.drop_unused(now_ns, _DROPPED_PER_TURN)
        for pair in dropped:
            self._unrouted.pop(pair, None)
            for lane in pair.lanes:
                self._window_entries.leave(lane, now_ns)
        if len(dropped) == _DROPPED_PER_TURN:
            self._emit(GoOn())

    def remember(self, held: Iterable[HeldEntry]) -> None:
        """What a switch held when it connected may stand for connections that are not known."""
        self._surviving.remember(held)

    def adopt_watch(self, switch: int, watch: ServiceWatch, now_ns: int) -> None:
        """A switch has watched for dormant connections since before this controller was there."""
        self._forget(self._dormant.adopt(switch, watch, now_ns))

    def tend(self, now_ns: int) -> None:
        """Remove expired state; adopt connections of which only the SYN-ACK was seen."""
        for answer, finished in self.table.expire(now_ns):
            key = reverse(answer.key)
            # Whoever has not got the address has not asked for it.
            has_asked = self._fabric.owns(answer.macs[:6], source_of(key), vlan_of_key(key))
            if self.table.find(key) is None and has_asked:
                # RFC 7323 section 2.2: the option is in a SYN-ACK only if it was in the SYN.
                scaled = answer.window_scale is not None
                _, ours = self._known_scales(key)
                scale = min(answer.window_scale or 0, MAX_WINDOW_SCALE)
                scales = scale, ours if scaled else 0
                macs = answer.macs[:6], answer.macs[6:]
                self._adopt(key, macs, scales, answer.path_id, now_ns, finished)
        self._drop_some(now_ns)
        self._window_entries.forget_unused(
            now_ns - self._settings.expiry_ns, self._dormant.adopted_ends
        )
        for connection in self._counting.review(now_ns):
            # If it does move something, it counts again at once.
            self._make_dormant(connection)
        self._forget(self._dormant.since(now_ns - DORMANT_FOR_NS, _FORGOTTEN_PER_TURN))
        self._forget_excess()
        self._dormant.forget_adopted_before(now_ns - DORMANT_FOR_NS)
        for key, closed_ns in list(self._just_closed.items()):
            if closed_ns > now_ns - _JUST_CLOSED_NS:
                break
            del self._just_closed[key]
        self._treat_some(now_ns)

    def adopt_remembered(self, now_ns: int) -> None:
        """Flow counters that survived stand for connections, as soon as both ends are located."""
        for flow in self._surviving.initiators():
            src, dst = (self._fabric.owner(end, flow.vlan) for end in (flow.src, flow.dst))
            key = flow.pack()
            if src and dst and self.table.find(key) is None:
                # Its flow counter tells the path id.
                self._adopt(key, (src.mac, dst.mac), self._known_scales(key), None, now_ns)

    def forget_remembered(self, flow: FlowKey) -> None:
        """Forget what switches hold of this connection, in either direction."""
        for side in (flow, flow.reverse):
            self._surviving.claim(side)

    def forget_all_remembered(self) -> None:
        self._surviving.clear()

    # From the first segment to the last

    def _known_scales(self, key: bytes) -> tuple[int | None, int | None]:
        """The scales that the receivers of both directions are known to announce."""
        flow = FlowKey.unpack(key)
        return self._window_entries.scale(flow.dst_end), self._window_entries.scale(flow.src_end)

    def _adopt(
        self,
        key: bytes,
        macs: tuple[bytes, bytes],
        scales: tuple[int | None, int | None],
        path_id: int | None,
        now_ns: int,
        finished: int = 0,
    ) -> None:
        if self._fabric.path(*macs, path_id) is None or not self.table.has_room(macs[0]):
            return
        own_scales = list(scales)
        remembered = []
        for i, side in enumerate((key, reverse(key))):
            known, cls, window_scale = self._surviving.claim(FlowKey.unpack(side))
            remembered.append((known, cls))
            if path_id is None and known is not None:
                path_id = known.path_id
            if window_scale is not None:
                # A FlowWindow is more specific than the HostWindow.
                own_scales[i] = window_scale
        age_ns = max(known.age_ns if known else 0 for known, _ in remembered)
        opened_ns = now_ns - age_ns
        connection = self.table.adopt(
            key, macs, ADOPTED_MSS_BYTES, (own_scales[0], own_scales[1]), path_id, opened_ns
        )
        connection.finished = finished
        self.routes.route_new()
        pair = connection.pair
        if pair.treatment is Treatment.EXEMPT:
            self._counting.opened(connection)
        else:
            fixed = pair.treatment is not Treatment.ORDINARY
            records = [
                FlowRecord.started(
                    opened_ns,
                    now_ns,
                    known.volume_bytes if known else 0,
                    pair.born if fixed else cls,
                    packets=-1 if known else 0,
                )
                for known, cls in remembered
            ]
            if any(known or cls is FlowClass.BACKGROUND for known, cls in remembered):
                self._counting.go_on(connection, records[0], records[1])
            else:
                self._counting.adopted(connection, now_ns)
            self._apply(connection)
        self.adopted += 1
        if self._settings.log:
            self._tell_opened(connection, adopted=True)

    def _tell_opened(self, connection: Connection, adopted: bool) -> None:
        pair = connection.pair
        scales = [pair.reverse.window_scale, pair.forward.window_scale]
        fields: dict[str, object] = {
            "mss_bytes": pair.mss_bytes,
            "window_scales": scales,
            "path_id": pair.path_id,
            "adopted": adopted,
        }
        self._emit(Record("connection_opened", connection.fields() | fields))

    def _begin(self, connection: Connection) -> None:
        """Regulate a connection; count it at once, or when it is old enough."""
        if connection.established:
            self._apply_from_start(connection)
            self._counting.opened(connection)

    def _apply_from_start(self, connection: Connection) -> None:
        """Install window entries at once if those of the hosts do not fit the connection."""
        if connection.pair.needs_own_entries:
            self._apply(connection)

    def _apply(self, connection: Connection) -> None:
        for lane in connection.pair.lanes:
            self._window_entries.apply(lane, connection)

    def _treat_some(self, now_ns: int) -> None:
        """Apply a changed policy to the next few connections that were open then."""
        for _ in range(min(_TREATED_PER_TURN, len(self._untreated))):
            connection = self._untreated.popleft()
            treatment = self._policy.treatment(FlowKey.unpack(connection.key))
            is_awake = connection.established and not connection.dormant
            if is_awake and treatment is not connection.pair.treatment:
                self._treat_anew(connection, now_ns)

    def _treat_anew(self, connection: Connection, now_ns: int) -> None:
        pair = connection.pair
        self.table.remove(connection)
        self._let_go(connection)
        renewed = self.table.adopt(
            connection.key,
            (pair.initiator_mac, pair.responder_mac),
            pair.mss_bytes,
            (pair.forward.window_scale, pair.reverse.window_scale),
            pair.path_id,
            connection.opened_ns,
        )
        renewed.initial_sequence = connection.initial_sequence
        renewed.begun_ns = connection.begun_ns
        renewed.finished = connection.finished
        self.routes.route_new()
        self._apply_from_start(renewed)
        self._counting.renewed(renewed, now_ns)

    def _closed(self, connection: Connection, reason: str) -> None:
        self.counters[reason] += 1
        if self._surviving:
            # Otherwise what a switch held of it would bring it back.
            self.forget_remembered(FlowKey.unpack(connection.key))
        if connection.dormant:
            self._dormant.discard(connection)
        self._let_go(connection)
        if self._dormant.n_watches or self._counting.relearning:
            for key in (connection.key, connection.answer_key):
                self._just_closed.pop(key, None)
                self._just_closed[key] = self.table.now_ns
        record = connection.record
        if self._settings.log:
            flows = (record.forward, record.reverse) if record else ()
            fields: dict[str, object] = {
                "reason": reason,
                "volumes_bytes": [flow.volume_bytes for flow in flows] or [0, 0],
            }
            self._emit(Record("connection_closed", connection.fields() | fields))

    def _let_go(self, connection: Connection) -> None:
        """Remove all entries of a connection from the switches."""
        self._counting.stop(connection)
        if connection.record is not None or connection.pair.needs_own_entries:
            self._window_entries.release(connection)

    def _make_dormant(self, connection: Connection) -> None:
        """A connection moves nothing: nobody counts it until a switch copies up its next data.

        Exempt ones are not worth it: whether they are known makes no difference.
        """
        pair = connection.pair
        if pair.treatment is Treatment.EXEMPT:
            self._remove(connection, "expired")
            return
        self._counting.stop(connection)
        self.table.make_dormant(connection, self.table.now_ns)
        self._forget(self._dormant.add(connection))
        if self._settings.log:
            self._emit(Record("connection_dormant", connection.fields()))
        if not pair.needs_own_entries:
            self._window_entries.release(connection)
        # Else the window in the first ACKs after that must be right, too.
        self._forget_excess()

    def _forget_excess(self) -> None:
        """Forget some of the dormant connections if there are too many."""
        excess = len(self._dormant) - self._settings.dormant
        if excess > 0:
            self._forget(list(islice(self._dormant, min(excess, _FORGOTTEN_PER_TURN))))

    def _watch_elsewhere(self, pair: HostPair) -> None:
        self._forget(self._dormant.rerouted(pair))

    def _forget(self, dormant: Iterable[Connection]) -> None:
        for connection in dormant:
            if connection.established:
                self._remove(connection, "forgotten")

    def _wake(self, connection: Connection, now_ns: int) -> None:
        """A dormant connection has moved something. It counts at once, and is counted soon: flow
        entries for all that wake together would keep the switch from forwarding them."""
        self.woken += 1
        if self._settings.log:
            self._emit(Record("connection_woken", connection.fields()))
        self._dormant.discard(connection)
        self.table.wake(connection, now_ns)
        if self._policy.treatment(FlowKey.unpack(connection.key)) is not connection.pair.treatment:
            self._treat_anew(connection, now_ns)
            return
        self._apply_from_start(connection)
        self._counting.woken(connection)

    def _reclassified(self, lane: Lane, connection: Connection) -> None:
        self._window_entries.apply(lane, connection)
        record = lane.record(connection)
        if self._settings.log and record is not None:
            fields = {"class": record.cls.value, "volume_bytes": record.volume_bytes}
            key = FlowKey.unpack(lane.key(connection))
            self._emit(Record("flow_classified", key.fields() | fields))

    def _remove(self, connection: Connection, reason: str) -> None:
        self.table.remove(connection)
        self._closed(connection, reason)
