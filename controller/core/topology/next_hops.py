"""The next hops between switches: the entries by which frames follow the trees.

There is one for each destination switch, not for each host, and one for all path ids that leave by
the same port. So a failure changes few entries, and a host that comes or goes changes none.
"""

from controller.core.desired.tables import Tables
from controller.core.topology.fabric import Fabric
from controller.model.entries import AssignPathIds, NextHop
from controller.model.values import N_PATH_IDS

# By switch and path id; a hop without path id is for those that have no other.
_Ports = dict[tuple[int, int | None], int]


class NextHops:
    """Keeps the next hops of all switches in step with the fabric."""

    def __init__(self, fabric: Fabric, tables: Tables) -> None:
        self._fabric = fabric
        self._tables = tables
        self._installed: dict[int, _Ports] = {}
        self._version = fabric.version

    def install(self) -> set[int]:
        """Update all switches. Returns the switches to which paths have changed."""
        destinations = {host.port.switch for host in self._fabric.hosts.values()}
        if self._version == self._fabric.version:
            due = destinations ^ self._installed.keys()
        else:
            self._version = self._fabric.version
            due = destinations | self._installed.keys()
        moved = set()
        for destination in due:
            held = self._installed.pop(destination, {})
            wanted = self._ports(destination) if destination in destinations else {}
            if destination in destinations:
                self._installed[destination] = wanted
            if held != wanted:
                self._replace(destination, held, wanted)
                moved.add(destination)
        if self._fabric.multipath:
            # A switch that copies segments of hosts has to tell their path ids.
            for switch in destinations:
                self._tables.put(switch, AssignPathIds())
        return moved

    def _ports(self, destination: int) -> _Ports:
        ports: _Ports = {}
        trees = [
            self._fabric.trees.next_ports(destination, path_id) for path_id in range(N_PATH_IDS)
        ]
        for switch, port in trees[0].items():
            ports[switch, None] = port
            for path_id, tree in enumerate(trees):
                if tree[switch] != port:
                    ports[switch, path_id] = tree[switch]
        return ports

    def _replace(self, destination: int, held: _Ports, wanted: _Ports) -> None:
        for (switch, path_id), port in wanted.items():
            if path_id is not None:
                self._fabric.multipath = True
                self._tables.put(switch, AssignPathIds())
            self._tables.put(switch, NextHop(destination, path_id, port))
        for switch, path_id in held.keys() - wanted.keys():
            self._tables.remove(switch, NextHop(destination, path_id, 0).key)
