"""The core's front: an event comes in, a list of effects goes out.

It joins fabric, connections and regulator, and holds no rule of its own beyond how they meet. Every
method takes the present as `now_ns` (any monotonic clock) and returns plain values.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from controller.core.connections import Connections, ConnectionSettings, Reading
from controller.core.effects import Effect, Install, Record, RegisterWindow, SetWindows
from controller.core.enforcer import Enforcer
from controller.core.entries import Account, HostWindow, Relearn, Survivor
from controller.core.fabric import Fabric, Port
from controller.core.flow import SegmentFields
from controller.core.flow_table import GlobalFlowTable
from controller.core.forwarding import Arp, Forwarding
from controller.core.places import Places
from controller.core.registers import Registers
from controller.core.regulator import PortLimits, Regulator, RegulatorSettings, Scheme, WindowSet
from controller.core.tables import Tables
from controller.core.values import Notice, PortId

RELEARN_AFTER_NS = 1 * 10**9  # By then the other switches are back, and discovery has been round.
# Open vSwitch tries to connect again after at most 8 s, so all switches are back before it is over.
RELEARN_FOR_NS = 10 * 10**9


@dataclass(frozen=True, slots=True)
class PortOverride:
    """Limits of one port that differ from the fabric's; `port` is its number or its name."""

    switch: int
    port: int | str
    limits: PortLimits


@dataclass(frozen=True, slots=True)
class EngineSettings:
    connections: ConnectionSettings
    regulator: RegulatorSettings
    limits: PortLimits
    overrides: tuple[PortOverride, ...]
    link_timeout_ns: int


class QueueReport(NamedTuple):
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
            self._fabric, self._tables, self._enforcer, settings.connections, self._out.append
        )
        self._regulator = Regulator(settings.regulator, settings.limits)
        self._relearn_at: dict[int, int] = {}
        self._sweep_at: dict[int, int] = {}
        self._places = Places(self._fabric, self._forwarding)

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
    ) -> list[Effect]:
        """A switch is connected and tells what it has and holds.

        `n_registers` is the number of its window registers, 0 if it cannot lower windows.
        """
        ports, survivors = list(ports), list(survivors)
        self._out.append(Record("switch_up", {"switch": switch, "registers": n_registers}))
        regulates = self._settings.regulator.scheme is not Scheme.NONE
        self._registers.connect(switch, n_registers if regulates else 0)
        for port in ports:
            self._configure(switch, port)
        self._connections.switch_up(switch)
        self._tables.connect(switch, [survivor.entry for survivor in survivors])
        self._forwarding.connect(switch, ports, survivors, now_ns)
        for survivor in survivors:
            if isinstance(survivor.entry, HostWindow):
                self._enforcer.adopt(switch, survivor.entry, now_ns)
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
        return self._finish(now_ns)

    def switch_down(self, switch: int, now_ns: int) -> list[Effect]:
        """The control channel is lost; the switch itself goes on forwarding."""
        self._out.append(Record("switch_down", {"switch": switch}))
        self._fabric.disconnect(switch)
        self._connections.switch_down(switch, now_ns)
        self._tables.disconnect(switch)
        self._relearn_at.pop(switch, None)
        self._sweep_at.pop(switch, None)
        return self._finish(now_ns)

    def port_changed(self, switch: int, port: Port, now_ns: int) -> list[Effect]:
        self._configure(switch, port)
        self._forwarding.set_port(switch, port, now_ns)
        return self._finish(now_ns)

    def port_removed(self, port_id: PortId, now_ns: int) -> list[Effect]:
        self._forwarding.remove_port(port_id)
        return self._finish(now_ns)

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

    def segments(self, switch: int, batch: list[SegmentFields], now_ns: int) -> list[Effect]:
        """Copies of TCP segments that entered the fabric by this switch, in order."""
        from_edges = self._places.admit(switch, batch, now_ns)
        if from_edges:
            self._connections.observe(from_edges, now_ns)
        return self._finish(now_ns)

    # Counters and queues

    def accounts_read(
        self, switch: int, readings: Iterable[Reading], more: bool, now_ns: int
    ) -> list[Effect]:
        """The counters of some of a switch's accounts, the last ones unless `more` come."""
        self._connections.read(switch, readings, more, now_ns)
        return self._finish(now_ns)

    def account_expired(self, switch: int, key: bytes, now_ns: int) -> list[Effect]:
        """A switch has dropped an account because the flow was idle for long."""
        self._connections.account_expired(switch, key)
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
        self._windows += self._regulator.queue_event(
            port_id, report.notice, report.queue_bytes, report.limit_bytes, now_ns
        )
        return self._finish(now_ns)

    # Periodic work

    def probe_links(self, now_ns: int) -> list[Effect]:
        """Discover links; drop those that have gone silent."""
        self._forwarding.probe()
        self._forwarding.expire(now_ns)
        return self._finish(now_ns)

    def read_accounts(self, now_ns: int) -> list[Effect]:
        """Open the accounts that are due and ask the switches for the counters that are."""
        self._connections.open_accounts(now_ns)
        return self._finish(now_ns)

    def refresh_windows(self, now_ns: int) -> list[Effect]:
        """Send again what would soon expire on the switches."""
        self._windows += self._regulator.refresh(now_ns)
        return self._finish(now_ns)

    def end_openings(self, now_ns: int) -> list[Effect]:
        """Widen the windows where connections have been opened and no more are coming."""
        self._windows += self._regulator.end_openings(now_ns)
        return self._finish(now_ns)

    def tend(self, now_ns: int) -> list[Effect]:
        """Drop what was never answered; start and end the relearning of reconnected switches."""
        self._connections.tend(now_ns)
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
        return self._finish(now_ns)

    # What follows from an event

    def _configure(self, switch: int, port: Port) -> None:
        for override in self._settings.overrides:
            if override.switch == switch and override.port in (port.number, port.name):
                self._regulator.configure(PortId(switch, port.number), override.limits)

    def _finish(self, now_ns: int) -> list[Effect]:
        """Forwarding follows the fabric, routes follow forwarding, windows follow the routes."""
        changed_hosts = self._forwarding.install()
        if changed_hosts:
            self._connections.reroute(changed_hosts, now_ns)
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
            register = self._registers.register(window.port, window.cls)
            if register is not None and self._tables.connected(window.port.switch):
                by_switch.setdefault(window.port.switch, {})[register] = window
        self._windows.clear()
        for switch, windows in by_switch.items():
            registers = tuple(
                RegisterWindow(register, window.window_bytes)
                for register, window in windows.items()
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
                                "window_bytes": window.window_bytes,
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
