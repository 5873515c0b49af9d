"""Address resolution: learns hosts and their addresses, answers for them, and forgets them in time.

ARP (RFC 826, RFC 5227) and IPv6 neighbour discovery (RFC 4861) are treated alike. Frames to unknown
hosts, and of switches without meters to groups, go through the controller to every edge port, never
over a link, so they cannot loop; how many there are is limited.

An IP address belongs to a VLAN: the same address in another VLAN is another one. But an Ethernet
address is at one port in all VLANs. A host without any known address is never probed, so it stays
until its port goes down or it is seen elsewhere.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address

from controller.core.hosts.flooding import Floods
from controller.core.hosts.port_security import PortSecurity, PortSecuritySettings
from controller.core.topology.fabric import Fabric
from controller.model.effects import AddressProbe, Deliver, Effect, NeighbourReply, Record
from controller.model.packet_ins import NeighbourMessage
from controller.model.values import PortId
from controller.model.vlans import TAG_BYTES, retag, tags_of, vlan_of

_ASK_TIMES, _ASK_AGAIN_NS = 3, 10**9
_ASKED_PER_TURN = 64
# Who was heard so lately is not asked again.
_DOUBT_AFTER_NS = 5 * 10**9


@dataclass(frozen=True, slots=True)
class ResolverSettings:
    """A host that was not heard for `host_age_ns` is probed. `floods_per_s` is how many frames of
    one port may be flooded."""

    host_age_ns: int = 1800 * 10**9
    floods_per_s: int = 100
    security: PortSecuritySettings = field(default_factory=PortSecuritySettings)


@dataclass(slots=True)
class _Binding:
    """The owner of an address. `tags` are those for probes; `asked` counts unanswered probes."""

    mac: bytes
    tags: bytes
    due_ns: int
    asked: int = 0


_Key = tuple[bytes, bytes]


class Resolver:
    """Learns hosts, answers questions, and passes on frames. Effects go to `emit`; `moved` is told
    of the ports that hosts have moved to, and when."""

    def __init__(
        self, fabric: Fabric, settings: ResolverSettings, emit: Callable[[Effect], None]
    ) -> None:
        self._fabric = fabric
        self._age_ns = settings.host_age_ns
        self._emit = emit
        self.security = PortSecurity(fabric, settings.security, emit, self._doubt)
        self.floods = Floods(settings.floods_per_s)
        self._flooding: set[PortId] = set()
        self.moved: Callable[[PortId, int], None] | None = None
        # By VLAN and address, the earliest due first.
        self._heard: dict[_Key, _Binding] = {}
        self._asked: dict[_Key, _Binding] = {}

    def learn(self, mac: bytes, port_id: PortId, now_ns: int) -> bool:
        """A host with this Ethernet address says that it is behind this edge port; returns whether
        it is."""
        port_id = self._fabric.place(port_id)
        host = self._fabric.hosts.get(mac)
        if host is not None and host.port == port_id:
            return True
        is_group = mac[0] & 1
        if is_group or not any(mac) or not self.security.admits_host(mac, port_id, now_ns):
            return False
        if host is not None:
            for key in list(host.addresses)[:1]:
                self._probe(host.port, mac, key)  # Is it there no more?
        self._fabric.learn(mac, port_id)
        if host is not None and self.moved is not None:
            self.moved(port_id, now_ns)
        event = "host_learnt" if host is None else "host_moved"
        self._emit(Record(event, {"mac": mac.hex(":"), "port": str(port_id)}))
        return True

    def bind(self, mac: bytes, address: bytes, tags: bytes, now_ns: int) -> None:
        """A known host says that it has this address now."""
        vlan = vlan_of(tags)
        owner = self._fabric.owner(address, vlan)
        if owner is None or owner.mac != mac:
            if not self.security.admits_address(mac, vlan, address, now_ns):
                return
            if owner is not None:
                self._probe(owner.port, owner.mac, (vlan, address))  # Has it given it up?
            self._fabric.bind(mac, address, vlan)
            if owner is not None:
                self.security.lost_address(owner.mac, now_ns)
            fields: dict[str, object] = {"mac": mac.hex(":"), "address": str(ip_address(address))}
            if vlan:
                fields["vlan"] = vlan.hex()
            self._emit(Record("host_address", fields))
        key = vlan, address
        self._asked.pop(key, None)
        self._heard.pop(key, None)
        self._heard[key] = _Binding(mac, tags, now_ns + self._age_ns)

    def resolve(self, port_id: PortId, said: NeighbourMessage, now_ns: int) -> None:
        """Learn from a message, and answer it if the answer is known; otherwise pass it on."""
        fabric = self._fabric
        if not fabric.is_edge(port_id, now_ns):
            return
        port_id = fabric.place(port_id)
        if fabric.vlans and len(said.tags) > TAG_BYTES:
            return  # Switches look at one tag: what is behind it is in no VLAN of theirs.
        vlan = vlan_of(said.tags)
        expected = not said.asks and (vlan, said.address) in self._asked
        if not self.learn(said.mac, port_id, now_ns):
            return
        if any(said.address):
            self.bind(said.mac, said.address, said.tags, now_ns)
        if expected or not said.dst_mac[0] & 1:
            return  # Switches forward messages to one host; this was a copy.
        owner = fabric.owner(said.target, vlan)
        if owner is None or not said.asks or said.target == said.address:
            self.flood(port_id, said.frame, now_ns)
        elif any(said.address):
            if owner.mac != said.mac:
                tags = fabric.tags_at(port_id, said.tags)
                if tags is not None:
                    self._emit(
                        NeighbourReply(
                            port_id, owner.mac, said.target, said.mac, said.address, tags
                        )
                    )
        elif owner.mac != said.mac:
            # RFC 5227 section 2.1.1, RFC 4862 section 5.4: a host asks whether an address that it
            # wants is taken. Only the owner can say that it still has it.
            self.deliver((owner.port,), said.frame)
        else:
            self.flood(port_id, said.frame, now_ns)

    def frame(
        self, port_id: PortId, src_mac: bytes, dst_mac: bytes, frame: bytes, now_ns: int
    ) -> None:
        """A frame to a destination that the switch has no entry for."""
        if dst_mac in self._fabric.macs_at(port_id):
            return  # An answer to a probe, which bears the port's address.
        if self._fabric.is_edge(port_id, now_ns) and self.learn(src_mac, port_id, now_ns):
            self._pass_on(self._fabric.place(port_id), dst_mac, frame, now_ns)

    def tend(self, now_ns: int) -> None:
        """Probe hosts that were not heard for long; forget those that do not answer."""
        for bindings in (self._asked, self._heard):
            due: list[_Key] = []
            for key, binding in bindings.items():
                if binding.due_ns > now_ns or len(due) == _ASKED_PER_TURN:
                    break
                due.append(key)
            for key in due:
                self._ask(key, bindings.pop(key), now_ns)
        self.security.tend(now_ns)
        self._flooding.difference_update(self.floods.full_again(now_ns))

    def _ask(self, key: _Key, binding: _Binding, now_ns: int) -> None:
        vlan, address = key
        host = self._fabric.owner(address, vlan)
        if host is None or host.mac != binding.mac:
            return
        if binding.asked == _ASK_TIMES:
            self._fabric.unbind(address, vlan)
            if not host.addresses:
                self._fabric.forget(host.mac)
                self._emit(Record("host_lost", {"mac": host.mac.hex(":")}))
            return
        self._asked[key] = binding
        self._probe(host.port, host.mac, key)
        binding.asked += 1
        binding.due_ns = now_ns + _ASK_AGAIN_NS

    def _doubt(self, mac: bytes, now_ns: int) -> None:
        """Somebody says that a host is elsewhere: ask for it where it is, as if it had not been
        heard for long."""
        host = self._fabric.hosts[mac]
        for key in host.addresses:
            binding = self._heard.get(key)
            if binding is not None and now_ns - (binding.due_ns - self._age_ns) >= _DOUBT_AFTER_NS:
                del self._heard[key]
                binding.due_ns = 0
                self._asked = {key: binding} | self._asked

    def _probe(self, port_id: PortId, mac: bytes, key: _Key) -> None:
        """Ask the host behind a port whether it has an address."""
        port, binding = self._fabric.port(port_id), self._asked.get(key) or self._heard.get(key)
        if port is not None and binding is not None:
            tags = self._fabric.tags_at(port_id, binding.tags)
            if tags is not None:
                self._emit(AddressProbe(port_id, mac, key[1], port.mac, tags))

    def _pass_on(self, source: PortId, dst_mac: bytes, frame: bytes, now_ns: int) -> None:
        host = self._fabric.hosts.get(dst_mac)
        if host is None:
            self.flood(source, frame, now_ns)
        elif host.port != source:
            self.deliver((host.port,), frame)

    def flood(self, source: PortId, frame: bytes, now_ns: int) -> None:
        """Send a frame to all ports for hosts but its own, unless that has sent too many."""
        if not self.floods.admit(source, now_ns):
            if source not in self._flooding:
                self._flooding.add(source)
                self._emit(Record("flood_limited", {"port": str(source)}))
            return
        places = self._fabric.edge_places(now_ns)
        self.deliver((port_id for port_id in places if port_id != source), frame)

    def deliver(self, port_ids: Iterable[PortId], frame: bytes) -> None:
        """Send a frame out of those ports that carry its VLAN."""
        tags = tags_of(frame)
        by_form: dict[bytes, list[PortId]] = {}
        for port_id in port_ids:
            form = self._fabric.tags_at(port_id, tags)
            if form is not None:
                by_form.setdefault(form, []).append(port_id)
        for form, ports in by_form.items():
            self._emit(Deliver(tuple(ports), frame if form == tags else retag(frame, form)))
