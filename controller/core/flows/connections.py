"""The life of connections: opened, routed, counted, classified, adopted, closed.

It keeps the GVT and the flow counters and window entries of switches in step. It does not decide
how large windows are: that follows from the counts of the ports.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.core.desired.tables import Tables
from controller.core.flows.channel_history import ChannelHistory
from controller.core.flows.classifier import Classifier
from controller.core.flows.flow_counters import FlowCounters
from controller.core.flows.flow_table import ConnectionEvent, GlobalFlowTable
from controller.core.flows.host_pairs import (
    Connection,
    ConnectionRecord,
    FlowRecord,
    HostPair,
    Lane,
)
from controller.core.flows.policy import Policy, Treatment
from controller.core.flows.polling import Polling
from controller.core.flows.recovery import SurvivingFlows
from controller.core.flows.routes import Routes
from controller.core.topology.fabric import Fabric
from controller.model.effects import Effect, ReadFlowCounters, Record
from controller.model.entries import FlowCounter, HeldEntry
from controller.model.flow import (
    FIN,
    MAX_WINDOW_SCALE,
    RST,
    FlowKey,
    Reading,
    SegmentFields,
    payload_bytes,
    reverse,
)

ADOPTED_MSS_BYTES = 1460
_OPENED_PER_TURN, _REVIEWED_PER_TURN = 64, 2048
_UNCOUNTED_PER_TURN = 256
_TREATED_PER_TURN = 4096


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """A connection without any packet for `expiry_ns` is removed. No switch counts more than
    `counted_per_switch` connections. With `log`, every connection is in the event log."""

    classifier: Classifier
    poll_interval_ns: int = 5 * 10**8
    expiry_ns: int = 1800 * 10**9
    counted_per_switch: int = 16_384
    log: bool = False


class WindowEntries(Protocol):
    """Keeps the window entries of flows: implemented by `congestion.enforcer.Enforcer`."""

    def scale(self, address: bytes) -> int | None:
        """The window scale that a host is known to announce."""

    def apply(self, lane: Lane, connection: Connection) -> None:
        """A flow has begun, or its class has changed."""

    def release(self, connection: Connection) -> None:
        """A connection is gone."""

    def reroute(self, pair: HostPair) -> None:
        """The route of a pair is known, or has changed."""

    def leave(self, lane: Lane, now_ns: int) -> None:
        """A lane is gone."""

    def forget_unused(self, unused_since_ns: int) -> None:
        """Forget the hosts that have had no connection since then."""


class Connections:
    """All connections of the fabric. `table` is the GVT.

    `opened` and `adopted` count the connections whose handshake was and was not seen, `counters`
    the closed ones, by reason. `relearning` are the switches that copy up uncounted flows.
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
        self.table = GlobalFlowTable(treat=policy.treatment if policy else None)
        self.opened = self.adopted = 0
        self.counters: Counter[str] = Counter()
        self.routes = Routes(fabric, self.table, window_entries.reroute, emit)
        self._fabric = fabric
        self._tables = tables
        self._window_entries = window_entries
        self._settings = settings
        self._classifier = settings.classifier
        self._emit = emit
        self._surviving = SurvivingFlows()
        self._young: deque[Connection] = deque()  # the oldest first
        self._uncounted: deque[Connection] = deque()
        self._polling = Polling(settings.poll_interval_ns)
        self._flow_counters = FlowCounters(self.table, tables, self._polling)
        self._policy = policy
        self._untreated: deque[Connection] = deque()
        self._channel_history = ChannelHistory()
        self.relearning: set[int] = set()

    def reconfigure(self, settings: ConnectionSettings, now_ns: int) -> None:
        """Use these settings from now on."""
        self._settings, self._classifier = settings, settings.classifier
        self._polling.reconfigure(settings.poll_interval_ns, now_ns)

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
        for _, macs, key, *_, path_id in self.table.take_strays():
            if self.table.find(key) is None:
                # Its handshake was not seen. Data only: an ACK may be a dead connection's last.
                self._adopt(key, (macs[6:], macs[:6]), self._known_scales(key), path_id, now_ns)

    def read(self, switch: int, readings: Iterable[Reading], more: bool, now_ns: int) -> None:
        """A part of a switch's flow counters, the last unless `more` follow: classify anew."""
        for key, n_bytes, n_packets in readings:
            connection = self.table.find(key)
            if connection is None or connection.record is None:
                continue
            record, pair = connection.record, connection.pair
            if record.switches[:1] == (switch,):
                lane = pair.forward if key == connection.key else pair.reverse
                self._classify(connection, lane, payload_bytes(key, n_bytes, n_packets), now_ns)
                flow = record.forward if lane.forward else record.reverse
                if n_packets != flow.packets:
                    # If it is less than before, the entry is a new one.
                    if n_packets > flow.packets >= 0:
                        flow.traced_ns = now_ns
                    flow.packets = n_packets
                elif self._expired(record.traced_ns, now_ns):
                    self._remove(connection, "expired")
        if not more:
            self._polling.answered(switch, now_ns)

    def flow_counter_expired(self, switch: int, key: bytes) -> None:
        """A switch has removed a flow counter because the flow was idle for long."""
        self._tables.vanished(switch, FlowCounter(FlowKey.unpack(key), forward=True).key)
        connection = self.table.find(key)
        if connection is None or connection.record is None:
            return
        if switch in connection.record.switches:
            self._remove(connection, "expired")

    def open_counters(self, now_ns: int) -> None:
        """Install some of the flow counters that are due, and ask for those to be read."""
        opened_ns = now_ns - self._classifier.background_age_ns
        opened = reviewed = 0
        while self._young and self._young[0].opened_ns <= opened_ns:
            if opened == _OPENED_PER_TURN or reviewed == _REVIEWED_PER_TURN:
                break
            connection = self._young.popleft()
            if connection.established and connection.record is None:
                if self._channel_history.saw_all(connection.pair.edges, connection.opened_ns):
                    opened += self._count_unless_full(connection, now_ns)
                else:
                    # It may have ended unseen. If not, it is relearnt when the switch is back.
                    self._remove(connection, "unwatched")
                reviewed += 1
        for switch in self._fabric.connected():
            if self._polling.due(switch, now_ns):
                self._emit(ReadFlowCounters(switch))

    def switch_up(self, switch: int, has_past: bool, now_ns: int) -> None:
        """A switch is connected. If it `has_past`, connections may have ended unseen before."""
        self.routes.given_up.discard(switch)
        self._channel_history.connected(switch, has_past, now_ns)
        self._polling.reconnected(switch)

    def switch_down(self, switch: int, now_ns: int) -> None:
        """The channel to a switch is lost: the ends of its connections are not seen."""
        self._channel_history.disconnected(switch, now_ns)
        self.relearning.discard(switch)

    def restarted(self, switch: int) -> None:
        """A switch has lost all its entries, so it cannot report which connections ended while its
        channel was lost. Remove those that may have; the ones that go on are relearnt."""
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
                        self._remove(connection, "unwatched")

    def give_up(self, switch: int, now_ns: int) -> None:
        """A switch stays away: remove its own connections, and count others elsewhere."""
        self.routes.given_up.add(switch)
        for pair in self.table.host_pairs:
            pair.edges = self.routes.edges(pair)
            for connection in list(pair.members):
                record = connection.record
                if not pair.edges:
                    self._remove(connection, "lost")
                elif record is not None and record.switches[:1] == (switch,):
                    self._flow_counters.move(connection, record, pair.edges[:1], now_ns)

    def forget_switch(self, switch: int) -> None:
        """Forget a switch that was given up."""
        self.routes.given_up.discard(switch)
        self._channel_history.forget(switch)
        self._polling.forget(switch)

    def reroute(self, hosts: set[bytes], now_ns: int) -> None:
        """The paths of these hosts may have changed."""
        for pair in {pair for mac in hosts for pair in self.table.pairs_of(mac)}:
            before = pair.edges[:1]
            self.routes.route(pair)
            switch = pair.edges[:1]
            if switch and switch != before:
                for connection in pair.members:
                    if connection.record is not None:
                        self._flow_counters.move(connection, connection.record, switch, now_ns)

    def remember(self, held: Iterable[HeldEntry]) -> None:
        """What a switch held when it connected may stand for connections that are not known."""
        self._surviving.remember(held)

    def tend(self, now_ns: int) -> None:
        """Remove expired state; adopt connections of which only the SYN-ACK was seen."""
        for answer, finished in self.table.expire(now_ns):
            key = reverse(answer.key)
            if self.table.find(key) is None:
                # RFC 7323 section 2.2: the option is in a SYN-ACK only if it was in the SYN.
                scaled = answer.window_scale is not None
                _, ours = self._known_scales(key)
                scale = min(answer.window_scale or 0, MAX_WINDOW_SCALE)
                scales = scale, ours if scaled else 0
                macs = answer.macs[:6], answer.macs[6:]
                self._adopt(key, macs, scales, answer.path_id, now_ns, finished)
        for pair in self.table.drop_unused(now_ns):
            for lane in pair.lanes:
                self._window_entries.leave(lane, now_ns)
        self._window_entries.forget_unused(now_ns - self._settings.expiry_ns)
        self._review_uncounted(now_ns)
        self._treat_some(now_ns)

    def adopt_remembered(self, now_ns: int) -> None:
        """Flow counters that survived stand for connections, as soon as both ends are located."""
        for flow in self._surviving.initiators():
            src, dst = self._fabric.owner(flow.src), self._fabric.owner(flow.dst)
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
        return self._window_entries.scale(flow.dst), self._window_entries.scale(flow.src)

    def _adopt(
        self,
        key: bytes,
        macs: tuple[bytes, bytes],
        scales: tuple[int | None, int | None],
        path_id: int | None,
        now_ns: int,
        finished: int = 0,
    ) -> None:
        if self._fabric.path(*macs, path_id) is None:
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
        if pair.treatment is not Treatment.EXEMPT:
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
            # While switches relearn, they copy up uncounted flows: at both ends.
            self._flow_counters.start(
                connection, ConnectionRecord(pair.edges, records[0], records[1])
            )
            self._apply(connection)
        self.adopted += 1
        if self._settings.log:
            self._tell_opened(connection, adopted=True)
        self._begin(connection)

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
        if not connection.established or connection.record is not None:
            return
        pair = connection.pair
        self._apply_from_start(connection)
        is_copied = self.relearning and not self.relearning.isdisjoint(pair.edges)
        if is_copied and pair.treatment is not Treatment.EXEMPT:
            self._start_counting(connection, pair.edges, connection.opened_ns)
        else:
            self._young.append(connection)

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
            if connection.established and treatment is not connection.pair.treatment:
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
        renewed.finished = connection.finished
        self.routes.route_new()
        if now_ns - renewed.opened_ns < self._classifier.background_age_ns:
            self._begin(renewed)
        else:
            # Its former counters showed that it goes on; new ones must do so, too.
            self._apply_from_start(renewed)
            self._count_unless_full(renewed, now_ns)

    def _closed(self, connection: Connection, reason: str) -> None:
        self.counters[reason] += 1
        if self._surviving:
            # Otherwise what a switch held of it would bring it back.
            self.forget_remembered(FlowKey.unpack(connection.key))
        self._let_go(connection)
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
        pair, record = connection.pair, connection.record
        if record is not None:
            self._flow_counters.stop(connection, record)
        if record is not None or pair.needs_own_entries:
            self._window_entries.release(connection)

    def _remove(self, connection: Connection, reason: str) -> None:
        self.table.remove(connection)
        self._closed(connection, reason)

    # Flow counters

    def _count_unless_full(self, connection: Connection, now_ns: int) -> bool:
        """Count a connection at the initiator's edge, unless that switch counts too many already.

        Exempt connections are never counted. Returns whether it is counted.
        """
        pair = connection.pair
        switches = () if pair.treatment is Treatment.EXEMPT else pair.edges[:1]
        limit = self._settings.counted_per_switch
        if not switches or self._polling.n_counted(switches[0]) >= limit:
            self._uncounted.append(connection)
            return False
        self._start_counting(connection, switches, now_ns)
        return True

    def _start_counting(
        self, connection: Connection, switches: tuple[int, ...], now_ns: int
    ) -> None:
        born = connection.pair.born
        records = [
            FlowRecord.started(connection.opened_ns, now_ns, flow_class=born) for _ in range(2)
        ]
        self._flow_counters.start(connection, ConnectionRecord(switches, records[0], records[1]))

    def _classify(
        self, connection: Connection, lane: Lane, counted_bytes: int, now_ns: int
    ) -> None:
        record = lane.record(connection)
        assert record is not None and connection.record is not None
        before = record.cls, record.idle
        cls, idle = self._classifier.read(record, record.offset_bytes + counted_bytes, now_ns)
        if record.still_readings <= 1:
            self._polling.moved(connection.record.switches[0])
        if connection.pair.treatment is not Treatment.ORDINARY:
            cls = before[0]  # The operator has set it.
        if (cls, idle) == before:
            return
        self.table.classify(connection, lane, cls, idle)
        if cls is not before[0]:
            self._window_entries.apply(lane, connection)
            if self._settings.log:
                fields = {"class": cls.value, "volume_bytes": record.volume_bytes}
                key = FlowKey.unpack(lane.key(connection))
                self._emit(Record("flow_classified", key.fields() | fields))

    # Connections that are not counted

    def _review_uncounted(self, now_ns: int) -> None:
        """Count the next few uncounted connections if that is possible by now, or expire them."""
        turns = max(_UNCOUNTED_PER_TURN, len(self._uncounted) // 1000)
        for _ in range(min(turns, len(self._uncounted))):
            connection = self._uncounted.popleft()
            if not connection.established or connection.record is not None:
                continue
            if self._expired(connection.opened_ns, now_ns):
                self._remove(connection, "expired")
            else:
                self._count_unless_full(connection, now_ns)
        if len(self._uncounted) > 2 * len(self.table) + _UNCOUNTED_PER_TURN:
            self._uncounted = deque(c for c in self._uncounted if c.established)

    def _expired(self, traced_ns: int, now_ns: int) -> bool:
        return now_ns - traced_ns >= self._settings.expiry_ns
