"""The meters of one switch: which have to be changed, and what they have dropped.

Pure: it is told what the switch says, and returns what has to be sent.
"""

from collections.abc import Collection, Iterable

from controller.model.packet_ins import OverBudget
from controller.southbound.codec.meters import Meter, MeterModCommand, MeterStats
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch import budgets
from controller.southbound.switch.budgets import Limits

MeterChange = tuple[MeterModCommand, Meter]


class Guard:
    """Wants meters and entries for `ports`, as far as the switch supports meters."""

    def __init__(self, limits: Limits, ports: Iterable[int]) -> None:
        self._limits = limits
        self._ports = set(ports)
        self._max_meters = 0
        self._wanted: dict[int, Meter] = {}
        self._read: list[Meter] = []
        self._counted: dict[int, MeterStats] = {}

    @property
    def metered(self) -> bool:
        """Whether the switch supports meters."""
        return self._max_meters > 0

    def has_meters(self, max_meters: int) -> None:
        """The switch supports meters up to this number."""
        self._max_meters = max_meters
        self._wanted = {}
        if self.metered:
            unmetered = budgets.unmetered(self._limits)
            self._wanted[unmetered.number] = unmetered
            for port in self._ports:
                self._wanted |= self._of_port(port)

    def limit(self, limits: Limits) -> list[MeterChange]:
        """Use these limits from now on; returns the changes."""
        former, self._limits = self._wanted, limits
        self.has_meters(self._max_meters)
        wanted = self._wanted.items()
        return [
            (MeterModCommand.MODIFY, meter) for number, meter in wanted if former[number] != meter
        ]

    def uncovered(self) -> list[int]:
        """The ports whose meters would have numbers that the switch does not support."""
        return sorted(port for port in self._ports if self.metered and not self._of_port(port))

    def read_back(self, meters: Iterable[Meter]) -> None:
        """Some of the meters that the switch holds."""
        self._read += meters

    def reconcile(self) -> list[MeterChange]:
        """The changes that make the switch's meters, as read back, those that are wanted.

        Meters that are not Weir's are left alone.
        """
        actual = {meter.number: meter for meter in self._read}
        self._read = []
        changes = [
            (MeterModCommand.MODIFY if number in actual else MeterModCommand.ADD, meter)
            for number, meter in self._wanted.items()
            if actual.get(number) != meter
        ]
        stale = (meter for number, meter in actual.items() if number not in self._wanted)
        return changes + [
            (MeterModCommand.DELETE, meter) for meter in stale if budgets.owned(meter.number)
        ]

    def forget_read(self) -> None:
        """Ignore what was read back so far."""
        self._read = []

    def entries_using(self, numbers: Collection[int]) -> list[FlowEntry]:
        """The entries of the ports that have one of these meters."""
        ports = {budgets.owner(number)[0] for number in numbers}
        return [entry for port in sorted(ports & self._ports) for entry in self._entries(port)]

    def entries(self) -> list[FlowEntry]:
        """The entries of all ports."""
        return [entry for port in sorted(self._ports) for entry in self._entries(port)]

    def add_port(self, port: int) -> tuple[list[MeterChange], list[FlowEntry]]:
        """The changes and entries for a new port; nothing if the port is known already."""
        if port in self._ports:
            return [], []
        self._ports.add(port)
        meters = self._of_port(port)
        self._wanted |= meters
        return [(MeterModCommand.ADD, meter) for meter in meters.values()], self._entries(port)

    def remove_port(self, port: int) -> tuple[list[MeterChange], list[FlowEntry]]:
        """The changes and the entries to delete for a port that is gone, entries first."""
        if port not in self._ports:
            return [], []
        entries, meters = self._entries(port), self._of_port(port)
        self._ports.remove(port)
        for number in meters:
            self._wanted.pop(number, None)
            self._counted.pop(number, None)
        return [(MeterModCommand.DELETE, meter) for meter in meters.values()], entries

    def counted(self, stats: Iterable[MeterStats]) -> list[OverBudget]:
        """What was dropped since the last reading of the counters. The first reading of a meter
        tells nothing, because its counts may be old."""
        dropped = []
        for now in stats:
            if now.number not in self._wanted:
                continue
            before = self._counted.get(now.number)
            self._counted[now.number] = now
            if before is None:
                continue
            elapsed_ns = now.duration_ns - before.duration_ns
            if elapsed_ns < 0:
                elapsed_ns = now.duration_ns
            if now.dropped < before.dropped or now.packets < before.packets:
                before = MeterStats(now.number, 0, 0, 0)  # The meter was set up anew.
            count = now.dropped - before.dropped
            port, packets = budgets.owner(now.number)
            if count and elapsed_ns:
                dropped.append(OverBudget(port, packets, count, count * 1e9 / elapsed_ns))
        return dropped

    def _of_port(self, port: int) -> dict[int, Meter]:
        meters = {meter.number: meter for meter in budgets.meters(port, self._limits)}
        return meters if max(meters) <= self._max_meters else {}

    def _entries(self, port: int) -> list[FlowEntry]:
        return budgets.entries(port) if self._of_port(port) else []
