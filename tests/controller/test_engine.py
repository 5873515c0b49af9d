"""The core as a whole, in virtual time: events in, effects out, and what the switches then hold."""

from controller.core.congestion.egress_ports import EgressQueue, PortOverride
from controller.core.congestion.regulator import Scheme
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.model.effects import (
    Deliver,
    LinkProbe,
    NeighbourReply,
    ReadFlowCounters,
    ReadQueues,
    SetWindows,
)
from controller.model.entries import (
    FlowCounter,
    FlowWindow,
    Forward,
    ForwardVia,
    HostWindow,
    LinkPort,
    NextHop,
)
from controller.model.flow import ACK, FIN, RST
from controller.model.packet_ins import NeighbourMessage
from controller.model.values import Notice, Port, PortId
from engine_bench import (
    BROADCAST,
    MSS,
    QUEUE,
    RECEIVER,
    SECOND,
    SENDERS,
    EngineBench,
    make_engine,
    records,
    register_of,
    star,
    two_switches,
)
from packets import Host


class TestForwarding:
    def test_a_port_that_came_up_is_probed(self) -> None:
        bench = EngineBench()
        probed = {e.port for e in bench.switch_up(1, ports=3) if isinstance(e, LinkProbe)}
        assert probed == {PortId(1, 1), PortId(1, 2), PortId(1, 3)}

    def test_hosts_are_reachable_from_every_switch_as_soon_as_they_are_known(self) -> None:
        bench = two_switches()
        assert Forward(RECEIVER.mac, 1) in bench.entries(2, Forward)
        assert ForwardVia(RECEIVER.mac, 2) in bench.entries(1, ForwardVia)
        assert Forward(SENDERS[0].mac, 1) in bench.entries(1, Forward)
        assert ForwardVia(SENDERS[0].mac, 1) in bench.entries(2, ForwardVia)
        assert bench.entries(1, NextHop) == {NextHop(2, None, 40)}
        assert bench.entries(2, NextHop) == {NextHop(1, None, 40)}
        assert bench.entries(1, LinkPort) == {LinkPort(40)}

    def test_a_known_address_is_answered_for(self) -> None:
        bench = two_switches()
        effects = bench.arp(1, SENDERS[0], RECEIVER)
        assert effects == [
            NeighbourReply(
                PortId(1, 1),
                RECEIVER.mac,
                RECEIVER.address,
                SENDERS[0].mac,
                SENDERS[0].address,
            )
        ]

    def test_an_unknown_one_is_asked_for_at_every_edge_but_not_over_links(self) -> None:
        bench = two_switches()
        (effect,) = bench.arp(1, SENDERS[0], Host(200))
        assert isinstance(effect, Deliver)
        assert PortId(1, 1) not in effect.ports
        assert PortId(1, 40) not in effect.ports
        assert PortId(2, 40) not in effect.ports
        assert {PortId(1, 2), PortId(2, 1)} <= set(effect.ports)

    def test_what_is_for_one_host_is_left_to_the_switches(self) -> None:
        bench = two_switches()
        assert bench.arp(2, RECEIVER, SENDERS[0]) == []
        newcomer = Host(200)
        bench.places[newcomer] = PortId(1, 39)
        assert not [e for e in bench.arp(2, newcomer, RECEIVER) if isinstance(e, Deliver)]
        (answer,) = bench.arp(1, RECEIVER, newcomer)
        assert isinstance(answer, NeighbourReply)
        assert answer.mac == newcomer.mac

    def test_a_probe_of_an_unknown_sender_teaches_no_address(self) -> None:
        """RFC 5227: an ARP probe has no sender address."""
        bench = star()
        probe = NeighbourMessage(
            True, SENDERS[0].mac, bytes(4), RECEIVER.address, BROADCAST, b"", b"arp"
        )
        bench.do(bench.engine.resolve(PortId(1, 1), probe, bench.now_ns))
        (effect,) = bench.arp(1, SENDERS[1], SENDERS[0])
        assert isinstance(effect, NeighbourReply)
        assert effect.address == SENDERS[0].address

    def test_nothing_is_learnt_before_a_port_is_settled_nor_from_links(self) -> None:
        bench = EngineBench()
        bench.switch_up(1)
        port = PortId(1, 1)
        assert bench.engine.frame(port, SENDERS[0].mac, BROADCAST, b"", bench.now_ns) == []
        bench.now_ns += PORT_GRACE_NS
        bench.switch_up(2)
        bench.link(PortId(1, 1), PortId(2, 1))
        assert bench.engine.frame(port, SENDERS[0].mac, BROADCAST, b"", bench.now_ns) == []

    def test_a_moved_host_is_followed(self) -> None:
        bench = two_switches()
        bench.place(SENDERS[0], PortId(2, 7))
        assert Forward(SENDERS[0].mac, 7) in bench.entries(2, Forward)
        assert ForwardVia(SENDERS[0].mac, 2) in bench.entries(1, ForwardVia)
        assert records(bench.last, "host_moved")

    def test_a_silent_link_is_given_up(self) -> None:
        bench = two_switches()
        effects = bench.sleep(5 * SECOND)
        assert records(effects, "link_down") == [
            {"a": "0000000000000001:40", "b": "0000000000000002:40"}
        ]
        assert bench.entries(1, NextHop) == set()
        assert bench.entries(1, LinkPort) == set()

    def test_a_port_that_goes_down_takes_its_host_along(self) -> None:
        bench = two_switches()
        down = Port(1, "s2-eth1", b"\2\1\0\0\2\0", False)
        effects = bench.do(bench.engine.port_changed(2, down, bench.now_ns))
        assert records(effects, "host_lost") == [{"mac": RECEIVER.mac.hex(":")}]
        assert bench.entries(1, NextHop) == set()

    def test_a_switch_that_only_lost_its_controller_keeps_its_place(self) -> None:
        bench = two_switches()
        bench.do(bench.engine.switch_down(2, bench.now_ns))
        bench.sleep(10 * SECOND)
        assert ForwardVia(RECEIVER.mac, 2) in bench.entries(1, ForwardVia)
        assert bench.entries(1, NextHop) == {NextHop(2, None, 40)}


class TestRegulation:
    def test_the_first_connection_of_a_host_puts_its_windows_under_the_port(self) -> None:
        bench = star()
        bench.connect(SENDERS[0], RECEIVER, scales=(7, 9))
        register = register_of(bench, 1, 40, RECEIVER)
        assert register % 2 == 0
        assert HostWindow(40, RECEIVER.address, register, 9) in bench.entries(1, HostWindow)
        assert HostWindow(
            1, SENDERS[0].address, register_of(bench, 1, 1, SENDERS[0]), 7
        ) in bench.entries(1, HostWindow)
        assert bench.entries(1, FlowWindow) == set()

    def test_windows_stand_before_there_is_any_connection(self) -> None:
        bench = EngineBench()
        bench.switch_up(1)
        # 65232 / 1526 = 42.7 segments, and the floor; two registers for each of 40 ports.
        assert bench.windows[1] == {
            register: (2 if register % 2 else 42) * MSS for register in range(80)
        }

    def test_windows_follow_the_connections_and_stay_when_they_end(self) -> None:
        bench = star()
        before = dict(bench.windows[1])
        keys = [bench.connect(RECEIVER, host) for host in SENDERS]
        register = register_of(bench, 1, 40, RECEIVER)
        # 65232 / (32 x 1526) = 1.3, but the floor is two.
        assert bench.windows[1] == before | {register: 2 * MSS}
        for key in keys[2:]:
            bench.segment(key, FIN | ACK)
            bench.segment(key.reverse, FIN | ACK)
        bench.sleep(SECOND)
        # 65232 / (2 x 1526) = 21.4
        assert bench.windows[1][register] == 21 * MSS
        for key in keys[:2]:
            bench.segment(key, RST)
        bench.sleep(SECOND)
        assert bench.windows[1] == before

    def test_one_event_is_one_message(self) -> None:
        bench = star()
        for host in SENDERS:
            effects = bench.connect(RECEIVER, host, src_port=host.number) and bench.last
            assert len([effect for effect in effects if isinstance(effect, SetWindows)]) <= 1

    def test_a_port_without_a_queue_is_not_held(self) -> None:
        bench = star(queue=None)
        for host in SENDERS:
            bench.connect(RECEIVER, host, src_port=host.number)
        assert bench.windows == {}

    def test_a_queue_that_comes_changes_and_goes_is_followed(self) -> None:
        bench, port = star(queue=None), PortId(1, 40)

        def read(queues: dict[int, EgressQueue]) -> list[int]:
            bench.do(bench.engine.queues_read(1, queues, bench.now_ns))
            return [window for _, window in sorted(bench.windows[1].items())]

        assert read({40: EgressQueue(10**8, 65_536)}) == [42 * MSS, 2 * MSS]
        # 58982 + 1562 = 60544; / 1526 = 39.7
        assert read({40: EgressQueue(25 * 10**6, 65_536)}) == [39 * MSS, 2 * MSS]
        # 29491 + 6250 = 35741; / 1526 = 23.4
        assert read({40: EgressQueue(10**8, 32_768, level=2, queue_bytes=20_000)}) == [
            23 * MSS,
            2 * MSS,
        ]
        assert bench.engine.queue(port) == EgressQueue(10**8, 32_768, 2, 20_000)
        assert read({}) == [0, 0]
        assert bench.engine.queue(port) is None

    def test_a_queue_that_is_not_known_is_asked_for_and_not_taken_to_be_as_fast_as_its_port(
        self,
    ) -> None:
        bench, port = star(Scheme.WEIR, queue=None), PortId(1, 40)
        for host in SENDERS[:3]:
            bench.connect(host, RECEIVER)
        effects = bench.notice(port, Notice.CN_M)
        assert [effect for effect in effects if isinstance(effect, ReadQueues)] == [ReadQueues(1)]
        assert bench.windows == {}
        told = {40: EgressQueue(10**8, 65_536, level=2, queue_bytes=20_000)}
        bench.do(bench.engine.queues_read(1, told, bench.now_ns))
        assert bench.engine.regulation.notice(port) is Notice.CN_M
        limits = bench.engine.regulation.limits(port)
        assert limits is not None
        assert limits.capacity_bps == 10**8
        assert bench.windows[1]

    def test_what_a_queue_has_told_somebody_else_counts(self) -> None:
        """A controller that takes over hears no notice that came before it."""
        bench = star(queue=EgressQueue(10**8, 65_536, level=3, queue_bytes=60_000))
        assert bench.engine.regulation.notice(PortId(1, 40)) is Notice.CN_H
        bench.notice(PortId(1, 40), Notice.CR)
        assert bench.engine.regulation.notice(PortId(1, 40)) is None

    def test_the_notice_of_a_port_that_is_gone_is_only_told(self) -> None:
        bench = star()
        before = dict(bench.windows[1])
        effects = bench.notice(PortId(1, 77), Notice.CR)
        assert records(effects, "queue_event")
        assert bench.windows[1] == before

    def test_the_registers_of_a_removed_port_are_free_again(self) -> None:
        bench = star(n_registers=2, queue=None)

        def has_queue(number: int) -> None:
            bench.do(bench.engine.queues_read(1, {number: QUEUE}, bench.now_ns))

        has_queue(40)
        bench.connect(SENDERS[0], RECEIVER)
        assert set(bench.windows[1]) == {0, 1}
        bench.do(bench.engine.port_removed(PortId(1, 40), bench.now_ns))
        assert bench.windows[1] == {0: 0, 1: 0}
        assert bench.entries(1, HostWindow) == set()
        has_queue(1)
        assert bench.windows[1] == {0: 42 * MSS, 1: 2 * MSS}

    def test_a_switch_that_returns_is_held_as_before_at_once(self) -> None:
        bench = star()
        before = dict(bench.windows[1])
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.queue = None
        bench.windows.clear()
        bench.switch_up(1)
        assert bench.windows[1] == before

    def test_a_port_that_went_while_its_switch_was_away_is_left(self) -> None:
        bench = star(n_registers=80)
        bench.connect(SENDERS[0], RECEIVER)
        register = register_of(bench, 1, 40, RECEIVER)
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.queue = None
        bench.switch_up(1, ports=39)
        assert bench.windows[1][register] == bench.windows[1][register + 1] == 0
        assert 40 not in {entry.port for entry in bench.entries(1, HostWindow)}
        assert bench.engine.queue(PortId(1, 40)) is None

    def test_a_switch_that_is_gone_for_good_is_forgotten(self) -> None:
        bench = star()
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.sleep(60 * SECOND)
        assert bench.engine.queue(PortId(1, 40)) is None
        bench.windows.clear()
        bench.switch_up(1)
        assert len(bench.windows[1]) == 80

    def test_a_notice_slows_background_down_and_cr_lets_go(self) -> None:
        bench = star(Scheme.SDTCP)
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.connect(SENDERS[1], RECEIVER)
        bench.sleep(2 * SECOND)
        bench.volume(1, key, 2 * 10**6)
        register = register_of(bench, 1, 40, RECEIVER)
        effects = bench.notice(PortId(1, 40), Notice.CN_L)
        # W = (6250 + 20000) / 2, 2/3 of it.
        assert bench.windows[1] == {register + 1: 8750}
        (event,) = records(effects, "queue_event")
        assert (event["notice"], event["background"], event["burst"]) == ("CN-L", 1, 1)
        (sent,) = records(effects, "window_set")
        assert sent["refresh"] is False
        assert sent["windows"] == [
            {
                "port": 40,
                "class": "background",
                "register": register + 1,
                "window_bytes": 8750,
                "credit": None,
            }
        ]
        bench.notice(PortId(1, 40), Notice.CR)
        assert bench.windows[1] == {register + 1: 0}

    def test_windows_in_force_are_refreshed_until_they_are_released(self) -> None:
        bench = star(Scheme.SDTCP)
        bench.connect(SENDERS[0], RECEIVER)
        bench.notice(PortId(1, 40), Notice.CN_H)
        refreshed = records(bench.sleep(3 * SECOND), "window_set")
        assert len(refreshed) == 3
        assert all(record["refresh"] for record in refreshed)
        bench.notice(PortId(1, 40), Notice.CR)
        assert records(bench.sleep(3 * SECOND), "window_set") == []

    def test_on_two_switches_each_port_of_the_path_has_its_entry(self) -> None:
        bench = two_switches()
        bench.connect(SENDERS[0], RECEIVER)
        assert register_of(bench, 1, 40, RECEIVER) is not None
        assert register_of(bench, 2, 1, RECEIVER) is not None
        assert register_of(bench, 2, 40, SENDERS[0]) is not None
        assert register_of(bench, 1, 1, SENDERS[0]) is not None

    def test_a_switch_without_the_extension_is_left_alone(self) -> None:
        bench = star(n_registers=0)
        for host in SENDERS:
            bench.connect(RECEIVER, host, src_port=host.number)
        assert bench.entries(1, HostWindow) == set()
        assert bench.windows == {}
        assert not any(isinstance(effect, SetWindows) for effect in bench.sleep(3 * SECOND))

    def test_scheme_none_only_watches(self) -> None:
        bench = star(Scheme.NONE)
        for host in SENDERS:
            bench.connect(RECEIVER, host, src_port=host.number)
        effects = bench.notice(PortId(1, 40), Notice.CN_H)
        assert records(effects, "queue_event")[0]["burst"] == 32
        assert bench.entries(1, HostWindow) == set()
        assert bench.windows == {}

    def test_ports_past_the_last_register_are_not_regulated_and_that_is_said_once(self) -> None:
        bench = EngineBench(n_registers=4)
        bench.switch_up(1)
        assert set(bench.windows[1]) == {0, 1, 2, 3}
        bench.sleep(5 * SECOND)
        assert bench.complaints == [1]

    def test_limits_of_a_port_by_name(self) -> None:
        override = PortOverride(1, "s1-eth40", 10**10, 500_000, 10**7)
        bench = EngineBench(make_engine(overrides=(override,)), queue=None)
        bench.switch_up(1)
        bench.do(bench.engine.queues_read(1, {}, bench.now_ns))
        # 0.9 x 10^7 + 625000 = 9625000; / 1526 = 6307.3
        assert max(bench.windows[1].values()) == 6307 * MSS


class TestExceptions:
    def test_a_background_flow_goes_under_the_backgroundregister_of(self) -> None:
        bench = star()
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(2 * SECOND)
        effects = bench.volume(1, key, 2 * 10**6)
        assert records(effects, "flow_classified")[0]["class"] == "background"
        register = register_of(bench, 1, 40, RECEIVER)
        assert bench.entries(1, FlowWindow) == {FlowWindow(40, key.reverse, register + 1, 7)}
        bench.segment(key, RST)
        assert bench.entries(1, FlowWindow) == set()

    def test_a_connection_of_another_scale_has_its_own_entry(self) -> None:
        bench = star()
        bench.connect(SENDERS[0], RECEIVER, 1, scales=(7, 7))
        odd = bench.connect(SENDERS[0], RECEIVER, 2, scales=(7, None))
        register = register_of(bench, 1, 40, RECEIVER)
        sender_register = register_of(bench, 1, 1, SENDERS[0])
        assert bench.entries(1, FlowWindow) == {
            FlowWindow(40, odd.reverse, register, 0),
            FlowWindow(1, odd, sender_register, 0),
        }

    def test_a_host_whose_connections_all_have_a_new_scale_has_changed_it(self) -> None:
        bench = star()
        old = bench.connect(SENDERS[0], RECEIVER, 1, scales=(7, 7))
        bench.connect(SENDERS[0], RECEIVER, 2, scales=(7, 10))
        bench.segment(old, RST)
        bench.connect(SENDERS[0], RECEIVER, 3, scales=(7, 10))
        register = register_of(bench, 1, 40, RECEIVER)
        assert HostWindow(40, RECEIVER.address, register, 10) in bench.entries(1, HostWindow)
        assert bench.entries(1, FlowWindow) == set()


class TestAccounts:
    def test_young_connections_have_none(self) -> None:
        bench = star()
        bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(SECOND // 2)
        assert bench.entries(1, FlowCounter) == set()

    def test_old_ones_are_counted_in_both_directions_at_the_initiators_edge(self) -> None:
        bench = two_switches()
        key = bench.connect(SENDERS[0], RECEIVER)
        effects = bench.sleep(2 * SECOND)
        assert bench.entries(1, FlowCounter) == {
            FlowCounter(key, True),
            FlowCounter(key.reverse, False),
        }
        assert bench.entries(2, FlowCounter) == set()
        assert ReadFlowCounters(1) in effects
        assert ReadFlowCounters(2) not in effects

    def test_they_go_with_the_connection(self) -> None:
        bench = star()
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(2 * SECOND)
        bench.segment(key, FIN | ACK)
        effects = bench.segment(key.reverse, FIN | ACK)
        assert bench.entries(1, FlowCounter) == set()
        assert records(effects, "connection_closed")[0]["reason"] == "finished"
        assert ReadFlowCounters(1) not in bench.sleep(SECOND)

    def test_an_idle_one_ends_the_connection(self) -> None:
        bench = star()
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(2 * SECOND)
        del bench.held[1][FlowCounter(key, True).key]
        effects = bench.do(bench.engine.flow_counter_expired(1, key.pack(), bench.now_ns))
        assert records(effects, "connection_closed")[0]["reason"] == "expired"
        assert bench.entries(1, FlowCounter) == set()

    def test_volume_without_age_is_burst(self) -> None:
        bench = star()
        key = bench.connect(SENDERS[0], RECEIVER)
        bench.sleep(SECOND)
        assert records(bench.volume(1, key, 10**9), "flow_classified") == []
        assert bench.engine.flow_table.counts(PortId(1, 40)).burst == 1


class TestReroute:
    def test_flows_follow_their_host(self) -> None:
        bench = two_switches()
        bench.connect(RECEIVER, SENDERS[0])
        bench.place(RECEIVER, PortId(1, 39))
        table = bench.engine.flow_table
        assert table.counts(PortId(1, 39)).burst == 1
        assert table.counts(PortId(2, 1)).burst == 0
        assert register_of(bench, 1, 39, RECEIVER) is not None
        assert not {e for e in bench.entries(2, HostWindow) if e.address == RECEIVER.address}

    def test_flows_without_a_path_are_not_counted(self) -> None:
        bench = two_switches()
        bench.connect(RECEIVER, SENDERS[0])
        bench.sleep(5 * SECOND)
        assert bench.engine.flow_table.counts(PortId(1, 1)).burst == 0
        bench.link(PortId(1, 40), PortId(2, 40))
        assert bench.engine.flow_table.counts(PortId(1, 1)).burst == 1
