"""An engine in virtual time, and switches that do as they are told."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from controller.core.bandwidth.protection import ProtectionSettings
from controller.core.congestion.egress_ports import EgressQueue, PortOverride
from controller.core.congestion.regulation import Features
from controller.core.congestion.regulator import RegulatorSettings, Scheme
from controller.core.congestion.windows import CreditRules, PortLimits, WindowRules
from controller.core.engine import (
    Engine,
    EngineSettings,
    QueueReport,
)
from controller.core.flows.classifier import Classifier
from controller.core.flows.connections import ConnectionSettings
from controller.core.flows.policy import Rule
from controller.core.hosts.resolution import ResolverSettings
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.core.topology.named_ports import NamedPorts
from controller.core.topology.vlans import VlanRule
from controller.model.effects import (
    Effect,
    GoOn,
    Install,
    ReadQueues,
    Record,
    Remind,
    RepeatNotices,
    SetWindows,
    Warn,
    Withdraw,
)
from controller.model.entries import (
    Entry,
    EntryKey,
    HeldEntry,
    HostWindow,
)
from controller.model.flow import ACK, SYN, FlowKey, Segment
from controller.model.packet_ins import NeighbourMessage
from controller.model.values import FlowClass, Hold, Notice, Port, PortId
from packets import Host

E = TypeVar("E", bound=Entry)
B = TypeVar("B", bound="EngineBench")

SECOND = 10**9
MSS = 1460
BROADCAST = b"\xff" * 6
LIMITS = PortLimits(10**8, 500_000, 65_536)
QUEUE = EgressQueue(10**8, 65_536)
REGISTERS = 1024
CREDIT = CreditRules(160, 7, 1)


CONNECTIONS = ConnectionSettings(Classifier(10**6, SECOND, 10 * SECOND), log=True)
# The paper knows no way back from BGT.
SDTCP_CONNECTIONS = ConnectionSettings(Classifier(10**6, SECOND), log=True)


def make_engine(
    scheme: Scheme = Scheme.WEIR,
    overrides: tuple[PortOverride, ...] = (),
    policies: tuple[Rule, ...] = (),
    connections: ConnectionSettings | None = None,
    repeat_notices: bool = True,
    protection: ProtectionSettings | None = None,
    resolver: ResolverSettings | None = None,
    vlans: tuple[VlanRule, ...] = (),
    bonds: tuple[NamedPorts, ...] = (),
    multicast_snooping: bool = False,
) -> Engine:
    usual = SDTCP_CONNECTIONS if scheme is Scheme.SDTCP else CONNECTIONS
    return Engine(
        EngineSettings(
            connections=connections or usual,
            regulator=RegulatorSettings(
                scheme, 3 * SECOND, WindowRules(0.9, 2), CREDIT, repeat_notices
            ),
            limits=LIMITS,
            overrides=overrides,
            link_timeout_ns=4 * SECOND,
            policies=policies,
            protection=protection or ProtectionSettings(),
            resolver=resolver or ResolverSettings(),
            vlans=vlans,
            bonds=bonds,
            multicast_snooping=multicast_snooping,
        )
    )


@dataclass
class EngineBench:
    """An engine, the hosts' places, the time, and switches that do as they are told.

    Every port has the same egress queue, unless `queue` is None.
    """

    engine: Engine = field(default_factory=make_engine)
    n_registers: int = REGISTERS
    queue: EgressQueue | None = QUEUE
    keeps_accounts: bool = False
    has_meters: bool = False
    now_ns: int = 100 * SECOND
    places: dict[Host, PortId] = field(default_factory=dict)
    held: dict[int, dict[EntryKey, Entry]] = field(default_factory=dict)
    windows: dict[int, dict[int, int]] = field(default_factory=dict)
    holds: dict[int, dict[tuple[PortId, FlowClass], Hold]] = field(default_factory=dict)
    intervals_us: dict[PortId, int] = field(default_factory=dict)
    complaints: list[int] = field(default_factory=list)
    last: list[Effect] = field(default_factory=list)
    reminders: list[int] = field(default_factory=list)

    def do(self, effects: list[Effect]) -> list[Effect]:
        """Let the switches carry the effects out; returns them with what goes on."""
        done = list(effects)
        for effect in effects:
            match effect:
                case Install(switch, entry):
                    self.held.setdefault(switch, {})[entry.key] = entry
                case Withdraw(switch, entry):
                    assert self.held[switch].pop(entry.key)
                case SetWindows(switch, windows, _):
                    for window in windows:
                        held = self.windows.setdefault(switch, {})
                        held[window.register] = window.hold.window_bytes
                        holds = self.holds.setdefault(switch, {})
                        holds[PortId(switch, window.port), window.cls] = window.hold
                case RepeatNotices(switch, port, interval_us):
                    self.intervals_us[PortId(switch, port)] = interval_us
                case GoOn():
                    done += self.do(self.engine.go_on(self.now_ns))
                case Remind(at_ns):
                    heapq.heappush(self.reminders, at_ns)
                case Warn(switch, _):
                    self.complaints.append(switch)
                case ReadQueues(switch) if self.queue is not None:
                    queues = dict.fromkeys(range(1, 41), self.queue)
                    self.do(self.engine.queues_read(switch, queues, self.now_ns))
        self.last = done
        return done

    def switch_up(self, switch: int, *survivors: HeldEntry, ports: int = 40) -> list[Effect]:
        mac = bytes([2, 1, 0, 0, switch, 0])
        descriptions = [Port(n, f"s{switch}-eth{n}", mac, True) for n in range(1, ports + 1)]
        self.held[switch] = {survivor.entry.key: survivor.entry for survivor in survivors}
        return self.do(
            self.engine.switch_up(
                switch,
                descriptions,
                Features(
                    *(self.n_registers, self.keeps_accounts),
                    tells_queues=True,
                    repeats_notices=True,
                    has_meters=self.has_meters,
                ),
                survivors,
                self.now_ns,
            )
        )

    def sleep(self, ns: int) -> list[Effect]:
        """Time passes, with all periodic work in it."""
        seen: list[Effect] = []
        end_ns = self.now_ns + ns
        while self.now_ns < end_ns:
            next_ns = min(self.now_ns + SECOND // 4, end_ns)
            while self.reminders and self.reminders[0] <= next_ns:
                self.now_ns = heapq.heappop(self.reminders)
                seen += self.do(self.engine.widen(self.now_ns))
            self.now_ns = next_ns
            for work in (
                self.engine.probe_links,
                self.engine.read_flow_counters,
                self.engine.look_at_switches,
                self.engine.refresh_windows,
                self.engine.tend,
            ):
                seen += self.do(work(self.now_ns))
        return seen

    def arp(self, operation: int, sender: Host, target: Host) -> list[Effect]:
        dst = BROADCAST if operation == 1 else target.mac
        said = NeighbourMessage(
            operation == 1, sender.mac, sender.address, target.address, dst, b"", b"arp"
        )
        return self.do(self.engine.resolve(self.places[sender], said, self.now_ns))

    def place(self, host: Host, port: PortId) -> None:
        self.places[host] = port
        self.arp(1, host, host)

    def link(self, a: PortId, b: PortId) -> list[Effect]:
        """Discovery frames have crossed it just now, one each way."""
        seen = self.do(self.engine.link_seen(a, b, self.now_ns, self.now_ns))
        return seen + self.do(self.engine.link_seen(b, a, self.now_ns, self.now_ns))

    def segment(
        self,
        key: FlowKey,
        flags: int,
        scale: int | None = 7,
        payload_bytes: int = 0,
        sequence: int = 1,
        path_id: int | None = None,
    ) -> list[Effect]:
        by_address = {host.address: host for host in self.places}
        src, dst = by_address[key.src], by_address[key.dst]
        option = scale if flags & SYN else None
        switch, port = self.places[src]
        macs = dst.mac + src.mac
        segment = Segment(
            *(port, macs, key.pack(), flags, sequence, 2, payload_bytes, MSS, option, path_id)
        )
        return self.do(self.engine.segments(switch, [segment], self.now_ns))

    def connect(
        self,
        src: Host,
        dst: Host,
        src_port: int = 1,
        scales: tuple[int | None, int | None] = (7, 7),
        path_id: int | None = None,
    ) -> FlowKey:
        key = FlowKey(src.address, src_port, dst.address, 80)
        self.segment(key, SYN, scales[0], path_id=path_id)
        self.segment(key.reverse, SYN | ACK, scales[1], path_id=path_id)
        return key

    def notice(self, port: PortId, notice: Notice, queue_bytes: int = 20_000) -> list[Effect]:
        report = QueueReport(notice, 14, queue_bytes, 65_536, 1, 1, 0)
        return self.do(self.engine.queue_event(port, report, self.now_ns))

    def volume(self, switch: int, key: FlowKey, volume_bytes: int) -> list[Effect]:
        """A reading of one account: so much payload, in segments of MSS."""
        packets = -(-volume_bytes // MSS)
        reading = key.pack(), volume_bytes + packets * 66, packets
        return self.do(self.engine.flow_counters_read(switch, [reading], False, self.now_ns))

    def entries(self, switch: int, kind: type[E]) -> set[E]:
        return {entry for entry in self.held[switch].values() if isinstance(entry, kind)}


class Slow(EngineBench):
    """It goes on only when it is told to."""

    waits = False

    def do(self, effects: list[Effect]) -> list[Effect]:
        self.waits |= any(isinstance(effect, GoOn) for effect in effects)
        return super().do([effect for effect in effects if not isinstance(effect, GoOn)])

    def go_on(self) -> None:
        """One turn."""
        if self.waits:
            self.waits = False
            self.do(self.engine.go_on(self.now_ns))

    def settle(self) -> int:
        """All turns; returns how many."""
        turns = 0
        while self.waits:
            self.go_on()
            turns += 1
            assert turns < 10_000
        return turns


def by_key(entries: Iterable[Entry]) -> dict[EntryKey, Entry]:
    """Entries as a switch holds them."""
    return {entry.key: entry for entry in entries}


def records(effects: list[Effect], event: str) -> list[dict[str, object]]:
    return [e.fields for e in effects if isinstance(e, Record) and e.event == event]


RECEIVER = Host(100)
SENDERS = [Host(number) for number in range(1, 33)]


def star(
    scheme: Scheme = Scheme.WEIR,
    n_registers: int = REGISTERS,
    queue: EgressQueue | None = QUEUE,
    policies: tuple[Rule, ...] = (),
    keeps_accounts: bool = False,
    repeat_notices: bool = True,
) -> EngineBench:
    """One switch; the receiver at port 40, sender i at port i."""
    engine = make_engine(scheme, policies=policies, repeat_notices=repeat_notices)
    bench = EngineBench(engine, n_registers, queue, keeps_accounts)
    bench.switch_up(1)
    bench.now_ns += PORT_GRACE_NS
    bench.place(RECEIVER, PortId(1, 40))
    for host in SENDERS:
        bench.place(host, PortId(1, host.number))
    return bench


def two_switches(scheme: Scheme = Scheme.WEIR, keeps_accounts: bool = False) -> EngineBench:
    """The paper's Fig. 8: senders at switch 1, the receiver at switch 2, port 40 between."""
    return joined(EngineBench(make_engine(scheme), keeps_accounts=keeps_accounts))


def joined(bench: B) -> B:
    """A bench with the switches and hosts of `two_switches`."""
    bench.switch_up(1)
    bench.switch_up(2)
    bench.link(PortId(1, 40), PortId(2, 40))
    bench.now_ns += PORT_GRACE_NS
    bench.place(RECEIVER, PortId(2, 1))
    for host in SENDERS:
        bench.place(host, PortId(1, host.number))
    return bench


def register_of(bench: EngineBench, switch: int, port: int, host: Host) -> int:
    """The burst register that the host's segments are held to at that port."""
    (entry,) = (
        entry
        for entry in bench.entries(switch, HostWindow)
        if isinstance(entry, HostWindow) and (entry.port, entry.address) == (port, host.address)
    )
    return entry.register
