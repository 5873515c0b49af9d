"""The GVT: the life of a connection, and the counts of ports against a naive model."""

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.core.flow import ACK, FIN, RST, SYN, Connection, Flow, FlowKey, Segment
from controller.core.flow_table import (
    EARLY_ANSWER_TIMEOUT_NS,
    NO_FLOWS,
    Change,
    GlobalFlowTable,
    PortCounts,
)
from controller.core.values import FlowClass, PortId

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND
CLIENT, SERVER = b"\x0a\0\0\x01", b"\x0a\0\0\x02"
CLIENT_MAC, SERVER_MAC = b"\2\0\0\0\0\1", b"\2\0\0\0\0\2"
CALL = FlowKey(CLIENT, 40_000, SERVER, 80)
P1, P2 = PortId(1, 1), PortId(1, 2)
SECOND = 10**9


def seg(
    key: FlowKey,
    flags: int,
    sequence: int = 1,
    mss_bytes: int | None = None,
    window_scale: int | None = None,
) -> Segment:
    macs = (CLIENT_MAC, SERVER_MAC) if key.src == CLIENT else (SERVER_MAC, CLIENT_MAC)
    return Segment(key, flags, sequence, 2, *macs, 0, mss_bytes, window_scale)


def opened(table: GlobalFlowTable, key: FlowKey = CALL, mss_bytes: int = 1460) -> Connection:
    table.observe(seg(key, SYN, 1, mss_bytes, 7), 0)
    ((change, connection),) = table.observe(seg(key.reverse, SYN | ACK, 1, 1460, 9), 5)
    assert change is Change.OPENED
    return connection


class TestHandshake:
    def test_a_syn_alone_is_half_open(self) -> None:
        table = GlobalFlowTable()
        assert table.observe(seg(CALL, SYN), 0) == []
        assert (len(table), table.half_open) == (0, 1)

    def test_a_syn_ack_establishes(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        assert (len(table), table.half_open) == (1, 0)
        assert connection.key == CALL
        assert connection.opened_ns == 5
        assert (connection.initiator_mac, connection.responder_mac) == (CLIENT_MAC, SERVER_MAC)
        assert table.find(CALL) is table.find(CALL.reverse) is connection

    def test_a_flow_goes_by_the_scale_of_its_receiver(self) -> None:
        connection = opened(GlobalFlowTable())
        assert connection.forward.window_scale == 9
        assert connection.reverse.window_scale == 7

    @pytest.mark.parametrize(("ours", "theirs"), [(7, None), (None, 7), (None, None)])
    def test_scaling_needs_both(self, ours: int | None, theirs: int | None) -> None:
        table = GlobalFlowTable()
        table.observe(seg(CALL, SYN, window_scale=ours), 0)
        answer = seg(CALL.reverse, SYN | ACK, window_scale=theirs)
        ((_, connection),) = table.observe(answer, 0)
        assert connection.forward.window_scale == connection.reverse.window_scale == 0

    def test_a_scale_above_14_is_taken_as_14(self) -> None:
        table = GlobalFlowTable()
        table.observe(seg(CALL, SYN, window_scale=7), 0)
        ((_, connection),) = table.observe(seg(CALL.reverse, SYN | ACK, window_scale=200), 0)
        assert connection.forward.window_scale == 14

    def test_the_smaller_mss_counts(self) -> None:
        assert opened(GlobalFlowTable(), mss_bytes=1200).forward.mss_bytes == 1200

    def test_without_the_option_the_mss_is_the_default_of_its_family(self) -> None:
        table = GlobalFlowTable()
        table.observe(seg(CALL, SYN), 0)
        ((_, connection),) = table.observe(seg(CALL.reverse, SYN | ACK, mss_bytes=1460), 0)
        assert connection.forward.mss_bytes == 536

    def test_repeated_segments_change_nothing(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        assert table.observe(seg(CALL, SYN, 1, 1460, 7), 9) == []
        assert table.observe(seg(CALL.reverse, SYN | ACK, 1, 1460, 9), 9) == []
        assert table.find(CALL) is connection

    def test_simultaneous_open_is_one_connection(self) -> None:
        table = GlobalFlowTable()
        table.observe(seg(CALL, SYN, 1), 0)
        table.observe(seg(CALL.reverse, SYN, 2), 0)
        assert table.half_open == 1
        table.observe(seg(CALL.reverse, SYN | ACK, 2), 0)
        assert table.observe(seg(CALL, SYN | ACK, 1), 0) == []
        assert len(table) == 1

    def test_an_answer_may_overtake_its_question(self) -> None:
        """They enter by different switches, whose channels to the controller are not one."""
        table = GlobalFlowTable()
        assert table.observe(seg(CALL.reverse, SYN | ACK, 1, 1460, 9), 0) == []
        assert table.observe(seg(CALL.reverse, FIN | ACK), 1) == []
        ((change, connection),) = table.observe(seg(CALL, SYN, 1, 1200, 7), 2)
        assert change is Change.OPENED
        assert (connection.key, connection.forward.mss_bytes) == (CALL, 1200)
        assert (connection.forward.window_scale, connection.reverse.window_scale) == (9, 7)
        assert table.observe(seg(CALL, FIN | ACK), 3) == [(Change.FINISHED, connection)]

    def test_an_answer_to_another_question_is_none(self) -> None:
        table = GlobalFlowTable()
        table.observe(seg(CALL.reverse, SYN | ACK), 0)
        assert table.observe(seg(CALL, SYN, 77), 0) == []
        assert table.half_open == 1

    def test_an_answer_whose_question_never_came_is_given_back(self) -> None:
        table = GlobalFlowTable()
        answer = seg(CALL.reverse, SYN | ACK)
        table.observe(answer, 0)
        assert table.expire(SECOND - 1) == []
        assert table.expire(SECOND) == [answer]
        assert table.expire(2 * SECOND) == []

    def test_an_end_may_overtake_the_answer(self) -> None:
        table = GlobalFlowTable()
        table.observe(seg(CALL, SYN), 0)
        table.observe(seg(CALL, FIN | ACK), 0)
        ((_, connection),) = table.observe(seg(CALL.reverse, SYN | ACK), 0)
        assert table.observe(seg(CALL.reverse, FIN | ACK), 0) == [(Change.FINISHED, connection)]

    def test_a_reused_port_replaces_the_old_connection(self) -> None:
        table = GlobalFlowTable()
        old = opened(table)
        assert table.observe(seg(CALL, SYN, 99), 9) == [(Change.REPLACED, old)]
        assert (len(table), table.half_open) == (0, 1)


class TestEnd:
    def test_both_sides_must_finish(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        assert table.observe(seg(CALL, FIN | ACK), 0) == []
        assert table.observe(seg(CALL, FIN | ACK), 0) == []
        assert table.find(CALL) is connection
        assert table.observe(seg(CALL.reverse, FIN | ACK), 0) == [(Change.FINISHED, connection)]
        assert len(table) == 0

    def test_a_reset_from_either_side_ends_it(self) -> None:
        for key in (CALL, CALL.reverse):
            table = GlobalFlowTable()
            connection = opened(table)
            assert table.observe(seg(key, RST), 0) == [(Change.RESET, connection)]

    def test_a_refused_connection_leaves_nothing(self) -> None:
        table = GlobalFlowTable()
        table.observe(seg(CALL, SYN), 0)
        assert table.observe(seg(CALL.reverse, RST | ACK), 0) == []
        assert table.half_open == 0

    def test_the_last_segments_of_unknown_connections_are_nothing(self) -> None:
        table = GlobalFlowTable()
        assert table.observe(seg(CALL, FIN | ACK), 0) == []
        assert table.observe(seg(CALL, RST), 0) == []


class TestHalfOpen:
    def test_they_expire_oldest_first(self) -> None:
        table = GlobalFlowTable(half_open_timeout_ns=10)
        table.observe(seg(CALL, SYN), 0)
        table.observe(seg(CALL._replace(src_port=2), SYN), 5)
        for now_ns, left in ((9, 2), (10, 1), (14, 1), (15, 0)):
            table.expire(now_ns)
            assert table.half_open == left

    def test_a_repeated_syn_keeps_it_alive(self) -> None:
        table = GlobalFlowTable(half_open_timeout_ns=10)
        table.observe(seg(CALL, SYN), 0)
        table.observe(seg(CALL, SYN), 8)
        table.expire(10)
        assert table.half_open == 1

    def test_a_flood_pushes_out_the_oldest(self) -> None:
        table = GlobalFlowTable(half_open_limit=3)
        for port in range(5):
            table.observe(seg(CALL._replace(src_port=port), SYN), port)
        assert table.half_open == 3
        late = CALL._replace(src_port=0).reverse
        assert table.observe(seg(late, SYN | ACK), 9) == []
        assert table.observe(seg(CALL._replace(src_port=4).reverse, SYN | ACK), 9)


class TestPorts:
    def test_a_flow_counts_on_every_port_of_its_route(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        table.route(connection.forward, (P1, P2))
        assert table.counts(P1) == table.counts(P2) == PortCounts(0, 1, 1460)
        assert table.flows(P1, BURST) == {connection.forward}
        assert table.take_touched() == [P1, P2]
        assert table.take_touched() == []

    def test_a_new_class_moves_it_from_brt_to_bgt(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        table.route(connection.forward, (P1,))
        table.reclassify(connection.forward, BACKGROUND)
        assert table.counts(P1) == PortCounts(1, 0, 1460)
        assert table.flows(P1, BACKGROUND) == {connection.forward}

    def test_the_largest_mss_of_those_that_are_left_counts(self) -> None:
        table = GlobalFlowTable()
        small = opened(table, CALL, 536)
        large = opened(table, CALL._replace(src_port=2), 1460)
        for connection in (small, large):
            table.route(connection.forward, (P1,))
        assert table.counts(P1).mss_bytes == 1460
        table.remove(large)
        assert table.counts(P1).mss_bytes == 536

    def test_the_end_of_a_connection_takes_it_off_its_ports(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        table.route(connection.forward, (P1,))
        table.route(connection.reverse, (P2,))
        table.observe(seg(CALL, RST), 0)
        assert table.counts(P1) == table.counts(P2) == NO_FLOWS


KEYS = [
    FlowKey(CLIENT, port, SERVER, 80) if forward else FlowKey(SERVER, 80, CLIENT, port)
    for port in (1, 2, 3)
    for forward in (True, False)
]
keys = st.sampled_from(KEYS)
routes = st.lists(st.sampled_from([P1, P2, PortId(2, 1)]), unique=True).map(tuple)
LIMIT, TIMEOUT_NS = 2, 50


class AgainstNaiveModel(RuleBasedStateMachine):
    """Random segments; the model keeps plain lists and counts everything anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.table = GlobalFlowTable(LIMIT, TIMEOUT_NS)
        self.now_ns = 0
        self.half_open: OrderedDict[FlowKey, tuple[int, int, int]] = OrderedDict()
        self.early: dict[FlowKey, tuple[int, int]] = {}
        self.finished: dict[FlowKey, set[FlowKey]] = {}
        self.established: dict[FlowKey, dict[str, object]] = {}

    def model_find(self, key: FlowKey) -> FlowKey | None:
        return next((k for k in (key, key.reverse) if k in self.established), None)

    @rule(key=keys, sequence=st.integers(1, 2), mss=st.sampled_from([536, 1460]))
    def syn(self, key: FlowKey, sequence: int, mss: int) -> None:
        self.table.observe(seg(key, SYN, sequence, mss), self.now_ns)
        known = self.model_find(key)
        if known is not None:
            if known == key and self.established[known]["sequence"] == sequence:
                return
            del self.established[known]
        if key.reverse in self.half_open:
            first_sequence, first_mss, _ = self.half_open.pop(key.reverse)
            self.half_open[key.reverse] = (first_sequence, first_mss, self.now_ns)
            return
        early = self.early.pop(key, None)
        if early is not None and sequence == 1:
            self.establish(key, sequence, min(mss, early[0]))
            return
        self.half_open.pop(key, None)
        self.half_open[key] = (sequence, mss, self.now_ns)
        self.finished[key] = set()
        while len(self.half_open) > LIMIT:
            self.half_open.popitem(last=False)

    @rule(key=keys, mss=st.sampled_from([536, 1460]))
    def syn_ack(self, key: FlowKey, mss: int) -> None:
        self.table.observe(seg(key, SYN | ACK, 1, mss), self.now_ns)
        if key.reverse in self.half_open:
            sequence, syn_mss, _ = self.half_open.pop(key.reverse)
            self.establish(key.reverse, sequence, min(mss, syn_mss))
        elif self.model_find(key) is None:
            self.early.pop(key.reverse, None)
            self.early[key.reverse] = (mss, self.now_ns)
            self.finished[key.reverse] = set()
            while len(self.early) > LIMIT:
                del self.early[next(iter(self.early))]

    @rule(key=keys)
    def adopt(self, key: FlowKey) -> None:
        if self.table.find(key) is None:
            flows = Flow(key, 1460), Flow(key.reverse, 1460)
            self.table.adopt(Connection(CLIENT_MAC, SERVER_MAC, -1, self.now_ns, *flows))
            for side in (key, key.reverse):
                self.half_open.pop(side, None)
                self.early.pop(side, None)
                self.finished.pop(side, None)
            self.establish(key, -1, 1460)

    def establish(self, key: FlowKey, sequence: int, mss: int) -> None:
        self.established[key] = {
            "sequence": sequence,
            "finished": self.finished.pop(key, set()),
            "flows": {side: [mss, BURST, ()] for side in (key, key.reverse)},
        }

    @rule(key=keys)
    def fin(self, key: FlowKey) -> None:
        self.table.observe(seg(key, FIN | ACK), self.now_ns)
        known = self.model_find(key)
        if known is not None:
            self.established[known]["finished"].add(key)
            if len(self.established[known]["finished"]) == 2:
                del self.established[known]
            return
        for halves in (self.half_open, self.early):
            for side in (key, key.reverse):
                if side in halves:
                    self.finished[side].add(key)
                    break

    @rule(key=keys)
    def rst(self, key: FlowKey) -> None:
        self.table.observe(seg(key, RST), self.now_ns)
        for side in (key, key.reverse):
            self.half_open.pop(side, None)
            self.early.pop(side, None)
        known = self.model_find(key)
        if known is not None:
            del self.established[known]

    @rule(key=keys)
    def data(self, key: FlowKey) -> None:
        assert self.table.observe(seg(key, ACK), self.now_ns) == []

    @rule(key=keys, ports=routes)
    def route(self, key: FlowKey, ports: tuple[PortId, ...]) -> None:
        connection = self.table.find(key)
        known = self.model_find(key)
        assert (connection is None) == (known is None)
        if connection is not None:
            self.table.route(connection.flow(key), ports)
            self.established[known]["flows"][key][2] = ports

    @rule(key=keys, cls=st.sampled_from(list(FlowClass)))
    def reclassify(self, key: FlowKey, cls: FlowClass) -> None:
        connection = self.table.find(key)
        if connection is not None:
            self.table.reclassify(connection.flow(key), cls)
            self.established[self.model_find(key)]["flows"][key][1] = cls

    @rule(step_ns=st.integers(0, TIMEOUT_NS) | st.just(EARLY_ANSWER_TIMEOUT_NS))
    def time_passes(self, step_ns: int) -> None:
        self.now_ns += step_ns
        self.table.expire(self.now_ns)
        for key, (_, _, seen_ns) in list(self.half_open.items()):
            if self.now_ns - seen_ns >= TIMEOUT_NS:
                del self.half_open[key]
        for key, (_, seen_ns) in list(self.early.items()):
            if self.now_ns - seen_ns >= EARLY_ANSWER_TIMEOUT_NS:
                del self.early[key]

    @invariant()
    def agree(self) -> None:
        assert len(self.table) == len(self.established)
        assert self.table.half_open == len(self.half_open)
        flows = [flow for entry in self.established.values() for flow in entry["flows"].values()]
        for port in (P1, P2, PortId(2, 1)):
            here = [(mss, cls) for mss, cls, ports in flows if port in ports]
            assert self.table.counts(port) == PortCounts(
                sum(cls is BACKGROUND for _, cls in here),
                sum(cls is BURST for _, cls in here),
                max((mss for mss, _ in here), default=0),
            )


AgainstNaiveModel.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, print_blob=True
)
TestAgainstNaiveModel = AgainstNaiveModel.TestCase


@given(st.lists(st.tuples(keys, st.integers(0, 255)), max_size=60))
@settings(deadline=None, print_blob=True)
def test_any_flags_in_any_order_leave_the_table_sound(sequence: list[tuple[FlowKey, int]]) -> None:
    table = GlobalFlowTable()
    for key, flags in sequence:
        for change, connection in table.observe(seg(key, flags), 0):
            assert connection.established == (change is Change.OPENED)
    assert len({frozenset((c.key, c.key.reverse)) for c in table.connections}) == len(table)
