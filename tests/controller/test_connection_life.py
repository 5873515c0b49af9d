"""From opened to forgotten: what is counted, what is idle, what changes class, and what is lost."""

from dataclasses import replace

from controller.model.effects import ReadFlowCounters
from controller.model.entries import FlowCounter, FlowWindow, HostWindow
from controller.model.flow import ACK, FIN, RST, SYN, FlowKey
from controller.model.values import PortId
from engine_world import (
    CONNECTIONS,
    MSS,
    RECEIVER,
    SECOND,
    SENDERS,
    World,
    make_engine,
    records,
    star,
)

MB = 10**6
PORT = PortId(1, 40)


def tuned_star(**settings: object) -> World:
    """A star whose engine has these settings of connections."""
    world = star()
    world.engine = make_engine(connections=replace(CONNECTIONS, **settings))  # type: ignore[arg-type]
    world.switch_up(1)
    world.now_ns += SECOND
    for host, port in list(world.places.items()):
        world.place(host, port)
    return world


def counted(world: World) -> FlowKey:
    """A connection that is old enough to be counted."""
    key = world.connect(SENDERS[0], RECEIVER)
    world.sleep(2 * SECOND)
    return key


def read(world: World, key: FlowKey, volumes: list[int], every_ns: int = SECOND) -> None:
    """Readings of one flow's volume, one after the other."""
    for volume_bytes in volumes:
        world.now_ns += every_ns
        world.volume(1, key, volume_bytes)


class TestIdle:
    def test_a_flow_that_stands_still_for_two_readings_is_idle(self) -> None:
        world = star()
        key = counted(world)
        read(world, key, [5000, 5000])
        assert world.engine.flow_table.counts(PORT).idle == 0
        read(world, key, [5000])
        assert world.engine.flow_table.counts(PORT).idle == 1

    def test_it_is_active_again_with_the_first_reading_that_shows_growth(self) -> None:
        world = star()
        key = counted(world)
        read(world, key, [5000] * 3 + [5001])
        assert world.engine.flow_table.counts(PORT).idle == 0

    def test_readings_in_quick_succession_make_nobody_idle(self) -> None:
        world = star()
        key = counted(world)
        read(world, key, [5000] * 4, every_ns=SECOND // 4)
        assert world.engine.flow_table.counts(PORT).idle == 0

    def test_pure_acknowledgements_are_no_volume(self) -> None:
        world = star()
        key = counted(world)
        for packets in (1000, 2000, 3000):
            world.now_ns += SECOND
            reading = key.pack(), packets * 66, packets
            world.do(world.engine.flow_counters_read(1, [reading], False, world.now_ns))
        assert world.engine.flow_table.counts(PORT).idle == 1

    def test_a_young_flow_is_active(self) -> None:
        world = star()
        world.connect(SENDERS[0], RECEIVER)
        assert world.engine.flow_table.counts(PORT)[:4] == (0, 1, MSS, 0)

    def test_one_that_was_idle_for_long_is_still_known_when_it_resumes(self) -> None:
        world = star()
        key = counted(world)
        for _ in range(60):
            read(world, key, [5000], every_ns=20 * SECOND)
        assert len(world.engine.flow_table) == 1
        read(world, key, [6000])
        counts = world.engine.flow_table.counts(PORT)
        assert (counts.burst, counts.idle) == (1, 0)


class TestClasses:
    def test_a_background_flow_that_goes_idle_is_an_idle_burst_flow(self) -> None:
        world = star()
        key = counted(world)
        read(world, key, [2 * MB])
        assert world.engine.flow_table.counts(PORT).background == 1
        assert world.entries(1, FlowWindow)
        read(world, key, [2 * MB] * 2)
        assert world.engine.flow_table.counts(PORT)[:4] == (0, 1, MSS, 1)
        assert world.entries(1, FlowWindow) == set()

    def test_one_that_moves_little_is_a_burst_flow_again(self) -> None:
        world = star()
        key = counted(world)
        read(world, key, [2 * MB + 1000 * i for i in range(10)])
        assert world.engine.flow_table.counts(PORT).background == 1
        read(world, key, [2 * MB + 10_000])
        assert world.engine.flow_table.counts(PORT).background == 0

    def test_one_that_goes_on_stays(self) -> None:
        world = star()
        key = counted(world)
        read(world, key, [MB * i // 2 for i in range(4, 60)])
        assert world.engine.flow_table.counts(PORT).background == 1

    def test_it_can_become_a_background_flow_once_more(self) -> None:
        world = star()
        key = counted(world)
        read(world, key, [2 * MB] * 3 + [2 * MB + 1000])
        assert world.engine.flow_table.counts(PORT).background == 0
        read(world, key, [4 * MB])
        assert world.engine.flow_table.counts(PORT).background == 1

    def test_in_the_paper_background_is_for_life(self) -> None:
        world = tuned_star(classifier=replace(CONNECTIONS.classifier, quiet_ns=None))
        key = counted(world)
        read(world, key, [2 * MB] * 30)
        assert world.engine.flow_table.counts(PORT).background == 1


class TestTraces:
    def test_an_entry_that_counts_from_the_beginning_again_is_no_trace(self) -> None:
        world = tuned_star(expiry_ns=60 * SECOND)
        key = counted(world)
        read(world, key, [5000])
        read(world, key, [0], every_ns=30 * SECOND)
        read(world, key, [0], every_ns=31 * SECOND)
        assert len(world.engine.flow_table) == 0

    def test_without_any_packet_it_is_expired(self) -> None:
        world = tuned_star(expiry_ns=60 * SECOND)
        key = counted(world)
        read(world, key, [5000])
        read(world, key, [5000], every_ns=59 * SECOND)
        assert len(world.engine.flow_table) == 1
        read(world, key, [5000], every_ns=SECOND)
        assert records(world.last, "connection_closed")[0]["reason"] == "expired"
        assert world.entries(1, FlowCounter) == set()

    def test_one_that_only_keeps_alive_is_not(self) -> None:
        world = tuned_star(expiry_ns=60 * SECOND)
        key = counted(world)
        for packets in range(1, 5):
            world.now_ns += 50 * SECOND
            reading = key.pack(), packets * 66, packets
            world.do(world.engine.flow_counters_read(1, [reading], False, world.now_ns))
        assert len(world.engine.flow_table) == 1

    def test_a_switch_counts_so_many_and_the_others_wait(self) -> None:
        world = tuned_star(counted_per_switch=2)
        keys = [world.connect(SENDERS[0], RECEIVER, port) for port in (1, 2, 3)]
        world.sleep(2 * SECOND)
        assert len(world.entries(1, FlowCounter)) == 4
        for key in keys[:2]:
            world.segment(key, RST)
        world.sleep(SECOND)
        assert world.entries(1, FlowCounter) == {
            FlowCounter(keys[2], True),
            FlowCounter(keys[2].reverse, False),
        }

    def test_one_that_is_never_counted_is_expired_by_age(self) -> None:
        world = tuned_star(counted_per_switch=0, expiry_ns=30 * SECOND)
        world.connect(SENDERS[0], RECEIVER)
        world.sleep(29 * SECOND)
        assert len(world.engine.flow_table) == 1
        world.sleep(2 * SECOND)
        assert len(world.engine.flow_table) == 0

    def test_a_host_without_connections_for_long_leaves_nothing(self) -> None:
        world = tuned_star(expiry_ns=60 * SECOND)
        key = world.connect(SENDERS[0], RECEIVER)
        world.segment(key, FIN)
        world.segment(key.reverse, FIN)
        world.sleep(30 * SECOND)
        assert world.entries(1, HostWindow)
        world.sleep(60 * SECOND)
        assert world.entries(1, HostWindow) == set()

    def test_a_flood_is_bounded_and_counted(self) -> None:
        world = star()
        for port in range(17_000):
            key = FlowKey(SENDERS[0].address, port, RECEIVER.address, 80)
            world.segment(key, SYN, sequence=port + 1)
        table = world.engine.flow_table
        assert 16_000 < table.half_open <= 16_384
        assert table.counters["flooded"] == 17_000 - table.half_open
        late = FlowKey(SENDERS[0].address, 16_999, RECEIVER.address, 80).reverse
        world.segment(late, SYN | ACK)
        assert len(table) == 1


class TestLoss:
    def test_a_port_that_is_gone_leaves_no_flow_counted_at_it(self) -> None:
        world = star()
        counted(world)
        world.do(world.engine.port_removed(PORT, world.now_ns))
        assert world.engine.flow_table.counts(PORT).flows == 0
        assert world.engine.flow_table.counts(PortId(1, 1)).flows == 0

    def test_behind_a_switch_that_stays_away_nothing_is_left(self) -> None:
        world = star()
        counted(world)
        world.do(world.engine.switch_down(1, world.now_ns))
        world.sleep(59 * SECOND)
        assert len(world.engine.flow_table) == 1
        world.sleep(2 * SECOND)
        assert len(world.engine.flow_table) == 0
        assert world.engine.flow_table.counts(PORT).flows == 0

    def test_one_that_comes_back_in_time_keeps_its_connections(self) -> None:
        world = star()
        counted(world)
        world.do(world.engine.switch_down(1, world.now_ns))
        world.sleep(30 * SECOND)
        world.switch_up(1)
        world.sleep(60 * SECOND)
        assert len(world.engine.flow_table) == 1

    def test_counting_moves_with_the_initiator(self) -> None:
        world = World()
        world.switch_up(1)
        world.switch_up(2)
        world.link(PortId(1, 40), PortId(2, 40))
        world.now_ns += SECOND
        world.place(RECEIVER, PortId(2, 1))
        world.place(SENDERS[0], PortId(1, 1))
        key = world.connect(SENDERS[0], RECEIVER)
        for _ in range(8):
            world.sleep(SECOND // 4)
            world.link(PortId(1, 40), PortId(2, 40))
        assert world.entries(1, FlowCounter)
        world.volume(1, key, 2 * MB)
        world.place(SENDERS[0], PortId(2, 7))
        assert world.entries(1, FlowCounter) == set()
        assert world.entries(2, FlowCounter) == {
            FlowCounter(key, True),
            FlowCounter(key.reverse, False),
        }
        world.volume(2, key, 1000)
        assert world.engine.flow_table.counts(PortId(2, 1)).background == 1


class TestAsking:
    def asked(self, world: World, seconds: float) -> int:
        return world.sleep(int(seconds * SECOND)).count(ReadFlowCounters(1))

    def test_one_question_at_a_time(self) -> None:
        world = star()
        key = counted(world)
        assert self.asked(world, 5) == 0
        world.volume(1, key, 1000)
        assert self.asked(world, 1) == 1

    def test_a_lost_answer_does_not_end_it(self) -> None:
        world = star()
        counted(world)
        assert self.asked(world, 21) == 2

    def test_the_less_happens_the_less_is_asked(self) -> None:
        world = star()
        key = counted(world)
        world.volume(1, key, 1000)
        gaps_s = []
        for _ in range(8):
            begun_ns = world.now_ns
            while not self.asked(world, 0.25):
                pass
            gaps_s.append((world.now_ns - begun_ns) / SECOND)
            world.volume(1, key, 1000)
        assert gaps_s[-1] == 4.0
        assert gaps_s == sorted(gaps_s)
        world.volume(1, key, 2000)
        assert self.asked(world, 1) == 1

    def test_a_part_of_an_answer_is_none(self) -> None:
        world = star()
        key = counted(world)
        reading = key.pack(), 1000, 1
        world.do(world.engine.flow_counters_read(1, [reading], True, world.now_ns))
        assert self.asked(world, 5) == 0
