"""The budgets of one switch: which of its meters are missing, and what its meters have dropped.

Pure: it answers what has to be sent, and is told what the switch says.
"""

from collections.abc import Collection, Iterable

from controller.model.packet_ins import OverBudget
from controller.southbound.codec.meters import Meter, MeterModCommand, MeterStats
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch import budgets
from controller.southbound.switch.budgets import Limits

MeterChange = tuple[MeterModCommand, Meter]


class Guard:
    """Wants meters and entries for `ports`, as far as the switch has meters."""

    def __init__(self, limits: Limits, ports: Iterable[int]) -> None:
        self._limits = limits
        self._ports = set(ports)
        self._max_meters = 0
        self._wanted: dict[int, Meter] = {}
        self._read: list[Meter] = []
        self._counted: dict[int, MeterStats] = {}

    @property
    def metered(self) -> bool:
        """Whether the switch has meters at all."""
        return self._max_meters > 0

    def has_meters(self, max_meters: int) -> None:
        """The switch goes up to this number."""
        self._max_meters = max_meters
        self._wanted = {}
        if self.metered:
            unmetered = budgets.unmetered(self._limits)
            self._wanted[unmetered.number] = unmetered
            for port in self._ports:
                self._wanted |= self._of_port(port)

    def limit(self, limits: Limits) -> list[MeterChange]:
        """What has to be sent when the limits are these from now on."""
        former, self._limits = self._wanted, limits
        self.has_meters(self._max_meters)
        wanted = self._wanted.items()
        return [
            (MeterModCommand.MODIFY, meter) for number, meter in wanted if former[number] != meter
        ]

    def uncovered(self) -> list[int]:
        """The ports that have no meters, because their numbers are too large for the switch."""
        return sorted(port for port in self._ports if self.metered and not self._of_port(port))

    def read_back(self, meters: Iterable[Meter]) -> None:
        """Some of the meters that the switch has."""
        self._read += meters

    def reconcile(self) -> list[MeterChange]:
        """What is different of the meters that were read back. Others' meters are left alone."""
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
        """What was read back so far does not count."""
        self._read = []

    def entries_using(self, numbers: Collection[int]) -> list[FlowEntry]:
        """The entries of the ports that have one of these meters."""
        ports = {budgets.owner(number)[0] for number in numbers}
        return [entry for port in sorted(ports & self._ports) for entry in self._entries(port)]

    def entries(self) -> list[FlowEntry]:
        """The entries of all ports."""
        return [entry for port in sorted(self._ports) for entry in self._entries(port)]

    def add_port(self, port: int) -> tuple[list[MeterChange], list[FlowEntry]]:
        """What has to be sent for a port, nothing if it is known already."""
        if port in self._ports:
            return [], []
        self._ports.add(port)
        meters = self._of_port(port)
        self._wanted |= meters
        return [(MeterModCommand.ADD, meter) for meter in meters.values()], self._entries(port)

    def remove_port(self, port: int) -> tuple[list[MeterChange], list[FlowEntry]]:
        """What has to be taken back of a port that is gone: the entries before the meters."""
        if port not in self._ports:
            return [], []
        entries, meters = self._entries(port), self._of_port(port)
        self._ports.remove(port)
        for number in meters:
            self._wanted.pop(number, None)
            self._counted.pop(number, None)
        return [(MeterModCommand.DELETE, meter) for meter in meters.values()], entries

    def counted(self, stats: Iterable[MeterStats]) -> list[OverBudget]:
        """What was dropped since the counters were read before. A meter that is read for the first
        time tells nothing: what it has counted may be old."""
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
