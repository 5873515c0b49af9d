"""Link discovery and forwarding: paths are installed before frames need them, and have no loops.

It knows nothing of TCP.
"""

from collections.abc import Callable, Iterable

from controller.core.desired.tables import Tables
from controller.core.hosts.bond_hops import BondHops
from controller.core.hosts.resolution import Resolver
from controller.core.topology.fabric import Fabric
from controller.core.topology.next_hops import NextHops
from controller.model.effects import Effect, GoOn, LinkProbe, Record, Warn
from controller.model.entries import (
    AssignPathIds,
    BondEgress,
    BondIngress,
    Entry,
    EntryKey,
    Forward,
    ForwardVia,
    HostWindow,
    LinkPort,
    TaggedIngress,
    UntaggedIngress,
    VlanEgress,
    VlanFilter,
    VlanPort,
    forward_key,
)
from controller.model.values import Port, PortId
from controller.model.vlans import tag

# A port with windows for more is that of a router, which has not got their addresses.
_ADDRESSES_OF_A_HOST = 4


class Forwarding:
    """Keeps the forwarding entries of all switches in step with the fabric."""

    def __init__(
        self,
        fabric: Fabric,
        resolver: Resolver,
        tables: Tables,
        emit: Callable[[Effect], None],
    ) -> None:
        self._fabric = fabric
        self._resolver = resolver
        self._tables = tables
        self._emit = emit
        self._next_hops = NextHops(fabric, tables)
        self._bond_hops = BondHops(fabric, tables)
        self._provisioned: set[int] = set()
        self._link_entries: set[PortId] = set()
        self._vlan_entries: dict[PortId, set[EntryKey]] = {}
        self._installed_version = fabric.version

    def connect(
        self, switch: int, ports: Iterable[Port], held: Iterable[Entry], now_ns: int
    ) -> None:
        """A switch is connected. What it holds tells where links and hosts were."""
        fabric, entries = self._fabric, list(held)
        fabric.connect(switch, ports, now_ns)
        for entry in entries:
            if isinstance(entry, LinkPort):
                if not fabric.is_for_hosts(PortId(switch, entry.port)):
                    fabric.presume_link(PortId(switch, entry.port), now_ns)
            elif isinstance(entry, AssignPathIds):
                fabric.multipath = True
        for entry in entries:
            if isinstance(entry, Forward) and entry.mac not in fabric.hosts:
                port_id = fabric.place(PortId(switch, entry.port))
                port = fabric.port(port_id)
                if port is not None and port.up and not fabric.is_link(port_id):
                    fabric.settle(port_id)
                    self._resolver.learn(entry.mac, port_id, now_ns)
        windows = [entry for entry in entries if isinstance(entry, HostWindow)]
        ends_at: dict[PortId, set[bytes]] = {}
        for entry in windows:
            ends_at.setdefault(fabric.place(PortId(switch, entry.port)), set()).add(entry.end)
        for entry in windows:
            port_id, tags = fabric.place(PortId(switch, entry.port)), tag(entry.vlan)
            hosts = fabric.hosts_at(port_id)
            if (
                len(hosts) == 1
                and len(ends_at[port_id]) <= _ADDRESSES_OF_A_HOST
                and not fabric.owners(entry.address)
                and fabric.tags_at(port_id, tags) is not None
            ):
                self._resolver.bind(hosts[0].mac, entry.address, tags, now_ns)
        if fabric.vlans:
            self._tables.put(switch, VlanFilter())
            for port_id in fabric.ports_of(switch):
                self._install_vlans(port_id)
        # What no port carries any more must not go on until all is known again.
        for kind in (VlanFilter, VlanPort, TaggedIngress, UntaggedIngress, VlanEgress):
            self._tables.sweep(switch, kind)
        by_vlan = bool(fabric.vlans)
        self._tables.sweep(
            switch, Forward, lambda entry: entry.by_vlan != by_vlan and not entry.by_bond
        )
        self._tables.sweep(switch, BondEgress, lambda entry: entry.by_vlan != by_vlan)
        # By these, frames would be taken for having entered where they did not.
        self._remove(self._bond_hops.install())
        self._tables.sweep(switch, BondIngress)
        self._probe(PortId(switch, port.number) for port in ports)

    def probe(self) -> None:
        """Send discovery frames out of every port that is up."""
        self._probe(self._fabric.live_ports())

    def _probe(self, port_ids: Iterable[PortId]) -> None:
        for port_id in port_ids:
            port = self._fabric.port(port_id)
            if port is not None and port.up:
                self._emit(LinkProbe(port_id, port.mac))

    def link_seen(self, a: PortId, b: PortId, now_ns: int) -> None:
        before = list(self._fabric.hosts)
        of_hosts = [end for end in (a, b) if self._fabric.is_for_hosts(end)]
        if of_hosts:
            if self._fabric.refuse_link(a, b):
                self._report_lost(before)
                self._warn_of_link(of_hosts[0])
        elif self._fabric.link_seen(a, b, now_ns):
            self._emit(Record("link_up", {"a": str(a), "b": str(b)}))
            self._report_lost(before)

    def _warn_of_link(self, port_id: PortId) -> None:
        """A port that the operator has named as one for hosts leads to a switch."""
        setting = "fabric.bonds" if self._fabric.bonds.bond(port_id) else "fabric.vlans"
        text = (
            f"port {port_id.port} leads to another switch, but {setting} names it as one for "
            "hosts: it is not used"
        )
        self._emit(Warn(port_id.switch, text))

    def distrust(self, now_ns: int) -> None:
        """Make paths avoid the switches that have been unreachable for too long."""
        for switch in self._fabric.distrust_silent(now_ns):
            self._emit(Record("switch_avoided", {"switch": switch}))

    def expire(self, now_ns: int) -> None:
        for a, b in self._fabric.expire_links(now_ns):
            self._emit(Record("link_down", {"a": str(a), "b": str(b)}))

    def set_port(self, switch: int, port: Port, now_ns: int) -> None:
        before, links = list(self._fabric.hosts), self._fabric.links()
        self._fabric.set_port(switch, port, now_ns)
        self._install_vlans(PortId(switch, port.number))
        self._report_changes(before, links)
        self._probe([PortId(switch, port.number)])

    def remove_port(self, port_id: PortId) -> None:
        before, links = list(self._fabric.hosts), self._fabric.links()
        self._fabric.remove_port(port_id)
        self._install_vlans(port_id)
        self._report_changes(before, links)

    def forget_switch(self, switch: int) -> None:
        """Forget a switch without ports and links."""
        self._provisioned.discard(switch)
        self._fabric.forget_switch(switch)

    def install(self, *, has_time: bool = False) -> set[bytes]:
        """Update the entries of all switches. Returns the hosts whose paths may have changed.

        Paths between switches of a large fabric are updated only if it `has_time`.
        """
        fabric, tables = self._fabric, self._tables
        changed = fabric.take_changed_hosts()
        same_links = self._installed_version == fabric.version
        same_switches = tables.n_switches == len(self._provisioned)
        unused = self._bond_hops.install()
        if same_links and not changed and same_switches and not self._next_hops.pending:
            self._remove(unused)
            return changed
        if not same_links:
            self._installed_version = fabric.version
            self._install_links()
        moved = self._next_hops.install(has_time=has_time)
        if self._next_hops.pending:
            self._emit(GoOn())
        for mac in changed:
            self._install_host(mac, tables.switches())
        new = set(tables.switches()) - self._provisioned
        if new:
            self._provisioned |= new
            for mac in fabric.hosts:
                self._install_host(mac, new)
        self._remove(unused)
        if moved:
            changed |= {host.mac for host in fabric.hosts.values() if host.port.switch in moved}
        return changed

    def _remove(self, entries: Iterable[tuple[int, EntryKey]]) -> None:
        for switch, key in entries:
            self._tables.remove(switch, key)

    def _install_host(self, mac: bytes, switches: Iterable[int]) -> None:
        host = self._fabric.hosts.get(mac)
        for switch in switches:
            if host is None:
                self._tables.remove(switch, forward_key(mac))
            elif host.port.switch == switch:
                by_bond = self._fabric.bonds.bond(host.port) is not None
                by_vlan = bool(self._fabric.vlans) and not by_bond
                self._tables.put(switch, Forward(mac, host.port.port, by_vlan, by_bond))
            else:
                self._tables.put(switch, ForwardVia(mac, host.port.switch))

    def _install_vlans(self, port_id: PortId) -> None:
        """Update the entries for the VLANs of a port, which may be gone or have another name."""
        switch, number = port_id
        membership = self._fabric.membership(port_id)
        wanted: list[Entry] = []
        if membership is not None:
            wanted.append(VlanPort(number))
            for vlan in membership.tagged:
                wanted += TaggedIngress(number, vlan), VlanEgress(number, vlan, tagged=True)
            if vlan := membership.untagged:
                wanted += UntaggedIngress(number, vlan), VlanEgress(number, vlan, tagged=False)
        keys = {entry.key for entry in wanted}
        for key in self._vlan_entries.pop(port_id, set()) - keys:
            self._tables.remove(switch, key)
        for entry in wanted:
            self._tables.put(switch, entry)
        if keys:
            self._vlan_entries[port_id] = keys

    def _install_links(self) -> None:
        links = set(self._fabric.link_ports())
        for switch, port in links:
            self._tables.put(switch, LinkPort(port))
        for switch, port in self._link_entries - links:
            self._tables.remove(switch, LinkPort(port).key)
        self._link_entries = links

    def _report_changes(self, hosts: Iterable[bytes], links: list[tuple[PortId, PortId]]) -> None:
        for a, b in sorted(set(links) - set(self._fabric.links())):
            self._emit(Record("link_down", {"a": str(a), "b": str(b)}))
        self._report_lost(hosts)

    def _report_lost(self, hosts: Iterable[bytes]) -> None:
        for mac in hosts:
            if mac not in self._fabric.hosts:
                self._emit(Record("host_lost", {"mac": mac.hex(":")}))
