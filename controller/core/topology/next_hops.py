"""The next hops between switches: the entries by which frames follow the trees.

There is one for each destination switch, not for each host, and one for all path ids that leave by
the same port. So a failure changes few entries, and a host that comes or goes changes none.

After a change of links, the paths to all destinations are computed anew, a few milliseconds at a
time: those first that led over a link that is gone.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.core.desired.tables import Tables
from controller.core.topology.fabric import Fabric
from controller.model.entries import AssignPathIds, NextHop
from controller.model.values import N_PATH_IDS, PortId

# As many steps of `Trees` as `install` takes at once in a large fabric, and what it counts at least
# for each of its own; and how many destinations it updates at least before it begins anew.
_STEPS_AT_ONCE = 1.0
_LEAST_STEP = 0.1
_LEAST_DESTINATIONS = 16
_MOST_GONE = 8

_Ports = NDArray[np.int32]


class _Held(NamedTuple):
    """The ports towards a destination by path id, as installed: a column for each switch."""

    switches: tuple[int, ...]
    ports: _Ports


_NOTHING = _Held((), np.zeros((N_PATH_IDS, 0), np.int32))


class NextHops:
    """Keeps the next hops of all switches in step with the fabric. `pending` says whether there is
    more to do."""

    def __init__(self, fabric: Fabric, tables: Tables) -> None:
        self._fabric = fabric
        self._tables = tables
        self._installed: dict[int, _Held] = {}
        # The switches that hosts are at, and when that was looked up.
        self._destinations: set[int] = set()
        self._looked_up_at = -1
        # Paths to these are to be computed, and then installed.
        self._unknown: dict[int, None] = {}
        self._due: dict[int, None] = {}
        self._version = fabric.version
        self._links: set[PortId] = set()
        self._owed = 0

    @property
    def pending(self) -> bool:
        fabric = self._fabric
        has_changed = self._version != fabric.version or self._looked_up_at != fabric.changes
        return bool(self._due) or has_changed

    def install(self, *, has_time: bool = False) -> set[int]:
        """Update some or all switches. Returns the switches to which paths have changed.

        In a large fabric nothing is done unless it `has_time`, a few milliseconds.
        """
        fabric = self._fabric
        if not self.pending or (fabric.is_large() and not has_time):
            return set()
        moved = set()
        left = _STEPS_AT_ONCE if fabric.is_large() else inf
        while left > 0 and self.pending:
            before = fabric.spent
            if self._looked_up_at != fabric.changes:
                self._look_up()
            elif self._version != fabric.version and not (self._due and self._owed > 0):
                self._prepare()
            elif self._unknown:
                self._compute_next()
            else:
                moved |= self._update_next()
            left -= max(fabric.spent - before, _LEAST_STEP)
        if fabric.multipath:
            # A switch that copies segments of hosts has to tell their path ids.
            for switch in self._destinations:
                self._tables.put(switch, AssignPathIds())
        return moved

    def _look_up(self) -> None:
        """Where hosts are now."""
        self._looked_up_at = self._fabric.changes
        self._destinations = {host.port.switch for host in self._fabric.hosts.values()}
        new = dict.fromkeys(self._destinations ^ self._installed.keys())
        self._unknown |= new
        self._due |= new

    def _prepare(self) -> None:
        """Go one step towards the paths over the present links."""
        if self._fabric.prepare_paths():
            self._version = self._fabric.paths_version
            # Those first that have waited for longest, but for what is lost.
            self._due = dict.fromkeys(self._in_order([*self._installed, *self._destinations]))
            self._unknown = self._due.copy()
            # Links may change all the time.
            self._owed = _LEAST_DESTINATIONS

    def _compute_next(self) -> None:
        """Go one step towards the paths to the next destination.

        Those to all are computed before any is installed: whoever is led elsewhere by that wants to
        know the paths to and from the other end.
        """
        destination = next(iter(self._unknown))
        if destination not in self._destinations or self._fabric.trees.advance(destination):
            del self._unknown[destination]

    def _update_next(self) -> set[int]:
        """Install the paths to the next destination. Returns it if they have changed."""
        destination = next(iter(self._due))
        del self._due[destination]
        self._owed -= 1
        is_wanted = destination in self._destinations
        return {destination} if self._update(destination, is_wanted) else set()

    def _in_order(self, destinations: Sequence[int]) -> list[int]:
        """Those first that are reached over links that are gone."""
        present = set(self._fabric.link_ports())
        gone, self._links = self._links - present, present

        def is_reached_over(destination: int) -> bool:
            switches, ports = self._installed.get(destination, _NOTHING)
            return any(
                bool((ports[:, switches.index(switch)] == port).any())
                for switch, port in some_gone
                if switch in switches
            )

        # If many are, most destinations are.
        some_gone = list(gone)[:_MOST_GONE]

        return sorted(destinations, key=is_reached_over, reverse=True) if gone else [*destinations]

    def _update(self, destination: int, wanted: bool) -> bool:
        """Install the paths to a destination; returns whether they have changed."""
        held = self._installed.pop(destination, _NOTHING)
        trees = self._fabric.trees
        now = _Held(trees.switches, trees.next_hops(destination)) if wanted else _NOTHING
        if wanted:
            self._installed[destination] = now
        if held.switches == now.switches:
            changed = np.flatnonzero((held.ports != now.ports).any(axis=0)).tolist()
            for column in changed:
                self._replace(
                    now.switches[column],
                    destination,
                    held.ports[:, column].tolist(),
                    now.ports[:, column].tolist(),
                )
            return bool(changed)
        columns = (
            dict(zip(one.switches, one.ports.T.tolist(), strict=True)) for one in (held, now)
        )
        before, after = columns
        changed = [
            switch
            for switch in before.keys() | after.keys()
            if before.get(switch, []) != after.get(switch, [])
        ]
        for switch in changed:
            self._replace(switch, destination, before.get(switch, []), after.get(switch, []))
        return bool(changed)

    def _replace(self, switch: int, destination: int, held: list[int], wanted: list[int]) -> None:
        before, after = by_path_id(held), by_path_id(wanted)
        for path_id, port in after.items():
            if path_id is not None:
                self._fabric.multipath = True
                self._tables.put(switch, AssignPathIds())
            self._tables.put(switch, NextHop(destination, path_id, port))
        for path_id in before.keys() - after.keys():
            self._tables.remove(switch, NextHop(destination, path_id, 0).key)


def by_path_id(ports: Sequence[int]) -> dict[int | None, int]:
    """The ports of all path ids as they are installed: the one without path id is for all that have
    no other."""
    if not ports or not ports[0]:
        return {}
    usual = ports[0]
    hops: dict[int | None, int] = {None: usual}
    return hops | {path_id: port for path_id, port in enumerate(ports) if port != usual}
