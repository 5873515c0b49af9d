"""From opened to forgotten: what is counted, what is idle, what changes class, and what is lost."""

from dataclasses import replace

from controller.model.effects import ReadFlowCounters
from controller.model.entries import FlowCounter, FlowWindow, HostWindow
from controller.model.flow import ACK, FIN, RST, SYN, FlowKey
from controller.model.values import PortId
from engine_bench import (
    CONNECTIONS,
    MSS,
    RECEIVER,
    SECOND,
    SENDERS,
    EngineBench,
    make_engine,
    star,
)

MB = 10**6
PORT = PortId(1, 40)


def tuned_star(**settings: object) -> EngineBench:
    """A star whose engine has these settings of connections."""
    bench = star()
    bench.engine = make_engine(connections=replace(CONNECTIONS, **settings))  # type: ignore[arg-type]
    bench.switch_up(1)
    bench.now_ns += SECOND
    for host, port in list(bench.places.items()):
        bench.place(host, port)
    return bench


def counted(bench: EngineBench) -> FlowKey:
    """A connection that is old enough to be counted."""
    key = bench.connect(SENDERS[0], RECEIVER)
    bench.sleep(2 * SECOND)
    return key


def read(bench: EngineBench, key: FlowKey, volumes: list[int], every_ns: int = SECOND) -> None:
    """Readings of one flow's volume, one after the other."""
    for volume_bytes in volumes:
        bench.now_ns += every_ns
        bench.volume(1, key, volume_bytes)


class TestIdle:
    def test_a_flow_that_stands_still_for_two_readings_is_idle(self) -> None:
        bench = star()
        key = counted(bench)
        read(bench, key, [5000, 5000])
        assert bench.engine.flow_table.counts(PORT).idle == 0
        read(bench, key, [5000])
        assert bench.engine.flow_table.counts(PORT).idle == 1

    def test_it_is_active_again_with_the_first_reading_that_shows_growth(self) -> None:
        bench = star()
        key = counted(bench)
        read(bench, key, [5000] * 3 + [5001])
        assert bench.engine.flow_table.counts(PORT).idle == 0

    def test_readings_in_quick_succession_make_nobody_idle(self) -> None:
        bench = star()
        key = counted(bench)
        read(bench, key, [5000] * 4, every_ns=SECOND // 4)
        assert bench.engine.flow_table.counts(PORT).idle == 0

    def test_pure_acknowledgements_are_no_volume(self) -> None:
        bench = star()
        key = counted(bench)
        for packets in (1000, 2000, 3000):
            bench.now_ns += SECOND
            reading = key.pack(), packets * 66, packets
            bench.do(bench.engine.flow_counters_read(1, [reading], False, bench.now_ns))
        assert bench.engine.flow_table.counts(PORT).idle == 1

    def test_a_young_flow_is_active(self) -> None:
        bench = star()
        bench.connect(SENDERS[0], RECEIVER)
        assert bench.engine.flow_table.counts(PORT)[:4] == (0, 1, MSS, 0)

    def test_one_that_was_idle_for_long_is_still_known_when_it_resumes(self) -> None:
        bench = star()
        key = counted(bench)
        for _ in range(60):
            read(bench, key, [5000], every_ns=20 * SECOND)
        assert len(bench.engine.flow_table) == 1
        read(bench, key, [6000])
        counts = bench.engine.flow_table.counts(PORT)
        assert (counts.burst, counts.idle) == (1, 0)


class TestClasses:
    def test_a_background_flow_that_goes_idle_is_an_idle_burst_flow(self) -> None:
        bench = star()
        key = counted(bench)
        read(bench, key, [2 * MB])
        assert bench.engine.flow_table.counts(PORT).background == 1
        assert bench.entries(1, FlowWindow)
        read(bench, key, [2 * MB] * 2)
        assert bench.engine.flow_table.counts(PORT)[:4] == (0, 1, MSS, 1)
        assert bench.entries(1, FlowWindow) == set()

    def test_one_that_moves_little_is_a_burst_flow_again(self) -> None:
        bench = star()
        key = counted(bench)
        read(bench, key, [2 * MB + 1000 * i for i in range(10)])
        assert bench.engine.flow_table.counts(PORT).background == 1
        read(bench, key, [2 * MB + 10_000])
        assert bench.engine.flow_table.counts(PORT).background == 0

    def test_one_that_goes_on_stays(self) -> None:
        bench = star()
        key = counted(bench)
        read(bench, key, [MB * i // 2 for i in range(4, 60)])
        assert bench.engine.flow_table.counts(PORT).background == 1

    def test_it_can_become_a_background_flow_once_more(self) -> None:
        bench = star()
        key = counted(bench)
        read(bench, key, [2 * MB] * 3 + [2 * MB + 1000])
        assert bench.engine.flow_table.counts(PORT).background == 0
        read(bench, key, [4 * MB])
        assert bench.engine.flow_table.counts(PORT).background == 1

    def test_in_the_paper_background_is_for_life(self) -> None:
        bench = tuned_star(classifier=replace(CONNECTIONS.classifier, quiet_ns=None))
        key = counted(bench)
        read(bench, key, [2 * MB] * 30)
        assert bench.engine.flow_table.counts(PORT).background == 1


class TestTraces:
    def test_an_entry_that_counts_from_the_beginning_again_is_no_trace(self) -> None:
        bench = tuned_star(expiry_ns=60 * SECOND)
        key = counted(bench)
        read(bench, key, [5000])
        read(bench, key, [0], every_ns=30 * SECOND)
        read(bench, key, [0], every_ns=31 * SECOND)
        assert len(bench.engine.flow_table) == 0

    def test_without_any_packet_it_is_dormant(self) -> None:
        bench = tuned_star(expiry_ns=60 * SECOND)
        key = counted(bench)
        read(bench, key, [5000])
        read(bench, key, [5000], every_ns=59 * SECOND)
        assert len(bench.engine.flow_table) == 1
        read(bench, key, [5000], every_ns=SECOND)
        assert bench.engine.flow_table.n_dormant == 1
        assert bench.entries(1, FlowCounter) == set()

    def test_one_that_only_keeps_alive_is_not(self) -> None:
        bench = tuned_star(expiry_ns=60 * SECOND)
        key = counted(bench)
        for packets in range(1, 5):
            bench.now_ns += 50 * SECOND
            reading = key.pack(), packets * 66, packets
            bench.do(bench.engine.flow_counters_read(1, [reading], False, bench.now_ns))
        assert len(bench.engine.flow_table) == 1

    def test_a_switch_counts_so_many_and_the_others_wait(self) -> None:
        bench = tuned_star(counted_per_switch=2)
        keys = [bench.connect(SENDERS[0], RECEIVER, port) for port in (1, 2, 3)]
        bench.sleep(2 * SECOND)
        assert len(bench.entries(1, FlowCounter)) == 4
        for key in keys[:2]:
            bench.segment(key, RST)
        bench.sleep(SECOND)
        assert bench.entries(1, FlowCounter) == {
            FlowCounter(keys[2], True),
            FlowCounter(keys[2].reverse, False),
        }

    def test_one_that_is_never_counted_is_dormant_by_age(self) -> None:
        bench = tuned_star(counted_per_switch=0, expiry_ns=30 * SECOND)
        bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(29 * SECOND)
        assert len(bench.engine.flow_table) == 1
        bench.sleep(2 * SECOND)
        assert len(bench.engine.flow_table) == 0

    def test_a_host_without_connections_for_long_leaves_nothing(self) -> None:
        bench = tuned_star(expiry_ns=60 * SECOND)
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.segment(key, FIN)
        bench.segment(key.reverse, FIN)
        bench.sleep(30 * SECOND)
        assert bench.entries(1, HostWindow)
        bench.sleep(60 * SECOND)
        assert bench.entries(1, HostWindow) == set()

    def test_a_flood_is_bounded_and_counted(self) -> None:
        bench = star()
        for port in range(17_000):
            key = FlowKey(SENDERS[0].address, port, RECEIVER.address, 80)
            bench.segment(key, SYN, sequence=port + 1)
        table = bench.engine.flow_table
        assert 16_000 < table.half_open <= 16_384
        assert table.counters["flooded"] == 17_000 - table.half_open
        late = FlowKey(SENDERS[0].address, 16_999, RECEIVER.address, 80).reverse
        bench.segment(late, SYN | ACK)
        assert len(table) == 1


class TestLoss:
    def test_a_port_that_is_gone_leaves_no_flow_counted_at_it(self) -> None:
        bench = star()
        counted(bench)
        bench.do(bench.engine.port_removed(PORT, bench.now_ns))
        assert bench.engine.flow_table.counts(PORT).flows == 0
        assert bench.engine.flow_table.counts(PortId(1, 1)).flows == 0

    def test_behind_a_switch_that_stays_away_nothing_is_left(self) -> None:
        bench = star()
        counted(bench)
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.sleep(59 * SECOND)
        assert len(bench.engine.flow_table) == 1
        bench.sleep(2 * SECOND)
        assert len(bench.engine.flow_table) == 0
        assert bench.engine.flow_table.counts(PORT).flows == 0

    def test_one_that_comes_back_in_time_keeps_its_connections(self) -> None:
        bench = star()
        counted(bench)
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.sleep(30 * SECOND)
        bench.switch_up(1)
        bench.sleep(60 * SECOND)
        assert len(bench.engine.flow_table) == 1

    def test_counting_moves_with_the_initiator(self) -> None:
        bench = EngineBench()
        bench.switch_up(1)
        bench.switch_up(2)
        bench.link(PortId(1, 40), PortId(2, 40))
        bench.now_ns += SECOND
        bench.place(RECEIVER, PortId(2, 1))
        bench.place(SENDERS[0], PortId(1, 1))
        key = bench.connect(SENDERS[0], RECEIVER)
        for _ in range(8):
            bench.sleep(SECOND // 4)
            bench.link(PortId(1, 40), PortId(2, 40))
        assert bench.entries(1, FlowCounter)
        bench.volume(1, key, 2 * MB)
        bench.place(SENDERS[0], PortId(2, 7))
        assert bench.entries(1, FlowCounter) == set()
        assert bench.entries(2, FlowCounter) == {
            FlowCounter(key, True),
            FlowCounter(key.reverse, False),
        }
        bench.volume(2, key, 1000)
        assert bench.engine.flow_table.counts(PortId(2, 1)).background == 1


class TestAsking:
    def asked(self, bench: EngineBench, seconds: float) -> int:
        return bench.sleep(int(seconds * SECOND)).count(ReadFlowCounters(1))

    def test_one_question_at_a_time(self) -> None:
        bench = star()
        key = counted(bench)
        assert self.asked(bench, 5) == 0
        bench.volume(1, key, 1000)
        assert self.asked(bench, 1) == 1

    def test_a_lost_answer_does_not_end_it(self) -> None:
        bench = star()
        counted(bench)
        assert self.asked(bench, 21) == 2

    def test_the_less_happens_the_less_is_asked(self) -> None:
        bench = star()
        key = counted(bench)
        bench.volume(1, key, 1000)
        gaps_s = []
        for _ in range(8):
            begun_ns = bench.now_ns
            while not self.asked(bench, 0.25):
                pass
            gaps_s.append((bench.now_ns - begun_ns) / SECOND)
            bench.volume(1, key, 1000)
        assert gaps_s[-1] == 4.0
        assert gaps_s == sorted(gaps_s)
        bench.volume(1, key, 2000)
        assert self.asked(bench, 1) == 1

    def test_a_part_of_an_answer_is_none(self) -> None:
        bench = star()
        key = counted(bench)
        reading = key.pack(), 1000, 1
        bench.do(bench.engine.flow_counters_read(1, [reading], True, bench.now_ns))
        assert self.asked(bench, 5) == 0
