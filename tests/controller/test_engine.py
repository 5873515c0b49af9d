"""The core as a whole, in virtual time: events in, effects out, and what the switches then hold."""

from dataclasses import dataclass, field

import pytest

from controller.core.classifier import Classifier
from controller.core.effects import (
    AnswerArp,
    Deliver,
    Effect,
    Install,
    Probe,
    ReadAccounts,
    Record,
    SetWindows,
    Withdraw,
)
from controller.core.engine import (
    RELEARN_AFTER_NS,
    RELEARN_FOR_NS,
    Engine,
    EngineSettings,
    PortOverride,
    QueueReport,
)
from controller.core.entries import (
    Account,
    Entry,
    EntryKey,
    FlowWindow,
    Forward,
    HostWindow,
    LinkPort,
    Relearn,
    Survivor,
)
from controller.core.fabric import PORT_GRACE_NS, Port
from controller.core.flow import ACK, FIN, RST, SYN, FlowKey, Segment
from controller.core.forwarding import Arp
from controller.core.regulator import PortLimits, RegulatorSettings, Scheme
from controller.core.values import Notice, PortId
from packets import Host

SECOND = 10**9
MSS = 1460
BROADCAST = b"\xff" * 6
LIMITS = PortLimits(10**8, 500_000, 65_536)
REGISTERS = 1024


def make_engine(scheme: Scheme = Scheme.WEIR, overrides: tuple[PortOverride, ...] = ()) -> Engine:
    return Engine(
        EngineSettings(
            classifier=Classifier(10**6, SECOND),
            regulator=RegulatorSettings(scheme, 3 * SECOND, 10, 0.9, 0),
            limits=LIMITS,
            overrides=overrides,
            link_timeout_ns=4 * SECOND,
        )
    )


@dataclass
class World:
    """An engine, the hosts' places, the time, and switches that do as they are told."""

    engine: Engine = field(default_factory=make_engine)
    n_registers: int = REGISTERS
    now_ns: int = 100 * SECOND
    places: dict[Host, PortId] = field(default_factory=dict)
    held: dict[int, dict[EntryKey, Entry]] = field(default_factory=dict)
    windows: dict[int, dict[int, int]] = field(default_factory=dict)
    last: list[Effect] = field(default_factory=list)

    def do(self, effects: list[Effect]) -> list[Effect]:
        """Let the switches carry the effects out."""
        for effect in effects:
            match effect:
                case Install(switch, entry):
                    self.held.setdefault(switch, {})[entry.key] = entry
                case Withdraw(switch, entry):
                    assert self.held[switch].pop(entry.key)
                case SetWindows(switch, windows, _):
                    for register, window_bytes in windows:
                        self.windows.setdefault(switch, {})[register] = window_bytes
        self.last = effects
        return effects

    def switch_up(self, switch: int, *survivors: Survivor, ports: int = 40) -> list[Effect]:
        mac = bytes([2, 1, 0, 0, switch, 0])
        descriptions = [Port(n, f"s{switch}-eth{n}", mac, True) for n in range(1, ports + 1)]
        self.held[switch] = {survivor.entry.key: survivor.entry for survivor in survivors}
        return self.do(
            self.engine.switch_up(switch, descriptions, self.n_registers, survivors, self.now_ns)
        )

    def sleep(self, ns: int) -> list[Effect]:
        """Time passes, with all periodic work in it."""
        seen: list[Effect] = []
        end_ns = self.now_ns + ns
        while self.now_ns < end_ns:
            self.now_ns = min(self.now_ns + SECOND // 4, end_ns)
            for work in (
                self.engine.probe_links,
                self.engine.read_accounts,
                self.engine.refresh_windows,
                self.engine.tend,
            ):
                seen += self.do(work(self.now_ns))
        return seen

    def arp(self, operation: int, sender: Host, target: Host) -> list[Effect]:
        dst = BROADCAST if operation == 1 else target.mac
        packet = Arp(operation, sender.mac, sender.address, target.address, dst, b"arp")
        return self.do(self.engine.arp(self.places[sender], packet, self.now_ns))

    def place(self, host: Host, port: PortId) -> None:
        self.places[host] = port
        self.arp(1, host, host)

    def link(self, a: PortId, b: PortId) -> list[Effect]:
        return self.do(self.engine.link_seen(a, b, self.now_ns))

    def segment(
        self,
        key: FlowKey,
        flags: int,
        scale: int | None = 7,
        payload_bytes: int = 0,
        sequence: int = 1,
    ) -> list[Effect]:
        by_address = {host.address: host for host in self.places}
        src, dst = by_address[key.src], by_address[key.dst]
        option = scale if flags & SYN else None
        segment = Segment(key, flags, sequence, 2, src.mac, dst.mac, payload_bytes, MSS, option)
        return self.do(self.engine.segment(self.places[src], segment, self.now_ns))

    def connect(
        self,
        src: Host,
        dst: Host,
        src_port: int = 1,
        scales: tuple[int | None, int | None] = (7, 7),
    ) -> FlowKey:
        key = FlowKey(src.address, src_port, dst.address, 80)
        self.segment(key, SYN, scales[0])
        self.segment(key.reverse, SYN | ACK, scales[1])
        return key

    def notice(self, port: PortId, notice: Notice, queue_bytes: int = 20_000) -> list[Effect]:
        report = QueueReport(notice, 14, queue_bytes, 65_536, 1, 1, 0)
        return self.do(self.engine.queue_event(port, report, self.now_ns))

    def volume(self, switch: int, key: FlowKey, volume_bytes: int) -> list[Effect]:
        return self.do(self.engine.accounts_read(switch, [(key, volume_bytes)], self.now_ns))

    def entries(self, switch: int, kind: type) -> set[Entry]:
        return {entry for entry in self.held[switch].values() if isinstance(entry, kind)}


def records(effects: list[Effect], event: str) -> list[dict[str, object]]:
    return [e.fields for e in effects if isinstance(e, Record) and e.event == event]


RECEIVER = Host(100)
SENDERS = [Host(number) for number in range(1, 33)]


def star(scheme: Scheme = Scheme.WEIR, n_registers: int = REGISTERS) -> World:
    """One switch; the receiver at port 40, sender i at port i."""
    world = World(make_engine(scheme), n_registers)
    world.switch_up(1)
    world.now_ns += PORT_GRACE_NS
    world.place(RECEIVER, PortId(1, 40))
    for host in SENDERS:
        world.place(host, PortId(1, host.number))
    return world


def two_switches(scheme: Scheme = Scheme.WEIR) -> World:
    """The paper's Fig. 8: senders at switch 1, the receiver at switch 2, port 40 between."""
    world = World(make_engine(scheme))
    world.switch_up(1)
    world.switch_up(2)
    world.link(PortId(1, 40), PortId(2, 40))
    world.now_ns += PORT_GRACE_NS
    world.place(RECEIVER, PortId(2, 1))
    for host in SENDERS:
        world.place(host, PortId(1, host.number))
    return world


class TestForwarding:
    def test_a_port_that_came_up_is_probed(self) -> None:
        world = World()
        probed = {e.port for e in world.switch_up(1, ports=3) if isinstance(e, Probe)}
        assert probed == {PortId(1, 1), PortId(1, 2), PortId(1, 3)}

    def test_hosts_are_reachable_from_every_switch_as_soon_as_they_are_known(self) -> None:
        world = two_switches()
        assert Forward(RECEIVER.mac, 1) in world.entries(2, Forward)
        assert Forward(RECEIVER.mac, 40) in world.entries(1, Forward)
        assert Forward(SENDERS[0].mac, 1) in world.entries(1, Forward)
        assert Forward(SENDERS[0].mac, 40) in world.entries(2, Forward)
        assert world.entries(1, LinkPort) == {LinkPort(40)}

    def test_a_known_address_is_answered_for(self) -> None:
        world = two_switches()
        effects = world.arp(1, SENDERS[0], RECEIVER)
        assert effects == [
            AnswerArp(
                PortId(1, 1),
                RECEIVER.mac,
                RECEIVER.address,
                SENDERS[0].mac,
                SENDERS[0].address,
            )
        ]

    def test_an_unknown_one_is_asked_for_at_every_edge_but_not_over_links(self) -> None:
        world = two_switches()
        (effect,) = world.arp(1, SENDERS[0], Host(200))
        assert isinstance(effect, Deliver)
        assert PortId(1, 1) not in effect.ports
        assert PortId(1, 40) not in effect.ports
        assert PortId(2, 40) not in effect.ports
        assert {PortId(1, 2), PortId(2, 1)} <= set(effect.ports)

    def test_an_answer_goes_to_who_asked(self) -> None:
        world = two_switches()
        assert world.arp(2, RECEIVER, SENDERS[0]) == [Deliver((PortId(1, 1),), b"arp")]

    def test_a_probe_of_an_unknown_sender_teaches_no_address(self) -> None:
        """RFC 5227: an ARP probe has no sender address."""
        world = star()
        probe = Arp(1, SENDERS[0].mac, bytes(4), RECEIVER.address, BROADCAST, b"arp")
        world.do(world.engine.arp(PortId(1, 1), probe, world.now_ns))
        (effect,) = world.arp(1, SENDERS[1], SENDERS[0])
        assert isinstance(effect, AnswerArp)
        assert effect.address == SENDERS[0].address

    def test_nothing_is_learnt_before_a_port_is_settled_nor_from_links(self) -> None:
        world = World()
        world.switch_up(1)
        port = PortId(1, 1)
        assert world.engine.frame(port, SENDERS[0].mac, BROADCAST, b"", world.now_ns) == []
        world.now_ns += PORT_GRACE_NS
        world.switch_up(2)
        world.link(PortId(1, 1), PortId(2, 1))
        assert world.engine.frame(port, SENDERS[0].mac, BROADCAST, b"", world.now_ns) == []

    def test_a_moved_host_is_followed(self) -> None:
        world = two_switches()
        world.place(SENDERS[0], PortId(2, 7))
        assert Forward(SENDERS[0].mac, 7) in world.entries(2, Forward)
        assert Forward(SENDERS[0].mac, 40) in world.entries(1, Forward)
        assert records(world.last, "host_moved")

    def test_a_silent_link_is_given_up(self) -> None:
        world = two_switches()
        effects = world.sleep(5 * SECOND)
        assert records(effects, "link_down") == [{"a": "1:40", "b": "2:40"}]
        assert Forward(RECEIVER.mac, 40) not in world.entries(1, Forward)
        assert world.entries(1, LinkPort) == set()

    def test_a_port_that_goes_down_takes_its_host_along(self) -> None:
        world = two_switches()
        down = Port(1, "s2-eth1", b"\2\1\0\0\2\0", False)
        effects = world.do(world.engine.port_changed(2, down, world.now_ns))
        assert records(effects, "host_lost") == [{"mac": RECEIVER.mac.hex(":")}]
        assert Forward(RECEIVER.mac, 40) not in world.entries(1, Forward)

    def test_a_switch_that_only_lost_its_controller_keeps_its_place(self) -> None:
        world = two_switches()
        world.do(world.engine.switch_down(2, world.now_ns))
        world.sleep(10 * SECOND)
        assert Forward(RECEIVER.mac, 40) in world.entries(1, Forward)


class TestRegulation:
    def test_the_first_connection_of_a_host_puts_its_windows_under_the_port(self) -> None:
        world = star()
        world.connect(SENDERS[0], RECEIVER, scales=(7, 9))
        register = _register(world, 1, 40, RECEIVER)
        assert register % 2 == 0
        assert HostWindow(40, RECEIVER.address, register, 9) in world.entries(1, HostWindow)
        assert HostWindow(
            1, SENDERS[0].address, _register(world, 1, 1, SENDERS[0]), 7
        ) in world.entries(1, HostWindow)
        assert world.entries(1, FlowWindow) == set()

    def test_windows_stand_once_the_connections_do(self) -> None:
        """32 readers' answers leave by port 40: N = 32, 65232 / (32 x 1526) = 1.3 segments."""
        world = star()
        for host in SENDERS:
            world.connect(RECEIVER, host, src_port=host.number)
        register = _register(world, 1, 40, RECEIVER)
        assert world.windows[1][register] == MSS
        assert all(window == 0 for r, window in world.windows[1].items() if r // 2 != register // 2)

    def test_windows_are_released_when_the_connections_end(self) -> None:
        world = star()
        keys = [world.connect(RECEIVER, host, src_port=host.number) for host in SENDERS]
        for key in keys:
            world.segment(key, FIN | ACK)
            world.segment(key.reverse, FIN | ACK)
        assert set(world.windows[1].values()) == {0}

    def test_a_notice_slows_background_down_and_cr_lets_go(self) -> None:
        world = star(Scheme.SDTCP)
        key = world.connect(SENDERS[0], RECEIVER)
        world.connect(SENDERS[1], RECEIVER)
        world.sleep(2 * SECOND)
        world.volume(1, key, 2 * 10**6)
        register = _register(world, 1, 40, RECEIVER)
        effects = world.notice(PortId(1, 40), Notice.CN_L)
        # W = (6250 + 20000) / 2, 2/3 of it.
        assert world.windows[1] == {register + 1: 8750}
        (event,) = records(effects, "queue_event")
        assert (event["notice"], event["background"], event["burst"]) == ("CN-L", 1, 1)
        (sent,) = records(effects, "window_set")
        assert sent["refresh"] is False
        assert sent["windows"] == [
            {"port": 40, "class": "background", "register": register + 1, "window_bytes": 8750}
        ]
        world.notice(PortId(1, 40), Notice.CR)
        assert world.windows[1] == {register + 1: 0}

    def test_windows_in_force_are_refreshed_until_they_are_released(self) -> None:
        world = star(Scheme.SDTCP)
        world.connect(SENDERS[0], RECEIVER)
        world.notice(PortId(1, 40), Notice.CN_H)
        refreshed = records(world.sleep(3 * SECOND), "window_set")
        assert len(refreshed) == 3
        assert all(record["refresh"] for record in refreshed)
        world.notice(PortId(1, 40), Notice.CR)
        assert records(world.sleep(3 * SECOND), "window_set") == []

    def test_on_two_switches_each_port_of_the_path_has_its_entry(self) -> None:
        world = two_switches()
        world.connect(SENDERS[0], RECEIVER)
        assert _register(world, 1, 40, RECEIVER) is not None
        assert _register(world, 2, 1, RECEIVER) is not None
        assert _register(world, 2, 40, SENDERS[0]) is not None
        assert _register(world, 1, 1, SENDERS[0]) is not None

    def test_a_switch_without_the_extension_is_left_alone(self) -> None:
        world = star(n_registers=0)
        for host in SENDERS:
            world.connect(RECEIVER, host, src_port=host.number)
        assert world.entries(1, HostWindow) == set()
        assert world.windows == {}
        assert not any(isinstance(effect, SetWindows) for effect in world.sleep(3 * SECOND))

    def test_scheme_none_only_watches(self) -> None:
        world = star(Scheme.NONE)
        for host in SENDERS:
            world.connect(RECEIVER, host, src_port=host.number)
        effects = world.notice(PortId(1, 40), Notice.CN_H)
        assert records(effects, "queue_event")[0]["burst"] == 32
        assert world.entries(1, HostWindow) == set()
        assert world.windows == {}

    def test_ports_past_the_last_register_are_not_regulated(self) -> None:
        world = star(n_registers=4)
        world.connect(SENDERS[0], RECEIVER)
        world.connect(SENDERS[1], RECEIVER)
        assert {entry.port for entry in world.entries(1, HostWindow)} == {40, 1}

    def test_limits_of_a_port_by_name(self) -> None:
        override = PortOverride(1, "s1-eth40", PortLimits(10**10, 500_000, 10**7))
        world = World(make_engine(overrides=(override,)))
        world.switch_up(1)
        world.now_ns += PORT_GRACE_NS
        for host, number in ((RECEIVER, 40), *((host, host.number) for host in SENDERS)):
            world.place(host, PortId(1, number))
        for host in SENDERS:
            world.connect(RECEIVER, host, src_port=host.number)
        assert world.windows == {}


class TestExceptions:
    def test_a_background_flow_goes_under_the_background_register(self) -> None:
        world = star()
        key = world.connect(SENDERS[0], RECEIVER)
        world.sleep(2 * SECOND)
        effects = world.volume(1, key, 2 * 10**6)
        assert records(effects, "flow_classified")[0]["class"] == "background"
        register = _register(world, 1, 40, RECEIVER)
        assert world.entries(1, FlowWindow) == {FlowWindow(40, key.reverse, register + 1, 7)}
        world.segment(key, RST)
        assert world.entries(1, FlowWindow) == set()

    def test_a_connection_of_another_scale_has_its_own_entry(self) -> None:
        world = star()
        world.connect(SENDERS[0], RECEIVER, 1, scales=(7, 7))
        odd = world.connect(SENDERS[0], RECEIVER, 2, scales=(7, None))
        register = _register(world, 1, 40, RECEIVER)
        sender_register = _register(world, 1, 1, SENDERS[0])
        assert world.entries(1, FlowWindow) == {
            FlowWindow(40, odd.reverse, register, 0),
            FlowWindow(1, odd, sender_register, 0),
        }

    def test_a_host_whose_connections_all_have_a_new_scale_has_changed_it(self) -> None:
        world = star()
        old = world.connect(SENDERS[0], RECEIVER, 1, scales=(7, 7))
        world.connect(SENDERS[0], RECEIVER, 2, scales=(7, 10))
        world.segment(old, RST)
        world.connect(SENDERS[0], RECEIVER, 3, scales=(7, 10))
        register = _register(world, 1, 40, RECEIVER)
        assert HostWindow(40, RECEIVER.address, register, 10) in world.entries(1, HostWindow)
        assert world.entries(1, FlowWindow) == set()


class TestAccounts:
    def test_young_connections_have_none(self) -> None:
        world = star()
        world.connect(SENDERS[0], RECEIVER)
        world.sleep(SECOND // 2)
        assert world.entries(1, Account) == set()

    def test_old_ones_are_counted_in_both_directions_at_the_initiators_edge(self) -> None:
        world = two_switches()
        key = world.connect(SENDERS[0], RECEIVER)
        effects = world.sleep(2 * SECOND)
        assert world.entries(1, Account) == {Account(key, True), Account(key.reverse, False)}
        assert world.entries(2, Account) == set()
        assert ReadAccounts(1) in effects
        assert ReadAccounts(2) not in effects

    def test_they_go_with_the_connection(self) -> None:
        world = star()
        key = world.connect(SENDERS[0], RECEIVER)
        world.sleep(2 * SECOND)
        world.segment(key, FIN | ACK)
        effects = world.segment(key.reverse, FIN | ACK)
        assert world.entries(1, Account) == set()
        assert records(effects, "connection_closed")[0]["reason"] == "finished"
        assert ReadAccounts(1) not in world.sleep(SECOND)

    def test_an_idle_one_ends_the_connection(self) -> None:
        world = star()
        key = world.connect(SENDERS[0], RECEIVER)
        world.sleep(2 * SECOND)
        del world.held[1][Account(key, True).key]
        effects = world.do(world.engine.account_expired(1, key, world.now_ns))
        assert records(effects, "connection_closed")[0]["reason"] == "idle"
        assert world.entries(1, Account) == set()

    def test_volume_without_age_is_burst(self) -> None:
        world = star()
        key = world.connect(SENDERS[0], RECEIVER)
        world.sleep(SECOND)
        assert records(world.volume(1, key, 10**9), "flow_classified") == []
        assert world.engine.flow_table.counts(PortId(1, 40)).burst == 1


class TestReroute:
    def test_flows_follow_their_host(self) -> None:
        world = two_switches()
        world.connect(RECEIVER, SENDERS[0])
        world.place(RECEIVER, PortId(1, 39))
        table = world.engine.flow_table
        assert table.counts(PortId(1, 39)).burst == 1
        assert table.counts(PortId(2, 1)).burst == 0
        assert _register(world, 1, 39, RECEIVER) is not None
        assert not {e for e in world.entries(2, HostWindow) if e.address == RECEIVER.address}

    def test_flows_without_a_path_are_not_counted(self) -> None:
        world = two_switches()
        world.connect(RECEIVER, SENDERS[0])
        world.sleep(5 * SECOND)
        assert world.engine.flow_table.counts(PortId(1, 1)).burst == 0
        world.link(PortId(1, 40), PortId(2, 40))
        assert world.engine.flow_table.counts(PortId(1, 1)).burst == 1


class TestRestart:
    """A new engine meets switches that an old one has set up."""

    def restarted(
        self, before: World, volumes: dict[FlowKey, int] | None = None, apart_ns: int = 0
    ) -> World:
        after = World(make_engine(), now_ns=before.now_ns + SECOND)
        after.places = before.places
        for switch, held in before.held.items():
            survivors = [
                Survivor(
                    entry,
                    (volumes or {}).get(entry.flow, 0) if isinstance(entry, Account) else 0,
                    5 * SECOND,
                )
                for entry in held.values()
            ]
            after.switch_up(switch, *survivors)
            if apart_ns:
                after.sleep(apart_ns)
        return after

    def test_nothing_that_works_is_touched(self) -> None:
        before = two_switches()
        for host in SENDERS:
            before.connect(RECEIVER, host, src_port=host.number)
        before.sleep(2 * SECOND)
        before.link(PortId(1, 40), PortId(2, 40))
        kept = {switch: dict(held) for switch, held in before.held.items()}
        after = self.restarted(before)
        seen = after.link(PortId(1, 40), PortId(2, 40))
        for _ in range(4):
            seen += after.sleep(2 * SECOND)
            seen += after.link(PortId(1, 40), PortId(2, 40))
        changes = [e for e in seen if isinstance(e, Install | Withdraw)]
        # Accounts are added at the other end, too, because there the segments are copied up.
        assert all(isinstance(change.entry, Account | Relearn) for change in changes)
        for switch in kept:
            assert kept[switch].items() <= after.held[switch].items()

    def test_connections_with_an_account_are_back_at_once_and_so_are_the_windows(self) -> None:
        before = two_switches()
        for host in SENDERS:
            before.connect(RECEIVER, host, src_port=host.number)
        before.sleep(2 * SECOND)
        register = _register(before, 2, 1, RECEIVER)
        after = self.restarted(before)
        after.link(PortId(1, 40), PortId(2, 40))
        assert len(after.engine.flow_table) == 32
        assert after.engine.flow_table.counts(PortId(2, 1)).burst == 32
        assert after.windows[2][register] == MSS

    def test_switches_may_return_as_late_as_open_vswitch_tries_again(self) -> None:
        before = two_switches()
        for host in SENDERS:
            before.connect(RECEIVER, host, src_port=host.number)
        before.sleep(2 * SECOND)
        held = {switch: dict(entries) for switch, entries in before.held.items()}
        after = self.restarted(before, apart_ns=8 * SECOND)
        after.link(PortId(1, 40), PortId(2, 40))
        assert len(after.engine.flow_table) == 32
        for switch, entries in held.items():
            assert {
                k: e for k, e in entries.items() if isinstance(e, Forward | HostWindow)
            }.items() <= (after.held[switch].items())

    def test_background_flows_stay_what_they_are(self) -> None:
        before = star()
        key = before.connect(SENDERS[0], RECEIVER)
        before.sleep(2 * SECOND)
        before.volume(1, key, 2 * 10**6)
        exceptions = before.entries(1, FlowWindow)
        after = self.restarted(before, {key: 2 * 10**6})
        counts = after.engine.flow_table.counts(PortId(1, 40))
        assert (counts.background, counts.burst) == (1, 0)
        after.sleep(10 * SECOND)
        assert after.entries(1, FlowWindow) == exceptions

    def test_a_scale_that_is_not_its_hosts_is_remembered(self) -> None:
        before = star()
        before.connect(SENDERS[0], RECEIVER, 1, scales=(7, 7))
        before.connect(SENDERS[0], RECEIVER, 2, scales=(7, None))
        before.sleep(2 * SECOND)
        exceptions = before.entries(1, FlowWindow)
        assert {entry.window_scale for entry in exceptions} == {0}
        after = self.restarted(before)
        after.sleep(10 * SECOND)
        assert after.entries(1, FlowWindow) == exceptions

    def test_young_connections_are_relearnt_from_their_segments(self) -> None:
        before = star()
        key = before.connect(SENDERS[0], RECEIVER, scales=(7, 9))
        after = self.restarted(before)
        effects = after.sleep(RELEARN_AFTER_NS)
        assert Install(1, Relearn(1)) in effects
        assert len(after.engine.flow_table) == 0
        after.segment(key, ACK)
        assert len(after.engine.flow_table) == 0, "a bare ACK may be a dead connection's last word"
        opened = records(after.segment(key, ACK, payload_bytes=100), "connection_opened")
        assert opened[0]["adopted"] is True
        assert opened[0]["window_scales"] == [7, 9]
        assert after.entries(1, Account) == {Account(key, True), Account(key.reverse, False)}

    def test_a_new_connection_is_accounted_at_once_while_switches_relearn(self) -> None:
        before = two_switches()
        before.connect(RECEIVER, SENDERS[0])
        after = self.restarted(before)
        after.link(PortId(1, 40), PortId(2, 40))
        key = after.connect(SENDERS[1], RECEIVER, 7)
        for switch in (1, 2):
            assert Account(key, True) in after.entries(switch, Account)

    def test_what_nobody_claims_is_withdrawn_in_the_end(self) -> None:
        before = star()
        gone = FlowWindow(40, FlowKey(b"\x0a\0\0\x09", 9, RECEIVER.address, 9), 900, 3)
        before.held[1][gone.key] = gone
        after = self.restarted(before)
        assert gone in after.entries(1, FlowWindow)
        after.sleep(RELEARN_AFTER_NS + RELEARN_FOR_NS)
        assert gone not in after.entries(1, FlowWindow)

    def test_a_syn_ack_whose_syn_was_missed_is_enough(self) -> None:
        world = star()
        world.connect(SENDERS[0], RECEIVER, 1, scales=(7, 9))
        key = FlowKey(SENDERS[0].address, 2, RECEIVER.address, 80)
        world.segment(key.reverse, SYN | ACK, 9)
        opened = records(world.sleep(2 * SECOND), "connection_opened")
        assert opened[0]["src_port"] == 2
        assert opened[0]["window_scales"] == [7, 9]

    def test_a_syn_ack_that_overtook_its_syn_is_no_adoption(self) -> None:
        world = two_switches()
        key = FlowKey(SENDERS[0].address, 2, RECEIVER.address, 80)
        assert records(world.segment(key.reverse, SYN | ACK, 9), "connection_opened") == []
        opened = records(world.segment(key, SYN, 7), "connection_opened")
        assert opened[0]["adopted"] is False
        assert opened[0]["window_scales"] == [7, 9]

    @pytest.mark.parametrize("flags", [FIN | ACK, RST, RST | ACK, SYN])
    def test_ends_and_bare_syns_are_not_adopted(self, flags: int) -> None:
        world = star()
        key = FlowKey(SENDERS[0].address, 2, RECEIVER.address, 80)
        world.segment(key, flags, payload_bytes=10)
        assert len(world.engine.flow_table) == 0


def _register(world: World, switch: int, port: int, host: Host) -> int:
    """The burst register that the host's segments are held to at that port."""
    (entry,) = (
        entry
        for entry in world.entries(switch, HostWindow)
        if isinstance(entry, HostWindow) and (entry.port, entry.address) == (port, host.address)
    )
    return entry.register
