"""Discovery, ARP and forwarding: hosts reach each other, by paths installed ahead, without loops.

Frames to unknown and to group addresses go through the controller to every edge port, never over a
link, so there is nothing to loop. It knows nothing of TCP.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from controller.core.effects import AnswerArp, Deliver, Effect, Probe, Record
from controller.core.entries import Forward, HostWindow, LinkPort, Survivor
from controller.core.fabric import Fabric, Port
from controller.core.tables import Tables
from controller.core.values import PortId

ARP_REQUEST = 1


@dataclass(frozen=True, slots=True)
class Arp:
    """An IPv4 ARP packet; `frame` is the whole frame that carried it."""

    operation: int
    sender_mac: bytes
    sender_address: bytes
    target_address: bytes
    dst_mac: bytes
    frame: bytes


class Forwarding:
    """Keeps the forwarding entries of all switches in step with the fabric."""

    def __init__(self, fabric: Fabric, tables: Tables, emit: Callable[[Effect], None]) -> None:
        self._fabric = fabric
        self._tables = tables
        self._emit = emit
        self._installed_version = fabric.version

    def connect(
        self, switch: int, ports: Iterable[Port], survivors: Iterable[Survivor], now_ns: int
    ) -> None:
        """A switch is there; what survived on it tells where links and hosts are."""
        fabric = self._fabric
        fabric.connect(switch, ports, now_ns)
        entries = [survivor.entry for survivor in survivors]
        for entry in entries:
            if isinstance(entry, LinkPort):
                fabric.presume_link(PortId(switch, entry.port), now_ns)
        for entry in entries:
            if isinstance(entry, Forward) and entry.mac not in fabric.hosts:
                port_id = PortId(switch, entry.port)
                port = fabric.port(port_id)
                if port is not None and port.up and not fabric.is_link(port_id):
                    fabric.settle(port_id)
                    self._learn(entry.mac, port_id)
        for entry in entries:
            if isinstance(entry, HostWindow):
                hosts = fabric.hosts_at(PortId(switch, entry.port))
                if len(hosts) == 1 and fabric.owner(entry.address) is None:
                    fabric.bind(hosts[0].mac, entry.address)
        self._probe(PortId(switch, port.number) for port in ports)

    def probe(self) -> None:
        """Send discovery frames out of every port that is up."""
        self._probe(self._fabric.live_ports())

    def _probe(self, port_ids: Iterable[PortId]) -> None:
        for port_id in port_ids:
            port = self._fabric.port(port_id)
            if port is not None and port.up:
                self._emit(Probe(port_id, port.mac))

    def link_seen(self, a: PortId, b: PortId, now_ns: int) -> None:
        before = list(self._fabric.hosts)
        if self._fabric.link_seen(a, b, now_ns):
            self._emit(Record("link_up", {"a": str(a), "b": str(b)}))
            self._report_lost(before)

    def expire(self, now_ns: int) -> None:
        for a, b in self._fabric.expire_links(now_ns):
            self._emit(Record("link_down", {"a": str(a), "b": str(b)}))

    def set_port(self, switch: int, port: Port, now_ns: int) -> None:
        before, links = list(self._fabric.hosts), self._fabric.links()
        self._fabric.set_port(switch, port, now_ns)
        self._report_changes(before, links)
        self._probe([PortId(switch, port.number)])

    def remove_port(self, port_id: PortId) -> None:
        before, links = list(self._fabric.hosts), self._fabric.links()
        self._fabric.remove_port(port_id)
        self._report_changes(before, links)

    def learn(self, mac: bytes, port_id: PortId) -> None:
        """A frame from this source entered by this edge port."""
        host = self._fabric.hosts.get(mac)
        is_group = mac[0] & 1
        if not is_group and (host is None or host.port != port_id):
            self._learn(mac, port_id)

    def arp(self, port_id: PortId, arp: Arp, now_ns: int) -> None:
        """Learn from it, answer it if the answer is known, else pass it on."""
        if not self._fabric.is_edge(port_id, now_ns):
            return
        self.learn(arp.sender_mac, port_id)
        if any(arp.sender_address) and arp.sender_mac in self._fabric.hosts:
            self._bind(arp.sender_mac, arp.sender_address)
        target = self._fabric.owner(arp.target_address)
        if arp.operation != ARP_REQUEST or arp.target_address == arp.sender_address:
            self._pass_on(port_id, arp.dst_mac, arp.frame, now_ns)
        elif target is None:
            self._flood(port_id, arp.frame, now_ns)
        elif target.mac != arp.sender_mac:
            self._emit(
                AnswerArp(
                    port_id, target.mac, arp.target_address, arp.sender_mac, arp.sender_address
                )
            )

    def frame(
        self, port_id: PortId, src_mac: bytes, dst_mac: bytes, frame: bytes, now_ns: int
    ) -> None:
        """A frame whose destination the switch has no entry for."""
        if self._fabric.is_edge(port_id, now_ns):
            self.learn(src_mac, port_id)
            self._pass_on(port_id, dst_mac, frame, now_ns)

    def install(self) -> set[bytes]:
        """Bring all switches in line. Returns the hosts whose paths may have changed."""
        changed = self._fabric.take_changed_hosts()
        if self._installed_version != self._fabric.version:
            self._installed_version = self._fabric.version
            changed |= self._fabric.hosts.keys()
            self._install_links()
        for mac in changed:
            host = self._fabric.hosts.get(mac)
            ports = self._fabric.next_ports(host) if host else {}
            for switch in self._tables.switches():
                if switch in ports:
                    self._tables.put(switch, Forward(mac, ports[switch]))
                else:
                    self._tables.remove(switch, Forward(mac, 0).key)
        return changed

    def _install_links(self) -> None:
        links = set(self._fabric.link_ports())
        for switch, port in links:
            self._tables.put(switch, LinkPort(port))
        for switch, entry in self._tables.entries(LinkPort):
            if PortId(switch, entry.port) not in links:
                self._tables.remove(switch, entry.key)

    def _learn(self, mac: bytes, port_id: PortId) -> None:
        event = "host_moved" if mac in self._fabric.hosts else "host_learnt"
        self._fabric.learn(mac, port_id)
        self._emit(Record(event, {"mac": mac.hex(":"), "port": str(port_id)}))

    def _bind(self, mac: bytes, address: bytes) -> None:
        owner = self._fabric.owner(address)
        if owner is None or owner.mac != mac:
            self._fabric.bind(mac, address)
            text = str(ip_address(address))
            self._emit(Record("host_address", {"mac": mac.hex(":"), "address": text}))

    def _pass_on(self, source: PortId, dst_mac: bytes, frame: bytes, now_ns: int) -> None:
        host = self._fabric.hosts.get(dst_mac)
        if host is None:
            self._flood(source, frame, now_ns)
        elif host.port != source:
            self._emit(Deliver((host.port,), frame))

    def _flood(self, source: PortId, frame: bytes, now_ns: int) -> None:
        ports = tuple(port for port in self._fabric.edge_ports(now_ns) if port != source)
        if ports:
            self._emit(Deliver(ports, frame))

    def _report_changes(self, hosts: Iterable[bytes], links: list[tuple[PortId, PortId]]) -> None:
        for a, b in sorted(set(links) - set(self._fabric.links())):
            self._emit(Record("link_down", {"a": str(a), "b": str(b)}))
        self._report_lost(hosts)

    def _report_lost(self, hosts: Iterable[bytes]) -> None:
        for mac in hosts:
            if mac not in self._fabric.hosts:
                self._emit(Record("host_lost", {"mac": mac.hex(":")}))
