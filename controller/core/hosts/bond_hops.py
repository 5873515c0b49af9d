"""The entries for bonds: by which member frames leave, and as which they count where they enter."""

from controller.core.desired.tables import Tables
from controller.core.topology.bonds import Bond
from controller.core.topology.fabric import Fabric
from controller.core.topology.next_hops import by_path_id
from controller.model.entries import AssignPathIds, BondEgress, BondIngress, Entry, EntryKey


class BondHops:
    """Keeps the entries of all switches in step with the bonds."""

    def __init__(self, fabric: Fabric, tables: Tables) -> None:
        self._fabric = fabric
        self._tables = tables
        self._version = fabric.bonds.version
        self._installed: dict[int, set[EntryKey]] = {}

    def install(self) -> list[tuple[int, EntryKey]]:
        """Update the entries; returns what is to be removed, with its switch, once no entry for a
        host leads there any more."""
        bonds = self._fabric.bonds
        if self._version == bonds.version:
            return []
        self._version = bonds.version
        stale, before = [], self._installed
        self._installed = {}
        for switch, bond in bonds.all:
            entries = self._entries(bond)
            if entries:
                # What has no path id counts as having entered where it did.
                self._tables.put(switch, AssignPathIds())
            for entry in entries:
                self._tables.put(switch, entry)
            self._installed.setdefault(switch, set()).update(entry.key for entry in entries)
        for switch, keys in before.items():
            gone = keys - self._installed.get(switch, set())
            stale += [(switch, key) for key in gone]
        return stale

    def _entries(self, bond: Bond) -> list[Entry]:
        members, place = bond.members, bond.place
        if not members or place is None:
            return []
        by_vlan = bool(self._fabric.vlans)
        entries: list[Entry] = [
            BondEgress(place, path_id, member, by_vlan)
            for path_id, member in by_path_id(members).items()
        ]
        for port in sorted(bond.ports):
            if port != place:
                entries.append(BondIngress(port, None, place))
            for path_id, member in enumerate(members):
                if port != member:
                    entries.append(BondIngress(port, path_id, member))
        return entries
