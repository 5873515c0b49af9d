"""The GVT: the life of a connection, and the counts of ports."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.flows.flow_table import (
    PAIR_KEPT_NS,
    ConnectionEvent,
    GlobalFlowTable,
)
from controller.core.flows.host_pairs import Connection, ConnectionRecord, FlowRecord
from controller.core.flows.port_counts import HANDSHAKES_FOR_NS, NO_FLOWS, PortCounts
from controller.model.flow import ACK, FIN, RST, SYN, FlowKey, Segment
from controller.model.values import FlowClass, PortId

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
    payload_bytes: int = 0,
) -> Segment:
    src, dst = (CLIENT_MAC, SERVER_MAC) if key.src == CLIENT else (SERVER_MAC, CLIENT_MAC)
    head = 1, dst + src, key.pack(), flags, sequence, 2, payload_bytes
    return Segment(*head, mss_bytes, window_scale)


def opened(table: GlobalFlowTable, key: FlowKey = CALL, mss_bytes: int = 1460) -> Connection:
    question, answer = seg(key, SYN, 1, mss_bytes, 7), seg(key.reverse, SYN | ACK, 1, 1460, 9)
    ((change, connection),) = table.observe([question], 0) + table.observe([answer], 5)
    assert change is ConnectionEvent.OPENED
    return connection


def metered(table: GlobalFlowTable, connection: Connection) -> None:
    """Have a connection counted."""
    table.count(
        connection, ConnectionRecord((1,), FlowRecord.started(0, 0), FlowRecord.started(0, 0))
    )


class TestHandshake:
    def test_a_syn_alone_is_half_open(self) -> None:
        table = GlobalFlowTable()
        assert table.observe([seg(CALL, SYN)], 0) == []
        assert (len(table), table.half_open) == (0, 1)

    def test_a_syn_ack_establishes(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        assert (len(table), table.half_open) == (1, 0)
        assert connection.key == CALL.pack()
        assert connection.opened_ns == 5
        assert (connection.pair.initiator_mac, connection.pair.responder_mac) == (
            CLIENT_MAC,
            SERVER_MAC,
        )
        assert table.find(CALL.pack()) is table.find(CALL.reverse.pack()) is connection

    def test_a_flow_goes_by_the_scale_of_its_receiver(self) -> None:
        connection = opened(GlobalFlowTable())
        assert connection.pair.forward.window_scale == 9
        assert connection.pair.reverse.window_scale == 7

    @pytest.mark.parametrize(("ours", "theirs"), [(7, None), (None, 7), (None, None)])
    def test_scaling_needs_both(self, ours: int | None, theirs: int | None) -> None:
        table = GlobalFlowTable()
        table.observe([seg(CALL, SYN, window_scale=ours)], 0)
        answer = seg(CALL.reverse, SYN | ACK, window_scale=theirs)
        ((_, connection),) = table.observe([answer], 0)
        assert connection.pair.forward.window_scale == connection.pair.reverse.window_scale == 0

    def test_a_scale_above_14_is_taken_as_14(self) -> None:
        table = GlobalFlowTable()
        table.observe([seg(CALL, SYN, window_scale=7)], 0)
        ((_, connection),) = table.observe([seg(CALL.reverse, SYN | ACK, window_scale=200)], 0)
        assert connection.pair.forward.window_scale == 14

    def test_the_smaller_mss_counts(self) -> None:
        assert opened(GlobalFlowTable(), mss_bytes=1200).pair.mss_bytes == 1200

    def test_without_the_option_the_mss_is_the_default_of_its_family(self) -> None:
        table = GlobalFlowTable()
        table.observe([seg(CALL, SYN)], 0)
        ((_, connection),) = table.observe([seg(CALL.reverse, SYN | ACK, mss_bytes=1460)], 0)
        assert connection.pair.mss_bytes == 536

    def test_repeated_segments_change_nothing(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        assert table.observe([seg(CALL, SYN, 1, 1460, 7)], 9) == []
        assert table.observe([seg(CALL.reverse, SYN | ACK, 1, 1460, 9)], 9) == []
        assert table.find(CALL.pack()) is connection

    def test_simultaneous_open_is_one_connection(self) -> None:
        table = GlobalFlowTable()
        table.observe([seg(CALL, SYN, 1)], 0)
        table.observe([seg(CALL.reverse, SYN, 2)], 0)
        assert table.half_open == 1
        table.observe([seg(CALL.reverse, SYN | ACK, 2)], 0)
        assert table.observe([seg(CALL, SYN | ACK, 1)], 0) == []
        assert len(table) == 1

    def test_an_answer_may_overtake_its_question(self) -> None:
        """They enter by different switches, whose channels to the controller are not one."""
        table = GlobalFlowTable()
        assert table.observe([seg(CALL.reverse, SYN | ACK, 1, 1460, 9)], 0) == []
        assert table.observe([seg(CALL.reverse, FIN | ACK)], 1) == []
        ((change, connection),) = table.observe([seg(CALL, SYN, 1, 1200, 7)], 2)
        assert change is ConnectionEvent.OPENED
        assert (connection.key, connection.pair.mss_bytes) == (CALL.pack(), 1200)
        assert (connection.pair.forward.window_scale, connection.pair.reverse.window_scale) == (
            9,
            7,
        )
        assert table.observe([seg(CALL, FIN | ACK)], 3) == [(ConnectionEvent.FINISHED, connection)]

    def test_an_answer_to_another_question_is_none(self) -> None:
        table = GlobalFlowTable()
        table.observe([seg(CALL.reverse, SYN | ACK)], 0)
        assert table.observe([seg(CALL, SYN, 77)], 0) == []
        assert table.half_open == 1

    def test_an_answer_whose_question_never_came_is_given_back(self) -> None:
        table = GlobalFlowTable()
        answer = seg(CALL.reverse, SYN | ACK)
        table.observe([answer], 0)
        assert table.expire(SECOND - 1) == []
        assert table.expire(SECOND) == [(answer, 0)]
        assert table.expire(2 * SECOND) == []

    def test_the_answer_to_a_new_connection_of_the_same_ports_may_overtake_it(
        self,
    ) -> None:
        table = GlobalFlowTable()
        former = opened(table)
        answer = seg(CALL.reverse, SYN | ACK)._replace(acknowledgment=78)
        assert table.observe([answer], 1) == []
        (replaced, again) = table.observe([seg(CALL, SYN, 77)], 2)
        assert replaced == (ConnectionEvent.REPLACED, former)
        assert again == (ConnectionEvent.OPENED, table.find(CALL.pack()))

    def test_an_end_may_overtake_the_answer(self) -> None:
        table = GlobalFlowTable()
        table.observe([seg(CALL, SYN)], 0)
        table.observe([seg(CALL, FIN | ACK)], 0)
        ((_, connection),) = table.observe([seg(CALL.reverse, SYN | ACK)], 0)
        assert table.observe([seg(CALL.reverse, FIN | ACK)], 0) == [
            (ConnectionEvent.FINISHED, connection)
        ]

    def test_a_reused_port_replaces_the_old_connection(self) -> None:
        table = GlobalFlowTable()
        old = opened(table)
        assert table.observe([seg(CALL, SYN, 99)], 9) == [(ConnectionEvent.REPLACED, old)]
        assert (len(table), table.half_open) == (0, 1)


class TestEnd:
    def test_both_sides_must_finish(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        assert table.observe([seg(CALL, FIN | ACK)], 0) == []
        assert table.observe([seg(CALL, FIN | ACK)], 0) == []
        assert table.find(CALL.pack()) is connection
        assert table.observe([seg(CALL.reverse, FIN | ACK)], 0) == [
            (ConnectionEvent.FINISHED, connection)
        ]
        assert len(table) == 0

    def test_a_reset_from_either_side_ends_it(self) -> None:
        for key in (CALL, CALL.reverse):
            table = GlobalFlowTable()
            connection = opened(table)
            assert table.observe([seg(key, RST)], 0) == [(ConnectionEvent.RESET, connection)]

    def test_a_refused_connection_leaves_nothing(self) -> None:
        table = GlobalFlowTable()
        table.observe([seg(CALL, SYN)], 0)
        assert table.observe([seg(CALL.reverse, RST | ACK)], 0) == []
        assert table.half_open == 0

    def test_the_answer_may_come_after_the_reset(self) -> None:
        """By another switch than the SYN and the reset."""
        table = GlobalFlowTable()
        table.observe([seg(CALL, SYN), seg(CALL, RST)], 0)
        for _ in range(2):
            assert table.observe([seg(CALL.reverse, SYN | ACK)], 1) == []
        assert (len(table), table.half_open) == (0, 0)
        assert table.expire(10**12) == []
        assert table.counters["unanswered"] == 0

    def test_the_answer_to_one_that_was_adopted_is_none_to_another(self) -> None:
        table = GlobalFlowTable()
        table.adopt(CALL.pack(), (CLIENT_MAC, SERVER_MAC), 1460, (7, 7), None, 0)
        table.observe([seg(CALL.reverse, SYN | ACK)], 1)
        table.observe([seg(CALL, FIN | ACK), seg(CALL.reverse, FIN | ACK)], 2)
        assert len(table) == 0
        assert table.expire(10**12) == []

    def test_the_last_segments_of_unknown_connections_are_nothing(self) -> None:
        table = GlobalFlowTable()
        assert table.observe([seg(CALL, FIN | ACK)], 0) == []
        assert table.observe([seg(CALL, RST)], 0) == []


class TestHalfOpen:
    def test_they_expire_oldest_first(self) -> None:
        table = GlobalFlowTable(half_open_timeout_ns=10)
        table.observe([seg(CALL, SYN)], 0)
        table.observe([seg(CALL._replace(src_port=2), SYN)], 5)
        for now_ns, left in ((9, 2), (10, 1), (14, 1), (15, 0)):
            table.expire(now_ns)
            assert table.half_open == left

    def test_a_repeated_syn_keeps_it_alive(self) -> None:
        table = GlobalFlowTable(half_open_timeout_ns=10)
        table.observe([seg(CALL, SYN)], 0)
        table.observe([seg(CALL, SYN)], 8)
        table.expire(10)
        assert table.half_open == 1

    def test_a_flood_pushes_out_the_oldest(self) -> None:
        table = GlobalFlowTable(half_open_limit=3)
        for port in range(5):
            table.observe([seg(CALL._replace(src_port=port), SYN)], port)
        assert table.half_open == 3
        late = CALL._replace(src_port=0).reverse
        assert table.observe([seg(late, SYN | ACK)], 9) == []
        assert table.observe([seg(CALL._replace(src_port=4).reverse, SYN | ACK)], 9)


class TestPorts:
    def test_a_flow_counts_on_every_port_of_its_route(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        assert table.take_new_pairs() == [connection.pair]
        table.route(connection.pair, (P1, P2), ())
        assert table.counts(P1) == table.counts(P2) == PortCounts(0, 1, 1460, 0, 5)
        assert table.flows(P1, BURST) == {CALL}
        assert table.take_touched() == [P1, P2]
        assert table.take_touched() == []

    def test_connections_between_the_same_ends_share_a_route(self) -> None:
        table = GlobalFlowTable()
        first = opened(table)
        table.route(first.pair, (P1,), (P2,))
        second = opened(table, CALL._replace(src_port=2))
        assert second.pair is first.pair
        assert table.counts(P1).burst == table.counts(P2).burst == 2
        assert table.pairs_of(CLIENT_MAC) == table.pairs_of(SERVER_MAC) == {first.pair}

    def test_a_new_class_moves_it_from_brt_to_bgt(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        table.route(connection.pair, (P1,), (P2,))
        metered(table, connection)
        table.classify(connection, connection.pair.forward, BACKGROUND, idle=False)
        assert table.counts(P1)[:3] == (1, 0, 1460)
        assert table.counts(P2)[:3] == (0, 1, 1460)
        assert table.flows(P1, BACKGROUND) == {CALL}
        assert table.flows(P1, BURST) == set()

    def test_idle_flows_are_told_by_class(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        table.route(connection.pair, (P1,), (P2,))
        metered(table, connection)
        for cls, idle, expected in (
            (BURST, True, (0, 1, 0)),
            (BACKGROUND, True, (0, 0, 1)),
            (BACKGROUND, False, (1, 0, 0)),
        ):
            table.classify(connection, connection.pair.forward, cls, idle)
            counts = table.counts(P1)
            assert (counts.active_flows, counts.idle, counts.idle_background) == expected
        table.classify(connection, connection.pair.forward, BURST, idle=True)
        table.observe([seg(CALL, RST)], 9)
        assert table.counts(P1) == NO_FLOWS

    def test_the_largest_mss_of_those_that_are_left_counts(self) -> None:
        table = GlobalFlowTable()
        small = opened(table, CALL, 536)
        large = opened(table, CALL._replace(src_port=2), 1460)
        for connection in (small, large):
            table.route(connection.pair, (P1,), ())
        assert table.counts(P1).mss_bytes == 1460
        table.remove(large)
        assert table.counts(P1).mss_bytes == 536

    def test_the_end_of_a_connection_takes_it_off_its_ports(self) -> None:
        table = GlobalFlowTable()
        connection = opened(table)
        table.route(connection.pair, (P1,), (P2,))
        table.observe([seg(CALL, RST)], 0)
        assert table.counts(P1) == table.counts(P2) == NO_FLOWS

    def test_what_two_ends_had_in_common_is_forgotten_in_the_end(self) -> None:
        table = GlobalFlowTable()
        pair = opened(table).pair
        table.route(pair, (P1,), (P2,))
        table.observe([seg(CALL, RST)], 9)
        assert table.drop_unused(10, 9) == []
        assert table.drop_unused(10 + PAIR_KEPT_NS, 9) == [pair]
        assert (table.host_pairs, table.pairs_of(CLIENT_MAC)) == ([], frozenset())

    def test_the_least_handshake_of_late_is_told(self) -> None:
        table = GlobalFlowTable()
        for port, took_ns in ((1, 700), (2, 500), (3, 900)):
            call = CALL._replace(src_port=port)
            table.observe([seg(call, SYN)], 0)
            table.observe([seg(call.reverse, SYN | ACK)], took_ns)
            table.route(table.connections[0].pair, (P1,), ())
        assert table.counts(P1).handshake_ns == 500
        table.expire(HANDSHAKES_FOR_NS)
        assert table.counts(P1).handshake_ns == 500
        table.expire(2 * HANDSHAKES_FOR_NS)
        assert table.counts(P1).handshake_ns == 0

    def test_what_came_in_one_batch_was_not_timed(self) -> None:
        table = GlobalFlowTable()
        table.observe([seg(CALL, SYN)], 0)
        table.observe([seg(CALL.reverse, SYN | ACK)], 500)
        call = CALL._replace(src_port=2)
        table.observe([seg(call, SYN), seg(call.reverse, SYN | ACK)], 500)
        table.route(table.connections[0].pair, (P1,), ())
        assert table.counts(P1)[1:5] == (2, 536, 0, 500)

    def test_a_repeated_question_does_not_tell_the_time(self) -> None:
        table = GlobalFlowTable()
        table.observe([seg(CALL, SYN)], 0)
        table.observe([seg(CALL, SYN)], 1000)
        table.observe([seg(CALL.reverse, SYN | ACK)], 1001)
        table.route(table.connections[0].pair, (P1,), ())
        assert table.counts(P1).handshake_ns == 0


class TestStrays:
    def test_data_of_unknown_connections_is_told(self) -> None:
        table = GlobalFlowTable()
        stray = seg(CALL, ACK, payload_bytes=10)
        assert table.observe([stray, seg(CALL, ACK)], 0) == []
        assert table.take_strays() == [stray]
        assert table.take_strays() == []
        opened(table)
        table.observe([stray], 9)
        assert table.take_strays() == []


@given(st.lists(st.tuples(st.sampled_from([CALL, CALL.reverse]), st.integers(0, 255)), max_size=60))
@settings(print_blob=True)
def test_any_flags_in_any_order_leave_the_table_sound(sequence: list[tuple[FlowKey, int]]) -> None:
    table = GlobalFlowTable()
    for key, flags in sequence:
        for change, connection in table.observe([seg(key, flags)], 0):
            assert connection.established == (change is ConnectionEvent.OPENED)
    assert len(table.connections) == len(table) <= 1
