"""Which connections are counted on which switch, and what the counts tell of them.

A connection that is old enough has its bytes counted, at its initiator's switch, as long as that
has room for its flow counters. They are installed a few at a time, so that switches go on
forwarding meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from controller.core.desired.tables import Tables
from controller.core.flows.channel_history import ChannelHistory
from controller.core.flows.classifier import Classifier
from controller.core.flows.dormant import client_is_initiator
from controller.core.flows.flow_counters import FlowCounters
from controller.core.flows.flow_table import GlobalFlowTable
from controller.core.flows.host_pairs import Connection, ConnectionRecord, FlowRecord, Lane
from controller.core.flows.policy import Treatment
from controller.core.flows.polling import Polling
from controller.model.flow import Reading, payload_bytes

_COUNTED_PER_TURN, _REVIEWED_PER_TURN = 64, 2048
_UNCOUNTED_PER_TURN = 256


@dataclass(frozen=True, slots=True)
class CountingSettings:
    """A connection without any packet for `expiry_ns` is idle for long. No switch counts more than
    `counted_per_switch` connections."""

    classifier: Classifier
    poll_interval_ns: int = 5 * 10**8
    expiry_ns: int = 1800 * 10**9
    counted_per_switch: int = 16_384


class Counting:
    """The counted connections of `table`, and those that wait to be counted.

    `reclassified` is called with each flow that a reading has given another class. `relearning` are
    the switches that copy up uncounted flows, so that there all are counted at once.
    """

    def __init__(
        self,
        table: GlobalFlowTable,
        tables: Tables,
        settings: CountingSettings,
        reclassified: Callable[[Lane, Connection], None],
    ) -> None:
        self.relearning: set[int] = set()
        self.polling = Polling(settings.poll_interval_ns)
        self._table = table
        self._settings = settings
        self._reclassified = reclassified
        self._counters = FlowCounters(table, tables, self.polling)
        self._young: deque[Connection] = deque()  # the oldest first
        self._woken: deque[Connection] = deque()
        self._uncounted: deque[Connection] = deque()
        self._n_adopted = 0  # In this turn.

    def reconfigure(self, settings: CountingSettings, now_ns: int) -> None:
        """Use these settings from now on."""
        self._settings = settings
        self.polling.reconfigure(settings.poll_interval_ns, now_ns)

    # Beginning and end

    def opened(self, connection: Connection) -> None:
        """Count a connection when it is old enough, or at once where it would be copied up."""
        pair = connection.pair
        is_copied = self.relearning and not self.relearning.isdisjoint(pair.edges)
        if is_copied and pair.treatment is not Treatment.EXEMPT:
            self._start(connection, pair.edges, connection.opened_ns)
        else:
            self._young.append(connection)

    def woken(self, connection: Connection) -> None:
        """Count a connection that was dormant, soon: until then, what it sends is copied up."""
        self._woken.append(connection)

    def go_on(self, connection: Connection, forward: FlowRecord, reverse: FlowRecord) -> None:
        """Count a connection at both its ends, from where these records are: its switches hold
        counters of it."""
        record = ConnectionRecord(connection.pair.edges, forward, reverse)
        self._counters.start(connection, record)

    def adopted(self, connection: Connection, now_ns: int) -> None:
        """Count a connection at both its ends, as it is copied up there: at once, or soon if there
        are many."""
        limit = self._settings.counted_per_switch
        edges = connection.pair.edges
        is_full = any(self.polling.n_counted(switch) >= limit for switch in edges)
        if is_full or self._n_adopted >= _COUNTED_PER_TURN:
            self._woken.append(connection)
        else:
            self._n_adopted += 1
            self._start(connection, edges, now_ns)

    def renewed(self, connection: Connection, now_ns: int) -> None:
        """Count a connection anew that was known before."""
        if self.is_young(connection, now_ns):
            self.opened(connection)
        else:
            self._count_unless_full(connection, now_ns)

    def stop(self, connection: Connection) -> None:
        """Remove the counters of a connection, if it is counted."""
        if connection.record is not None:
            self._counters.stop(connection, connection.record)

    def move(self, connection: Connection, now_ns: int) -> None:
        """Count a connection where its ends are now, if it is counted."""
        record, switches = connection.record, self.places(connection)
        if record is not None and switches and record.switches[:1] != switches[:1]:
            self._counters.move(connection, record, switches, now_ns)

    @staticmethod
    def places(connection: Connection) -> tuple[int, ...]:
        """The switches to count a connection at: the initiator's, or, if it is not certain that
        the initiator is the client, both."""
        edges = connection.pair.edges
        return edges[:1] if client_is_initiator(connection) else edges

    def is_young(self, connection: Connection, now_ns: int) -> bool:
        """Whether a connection is too young to be counted."""
        return now_ns - connection.opened_ns < self._settings.classifier.background_age_ns

    # Readings

    def read(
        self, switch: int, readings: Iterable[Reading], more: bool, now_ns: int
    ) -> list[Connection]:
        """A part of a switch's flow counters, the last unless `more` follow: classify anew.

        Returns the connections that have been idle for long.
        """
        idle: dict[Connection, None] = {}  # Both its flows may be among the readings.
        for key, n_bytes, n_packets in readings:
            connection = self._table.find(key)
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
                elif self.is_idle_for_long(connection, now_ns):
                    idle[connection] = None
        if not more:
            self.polling.answered(switch, now_ns)
        return list(idle)

    def is_idle_for_long(self, connection: Connection, now_ns: int) -> bool:
        """Whether a connection has had no packet for long. What is not counted has had none since
        it began, as far as is known."""
        record = connection.record
        traced_ns = record.traced_ns if record else connection.begun_ns
        return now_ns - traced_ns >= self._settings.expiry_ns

    def _classify(
        self, connection: Connection, lane: Lane, counted_bytes: int, now_ns: int
    ) -> None:
        record = lane.record(connection)
        assert record is not None and connection.record is not None
        before = record.cls, record.idle
        cls, idle = self._settings.classifier.read(
            record, record.offset_bytes + counted_bytes, now_ns
        )
        if record.still_readings <= 1:
            self.polling.moved(connection.record.switches[0])
        if connection.pair.treatment is not Treatment.ORDINARY:
            cls = before[0]  # The operator has set it.
        if (cls, idle) == before:
            return
        self._table.classify(connection, lane, cls, idle)
        if cls is not before[0]:
            self._reclassified(lane, connection)

    # Connections that are not counted yet

    def count_due(self, history: ChannelHistory, now_ns: int) -> list[Connection]:
        """Count the next few connections that are due.

        Returns those that may have ended unseen before that, by what the `history` of the channels
        says, which are not counted.
        """
        counted = reviewed = self._n_adopted = 0
        unwatched = []
        while self._woken and counted < _COUNTED_PER_TURN and reviewed < _REVIEWED_PER_TURN:
            connection = self._woken.popleft()
            reviewed += 1
            if _waits(connection):
                counted += self._count_unless_full(connection, now_ns)
        while self._young and not self.is_young(self._young[0], now_ns):
            if counted == _COUNTED_PER_TURN or reviewed == _REVIEWED_PER_TURN:
                break
            connection = self._young.popleft()
            if _waits(connection):
                if history.saw_all(connection.pair.edges, connection.opened_ns):
                    counted += self._count_unless_full(connection, now_ns)
                else:
                    unwatched.append(connection)
                reviewed += 1
        return unwatched

    def review(self, now_ns: int) -> list[Connection]:
        """Count the next few connections for which there was no room, if there is by now.

        Returns those that have waited for so long that it is not known whether they are idle.
        """
        waited = []
        turns = max(_UNCOUNTED_PER_TURN, len(self._uncounted) // 1000)
        for _ in range(min(turns, len(self._uncounted))):
            connection = self._uncounted.popleft()
            if not _waits(connection):
                continue
            if self.is_idle_for_long(connection, now_ns):
                waited.append(connection)
            else:
                self._count_unless_full(connection, now_ns)
        if len(self._uncounted) > 2 * len(self._table) + _UNCOUNTED_PER_TURN:
            self._uncounted = deque(filter(_waits, self._uncounted))
        return waited

    def _count_unless_full(self, connection: Connection, now_ns: int) -> bool:
        """Count a connection at the client's edge, unless that switch counts too many already.

        Exempt connections are never counted. Returns whether it is counted.
        """
        pair = connection.pair
        switches = () if pair.treatment is Treatment.EXEMPT else self.places(connection)
        limit = self._settings.counted_per_switch
        if not switches or self.polling.n_counted(switches[0]) >= limit:
            self._uncounted.append(connection)
            return False
        self._start(connection, switches, now_ns)
        return True

    def _start(self, connection: Connection, switches: tuple[int, ...], now_ns: int) -> None:
        born = connection.pair.born
        forward, reverse = (
            FlowRecord.started(connection.begun_ns, now_ns, flow_class=born) for _ in range(2)
        )
        self._counters.start(connection, ConnectionRecord(switches, forward, reverse))


def _waits(connection: Connection) -> bool:
    """Whether a connection may be counted, and is not."""
    return connection.established and not connection.dormant and connection.record is None
