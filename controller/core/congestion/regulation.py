"""Regulation: from what is known of the egress ports to the registers of the switches.

It joins ports, regulator and registers. A port is regulated as soon as it is known to have a queue,
by its limits. Changes go out in one message for each switch.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from controller.core.congestion.bypasses import Bypass, Bypasses, Place
from controller.core.congestion.egress_ports import EgressPorts, EgressQueue, PortOverride
from controller.core.congestion.registers import Registers
from controller.core.congestion.regulator import HoldUpdate, Regulator, RegulatorSettings, Scheme
from controller.core.congestion.windows import PortLimits
from controller.core.desired.tables import Tables
from controller.core.flows.port_counts import PortCounts
from controller.core.topology.rtt import RoundTrips
from controller.model.effects import (
    Effect,
    ReadQueues,
    Record,
    RegisterWindow,
    Remind,
    RepeatNotices,
    SetWindows,
    TimeControl,
    Warn,
)
from controller.model.entries import PortWindow
from controller.model.values import FlowClass, Hold, Notice, Port, PortId, datapath_id

_SAME_INTERVAL = 4  # Within a quarter.
_NAMED = 8  # How many ports a warning names.


@dataclass(frozen=True, slots=True)
class Features:
    """What a switch can do: how many window `registers` it has (0 if it cannot lower windows), and
    whether it keeps accounts of credit, reports its egress queues, repeats notices, and has
    meters."""

    registers: int
    keeps_accounts: bool = False
    tells_queues: bool = False
    repeats_notices: bool = False
    has_meters: bool = False


class UnknownPlaceError(LookupError):
    """There is no such switch or port; the message says which there are."""


class Regulation:
    """All egress ports of all switches. Windows are not emitted before `send`.

    `needs_no_queue` returns whether nobody is to be warned of a port without a queue.
    """

    def __init__(
        self,
        settings: RegulatorSettings,
        overrides: Iterable[PortOverride],
        default_limits: PortLimits,
        tables: Tables,
        emit: Callable[[Effect], None],
        needs_no_queue: Callable[[PortId], bool],
    ) -> None:
        self._settings = settings
        self._needs_no_queue = needs_no_queue
        self.bypasses = Bypasses()
        self.registers = Registers()
        self.round_trips = RoundTrips()
        self._tables = tables
        self._emit = emit
        self._egress = EgressPorts(overrides, default_limits)
        self._regulator = Regulator(settings)
        self._features: dict[int, Features] = {}
        self._short_of_registers: set[int] = set()
        self._windows: list[HoldUpdate] = []
        # The intervals at which switches repeat notices, as they were ordered to.
        self._intervals_us: dict[PortId, int] = {}
        self._gone: list[PortId] = []
        # The ports without a queue, by switch, as far as it was told.
        self._queueless: dict[int, set[int]] = {}
        self._reminded_ns: int | None = None

    def reconfigure(self, settings: RegulatorSettings, now_ns: int) -> bool:
        """Use these settings from now on. Returns whether regulation begins by that."""
        begins = settings.regulates and not self._settings.regulates
        self._settings = settings
        self._windows += self._regulator.reconfigure(settings, now_ns)
        for switch, features in self._features.items():
            if begins:
                # If regulation ends, registers are kept, because entries still name them.
                self.registers.connect(switch, features.registers)
            self._follow_all(switch, now_ns)
        return begins

    # Bypasses

    def place(self, switch: int | None, port: str | None) -> Place:
        """The place that a user has named; a port by number or name. Raises UnknownPlaceError."""
        if switch is None:
            return Place()
        if not self._features and not (port or "").isdecimal():
            return Place(switch, port)  # A standby knows no switches yet.
        if switch not in self._features:
            known = ", ".join(map(datapath_id, sorted(self._features))) or "none"
            raise UnknownPlaceError(f"no switch {datapath_id(switch)} is known; there are {known}")
        if port is None:
            return Place(switch)
        names = self._egress.names(switch)
        name = names.get(int(port)) if port.isdecimal() else None
        if name is None and port not in names.values():
            known = ", ".join(f"{number} {name}" for number, name in sorted(names.items()))
            raise UnknownPlaceError(
                f"switch {datapath_id(switch)} has no port {port}; it has {known or 'none'}"
            )
        return Place(switch, name or port)

    def turn_off(self, bypass: Bypass, now_ns: int) -> None:
        """Do not regulate a place."""
        self.bypasses.add(bypass)
        self._bypasses_changed(now_ns, begun=[bypass])

    def turn_on(self, place: Place, by: str, now_ns: int) -> list[Bypass]:
        """End the bypasses of a place and within it; returns them."""
        ended = self.bypasses.remove(place)
        self._bypasses_changed(now_ns, ended, by)
        return ended

    def replace_bypasses(self, bypasses: Iterable[Bypass], by: str, now_ns: int) -> None:
        """Have these bypasses instead of all others."""
        ended, begun = self.bypasses.replace(bypasses)
        self._bypasses_changed(now_ns, ended, by, begun)

    def expire_bypasses(self, now_ns: int) -> None:
        """End the bypasses whose time is over."""
        self._bypasses_changed(now_ns, self.bypasses.expire(now_ns), "expiry")

    def _bypasses_changed(
        self,
        now_ns: int,
        ended: Sequence[Bypass] = (),
        by: str = "",
        begun: Sequence[Bypass] = (),
    ) -> None:
        """Follow at the switches; record which have ended, `by` whom, and which have begun."""
        places = [bypass.place for bypass in (*ended, *begun)]
        for switch in self._features:
            if any(place.switch in (None, switch) for place in places):
                self._follow_all(switch, now_ns)
        for bypass in ended:
            self._emit(Record("regulation_on", {**bypass.place._asdict(), "by": by}))
        for bypass in begun:
            fields: dict[str, object] = {**bypass.place._asdict(), "by": bypass.by}
            if bypass.until_ns is not None:
                fields["for_s"] = round((bypass.until_ns - now_ns) / 1e9)
            self._emit(Record("regulation_off", fields))

    def scheme(self, port_id: PortId) -> Scheme:
        """The scheme of a port; none while it is bypassed."""
        name = self._egress.name(port_id)
        if self.bypasses.covering(Place(port_id.switch, name)):
            return Scheme.NONE
        return self._settings.scheme_of(port_id, name)

    # Switches and ports

    def connect(self, switch: int, ports: Iterable[Port], features: Features) -> None:
        registers = features.registers if self._settings.regulates else 0
        self.registers.connect(switch, registers)
        self._features[switch] = features
        self._egress.connect(switch, ports)
        if not features.tells_queues:
            # Another switch may have taken the place of one that did.
            self._egress.set_queues(switch, {})

    def restart(self, switch: int, now_ns: int) -> None:
        """A switch is ready. Its earlier notices are void, and its windows are unknown."""
        self._forget_intervals(switch)
        self._windows += self._regulator.restart(switch, now_ns)
        self._follow_all(switch, now_ns)
        self.look(switch, now_ns)

    def look(self, switch: int, now_ns: int) -> None:
        """Ask a switch for the state of its queues, and measure its control channel."""
        self._emit(TimeControl(switch, now_ns))
        if self._features[switch].tells_queues:
            self._emit(ReadQueues(switch))

    def forget(self, switch: int, in_use: bool) -> None:
        """A switch is gone for good. Its registers are `in_use` if entries still name them."""
        for port_id in self._egress.ports_of(switch):
            self._cover(port_id, False)
        self._egress.forget(switch)
        self._regulator.forget(switch)
        self._forget_intervals(switch)
        self.round_trips.forget(switch)
        self._features.pop(switch, None)
        self._short_of_registers.discard(switch)
        self._queueless.pop(switch, None)
        if not in_use:
            self.registers.forget(switch)

    def adopt(self, switch: int, entry: PortWindow) -> None:
        """Keep the register of a port that an entry on its switch names."""
        self.registers.adopt(PortId(switch, entry.port), entry.register)

    def set_port(self, switch: int, port: Port, now_ns: int) -> None:
        self._egress.set_port(switch, port)
        self._follow(PortId(switch, port.number), now_ns)

    def remove_port(self, port_id: PortId, now_ns: int) -> None:
        """A port is gone. The next `send` frees its registers."""
        self._gone.append(port_id)
        self._cover(port_id, False)
        self._egress.remove_port(port_id)
        self._intervals_us.pop(port_id, None)
        self.round_trips.forget_port(port_id)
        self._windows += self._regulator.withdraw(port_id, now_ns)

    # Events

    def flows_changed(self, port_id: PortId, counts: PortCounts, now_ns: int) -> None:
        self._windows += self._regulator.flows_changed(port_id, counts, now_ns)
        self._have_notices_repeated(port_id)

    def queue_event(
        self, port_id: PortId, notice: Notice, queue_bytes: int, limit_bytes: int, now_ns: int
    ) -> None:
        """A notice of an egress queue.

        It may come after its port is gone. If the queue is not known yet, its record is requested
        instead, since the queue may be far slower than its port, and the record says its level.
        """
        if not self._egress.has_port(port_id):
            return
        if self.tells_queues(port_id.switch) and self._egress.queue(port_id) is None:
            self._emit(ReadQueues(port_id.switch))
            return
        if self._egress.notice(port_id, limit_bytes):
            self._follow(port_id, now_ns)
        self._windows += self._regulator.queue_event(port_id, notice, queue_bytes, now_ns)

    def queues_read(self, switch: int, queues: dict[int, EgressQueue], now_ns: int) -> None:
        """The egress queues of a switch, all of them, by port number."""
        self._egress.set_queues(switch, queues)
        self._follow_all(switch, now_ns)
        self._tell_queueless(switch, len(queues))
        for number, queue in queues.items():
            if queue.level:
                told = PortId(switch, number), Notice(queue.level - 1), queue.queue_bytes
                self._windows += self._regulator.congested(*told, now_ns)

    def _tell_queueless(self, switch: int, queues: int) -> None:
        """Warn of ports that have no queue, once for each. The switch has so many `queues`."""
        if queues >= len(self._egress.ports_of(switch)):
            self._queueless.pop(switch, None)
            return
        names = self._egress.names(switch)
        ids = (PortId(switch, number) for number in names)
        without = {
            port_id.port
            for port_id in ids
            if self._egress.queue(port_id) is None and not self._needs_no_queue(port_id)
        }
        new = sorted(without - self._queueless.get(switch, set()))
        self._queueless[switch] = without
        if new and self._settings.regulates:
            ports = ", ".join(f"{number} ({names[number]})" for number in new[:_NAMED])
            more = f" and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
            text = (
                "has ports without a queue of type weir (put one on them, unless they are ends of "
                "tunnels; if they have a QoS, the switch's log says what is wrong with it), which "
                "are not regulated: "
                f"{ports}{more}"
            )
            self._emit(Warn(switch, text))

    def link_seen(self, a: PortId, b: PortId, now_ns: int) -> None:
        """A discovery frame has crossed a link."""
        if self.round_trips.probe_seen(a, b, now_ns):
            self._follow(a, now_ns)
            self._follow(b, now_ns)

    def refresh(self, now_ns: int) -> None:
        """Renew windows before they expire on the switches."""
        self._windows += self._regulator.refresh(now_ns)

    def widen(self, now_ns: int) -> None:
        """Widen the windows whose time has come."""
        self._windows += self._regulator.widen(now_ns)

    # For inspection

    def can_lower(self, switch: int) -> bool:
        """Whether a switch has window registers."""
        features = self._features.get(switch)
        return features is not None and features.registers > 0

    def ports_of(self, switch: int) -> list[PortId]:
        return self._egress.ports_of(switch)

    def queue(self, port_id: PortId) -> EgressQueue | None:
        """An egress queue as its switch last reported it."""
        return self._egress.queue(port_id)

    def limits(self, port_id: PortId) -> PortLimits | None:
        """The limits of a port, with the RTT as measured."""
        return self._regulator.limits(port_id)

    def capacity_bps(self, port_id: PortId) -> int | None:
        """The capacity of a port; None if there is no such port."""
        return self._egress.capacity_bps(port_id)

    def tells_queues(self, switch: int) -> bool:
        """Whether a switch reports its egress queues."""
        features = self._features.get(switch)
        return features is not None and features.tells_queues

    def has_account(self, port_id: PortId) -> bool:
        """Whether there may be an account of credit for a port: by the settings, and its switch."""
        features, queue = self._features.get(port_id.switch), self.queue(port_id)
        keeps = self._settings.accounts and features is not None and features.keeps_accounts
        return keeps and (queue is None or queue.can_have_account)

    def in_force(self, port_id: PortId, cls: FlowClass) -> Hold:
        """What a flow class of a port is held to now."""
        return self._regulator.in_force(port_id, cls)

    def notice(self, port_id: PortId) -> Notice | None:
        """The notice that determines the windows of a port."""
        return self._regulator.notice(port_id)

    # What follows

    def _follow_all(self, switch: int, now_ns: int) -> None:
        for port_id in self._egress.ports_of(switch):
            self._follow(port_id, now_ns)

    def _follow(self, port_id: PortId, now_ns: int) -> None:
        """Regulate a port by what is known of it now, or stop its regulation."""
        features = self._features.get(port_id.switch)
        if features is None:
            return
        every_port = not features.tells_queues
        link_ns = self.round_trips.link_ns.get(port_id)
        limits = self._egress.limits(port_id, every_port, link_ns)
        if limits is None:
            self._windows += self._regulator.withdraw(port_id, now_ns)
            self._cover(port_id, False)
        else:
            scheme, has_account = self.scheme(port_id), self.has_account(port_id)
            self._windows += self._regulator.configure(port_id, limits, has_account, now_ns, scheme)
            self._cover(port_id, has_account and scheme is Scheme.WEIR)
        self._have_notices_repeated(port_id)

    def _have_notices_repeated(self, port_id: PortId) -> None:
        """Order the interval at which the switch repeats notices of a port, if it has changed."""
        features = self._features.get(port_id.switch)
        if features is None or not features.repeats_notices:
            return
        told_us = self._intervals_us.get(port_id, 0)
        wanted_us = self._regulator.notice_interval_us(port_id)
        # The RTT is measured all the time; small changes are not worth a message.
        slack_us = told_us // _SAME_INTERVAL if wanted_us else 0
        if abs(wanted_us - told_us) > slack_us:
            self._intervals_us[port_id] = wanted_us
            self._emit(RepeatNotices(*port_id, wanted_us))

    def _forget_intervals(self, switch: int) -> None:
        """The orders ended with the connection."""
        self._intervals_us = {
            port_id: told
            for port_id, told in self._intervals_us.items()
            if port_id.switch != switch
        }

    def _cover(self, port_id: PortId, wanted: bool) -> None:
        """Put segments that enter by a port into its account, before any connection is known."""
        register = self.registers.register(port_id, FlowClass.BURST) if wanted else None
        if register is None:
            self._tables.remove(port_id.switch, PortWindow(port_id.port, 0).key)
        else:
            self._tables.put(port_id.switch, PortWindow(port_id.port, register))

    def send(self) -> None:
        """Emit the changes for connected switches."""
        by_switch: dict[int, dict[int, HoldUpdate]] = {}
        for window in self._windows:
            switch = window.port.switch
            if not self._tables.connected(switch):
                continue
            register = self.registers.register(window.port, window.cls)
            if register is not None:
                by_switch.setdefault(switch, {})[register] = window
            else:
                self._tell_shortage(window.port)
        self._windows.clear()
        at_ns = self._regulator.widens_ns
        if at_ns is not None and at_ns != self._reminded_ns:
            self._emit(Remind(at_ns))
        self._reminded_ns = at_ns
        for switch, windows in by_switch.items():
            self._send(switch, windows)
        for port_id in self._gone:
            self.registers.free(port_id)
        self._gone.clear()

    def _send(self, switch: int, windows: dict[int, HoldUpdate]) -> None:
        ttl_ms = self._regulator.ttl_ms
        registers = tuple(
            RegisterWindow(register, window.port.port, window.cls, window.hold)
            for register, window in windows.items()
        )
        self._emit(SetWindows(switch, registers, ttl_ms))
        fields: dict[str, object] = {
            "switch": switch,
            "refresh": all(window.refresh for window in windows.values()),
            "ttl_ms": ttl_ms,
            "windows": [
                {
                    "port": window.port.port,
                    "class": window.cls.value,
                    "register": register,
                    "window_bytes": window.hold.window_bytes,
                    "credit": window.hold.credit and window.hold.credit._asdict(),
                }
                for register, window in windows.items()
            ],
        }
        self._emit(Record("window_set", fields))

    def _tell_shortage(self, port_id: PortId) -> None:
        """Warn, once for each switch, unless it was known to have no registers."""
        switch = port_id.switch
        if self.registers.any(switch) and switch not in self._short_of_registers:
            self._short_of_registers.add(switch)
            text = (
                "has more egress queues than pairs of window registers: "
                f"port {port_id.port} and further ones are not regulated"
            )
            self._emit(Warn(switch, text))
