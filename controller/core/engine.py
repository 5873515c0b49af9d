"""The core's front: an event comes in, a list of effects goes out.

It joins fabric, connections and regulator, and holds no rule of its own beyond how they meet. Every
method takes the present as `now_ns` (any monotonic clock) and returns plain values.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from controller.core.classifier import Classifier
from controller.core.connections import Connections
from controller.core.effects import (
    Complain,
    Effect,
    Install,
    ReadQueues,
    Record,
    RegisterWindow,
    SetWindows,
)
from controller.core.egress import EgressPorts, PortOverride, Queue
from controller.core.enforcer import Enforcer
from controller.core.entries import Account, HostWindow, Relearn, Survivor
from controller.core.fabric import Fabric, Port
from controller.core.flow import FlowKey, Segment
from controller.core.flow_table import GlobalFlowTable
from controller.core.forwarding import Arp, Forwarding
from controller.core.registers import Registers
from controller.core.regulator import Regulator, RegulatorSettings, Scheme, WindowSet
from controller.core.tables import Tables
from controller.core.values import Notice, PortId
from controller.core.windows import PortLimits

RELEARN_AFTER_NS = 1 * 10**9  # By then the other switches are back, and discovery has been round.
# Open vSwitch tries to connect again after at most 8 s, so all switches are back before it is over.
RELEARN_FOR_NS = 10 * 10**9
GONE_AFTER_NS = 60 * 10**9  # A switch that was away for so long is taken for gone.


@dataclass(frozen=True, slots=True)
class EngineSettings:
    classifier: Classifier
    regulator: RegulatorSettings
    limits: PortLimits
    overrides: tuple[PortOverride, ...]
    link_timeout_ns: int


@dataclass(frozen=True, slots=True)
class QueueReport:
    """A notice of an egress queue. `missed` counts its notices that were lost just before."""

    notice: Notice
    packets: int
    queue_bytes: int
    limit_bytes: int
    switch_time_ns: int
    sequence: int
    missed: int


class Engine:
    """All that the controller knows and decides."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._out: list[Effect] = []
        self._windows: list[WindowSet] = []
        self._fabric = Fabric(settings.link_timeout_ns)
        self._tables = Tables(self._out.append)
        self._forwarding = Forwarding(self._fabric, self._tables, self._out.append)
        self._registers = Registers()
        self._enforcer = Enforcer(self._tables, self._registers)
        self._connections = Connections(
            self._fabric, self._tables, self._enforcer, settings.classifier, self._out.append
        )
        self._egress = EgressPorts(settings.overrides, settings.limits)
        self._regulator = Regulator(settings.regulator)
        self._paces: set[int] = set()
        self._short_of_registers: set[int] = set()
        self._gone_at: dict[int, int] = {}
        self._relearn_at: dict[int, int] = {}
        self._sweep_at: dict[int, int] = {}

    @property
    def flow_table(self) -> GlobalFlowTable:
        """The GVT, to look at."""
        return self._connections.table

    # Switches, ports and links

    def switch_up(
        self,
        switch: int,
        ports: Iterable[Port],
        n_registers: int,
        survivors: Iterable[Survivor],
        now_ns: int,
        *,
        paces: bool = False,
        tells_queues: bool = False,
    ) -> list[Effect]:
        """A switch is connected and tells what it has and holds.

        `n_registers` is the number of its window registers, 0 if it cannot lower windows; whether
        they can pace, and whether the switch tells the state of its egress queues, is said by the
        other two.
        """
        ports, survivors = list(ports), list(survivors)
        self._out.append(Record("switch_up", {"switch": switch, "registers": n_registers}))
        regulates = self._settings.regulator.scheme is not Scheme.NONE
        self._registers.connect(switch, n_registers if regulates else 0)
        (self._paces.add if paces else self._paces.discard)(switch)
        self._gone_at.pop(switch, None)
        self._egress.connect(switch, ports, tells_queues)
        self._tables.connect(switch, [survivor.entry for survivor in survivors])
        self._forwarding.connect(switch, ports, survivors, now_ns)
        for survivor in survivors:
            if isinstance(survivor.entry, HostWindow):
                self._enforcer.adopt(switch, survivor.entry)
        if survivors:
            self._connections.remember(survivors)
            self._connections.relearning = True
            self._sweep_at[switch] = 0
            # Nothing is known of a connection before both its ends are back: with every switch that
            # returns, those that are back already start anew.
            for recovering in self._sweep_at:
                self._relearn_at[recovering] = now_ns + RELEARN_AFTER_NS
                self._sweep_at[recovering] = now_ns + RELEARN_AFTER_NS + RELEARN_FOR_NS
        self._windows += self._regulator.restart(switch, now_ns)
        for port_id in self._egress.ports_of(switch):
            self._follow(port_id, now_ns)
        if tells_queues:
            self._out.append(ReadQueues(switch))
        return self._finish(now_ns)

    def switch_down(self, switch: int, now_ns: int) -> list[Effect]:
        """The control channel is lost; the switch itself goes on forwarding."""
        self._out.append(Record("switch_down", {"switch": switch}))
        self._fabric.disconnect(switch)
        self._tables.disconnect(switch)
        self._relearn_at.pop(switch, None)
        self._sweep_at.pop(switch, None)
        self._gone_at[switch] = now_ns + GONE_AFTER_NS
        return self._finish(now_ns)

    def port_changed(self, switch: int, port: Port, now_ns: int) -> list[Effect]:
        self._egress.set_port(switch, port)
        self._forwarding.set_port(switch, port, now_ns)
        self._follow(PortId(switch, port.number), now_ns)
        return self._finish(now_ns)

    def port_removed(self, port_id: PortId, now_ns: int) -> list[Effect]:
        self._egress.remove_port(port_id)
        self._forwarding.remove_port(port_id)
        self._windows += self._regulator.withdraw(port_id, now_ns)
        for switch, entry in self._tables.entries(HostWindow):
            if PortId(switch, entry.port) == port_id:
                self._tables.remove(switch, entry.key)
        effects = self._finish(now_ns)
        self._registers.free(port_id)
        return effects

    def link_seen(self, a: PortId, b: PortId, now_ns: int) -> list[Effect]:
        """A discovery frame sent out of `a` came in by `b`."""
        self._forwarding.link_seen(a, b, now_ns)
        return self._finish(now_ns)

    # Frames

    def arp(self, port_id: PortId, arp: Arp, now_ns: int) -> list[Effect]:
        self._forwarding.arp(port_id, arp, now_ns)
        return self._finish(now_ns)

    def frame(
        self, port_id: PortId, src_mac: bytes, dst_mac: bytes, frame: bytes, now_ns: int
    ) -> list[Effect]:
        """A frame for which a switch has no entry."""
        self._forwarding.frame(port_id, src_mac, dst_mac, frame, now_ns)
        return self._finish(now_ns)

    def segment(self, port_id: PortId, segment: Segment, now_ns: int) -> list[Effect]:
        """The copy of a TCP segment that entered the fabric by this port."""
        if not self._fabric.is_edge(port_id, now_ns):
            return []
        self._forwarding.learn(segment.src_mac, port_id)
        self._connections.observe(segment, now_ns)
        return self._finish(now_ns)

    # Counters and queues

    def accounts_read(
        self, switch: int, volumes: Iterable[tuple[FlowKey, int]], now_ns: int
    ) -> list[Effect]:
        """The byte counters of a switch's accounts, by the direction of the data."""
        self._connections.read(switch, volumes, now_ns)
        return self._finish(now_ns)

    def account_expired(self, switch: int, key: FlowKey, now_ns: int) -> list[Effect]:
        """A switch has dropped an account because the flow was idle for long."""
        self._connections.idle(switch, key)
        return self._finish(now_ns)

    def queue_event(self, port_id: PortId, report: QueueReport, now_ns: int) -> list[Effect]:
        """A congestion or recovery notice of an egress queue."""
        counts = self.flow_table.counts(port_id)
        self._out.append(
            Record(
                "queue_event",
                {
                    "switch": port_id.switch,
                    "port": port_id.port,
                    "notice": report.notice.label,
                    "packets": report.packets,
                    "bytes": report.queue_bytes,
                    "limit_bytes": report.limit_bytes,
                    "switch_time_ns": report.switch_time_ns,
                    "sequence": report.sequence,
                    "missed": report.missed,
                    "background": counts.background,
                    "burst": counts.burst,
                },
            )
        )
        # The last notice of a port may be that it is gone, and its congestion with it.
        if self._egress.notice(port_id, report.limit_bytes):
            self._follow(port_id, now_ns)
            self._windows += self._regulator.queue_event(
                port_id, report.notice, report.queue_bytes, now_ns
            )
        return self._finish(now_ns)

    def queues_read(self, switch: int, queues: dict[int, Queue], now_ns: int) -> list[Effect]:
        """The egress queues of a switch, all of them, by port number."""
        self._egress.set_queues(switch, queues)
        for port_id in self._egress.ports_of(switch):
            self._follow(port_id, now_ns)
        for number, queue in queues.items():
            if queue.level:
                self._regulator.congested(PortId(switch, number), now_ns)
        return self._finish(now_ns)

    def queue(self, port_id: PortId) -> Queue | None:
        """An egress queue as its switch last told it."""
        return self._egress.queue(port_id)

    # Periodic work

    def probe_links(self, now_ns: int) -> list[Effect]:
        """Discover links; drop those that have gone silent."""
        self._forwarding.probe()
        self._forwarding.expire(now_ns)
        return self._finish(now_ns)

    def read_accounts(self, now_ns: int) -> list[Effect]:
        """Open the accounts that are due and ask the switches for all counters."""
        self._connections.open_accounts(now_ns)
        return self._finish(now_ns)

    def refresh_windows(self, now_ns: int) -> list[Effect]:
        """Send again what would soon expire on the switches."""
        self._windows += self._regulator.refresh(now_ns)
        return self._finish(now_ns)

    def read_queues(self, now_ns: int) -> list[Effect]:
        """Ask the switches for the state of their egress queues."""
        self._out += [
            ReadQueues(switch)
            for switch in self._egress.tells_queues()
            if self._tables.connected(switch)
        ]
        return self._finish(now_ns)

    def tend(self, now_ns: int) -> list[Effect]:
        """Drop what was never answered; start and end the relearning of reconnected switches."""
        self._connections.expire(now_ns)
        for switch in _due(self._relearn_at, now_ns):
            # An account that could not be adopted would keep its flow from being copied up.
            self._tables.sweep(switch, Account)
            for port_id in self._fabric.edge_ports(now_ns):
                if port_id.switch == switch:
                    self._out.append(Install(switch, Relearn(port_id.port)))
        for switch in _due(self._sweep_at, now_ns):
            self._tables.sweep(switch)
        if not self._sweep_at:
            self._connections.relearning = False
            self._connections.forget_remembered()
        for switch in _due(self._gone_at, now_ns):
            self._forget(switch)
        return self._finish(now_ns)

    # What follows from an event

    def _follow(self, port_id: PortId, now_ns: int) -> None:
        """Regulate a port by what is known of it now, or not at all."""
        limits = self._egress.limits(port_id)
        if limits is None:
            self._windows += self._regulator.withdraw(port_id, now_ns)
        else:
            paced = port_id.switch in self._paces
            self._windows += self._regulator.configure(port_id, limits, paced, now_ns)

    def _forget(self, switch: int) -> None:
        """A switch is gone for good. Registers that wanted entries name stay what they are."""
        self._egress.forget(switch)
        self._regulator.forget(switch)
        self._paces.discard(switch)
        self._short_of_registers.discard(switch)
        if all(other != switch for other, _ in self._tables.entries(HostWindow)):
            self._registers.forget(switch)

    def _finish(self, now_ns: int) -> list[Effect]:
        """Forwarding follows the fabric, routes follow forwarding, windows follow the routes."""
        changed_hosts = self._forwarding.install()
        if changed_hosts:
            self._connections.reroute(changed_hosts)
            self._connections.adopt_remembered(now_ns)
        for port_id in self.flow_table.take_touched():
            counts = self.flow_table.counts(port_id)
            self._windows += self._regulator.flows_changed(port_id, counts, now_ns)
        self._send_windows()
        out = self._out.copy()
        self._out.clear()
        return out

    def _send_windows(self) -> None:
        """One message per switch; the windows of a port without registers have nobody to go to."""
        by_switch: dict[int, dict[int, WindowSet]] = {}
        for window in self._windows:
            switch = window.port.switch
            if not self._tables.connected(switch):
                continue
            register = self._registers.register(window.port, window.cls)
            if register is not None:
                by_switch.setdefault(switch, {})[register] = window
            elif self._registers.any(switch) and switch not in self._short_of_registers:
                self._short_of_registers.add(switch)
                self._out.append(
                    Complain(
                        switch,
                        "has more egress queues than pairs of window registers: "
                        f"port {window.port.port} and further ones are not regulated",
                    )
                )
        self._windows.clear()
        for switch, windows in by_switch.items():
            registers = tuple(
                RegisterWindow(register, *window.hold) for register, window in windows.items()
            )
            self._out.append(SetWindows(switch, registers, self._regulator.ttl_ms))
            self._out.append(
                Record(
                    "window_set",
                    {
                        "switch": switch,
                        "refresh": all(window.refresh for window in windows.values()),
                        "ttl_ms": self._regulator.ttl_ms,
                        "windows": [
                            {
                                "port": window.port.port,
                                "class": window.cls.value,
                                "register": register,
                                **window.hold._asdict(),
                            }
                            for register, window in windows.items()
                        ],
                    },
                )
            )


def _due(deadlines: dict[int, int], now_ns: int) -> list[int]:
    """Take the keys whose time has come."""
    due = [key for key, at_ns in deadlines.items() if at_ns <= now_ns]
    for key in due:
        del deadlines[key]
    return due
