"""Learns the connections of switches that have come back, from their segments.

A switch that was away, or whose controller was, holds entries of connections that may have ended
unseen. For a while it copies up uncounted flows, which shows the connections that go on. After
that, entries that no known connection needs are removed.
"""

from collections.abc import Callable

from controller.core.desired.tables import Tables
from controller.core.flows.connections import Connections
from controller.core.topology.fabric import Fabric
from controller.model.effects import Effect, Install
from controller.model.entries import FlowCounter, Relearn

RELEARN_AFTER_NS = 1 * 10**9  # By then the other switches are back, and discovery has been round.
# Open vSwitch tries to connect again after at most 8 s, so all switches are back before it is over.
RELEARN_FOR_NS = 10 * 10**9
# A little longer than `Relearn` entries, which copy up uncounted flows, stay on a switch.
COPIED_FOR_NS = 6 * 10**9


class Relearning:
    """When which switch begins and ends to copy up uncounted flows, and when it is swept."""

    def __init__(
        self,
        fabric: Fabric,
        tables: Tables,
        connections: Connections,
        emit: Callable[[Effect], None],
    ) -> None:
        self._fabric = fabric
        self._tables = tables
        self._connections = connections
        self._emit = emit
        self._begins_at: dict[int, int] = {}
        self._ends_at: dict[int, int] = {}
        self._sweep_at: dict[int, int] = {}

    def connected(self, switch: int, now_ns: int) -> None:
        """A switch is back."""
        self._sweep_at[switch] = 0
        # Nothing is known of a connection before both its ends are back: with every switch that
        # returns, those that are back already start anew.
        for recovering in self._sweep_at:
            self._begins_at[recovering] = now_ns + RELEARN_AFTER_NS
            self._sweep_at[recovering] = now_ns + RELEARN_AFTER_NS + RELEARN_FOR_NS

    def disconnected(self, switch: int) -> None:
        for deadlines in (self._begins_at, self._ends_at, self._sweep_at):
            deadlines.pop(switch, None)

    def tend(self, now_ns: int) -> None:
        """Do what is due by now."""
        for switch in _take_due(self._ends_at, now_ns):
            self._connections.relearning.discard(switch)
        for switch in _take_due(self._begins_at, now_ns):
            self._connections.relearning.add(switch)
            self._ends_at[switch] = now_ns + COPIED_FOR_NS
            # A counter whose connection is not known would keep its flow from being copied up.
            self._tables.sweep(switch, FlowCounter)
            for port_id in self._fabric.edge_ports(now_ns):
                if port_id.switch == switch:
                    self._emit(Install(switch, Relearn(port_id.port)))
        for switch in _take_due(self._sweep_at, now_ns):
            self._tables.sweep(switch)
        if not self._sweep_at:
            self._connections.forget_all_remembered()


def _take_due(deadlines: dict[int, int], now_ns: int) -> list[int]:
    """Remove and return the keys whose time has come."""
    due = [key for key, at_ns in deadlines.items() if at_ns <= now_ns]
    for key in due:
        del deadlines[key]
    return due
