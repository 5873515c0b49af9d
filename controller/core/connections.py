"""The life of connections: opened, routed, accounted, classified, adopted, closed.

It keeps the GVT, the accounts and the window entries of the switches in step. Windows themselves
are none of its business: they follow from the counts of the ports.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable

from controller.core.classifier import Classifier
from controller.core.effects import Effect, ReadAccounts, Record
from controller.core.enforcer import Enforcer
from controller.core.entries import Account, Survivor
from controller.core.fabric import Fabric
from controller.core.flow import FIN, RST, SYN, Connection, Flow, FlowKey, Segment
from controller.core.flow_table import Change, GlobalFlowTable
from controller.core.policy import Policy, Treatment
from controller.core.recovery import Memory
from controller.core.tables import Tables
from controller.core.values import FlowClass

ADOPTED_MSS_BYTES = 1460
_UNKNOWN_SEQUENCE = -1
_FIXED_CLASS = {
    Treatment.PROTECT: FlowClass.BURST,
    Treatment.BACKGROUND: FlowClass.BACKGROUND,
}


class Connections:
    """All connections of the fabric. `table` is the GVT."""

    def __init__(
        self,
        fabric: Fabric,
        tables: Tables,
        enforcer: Enforcer,
        classifier: Classifier,
        policy: Policy,
        emit: Callable[[Effect], None],
    ) -> None:
        self.table = GlobalFlowTable()
        self._fabric = fabric
        self._tables = tables
        self._enforcer = enforcer
        self._classifier = classifier
        self._policy = policy
        self._emit = emit
        self._memory = Memory()
        self._unaccounted: deque[Connection] = deque()
        self._accounts: Counter[int] = Counter()
        self.relearning = False

    def observe(self, segment: Segment, now_ns: int) -> None:
        """A copied segment that entered at an edge, by a host that the fabric knows."""
        for change, connection in self.table.observe(segment, now_ns):
            if change is Change.OPENED:
                self._opened(connection, adopted=False)
            else:
                self._closed(connection, change.value)
        is_data = segment.payload_bytes and not segment.flags & (SYN | FIN | RST)
        if is_data and self.table.find(segment.key) is None:
            # Its handshake was not seen. A bare ACK may be the last word of a dead connection.
            key = segment.key
            scales = self._enforcer.scale(key.dst), self._enforcer.scale(key.src)
            self._adopt(key, segment.src_mac, segment.dst_mac, scales, now_ns)

    def read(self, switch: int, volumes: Iterable[tuple[FlowKey, int]], now_ns: int) -> None:
        """The byte counters of a switch's accounts: classify anew what has grown."""
        for key, volume_bytes in volumes:
            connection = self.table.find(key)
            if connection is not None and switch in connection.accounted_at:
                flow = connection.flow(key)
                flow.volume_bytes = max(flow.volume_bytes, volume_bytes)
                self._classify(connection, flow, now_ns)

    def idle(self, switch: int, key: FlowKey) -> None:
        """A switch has dropped an account because its flow was idle for long."""
        self._tables.vanished(switch, Account(key, forward=True).key)
        connection = self.table.find(key)
        if connection is not None and switch in connection.accounted_at:
            self.table.remove(connection)
            self._closed(connection, "idle")

    def open_accounts(self, now_ns: int) -> None:
        """Open the accounts that are due, and ask for the counters of all."""
        age_ns = self._classifier.background_age_ns
        while self._unaccounted and now_ns - self._unaccounted[0].opened_ns >= age_ns:
            connection = self._unaccounted.popleft()
            if connection.established and not connection.accounted_at:
                self._account(connection, everywhere=False)
        for switch in self._fabric.connected():
            if self._accounts[switch]:
                self._emit(ReadAccounts(switch))

    def reroute(self, hosts: set[bytes]) -> None:
        """The paths of these hosts may have changed."""
        for connection in self.table.connections:
            if connection.initiator_mac in hosts or connection.responder_mac in hosts:
                self._route(connection)

    def remember(self, survivors: Iterable[Survivor]) -> None:
        """What a switch held when it connected may tell of connections that are not known."""
        self._memory.remember(survivors)

    def expire(self, now_ns: int) -> None:
        """Drop half-open connections; adopt those of which only the answer was ever seen."""
        for answer in self.table.expire(now_ns):
            key = answer.key.reverse
            if self.table.find(key) is None:
                # RFC 7323 section 2.2: the option is in a SYN-ACK only if it was in the SYN.
                scaled = answer.window_scale is not None
                scales = answer.shift, self._enforcer.scale(key.src) if scaled else 0
                self._adopt(key, answer.dst_mac, answer.src_mac, scales, now_ns)

    def adopt_remembered(self, now_ns: int) -> None:
        """Accounts that survived stand for connections, as soon as both ends are located."""
        for key in self._memory.initiators():
            src, dst = self._fabric.owner(key.src), self._fabric.owner(key.dst)
            if src and dst and self.table.find(key) is None:
                scales = self._enforcer.scale(key.dst), self._enforcer.scale(key.src)
                self._adopt(key, src.mac, dst.mac, scales, now_ns)

    def forget_remembered(self) -> None:
        self._memory.clear()

    def _adopt(
        self,
        key: FlowKey,
        src_mac: bytes,
        dst_mac: bytes,
        scales: tuple[int | None, int | None],
        now_ns: int,
    ) -> None:
        if self._fabric.path(src_mac, dst_mac) is None:
            return
        connection = Connection(
            initiator_mac=src_mac,
            responder_mac=dst_mac,
            initial_sequence=_UNKNOWN_SEQUENCE,
            opened_ns=now_ns,
            forward=Flow(key, ADOPTED_MSS_BYTES, scales[0]),
            reverse=Flow(key.reverse, ADOPTED_MSS_BYTES, scales[1]),
        )
        for flow in connection.flows:
            remembered, flow.cls, window_scale = self._memory.claim(flow.key)
            if window_scale is not None:
                # An exception on a switch knows this connection better than its host's entry.
                flow.window_scale = window_scale
            if remembered is not None:
                flow.volume_bytes = remembered.volume_bytes
                connection.opened_ns = min(connection.opened_ns, now_ns - remembered.age_ns)
        self.table.adopt(connection)
        self._opened(connection, adopted=True)

    def _opened(self, connection: Connection, adopted: bool) -> None:
        treatment = self._policy.treatment(connection.key)
        if treatment in _FIXED_CLASS:
            for flow in connection.flows:
                flow.cls = _FIXED_CLASS[treatment]
        self._route(connection)
        fields = connection.key.fields() | {
            "mss_bytes": connection.forward.mss_bytes,
            "window_scales": [connection.reverse.window_scale, connection.forward.window_scale],
            "adopted": adopted,
        }
        self._emit(Record("connection_opened", fields))
        if treatment is Treatment.EXEMPT:
            return
        if adopted or self.relearning:
            # While switches relearn, they copy up what has no account: at both ends.
            self._account(connection, everywhere=True)
        else:
            self._unaccounted.append(connection)

    def _closed(self, connection: Connection, reason: str) -> None:
        for flow in connection.flows:
            self._enforcer.release(flow)
            for switch in connection.accounted_at:
                self._tables.remove(switch, Account(flow.key, forward=True).key)
        self._accounts.subtract(connection.accounted_at)
        volumes_bytes = [flow.volume_bytes for flow in connection.flows]
        fields = connection.key.fields() | {"reason": reason, "volumes_bytes": volumes_bytes}
        self._emit(Record("connection_closed", fields))

    def _account(self, connection: Connection, everywhere: bool) -> None:
        """Have the bytes counted at the initiator's edge, or at both edges."""
        macs = [connection.initiator_mac, connection.responder_mac]
        hosts = [self._fabric.hosts[mac] for mac in macs if mac in self._fabric.hosts]
        edges = tuple(dict.fromkeys(host.port.switch for host in hosts))
        connection.accounted_at = edges if everywhere else edges[:1]
        self._accounts.update(connection.accounted_at)
        for switch in connection.accounted_at:
            for flow in connection.flows:
                self._tables.put(switch, Account(flow.key, flow is connection.forward))

    def _route(self, connection: Connection) -> None:
        """A connection that is exempt has no route: it counts for no port."""
        if self._policy.treatment(connection.key) is Treatment.EXEMPT:
            return
        ends = connection.initiator_mac, connection.responder_mac
        for flow, (src, dst) in zip(connection.flows, (ends, ends[::-1]), strict=True):
            previous = flow.ports
            self.table.route(flow, self._fabric.path(src, dst) or ())
            self._enforcer.reroute(flow, previous)

    def _classify(self, connection: Connection, flow: Flow, now_ns: int) -> None:
        fixed = self._policy.treatment(connection.key) in _FIXED_CLASS
        if fixed or flow.cls is FlowClass.BACKGROUND:
            return
        cls = self._classifier.classify(flow.volume_bytes, now_ns - connection.opened_ns)
        if cls is not flow.cls:
            self.table.reclassify(flow, cls)
            self._enforcer.apply(flow)
            fields = {"class": cls.value, "volume_bytes": flow.volume_bytes}
            self._emit(Record("flow_classified", flow.key.fields() | fields))
