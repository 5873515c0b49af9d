"""The GVT against a naive model, which keeps plain sets and counts everything anew each time."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.core.flows.flow_table import GlobalFlowTable
from controller.core.flows.handshakes import EARLY_ANSWER_TIMEOUT_NS
from controller.core.flows.host_pairs import ConnectionRecord, FlowRecord
from controller.core.flows.policy import Treatment
from controller.model.flow import ACK, FIN, RST, SYN, FlowKey, Segment
from controller.model.values import FlowClass, PortId

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND
P1, P2, P3 = PortId(1, 1), PortId(1, 2), PortId(2, 1)
LIMIT, TIMEOUT_NS = 2, 50
HOSTS = [b"\x0a\0\0\x01", b"\x0a\0\0\x02", bytes(15) + b"\x01", bytes(15) + b"\x02"]
MACS = {address: b"\2\0\0\0\0" + address[-1:] for address in HOSTS}
CALLS = [FlowKey(HOSTS[i], port, HOSTS[i + 1], 80) for i in (0, 2) for port in (1, 2)]
keys = st.sampled_from([side for call in CALLS for side in (call, call.reverse)])
routes = st.lists(st.sampled_from([P1, P2, P3]), unique=True).map(tuple)
mss = st.sampled_from([536, 1460])
scales = st.sampled_from([None, 7])


def treat(key: FlowKey) -> Treatment:
    return Treatment.BACKGROUND if 2 in (key.src_port, key.dst_port) else Treatment.ORDINARY


@dataclass
class Entry:
    """A connection, or half of one: its SYN, or only the answer to it."""

    sequence: int
    mss: int
    scale: int | None
    seen_ns: int
    finished: set[FlowKey] = field(default_factory=set)
    answer_scale: int | None = None
    dormant: bool = False
    classes: dict[FlowKey, tuple[FlowClass, bool]] = field(default_factory=dict)


class AgainstNaiveModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = GlobalFlowTable(LIMIT, TIMEOUT_NS, treat)
        self.now_ns = 1
        self.half_open: dict[FlowKey, Entry] = {}  # by the initiator's key, like all of these
        self.early: dict[FlowKey, Entry] = {}
        self.given_up: dict[FlowKey, int] = {}
        self.open: dict[FlowKey, Entry] = {}
        self.routes: dict[object, dict[FlowKey, tuple[PortId, ...]]] = {}

    def see(self, key: FlowKey, flags: int, *rest: int | None) -> None:
        macs = MACS[key.dst] + MACS[key.src]
        sequence, mss_bytes, scale = rest or (1, None, None)
        segment = Segment(1, macs, key.pack(), flags, sequence or 1, 2, 0, mss_bytes, scale)
        self.table.observe([segment], self.now_ns)
        for pair in self.table.take_new_pairs():
            self.table.route(pair, (), ())

    def known(self, key: FlowKey) -> FlowKey | None:
        return next((k for k in (key, key.reverse) if k in self.open), None)

    def together(self, key: FlowKey) -> object:
        """What connections must have in common to share a route."""
        entry = self.open[key]
        return key.src, key.dst, entry.mss, entry.scale, entry.answer_scale, treat(key)

    def establish(self, key: FlowKey, syn: Entry, mss_bytes: int, scale: int | None) -> None:
        scaled = syn.scale is not None and scale is not None
        self.open[key] = Entry(
            syn.sequence, min(syn.mss, mss_bytes), syn.scale if scaled else 0, 0, syn.finished
        )
        self.open[key].answer_scale = scale if scaled else 0

    @rule(key=keys, sequence=st.integers(1, 2), mss=mss, scale=scales)
    def syn(self, key: FlowKey, sequence: int, mss: int, scale: int | None) -> None:
        self.see(key, SYN, sequence, mss, scale)
        known = self.known(key)
        if known is not None:
            if known == key and self.open[key].sequence == sequence:
                return
            del self.open[known]
        first = self.half_open.pop(key.reverse, None)
        if first is not None and len(first.finished) < 2:
            first.seen_ns = self.now_ns
            self.half_open[key.reverse] = first
            return
        early = self.early.pop(key, None)
        syn = Entry(sequence, mss, scale, self.now_ns)
        if early is not None and sequence == 1:
            syn.finished = early.finished
            self.establish(key, syn, early.mss, early.scale)
            return
        self.half_open.pop(key, None)
        self.half_open[key] = syn
        while len(self.half_open) > LIMIT:
            del self.half_open[next(iter(self.half_open))]

    @rule(key=keys, mss=mss, scale=scales)
    def syn_ack(self, key: FlowKey, mss: int, scale: int | None) -> None:
        self.see(key, SYN | ACK, 1, mss, scale)
        syn = self.half_open.pop(key.reverse, None)
        known = self.known(key)
        if syn is not None:
            if known is None and len(syn.finished) < 2:
                self.establish(key.reverse, syn, mss, scale)
        elif key.reverse not in self.given_up and (
            known is None or (known == key.reverse and self.open[known].sequence == 2)
        ):
            self.early.pop(key.reverse, None)
            self.early[key.reverse] = Entry(1, mss, scale, self.now_ns)
            while len(self.early) > LIMIT:
                del self.early[next(iter(self.early))]

    @rule(key=keys)
    def fin(self, key: FlowKey) -> None:
        self.see(key, FIN | ACK)
        known = self.known(key)
        if known is not None:
            self.open[known].finished.add(key)
            if len(self.open[known].finished) == 2:
                del self.open[known]
            return
        for halves in (self.half_open, self.early):
            for side in (key, key.reverse):
                if side in halves:
                    halves[side].finished.add(key)
                    return

    @rule(key=keys, flags=st.sampled_from([RST, RST | ACK]))
    def rst(self, key: FlowKey, flags: int) -> None:
        self.see(key, flags)
        syn = self.half_open.get(key)
        for side in (key, key.reverse):
            for entries in (self.half_open, self.early, self.open):
                entries.pop(side, None)
        if syn is not None:
            self.given_up.pop(key, None)
            self.given_up[key] = self.now_ns
            if len(self.given_up) > LIMIT:
                del self.given_up[next(iter(self.given_up))]

    @rule(key=keys)
    def adopt(self, key: FlowKey) -> None:
        if self.table.find(key.pack()) is None:
            macs = MACS[key.src], MACS[key.dst]
            self.table.adopt(key.pack(), macs, 1460, (None, None), None, self.now_ns)
            for pair in self.table.take_new_pairs():
                self.table.route(pair, (), ())
            for side in (key, key.reverse):
                self.half_open.pop(side, None)
                self.early.pop(side, None)
            self.open[key] = Entry(-1, 1460, None, 0)

    @rule(key=keys, forward=routes, reverse=routes)
    def route(self, key: FlowKey, forward: tuple[PortId, ...], reverse: tuple[PortId, ...]) -> None:
        connection, known = self.table.find(key.pack()), self.known(key)
        assert (connection is None) == (known is None)
        if connection is not None and known is not None:
            self.table.route(connection.pair, forward, reverse)
            self.routes[self.together(known)] = {True: forward, False: reverse}  # type: ignore[dict-item]

    @rule(key=keys, cls=st.sampled_from(list(FlowClass)), idle=st.booleans())
    def classify(self, key: FlowKey, cls: FlowClass, idle: bool) -> None:
        connection, known = self.table.find(key.pack()), self.known(key)
        if connection is not None and known is not None and not self.open[known].dormant:
            born = connection.pair.born
            if connection.record is None:
                records = [FlowRecord.started(0, 0, flow_class=born) for _ in range(2)]
                self.table.count(connection, ConnectionRecord((1,), *records))
            if treat(key) is not Treatment.ORDINARY:
                cls = born
            lane = connection.pair.forward if key == known else connection.pair.reverse
            self.table.classify(connection, lane, cls, idle)
            self.open[known].classes[key] = cls, idle

    @rule(key=keys)
    def dormant(self, key: FlowKey) -> None:
        connection, known = self.table.find(key.pack()), self.known(key)
        if connection is not None and known is not None and not self.open[known].dormant:
            self.table.make_dormant(connection, self.now_ns)
            self.open[known].dormant, self.open[known].classes = True, {}

    @rule(key=keys)
    def data(self, key: FlowKey) -> None:
        macs = MACS[key.dst] + MACS[key.src]
        self.table.observe([Segment(1, macs, key.pack(), ACK, 1, 2, 100)], self.now_ns)
        connection, known = self.table.find(key.pack()), self.known(key)
        is_stray = known is None or self.open[known].dormant
        assert [stray[2] for stray in self.table.take_strays()] == [key.pack()] * is_stray
        if connection is not None and known is not None and is_stray:
            self.table.wake(connection, self.now_ns)
            self.open[known].dormant = False

    @rule(step_ns=st.integers(0, TIMEOUT_NS) | st.just(EARLY_ANSWER_TIMEOUT_NS))
    def time_passes(self, step_ns: int) -> None:
        self.now_ns += step_ns
        self.table.expire(self.now_ns)
        for key, since_ns in list(self.given_up.items()):
            if self.now_ns - since_ns >= EARLY_ANSWER_TIMEOUT_NS:
                del self.given_up[key]
        for halves, timeout_ns in (
            (self.half_open, TIMEOUT_NS),
            (self.early, EARLY_ANSWER_TIMEOUT_NS),
        ):
            for key, half in list(halves.items()):
                if self.now_ns - half.seen_ns >= timeout_ns:
                    del halves[key]

    @rule()
    def forget(self) -> None:
        self.table.drop_unused(self.now_ns, 10**6)
        self.table.drop_unused(self.now_ns + 10**12, 10**6)
        used = {self.together(key) for key in self.open}
        self.routes = {ends: ports for ends, ports in self.routes.items() if ends in used}

    @invariant()
    def agree(self) -> None:
        awake = {key: entry for key, entry in self.open.items() if not entry.dormant}
        assert len(self.table) == len(awake) == len(self.table.connections)
        assert self.table.n_dormant == len(self.open) - len(awake)
        assert self.table.half_open == len(self.half_open)
        for port in (P1, P2, P3):
            found: dict[FlowClass, set[FlowKey]] = {cls: set() for cls in FlowClass}
            largest = 0
            idle = dict.fromkeys(FlowClass, 0)
            for key, entry in awake.items():
                for side in (key, key.reverse):
                    ports = self.routes.get(self.together(key), {}).get(side == key, ())  # type: ignore[call-overload]
                    if port in ports:
                        born = BACKGROUND if treat(key) is Treatment.BACKGROUND else BURST
                        cls, is_idle = entry.classes.get(side, (born, False))
                        found[cls].add(side)
                        idle[cls] += is_idle
                        largest = max(largest, entry.mss)
            counts = self.table.counts(port)
            assert counts[:4] == (len(found[BACKGROUND]), len(found[BURST]), largest, idle[BURST])
            assert counts.idle_background == idle[BACKGROUND]
            active = {cls: len(found[cls]) - idle[cls] for cls in FlowClass}
            assert counts.active[:2] == (active[BACKGROUND], active[BURST])
            for cls in FlowClass:
                assert self.table.flows(port, cls) == found[cls]


AgainstNaiveModel.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, print_blob=True
)
TestAgainstNaiveModel = AgainstNaiveModel.TestCase
