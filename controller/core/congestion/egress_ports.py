"""What is known of the egress ports: which have a queue, their capacity, RTT and buffer.

If several sources give the same value, the operator's comes first, then the queue's own record,
then, for the capacity, the port's speed, and last the default of the fabric.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controller.core.congestion.windows import PortLimits, measured_rtt_ns
from controller.model.values import Port, PortId


@dataclass(frozen=True, slots=True)
class PortOverride:
    """What the operator has configured for one port; `port` is its number or name."""

    switch: int
    port: int | str
    capacity_bps: int | None = None
    rtt_ns: int | None = None
    buffer_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EgressQueue:
    """An egress queue as its switch reports it. A rate or a limit of 0 is unknown.

    `level` is 0 if the queue is not congested, otherwise 1, 2, 3 after CN-L, CN-M, CN-H. At `at_ns`
    of the switch's clock, `tx_bytes` had left the queue and `dropped_bytes` had been dropped; if it
    is None, both are unknown. Some ports cannot have an account of credit although their switch
    keeps accounts.
    """

    rate_bps: int
    limit_bytes: int
    level: int = 0
    queue_bytes: int = 0
    queue_pkts: int = 0
    tx_bytes: int = 0
    at_ns: int | None = None
    dropped_bytes: int = 0
    can_have_account: bool = True


class EgressPorts:
    """The ports of all switches. A port has limits if it has a queue."""

    def __init__(self, overrides: Iterable[PortOverride], default_limits: PortLimits) -> None:
        self._overrides = {(override.switch, override.port): override for override in overrides}
        self._default_limits = default_limits
        self._ports: dict[int, dict[int, Port]] = {}
        self._queues: dict[int, dict[int, EgressQueue]] = {}

    def connect(self, switch: int, ports: Iterable[Port]) -> None:
        """A switch is connected, with these ports. Its queues count as unchanged until reported."""
        self._ports[switch] = {port.number: port for port in ports}

    def forget(self, switch: int) -> None:
        self._ports.pop(switch, None)
        self._queues.pop(switch, None)

    def ports_of(self, switch: int) -> list[PortId]:
        return [PortId(switch, number) for number in self._ports.get(switch, ())]

    def names(self, switch: int) -> dict[int, str]:
        """The names of a switch's ports, by number."""
        return {number: port.name for number, port in self._ports.get(switch, {}).items()}

    def name(self, port_id: PortId) -> str:
        """The name of a port; empty if there is no such port."""
        port = self._ports.get(port_id.switch, {}).get(port_id.port)
        return port.name if port else ""

    def set_port(self, switch: int, port: Port) -> None:
        """Add a port or update its description."""
        self._ports[switch][port.number] = port

    def remove_port(self, port_id: PortId) -> None:
        self._ports.get(port_id.switch, {}).pop(port_id.port, None)
        self._queues.get(port_id.switch, {}).pop(port_id.port, None)

    def set_queues(self, switch: int, queues: dict[int, EgressQueue]) -> None:
        """These are all the queues of a switch, by port number."""
        self._queues[switch] = queues

    def has_port(self, port_id: PortId) -> bool:
        return port_id.port in self._ports.get(port_id.switch, ())

    def notice(self, port_id: PortId, limit_bytes: int) -> bool:
        """A notice came from a port, so it has a queue, with this limit if that is not 0.

        Returns whether that was unknown.
        """
        queues = self._queues.setdefault(port_id.switch, {})
        known = queues.get(port_id.port)
        if known is not None and known.limit_bytes == (limit_bytes or known.limit_bytes):
            return False
        known = known or EgressQueue(0, 0)
        queues[port_id.port] = replace(known, limit_bytes=limit_bytes or known.limit_bytes)
        return True

    def queue(self, port_id: PortId) -> EgressQueue | None:
        """The queue as last reported."""
        return self._queues.get(port_id.switch, {}).get(port_id.port)

    def capacity_bps(self, port_id: PortId) -> int | None:
        """The capacity of a port, with or without a queue; None if there is no such port."""
        switch, number = port_id
        port = self._ports.get(switch, {}).get(number)
        if port is None:
            return None
        override, queue = self._override(port_id, port), self.queue(port_id)
        told_bps = override.capacity_bps if override else None
        queue_bps = queue.rate_bps if queue else 0
        return told_bps or queue_bps or port.speed_bps or self._default_limits.capacity_bps

    def _override(self, port_id: PortId, port: Port) -> PortOverride | None:
        switch, number = port_id
        return self._overrides.get((switch, number)) or self._overrides.get((switch, port.name))

    def limits(
        self, port_id: PortId, every_port: bool, link_rtt_ns: int | None = None
    ) -> PortLimits | None:
        """The limits of a port; None if there is no such port, or no queue is known there.

        With `every_port`, every port counts as having a queue, for switches that cannot report
        theirs. Other switches must have reported first. `link_rtt_ns` is that of the port's link,
        if it was measured.
        """
        switch, number = port_id
        port = self._ports.get(switch, {}).get(number)
        if port is None or not (every_port or switch in self._queues):
            return None
        queue, override = self.queue(port_id), self._override(port_id, port)
        capacity_bps = self.capacity_bps(port_id)
        if capacity_bps is None or (queue is None and override is None and not every_port):
            return None
        queue, override = queue or EgressQueue(0, 0), override or PortOverride(switch, number)
        default, rtt_ns = self._default_limits, override.rtt_ns or self._default_limits.rtt_ns
        if link_rtt_ns is not None:
            rtt_ns = measured_rtt_ns(link_rtt_ns)
        return PortLimits(
            capacity_bps,
            rtt_ns,
            override.buffer_bytes or queue.limit_bytes or default.buffer_bytes,
        )
