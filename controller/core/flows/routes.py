"""The routes of host pairs: the switches at both ends, and the egress ports that data leaves by."""

from collections.abc import Callable

from controller.core.flows.flow_table import GlobalFlowTable
from controller.core.flows.host_pairs import HostPair
from controller.core.flows.policy import Treatment
from controller.core.topology.fabric import Fabric
from controller.model.effects import Effect, Warn


class Routes:
    """Enters routes in the GVT, and calls `rerouted` for each.

    `given_up` are switches that are no pair's edge any more. `without_path_id` counts the host
    pairs that should have a path id but have none.
    """

    def __init__(
        self,
        fabric: Fabric,
        table: GlobalFlowTable,
        rerouted: Callable[[HostPair], None],
        emit: Callable[[Effect], None],
    ) -> None:
        self.given_up: set[int] = set()
        self.without_path_id = 0
        self._fabric = fabric
        self._table = table
        self._rerouted = rerouted
        self._emit = emit
        self._told_without_path_id: set[int] = set()

    def route_new(self) -> list[HostPair]:
        """Route the host pairs that are new in the GVT; returns them."""
        new = self._table.take_new_pairs()
        for pair in new:
            self.route(pair)
        return new

    def route(self, pair: HostPair) -> None:
        """Route a pair. An exempt pair has no route and counts for no port."""
        if pair.treatment is Treatment.EXEMPT:
            return
        ends = pair.initiator_mac, pair.responder_mac
        pair.edges = self.edges(pair)
        paths = [self._fabric.path(*way, pair.path_id) or () for way in (ends, ends[::-1])]
        self._table.route(pair, paths[0], paths[1])
        self._rerouted(pair)

    def edges(self, pair: HostPair) -> tuple[int, ...]:
        """The switches of both ends, the initiator's first; only one if they are the same.

        Switches that were given up are left out.
        """
        hosts = self._fabric.hosts
        macs = pair.initiator_mac, pair.responder_mac
        switches = dict.fromkeys(hosts[mac].port.switch for mac in macs if mac in hosts)
        return tuple(switch for switch in switches if switch not in self.given_up)

    def miss_path_id(self, switch: int) -> None:
        """A host pair that begins at this switch should have a path id."""
        self.without_path_id += 1
        if switch not in self._told_without_path_id:
            self._told_without_path_id.add(switch)
            text = (
                "copies segments without their path id (action multipath, register 0): "
                "connections that begin there are regulated as if all went by one path"
            )
            self._emit(Warn(switch, text))
