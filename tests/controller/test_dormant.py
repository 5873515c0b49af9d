"""Connections that are idle for days, and the first segment after that."""

from dataclasses import replace

import pytest

from controller.core.flows.connections import DORMANT_FOR_NS
from controller.core.flows.policy import Policy, Rule, Treatment
from controller.core.flows.relearning import RELEARN_AFTER_NS, RELEARN_FOR_NS
from controller.model.effects import Install
from controller.model.entries import FlowCounter, FlowWindow, HeldEntry, HostWindow, ServiceWatch
from controller.model.flow import ACK, FIN, RST, SYN, FlowKey, Segment, SegmentFields
from controller.model.values import PortId
from engine_bench import (
    CONNECTIONS,
    MSS,
    RECEIVER,
    SECOND,
    SENDERS,
    EngineBench,
    make_engine,
    records,
    register_of,
    two_switches,
)
from packets import Host

EXPIRY = 60 * SECOND
DAYS = 3 * 86_400 * SECOND
SERVER = SENDERS[0]
WATCH = ServiceWatch(RECEIVER.address, SERVER.address, 80)


def fabric(**settings: object) -> EngineBench:
    """Clients, the RECEIVER first, at switch 2; servers at switch 1."""
    bench = two_switches()
    tuned = make_engine(connections=replace(CONNECTIONS, expiry_ns=EXPIRY, **settings))  # type: ignore[arg-type]
    bench.engine = tuned
    set_up(bench)
    return bench


def set_up(bench: EngineBench, survivors: dict[int, list[HeldEntry]] | None = None) -> None:
    for switch in (1, 2):
        bench.switch_up(switch, *(survivors or {}).get(switch, []))
    bench.link(PortId(1, 40), PortId(2, 40))
    bench.now_ns += SECOND
    for host, port in list(bench.places.items()):
        bench.place(host, port)


def still(bench: EngineBench, keys: list[FlowKey], switch: int = 2) -> None:
    """The connections are counted, and then move nothing until they are dormant."""
    bench.sleep(3 * SECOND)
    for elapsed_ns in (SECOND, EXPIRY):
        bench.now_ns += elapsed_ns
        bench.link(PortId(1, 40), PortId(2, 40))
        readings = [(side.pack(), 600, 3) for key in keys for side in (key, key.reverse)]
        bench.do(bench.engine.flow_counters_read(switch, readings, False, bench.now_ns))


def later(bench: EngineBench, ns: int = DAYS) -> None:
    """Time passes, but links and hosts stay."""
    for elapsed_ns in (ns, *[SECOND] * (3 * EXPIRY // SECOND)):
        bench.now_ns += elapsed_ns
        bench.link(PortId(1, 40), PortId(2, 40))
        if bench.now_ns // SECOND % 10 == 0 or elapsed_ns == ns:
            for host, port in bench.places.items():
                bench.place(host, port)
        bench.sleep(SECOND // 4)


def pool(bench: EngineBench, n: int = 3, server: Host = SERVER) -> list[FlowKey]:
    """Dormant connections of one client."""
    keys = [bench.connect(RECEIVER, server, 1000 + number) for number in range(n)]
    still(bench, keys)
    return keys


def pushed_inside(bench: EngineBench, key: FlowKey) -> None:
    """Data of the server, as the client's switch copies it up where it enters from the other."""
    macs = RECEIVER.mac + SERVER.mac
    segment = Segment(40, macs, key.reverse.pack(), ACK, 1, 2, 100)
    bench.do(bench.engine.segments(2, [segment], bench.now_ns))


class TestDormant:
    def test_what_moves_nothing_for_long_counts_for_no_port_and_is_not_counted(self) -> None:
        bench = fabric()
        pool(bench)
        table = bench.engine.flow_table
        assert (len(table), table.n_dormant) == (0, 3)
        assert table.counts(PortId(2, 1)).flows == 0
        assert bench.entries(2, FlowCounter) == set()

    def test_one_watch_at_the_clients_switch_is_for_the_whole_pool(self) -> None:
        bench = fabric()
        pool(bench)
        assert bench.entries(2, ServiceWatch) == {WATCH}
        assert bench.entries(1, ServiceWatch) == set()

    def test_its_hosts_windows_stand_for_days(self) -> None:
        bench = fabric()
        pool(bench)
        before = bench.entries(1, HostWindow), bench.entries(2, HostWindow)
        later(bench)
        assert (bench.entries(1, HostWindow), bench.entries(2, HostWindow)) == before
        assert before[0] and before[1]

    def test_one_that_the_switch_no_longer_counts_is_dormant_as_well(self) -> None:
        bench = fabric()
        key = bench.connect(RECEIVER, SERVER)
        bench.sleep(3 * SECOND)
        bench.now_ns += 2 * EXPIRY
        bench.do(bench.engine.flow_counter_expired(2, key.pack(), bench.now_ns))
        assert bench.engine.flow_table.n_dormant == 1

    def test_one_whose_counter_ended_early_has_ended(self) -> None:
        bench = fabric()
        key = bench.connect(RECEIVER, SERVER)
        bench.sleep(3 * SECOND)
        bench.do(bench.engine.flow_counter_expired(2, key.pack(), bench.now_ns))
        table = bench.engine.flow_table
        assert (len(table), table.n_dormant) == (0, 0)

    def test_those_for_longest_are_forgotten_if_there_are_too_many(self) -> None:
        bench = fabric(dormant=2)
        pool(bench, 3)
        table = bench.engine.flow_table
        assert table.n_dormant == 2
        assert bench.engine.connections.counters == {"forgotten": 1}
        assert records(bench.last, "connection_closed")[0]["reason"] == "forgotten"

    def test_a_switch_watches_for_so_many_services_only(self) -> None:
        bench = fabric(watches_per_switch=2)
        keys = [bench.connect(RECEIVER, server, 7) for server in SENDERS[:3]]
        still(bench, keys)
        assert len(bench.entries(2, ServiceWatch)) == 2
        assert bench.engine.flow_table.n_dormant == 2
        assert bench.engine.connections.counters == {"forgotten": 1}

    def test_nobody_is_dormant_for_ever(self) -> None:
        bench = fabric()
        pool(bench)
        bench.now_ns += DORMANT_FOR_NS
        bench.sleep(SECOND)
        assert bench.engine.flow_table.n_dormant == 0
        assert bench.entries(2, ServiceWatch) == set()

    def test_exempt_ones_are_forgotten(self) -> None:
        bench = fabric()
        bench.engine = make_engine(
            connections=replace(CONNECTIONS, expiry_ns=EXPIRY),
            policies=(Rule(Treatment.EXEMPT, port=80),),
        )
        set_up(bench)
        bench.connect(RECEIVER, SERVER)
        bench.sleep(2 * EXPIRY)
        assert bench.engine.flow_table.n_dormant == 0
        assert bench.entries(2, ServiceWatch) == set()


class TestAwake:
    def test_it_counts_with_its_first_request_after_days(self) -> None:
        bench = fabric()
        keys = pool(bench)
        later(bench)
        bench.segment(keys[1], ACK, payload_bytes=100)
        table = bench.engine.flow_table
        assert (len(table), table.n_dormant) == (1, 2)
        assert table.counts(PortId(2, 1)).burst == 1
        assert bench.engine.connections.woken == 1
        assert bench.engine.connections.adopted == 0

    def test_so_it_does_if_the_server_is_the_first_to_send(self) -> None:
        bench = fabric()
        keys = pool(bench)
        pushed_inside(bench, keys[0])
        assert bench.engine.flow_table.counts(PortId(2, 1)).burst == 1

    def test_the_windows_fit_all_that_wake_together(self) -> None:
        bench = fabric()
        keys = [bench.connect(RECEIVER, server, 7) for server in SENDERS]
        still(bench, keys)
        later(bench)
        for key in keys:
            bench.segment(key, ACK, payload_bytes=100)
        # 65232 / (32 x 1526) = 1.3, but the floor is two.
        assert bench.windows[2][register_of(bench, 2, 1, RECEIVER)] == 2 * MSS

    def test_it_is_counted_soon_and_then_no_more_copied(self) -> None:
        bench = fabric()
        keys = pool(bench)
        bench.segment(keys[0], ACK, payload_bytes=100)
        bench.sleep(SECOND)
        assert bench.entries(2, FlowCounter) == {
            FlowCounter(keys[0], True),
            FlowCounter(keys[0].reverse, False),
        }
        assert bench.entries(2, ServiceWatch) == {WATCH}, "the others are dormant still"

    def test_the_watch_ends_with_the_last_dormant_one(self) -> None:
        bench = fabric()
        for key in pool(bench):
            bench.segment(key, ACK, payload_bytes=100)
        assert bench.entries(2, ServiceWatch) == set()

    def test_it_can_be_dormant_again(self) -> None:
        bench = fabric()
        keys = pool(bench, 1)
        bench.segment(keys[0], ACK, payload_bytes=100)
        still(bench, keys)
        assert bench.engine.flow_table.n_dormant == 1
        bench.segment(keys[0], ACK, payload_bytes=100)
        assert len(bench.engine.flow_table) == 1

    def test_a_bare_ack_wakes_nothing(self) -> None:
        bench = fabric()
        keys = pool(bench)
        bench.segment(keys[0], ACK)
        assert bench.engine.flow_table.n_dormant == 3

    def test_its_life_as_a_burst_flow_begins_anew(self) -> None:
        bench = fabric()
        keys = pool(bench, 1)
        later(bench)
        bench.segment(keys[0], ACK, payload_bytes=100)
        bench.sleep(SECOND // 2)
        bench.volume(2, keys[0].reverse, 2 * 10**6)
        assert bench.engine.flow_table.background == 0
        bench.now_ns += SECOND
        bench.volume(2, keys[0].reverse, 3 * 10**6)
        assert bench.engine.flow_table.background == 1

    def test_one_that_is_too_many_to_be_counted_is_back_at_once(self) -> None:
        bench = fabric(counted_per_switch=0)
        key = bench.connect(RECEIVER, SERVER)
        bench.sleep(EXPIRY + 2 * SECOND)
        assert bench.engine.flow_table.n_dormant == 1
        bench.segment(key, ACK, payload_bytes=100)
        bench.sleep(EXPIRY // 2)
        assert len(bench.engine.flow_table) == 1

    def test_an_odd_window_scale_is_right_from_the_first_ack_on(self) -> None:
        bench = fabric()
        keys = [bench.connect(RECEIVER, SERVER, 1), bench.connect(RECEIVER, SERVER, 2, (3, 7))]

        def scales() -> list[int]:
            """Those by which the client's windows are lowered, of both connections."""
            (host,) = (
                one for one in bench.entries(2, HostWindow) if one.address == RECEIVER.address
            )
            own = {one.segments: one.window_scale for one in bench.entries(2, FlowWindow)}
            return [own.get(key, host.window_scale) for key in keys]

        assert scales() == [7, 3]
        still(bench, keys)
        assert bench.engine.flow_table.n_dormant == 2
        assert scales() == [7, 3]
        for key in keys[::-1]:
            bench.segment(key, ACK, payload_bytes=100)
            assert scales() == [7, 3]

    def test_what_the_operator_has_set_is_in_force_again(self) -> None:
        bench = fabric()
        bench.engine = make_engine(
            connections=replace(CONNECTIONS, expiry_ns=EXPIRY),
            policies=(Rule(Treatment.BACKGROUND, port=80),),
        )
        set_up(bench)
        keys = [bench.connect(RECEIVER, SERVER)]
        own = bench.entries(2, FlowWindow)
        assert own
        still(bench, keys)
        assert bench.engine.flow_table.n_dormant == 1
        bench.segment(keys[0], ACK, payload_bytes=100)
        assert bench.entries(2, FlowWindow) == own

    def test_a_policy_that_comes_while_it_falls_asleep(self) -> None:
        bench = fabric()
        keys = pool(bench, 2)
        bench.segment(keys[0], ACK, payload_bytes=100)
        connections = bench.engine.connections
        connections._policy = Policy((Rule(Treatment.BACKGROUND, port=80),))
        known = map(bench.engine.flow_table.find, (key.pack() for key in keys))
        connections._untreated.extend(one for one in known if one is not None)
        bench.sleep(SECOND)
        assert bench.engine.flow_table.n_dormant == len(connections._dormant) == 1
        assert bench.entries(2, ServiceWatch) == {WATCH}

    def test_data_that_is_read_after_the_end_brings_nothing_back(self) -> None:
        bench = fabric()
        keys = pool(bench, 2)
        segments: list[SegmentFields] = [
            Segment(1, SERVER.mac + RECEIVER.mac, keys[0].pack(), flags, 1, 2, payload)
            for flags, payload in ((ACK, 24), (RST, 0))
        ]
        bench.do(bench.engine.segments(2, segments, bench.now_ns))
        pushed_inside(bench, keys[0])
        table = bench.engine.flow_table
        assert (len(table), table.n_dormant) == (0, 1)
        bench.sleep(3 * SECOND)
        pushed_inside(bench, keys[0])
        assert len(table) == 1, "later it is another one"

    def test_data_that_is_read_before_the_answer_is_no_adoption(self) -> None:
        bench = fabric()
        pool(bench, 1)
        key = FlowKey(RECEIVER.address, 7, SERVER.address, 80)
        bench.segment(key, SYN)
        bench.segment(key, ACK, payload_bytes=100)
        bench.segment(key.reverse, SYN | ACK)
        assert bench.engine.connections.adopted == 0
        assert len(bench.engine.flow_table) == 1

    def test_a_policy_of_the_meantime_holds(self) -> None:
        bench = fabric()
        keys = pool(bench, 1)
        rule = Rule(Treatment.BACKGROUND, port=80)
        bench.engine._set_policies((rule,), bench.now_ns)
        bench.segment(keys[0], ACK, payload_bytes=100)
        assert bench.engine.flow_table.background == 2


class TestEnd:
    @pytest.mark.parametrize("ends", [[RST], [FIN, FIN]])
    def test_it_may_end_without_waking(self, ends: list[int]) -> None:
        bench = fabric()
        (key,) = pool(bench, 1)
        for flags, side in zip(ends, (key, key.reverse), strict=False):
            bench.segment(side, flags)
        table = bench.engine.flow_table
        assert (len(table), table.n_dormant) == (0, 0)
        assert bench.entries(2, ServiceWatch) == set()
        bench.sleep(2 * EXPIRY)
        assert table.host_pairs == []
        assert bench.entries(2, HostWindow) == set()

    def test_a_new_connection_takes_its_place(self) -> None:
        bench = fabric()
        (key,) = pool(bench, 1)
        bench.segment(key, SYN, sequence=9)
        bench.segment(key.reverse, SYN | ACK)
        table = bench.engine.flow_table
        assert (len(table), table.n_dormant) == (1, 0)

    def test_it_is_lost_with_its_hosts(self) -> None:
        bench = fabric()
        pool(bench, 1)
        for switch in (1, 2):
            bench.do(bench.engine.switch_down(switch, bench.now_ns))
        bench.sleep(61 * SECOND)
        assert bench.engine.flow_table.n_dormant == 0
        assert bench.engine.connections.counters == {"lost": 1}


class TestPlaces:
    def test_the_watch_goes_with_its_client(self) -> None:
        bench = fabric()
        keys = pool(bench)
        bench.place(RECEIVER, PortId(1, 39))
        bench.sleep(SECOND)
        assert bench.entries(2, ServiceWatch) == set()
        assert bench.entries(1, ServiceWatch) == {WATCH}
        bench.segment(keys[0], ACK, payload_bytes=100)
        assert bench.engine.flow_table.counts(PortId(1, 39)).burst == 1

    def test_nothing_is_lost_while_a_host_is_silent(self) -> None:
        bench = fabric()
        keys = pool(bench)
        bench.now_ns += 3600 * SECOND
        bench.sleep(60 * SECOND)
        assert RECEIVER.mac not in bench.engine.fabric.hosts
        assert bench.entries(2, ServiceWatch) == set()
        bench.link(PortId(1, 40), PortId(2, 40))
        for host, port in list(bench.places.items()):
            bench.place(host, port)
        bench.sleep(SECOND)
        assert bench.entries(2, ServiceWatch) == {WATCH}
        bench.segment(keys[0], ACK, payload_bytes=100)
        assert bench.engine.flow_table.counts(PortId(2, 1)).burst == 1

    def test_a_switch_that_has_lost_its_entries_watches_again(self) -> None:
        bench = fabric()
        pool(bench)
        bench.do(bench.engine.switch_down(2, bench.now_ns))
        effects = bench.switch_up(2)
        assert Install(2, WATCH) in effects


def restarted(before: EngineBench) -> EngineBench:
    """A new controller, which has missed all handshakes."""
    after = EngineBench(make_engine(connections=replace(CONNECTIONS, expiry_ns=EXPIRY)))
    after.places, after.now_ns = before.places, before.now_ns + SECOND
    held = {
        switch: [HeldEntry(entry, 0, 5 * SECOND) for entry in entries.values()]
        for switch, entries in before.held.items()
    }
    set_up(after, held)
    after.sleep(2 * (RELEARN_AFTER_NS + RELEARN_FOR_NS))
    return after


class TestRestart:
    """What was dormant before a controller began is known to it by the watches only."""

    @pytest.mark.parametrize("first", ["client", "server"])
    def test_it_is_known_with_its_first_data_after_days(self, first: str) -> None:
        before = fabric()
        keys = pool(before)
        after = restarted(before)
        assert after.entries(2, ServiceWatch) == {WATCH}
        assert len(after.engine.flow_table) == 0
        later(after)
        if first == "client":
            after.segment(keys[0], ACK, payload_bytes=100)
        else:
            pushed_inside(after, keys[0])
        assert after.engine.flow_table.counts(PortId(2, 1)).burst == 1
        assert register_of(after, 2, 1, RECEIVER) is not None
        still(after, [keys[0]])
        assert after.entries(2, ServiceWatch) == {WATCH}, "its client is known by its port"

    def test_data_that_nobody_watches_for_is_not_learnt_inside(self) -> None:
        bench = fabric()
        pool(bench)
        pushed_inside(bench, FlowKey(RECEIVER.address, 1, SERVER.address, 81))
        assert len(bench.engine.flow_table) == 0

    def test_watches_of_old_make_room_for_new_ones(self) -> None:
        before = fabric()
        pool(before)
        after = restarted(before)
        after.engine.connections._dormant._watches_per_switch = 1
        pool(after, 1, SENDERS[1])
        assert after.entries(2, ServiceWatch) == {
            ServiceWatch(RECEIVER.address, SENDERS[1].address, 80)
        }
