"""Which ports carry tunnels: what is in them is regulated where it enters and leaves them.

Switches of the fabric at both ends of a tunnel see a link, and the connections within it as they
are. A switch between them sees datagrams, which it leaves alone. It counts those that come in by
each port, so that operators are told why nothing is regulated there.
"""

from collections.abc import Callable, Iterable

from controller.core.desired.tables import Tables
from controller.model.effects import Effect, ReadTunnels
from controller.model.entries import TunnelCounter
from controller.model.values import PortId, TunnelKind

READ_EVERY_NS = 10 * 10**9
# Two readings without any more datagrams, and one that came late.
_CARRIED_FOR_NS = 25 * 10**9

# A port, a kind of tunnel, the version of IP outside, and how many datagrams have come in.
TunnelReading = tuple[int, TunnelKind, int, int]


class Tunnels:
    """Counts what comes in within tunnels. Effects go to `emit`."""

    def __init__(self, tables: Tables, emit: Callable[[Effect], None]) -> None:
        self._tables = tables
        self._emit = emit
        self._due_ns: dict[int, int] = {}
        self._ports: dict[int, set[int]] = {}
        self._counted: dict[tuple[PortId, TunnelKind, int], int] = {}
        self._carried_ns: dict[tuple[PortId, TunnelKind], int] = {}

    def connect(self, switch: int, ports: Iterable[int], now_ns: int) -> None:
        """A switch is connected, with these ports."""
        # Not all switches in the same turn.
        self._due_ns[switch] = now_ns + READ_EVERY_NS // 2 + switch % 8 * READ_EVERY_NS // 16
        present = set(ports)
        for port in self._ports.get(switch, set()) - present:
            self.port_gone(PortId(switch, port))
        for port in present:
            self.port_there(PortId(switch, port))

    def disconnect(self, switch: int) -> None:
        self._due_ns.pop(switch, None)

    def port_there(self, port_id: PortId) -> None:
        self._ports.setdefault(port_id.switch, set()).add(port_id.port)
        self._tables.put(port_id.switch, TunnelCounter(port_id.port))

    def port_gone(self, port_id: PortId) -> None:
        self._ports.get(port_id.switch, set()).discard(port_id.port)
        self._tables.remove(port_id.switch, TunnelCounter(port_id.port).key)
        for kind in TunnelKind:
            self._carried_ns.pop((port_id, kind), None)
            for version in (4, 6):
                self._counted.pop((port_id, kind, version), None)

    def look(self, now_ns: int) -> None:
        """Read the counters of the switches that are due."""
        for switch, due_ns in self._due_ns.items():
            if due_ns <= now_ns:
                self._due_ns[switch] = now_ns + READ_EVERY_NS
                self._emit(ReadTunnels(switch))

    def counted(self, switch: int, readings: Iterable[TunnelReading], now_ns: int) -> None:
        """Some of a switch's counters. The first reading of one tells nothing: it may be old."""
        for port, kind, version, packets in readings:
            key = PortId(switch, port), kind, version
            if packets > self._counted.get(key, packets):
                self._carried_ns[key[:2]] = now_ns
            self._counted[key] = packets

    def carried(self, port_id: PortId, now_ns: int) -> list[TunnelKind]:
        """The kinds of tunnels that have come in by a port lately."""
        return [
            kind
            for kind in TunnelKind
            if now_ns - self._carried_ns.get((port_id, kind), -_CARRIED_FOR_NS) < _CARRIED_FOR_NS
        ]
