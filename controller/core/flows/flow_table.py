"""The global-view flow table (GVT) of SDTCP section 3.3, with its tables BRT and BGT.

Segments from different switches may come in any order, a SYN-ACK before its SYN.

The table is updated segment by segment, in batches; this is where the controller spends its time.
It does not compute paths: it is told the route of each host pair.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Set
from itertools import islice
from typing import Final

from controller.core.flows.handshakes import (
    HALF_OPEN_LIMIT,
    HALF_OPEN_TIMEOUT_NS,
    Half,
    Handshakes,
)
from controller.core.flows.host_pairs import (
    FINISHED_INITIATOR,
    FINISHED_RESPONDER,
    Charge,
    Connection,
    ConnectionRecord,
    HostPair,
    Lane,
    host_pair_of,
)
from controller.core.flows.policy import Treatment
from controller.core.flows.port_counts import PortCounts, PortFlows
from controller.core.flows.senders import Senders
from controller.model.flow import (
    ACK,
    DEFAULT_MSS_BYTES,
    FIN,
    MAX_WINDOW_SCALE,
    RST,
    SYN,
    FlowKey,
    Segment,
    SegmentFields,
    reverse,
)
from controller.model.values import FlowClass, PortId

CONNECTIONS_PER_PORT = 500_000
PAIR_KEPT_NS = 10 * 10**9
_LOOKED_AT = 64

_BOTH_FINISHED = FINISHED_INITIATOR | FINISHED_RESPONDER


class ConnectionEvent:
    """What happened to a connection. Strings, because an Enum's members are slow to access."""

    OPENED: Final = "opened"
    FINISHED: Final = "finished"
    RESET: Final = "reset"
    REPLACED: Final = "replaced"


class GlobalFlowTable:
    """All TCP connections of the fabric; only established ones count, unless they are dormant.

    `counters` counts what did not become a connection, by reason: handshakes that were flooded,
    unanswered or orphaned; what came from elsewhere than an end of its connection, from the far
    side of a router or forged (`senders`); and the excess of the `per_port` connections that hosts
    at one port may open. `treat` is called once for each new connection, if there is a policy; a
    connection keeps its treatment. `charge` tells what a host's connections are charged to: its
    port.
    """

    def __init__(
        self,
        half_open_limit: int = HALF_OPEN_LIMIT,
        half_open_timeout_ns: int = HALF_OPEN_TIMEOUT_NS,
        treat: Callable[[FlowKey], Treatment] | None = None,
        senders: Senders | None = None,
        charge: Callable[[bytes], Hashable] = bytes,
        per_port: int = CONNECTIONS_PER_PORT,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.per_port = per_port
        self._senders = senders or Senders()
        self._forged: list[SegmentFields] = []
        self._handshakes = Handshakes(
            self._senders, self.counters, self._forged, half_open_limit, half_open_timeout_ns
        )
        self._charge = charge
        self._charged: dict[Hashable, Charge] = {}
        self.treat = treat
        self._connections: dict[bytes, Connection] = {}  # by both keys
        self._host_pairs: dict[tuple[object, ...], HostPair] = {}
        self._new_pairs: list[HostPair] = []
        self._unsettled: set[HostPair] = set()
        self._unused: dict[HostPair, int] = {}  # Since when; longest first.
        self._now_ns = 0
        self._by_host: dict[bytes, set[HostPair]] = {}
        self._vlans: Counter[bytes] = Counter()  # Of host pairs.
        self._ports = PortFlows()
        self.n_dormant = 0
        # By the switch whose counters are read.
        self._counted: dict[tuple[int, ...], set[Connection]] = {}
        self._strays: list[SegmentFields] = []

    def __len__(self) -> int:
        """The number of established connections, without the dormant ones."""
        return len(self._connections) // 2 - self.n_dormant

    @property
    def most_of_one_port(self) -> int:
        """How many connections the port has opened that has opened most."""
        return max((charge.n for charge in self._charged.values()), default=0)

    @property
    def half_open(self) -> int:
        return len(self._handshakes.awaited)

    @property
    def half_open_limit(self) -> int:
        return self._handshakes.limit

    @property
    def n_host_pairs(self) -> int:
        return len(self._host_pairs)

    @property
    def background(self) -> int:
        """The size of all BGTs together. All other flows, two to a connection, are in a BRT."""
        return self._ports.background

    @property
    def idle(self) -> int:
        """How many burst flows are known to send nothing at present."""
        return self._ports.idle

    @property
    def connections(self) -> list[Connection]:
        """The established connections, without the dormant ones."""
        return [member for pair in self._host_pairs.values() for member in pair.members]

    @property
    def host_pairs(self) -> list[HostPair]:
        """All host pairs, also those without a connection at the moment."""
        return list(self._host_pairs.values())

    @property
    def vlans(self) -> Set[bytes]:
        """The VLANs that host pairs are in, and none (empty) if some are."""
        return self._vlans.keys()

    def pairs_of(self, mac: bytes) -> frozenset[HostPair]:
        """The host pairs that begin or end at a host."""
        return frozenset(self._by_host.get(mac, ()))

    def find(self, key: bytes) -> Connection | None:
        """The established connection of a packed key of either direction, also a dormant one."""
        return self._connections.get(key)

    def counts(self, port: PortId) -> PortCounts:
        self._settle()
        return self._ports.counts(port)

    def flows(self, port: PortId, cls: FlowClass) -> set[FlowKey]:
        """BRT or BGT of one egress port, by the direction of the data."""
        return {
            FlowKey.unpack(lane.key(connection))
            for lane in self.lanes(port)
            for connection in lane.of(cls)
        }

    def lanes(self, port: PortId) -> frozenset[Lane]:
        """The lanes that lead out of an egress port. Its BRT and BGT consist of their flows."""
        return self._ports.lanes(port)

    def take_touched(self) -> list[PortId]:
        """The ports whose counts or MSS changed since the last call, first come first."""
        self._settle()
        return self._ports.take_touched()

    def take_new_pairs(self) -> list[HostPair]:
        """The new host pairs since the last call; they have no route yet."""
        new, self._new_pairs = self._new_pairs, []
        return new

    def take_strays(self) -> list[SegmentFields]:
        """The data segments of unknown connections since the last call."""
        strays, self._strays = self._strays, []
        return strays

    def take_forged(self) -> list[SegmentFields]:
        """The segments since the last call that pretend to be of another port's host."""
        forged = self._forged.copy()
        self._forged.clear()
        return forged

    @property
    def now_ns(self) -> int:
        """The latest time that the table was told."""
        return self._now_ns

    def is_opening(self, key: bytes) -> bool:
        """Whether a part of a connection's handshake was seen, by the key of either direction."""
        return self._handshakes.is_under_way(key)

    # Segments

    def observe(
        self, segments: Iterable[SegmentFields], now_ns: int
    ) -> list[tuple[str, Connection]]:
        """Enter copied segments, in this order; returns what happened to connections."""
        self._now_ns = now_ns
        changes: list[tuple[str, Connection]] = []
        connections, handshakes = self._connections, self._handshakes
        awaited = handshakes.awaited
        for segment in segments:
            key, flags = segment[2], segment[3]
            if flags & (RST | SYN):
                if flags & RST:
                    self._reset(segment, changes)
                elif flags & ACK:
                    if key in awaited:
                        half = handshakes.answer(segment)
                        if half is not None:
                            self._open(half, segment, now_ns, changes)
                    elif not self._is_answered(segment):
                        handshakes.answer_early(segment, now_ns)
                else:
                    self._syn(segment, now_ns, changes)
            elif flags & FIN:
                connection = connections.get(key)
                if connection is None:
                    handshakes.finish(segment)
                    continue
                if key == connection.key:
                    finished, mac = FINISHED_INITIATOR, connection.pair.initiator_mac
                else:
                    finished, mac = FINISHED_RESPONDER, connection.pair.responder_mac
                if segment[1][6:] != mac and not self._senders.is_at(segment, mac):
                    self._refuse(segment, connection)
                    continue
                connection.finished |= finished
                if connection.finished == _BOTH_FINISHED:
                    self.remove(connection)
                    changes.append((ConnectionEvent.FINISHED, connection))
            elif segment[6]:
                connection = connections.get(key)
                if connection is None or connection.dormant:
                    self._strays.append(segment)
        return changes

    def _syn(
        self, segment: SegmentFields, now_ns: int, changes: list[tuple[str, Connection]]
    ) -> None:
        key = segment[2]
        known = self._connections.get(key)
        if known is not None:
            if known.key == key and known.initial_sequence == segment[4]:
                return
            if not self.is_from(segment, known) and not self._senders.owns_source(segment):
                self._refuse(segment, known)
                return
            self.remove(known)
            changes.append((ConnectionEvent.REPLACED, known))
        established = self._handshakes.syn(segment, now_ns)
        if established is not None:
            self._open(established.half, established.answer, now_ns, changes)

    def _is_answered(self, answer: SegmentFields) -> bool:
        """Whether this SYN-ACK repeats that of an established connection. If not, it may be that of
        a new connection with the same ports."""
        known = self._connections.get(answer[2])
        return known is not None and (
            known.key == answer[2]  # RFC 9293 section 3.5, simultaneous open: either side answers.
            or known.initial_sequence < 0  # Adopted: its SYN was not seen.
            or (known.initial_sequence + 1) & 0xFFFFFFFF == answer[5]
        )

    def has_room(self, mac: bytes) -> bool:
        """Whether a host may open one more connection."""
        charge = self._charged.get(self._charge(mac))
        return charge is None or charge.n < self.per_port

    def is_from(self, segment: SegmentFields, connection: Connection) -> bool:
        """Whether a segment comes from where that end of its connection is."""
        pair = connection.pair
        is_initiators = segment[2] == connection.key
        return self._senders.is_at(
            segment, pair.initiator_mac if is_initiators else pair.responder_mac
        )

    def _open(
        self,
        half: Half,
        answer: SegmentFields,
        now_ns: int,
        changes: list[tuple[str, Connection]],
    ) -> None:
        """A connection is established."""
        syn, seen_ns, once, finished = half
        _, macs, key, _, sequence, _, _, mss_bytes, scale, path_id = syn
        _, _, answer_key, _, _, _, _, answer_mss_bytes, answer_scale, answer_path_id = answer
        if path_id is None:
            path_id = answer_path_id
        least_mss_bytes = mss_bytes or DEFAULT_MSS_BYTES[len(key)]
        answer_mss_bytes = answer_mss_bytes or DEFAULT_MSS_BYTES[len(key)]
        if answer_mss_bytes < least_mss_bytes:
            least_mss_bytes = answer_mss_bytes
        if scale is None or answer_scale is None:
            # RFC 7323 section 2.2: windows are scaled only if both ends offered to.
            scale = answer_scale = 0
        identity: tuple[object, ...] = (
            key[:-4],
            macs,
            path_id,
            least_mss_bytes,
            scale,
            answer_scale,
        )
        treatment = Treatment.ORDINARY
        if self.treat is not None:
            treatment = self.treat(FlowKey.unpack(key))
            identity = (*identity, treatment)
        pair = self._host_pairs.get(identity)
        if pair is None:
            if self._senders.borrows_source(syn):
                self.counters["elsewhere"] += 1
                return
            scales = min(answer_scale, MAX_WINDOW_SCALE), min(scale, MAX_WINDOW_SCALE)
            ends = macs[6:], macs[:6]
            pair = self._add_pair(
                identity, host_pair_of(key, ends, least_mss_bytes, scales, treatment, path_id)
            )
        if pair.charge.n >= self.per_port:
            self.counters["excess"] += 1
            return
        # If both came in one batch, it was too quick to be measured.
        took_ns = now_ns - seen_ns
        if once and took_ns and not 0 < pair.handshake_ns <= took_ns:
            pair.handshake_ns = took_ns
        connection = Connection(key, answer_key, pair, sequence, now_ns, finished)
        self._enter(connection)
        changes.append((ConnectionEvent.OPENED, connection))

    def _enter(self, connection: Connection) -> None:
        pair = connection.pair
        self._connections[connection.key] = self._connections[connection.answer_key] = connection
        pair.charge.n += 1
        pair.members.add(connection)
        self._unsettled.add(pair)

    def _reset(self, segment: SegmentFields, changes: list[tuple[str, Connection]]) -> None:
        if not self._handshakes.reset(segment, self._now_ns):
            return
        connection = self._connections.get(segment[2])
        if connection is None:
            return
        if not self.is_from(segment, connection):
            self._refuse(segment, connection)
            return
        self.remove(connection)
        changes.append((ConnectionEvent.RESET, connection))

    def _refuse(self, segment: SegmentFields, connection: Connection) -> None:
        """A segment does not come from the end of its connection that it names."""
        self.counters["elsewhere"] += 1
        pair, senders = connection.pair, self._senders
        # A router is one end of the leg that is known, and sends on what comes from the other.
        is_from_an_end = any(
            senders.is_at(segment, mac) for mac in (pair.initiator_mac, pair.responder_mac)
        )
        if is_from_an_end or not senders.borrows_source(segment):
            return
        if not self._seems_to_be_a_router(segment[1][6:]):
            self._forged.append(segment)

    def _seems_to_be_a_router(self, mac: bytes) -> bool:
        """Whether a host is known as the end of connections whose addresses are not its own."""
        owns = self._senders.owns
        for pair in islice(self._by_host.get(mac, ()), _LOOKED_AT):
            lane = pair.forward if mac == pair.initiator_mac else pair.reverse
            if owns(mac, lane.src, pair.vlan) is not True:
                return True
        return False

    # Changes that do not come from a segment

    def adopt(
        self,
        key: bytes,
        macs: tuple[bytes, bytes],
        mss_bytes: int,
        window_scales: tuple[int | None, int | None],
        path_id: int | None,
        opened_ns: int,
    ) -> Connection:
        """Enter a connection whose handshake was not seen. `key` must not be known.

        Of `macs` and `window_scales`, the initiator's address comes first, and the scale for its
        data.
        """
        self._handshakes.forget(key)
        treatment = Treatment.ORDINARY if self.treat is None else self.treat(FlowKey.unpack(key))
        identity = (key[:-4], *macs, path_id, mss_bytes, *window_scales, treatment)
        pair = self._host_pairs.get(identity)
        if pair is None:
            pair = self._add_pair(
                identity, host_pair_of(key, macs, mss_bytes, window_scales, treatment, path_id)
            )
        answer_key = reverse(key)
        connection = Connection(key, answer_key, pair, -1, opened_ns, 0)
        self._enter(connection)
        return connection

    def route(
        self, pair: HostPair, forward: tuple[PortId, ...], reverse: tuple[PortId, ...]
    ) -> None:
        """Set the egress ports through which a pair's data leaves, in both directions."""
        self._ports.route(pair, pair.forward, forward)
        self._ports.route(pair, pair.reverse, reverse)

    def count(self, connection: Connection, record: ConnectionRecord) -> None:
        """A connection is counted from now on, or by other switches."""
        self._weigh(connection, -1)
        self._uncount(connection)
        connection.record = record
        self._counted.setdefault(record.switches[:1], set()).add(connection)
        self._weigh(connection, 1)

    def classify(self, connection: Connection, lane: Lane, cls: FlowClass, idle: bool) -> None:
        """Set the class of a counted flow, BRT or BGT, and whether it is idle."""
        self._weigh(connection, -1, lane)
        record = lane.record(connection)
        assert record is not None
        record.cls, record.idle = cls, idle
        self._weigh(connection, 1, lane)

    def remove(self, connection: Connection) -> None:
        """Forget an established connection."""
        del self._connections[connection.key], self._connections[connection.answer_key]
        connection.established = False
        if connection.dormant:
            self._end_dormancy(connection)
        else:
            self._leave(connection)

    def make_dormant(self, connection: Connection, now_ns: int) -> None:
        """A connection has moved nothing for long: it is not counted, and counts for no port."""
        connection.begun_ns = now_ns
        self._leave(connection)
        connection.record = None
        connection.dormant = True
        connection.pair.dormant.add(connection)
        self.n_dormant += 1

    def wake(self, connection: Connection, now_ns: int) -> None:
        """A dormant connection moves something: it counts again."""
        self._end_dormancy(connection)
        connection.dormant = False
        connection.begun_ns = now_ns
        connection.pair.members.add(connection)
        connection.pair.charge.n += 1

    def _end_dormancy(self, connection: Connection) -> None:
        connection.pair.dormant.discard(connection)
        self.n_dormant -= 1
        self._unsettled.add(connection.pair)

    def _leave(self, connection: Connection) -> None:
        """A connection is no member of its pair any more."""
        if connection.record is not None:
            self._weigh(connection, -1)
            self._uncount(connection)
        pair = connection.pair
        pair.members.discard(connection)
        pair.charge.n -= 1
        self._unsettled.add(pair)

    @property
    def n_counted(self) -> int:
        """How many connections are counted."""
        return sum(map(len, self._counted.values()))

    def counted(self) -> Iterator[list[Connection]]:
        """The connections that are counted, switch by switch, each as it is in its turn."""
        for switches in list(self._counted):
            yield list(self._counted.get(switches, ()))

    def _uncount(self, connection: Connection) -> None:
        if connection.record is not None:
            self._counted[connection.record.switches[:1]].discard(connection)

    def expire(self, now_ns: int) -> list[tuple[Segment, int]]:
        """Drop SYNs that were never answered. Returns the SYN-ACKs whose SYN never came, each with
        the sides that have finished since."""
        self._now_ns = now_ns
        orphans = self._handshakes.expire(now_ns)
        self._settle()
        self._ports.forget_handshakes(now_ns)
        return orphans

    def drop_unused(self, now_ns: int, limit: int) -> list[HostPair]:
        """Remove host pairs without a connection, even a dormant one, for PAIR_KEPT_NS, those for
        longest, and no more than `limit`; returns them."""
        self._now_ns = now_ns
        self._settle()
        dropped = []
        for pair, since_ns in islice(self._unused.items(), limit):
            if now_ns - since_ns < PAIR_KEPT_NS:
                break
            dropped.append(pair)
        for pair in dropped:
            del self._unused[pair], self._host_pairs[pair.identity]
            self._vlans[pair.vlan] -= 1
            if not self._vlans[pair.vlan]:
                del self._vlans[pair.vlan]
            self.route(pair, (), ())
            for mac in {pair.initiator_mac, pair.responder_mac}:
                self._by_host[mac].discard(pair)
                if not self._by_host[mac]:
                    del self._by_host[mac]
        return dropped

    def _add_pair(self, identity: tuple[object, ...], pair: HostPair) -> HostPair:
        pair.identity = identity
        charged = self._charge(pair.initiator_mac)
        pair.charge = self._charged.setdefault(charged, pair.charge)
        self._host_pairs[identity] = pair
        self._vlans[pair.vlan] += 1
        self._new_pairs.append(pair)
        for mac in (pair.initiator_mac, pair.responder_mac):
            self._by_host.setdefault(mac, set()).add(pair)
        return pair

    def _weigh(self, connection: Connection, sign: int, only: Lane | None = None) -> None:
        """Add the flows of a counted connection to the counts, or subtract them."""
        # Flows that are background flows from birth are counted with the members.
        moves = connection.pair.born is FlowClass.BURST
        for lane in connection.pair.lanes:
            record = lane.record(connection)
            if record is not None and only in (None, lane):
                is_background = record.cls is FlowClass.BACKGROUND
                if moves and is_background and sign > 0:
                    lane.bgt.add(connection)
                elif moves:
                    lane.bgt.discard(connection)
                self._ports.change(
                    lane,
                    background=sign if moves and is_background else 0,
                    idle=sign if record.idle and not is_background else 0,
                    idle_background=sign if record.idle and is_background else 0,
                )

    def _settle(self) -> None:
        for pair in self._unsettled:
            self._ports.settle(pair)
            if pair.members or pair.dormant:
                self._unused.pop(pair, None)
            else:
                self._unused.setdefault(pair, self._now_ns)
        self._unsettled.clear()
