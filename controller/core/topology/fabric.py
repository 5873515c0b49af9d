"""Switches, ports, links and hosts, and the path between two hosts.

Paths are symmetric (`trees`): a flow's ACKs come back through the ports that its data leaves by.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from controller.core.topology.bonds import Bonds
from controller.core.topology.links import Link, Links
from controller.core.topology.trees import Trees
from controller.core.topology.vlans import Membership, Vlans
from controller.model.flow import split_end
from controller.model.values import Port, PortId

# A port that came up this recently may yet turn out to lead to a switch.
PORT_GRACE_NS = 250_000_000

# Of links. With so many, the paths take more than a few milliseconds.
_MANY_ENDS = 64


@dataclass(slots=True)
class Host:
    """`addresses` are pairs of a VLAN (empty: none) and a packed address in it."""

    mac: bytes
    port: PortId
    addresses: set[tuple[bytes, bytes]] = field(default_factory=set)


@dataclass(slots=True)
class _PortState:
    port: Port
    settled_ns: int
    membership: Membership | None


class Fabric:
    """Switches, ports, links and hosts.

    `version` rises when paths between switches may have changed, `changes` whenever a port, a link
    or the place of a host may have changed, `port_changes` when a port or a link may have,
    `address_changes` when an address has another owner. A switch whose control channel has been
    lost for `control_grace_ns` is distrusted: paths avoid it if they can.

    A link is *protected* if the names of both its ports match a pattern of `protect`. Paths do not
    lead over protected links: what these carry crosses the other links once more, in code.

    Hosts behind a bond are at the port that stands for it (`place`), as long as any of its ports is
    up.

    `multipath` is set from the time on that paths differ by path id. It stays set, because the path
    id of a connection that opened in the meantime would not be known later.
    """

    def __init__(
        self,
        link_timeout_ns: int,
        control_grace_ns: int = 5 * 10**8,
        vlans: Vlans | None = None,
        bonds: Bonds | None = None,
    ) -> None:
        self.vlans = vlans or Vlans()
        self.bonds = bonds or Bonds()
        self._control_grace_ns = control_grace_ns
        self._ports: dict[PortId, _PortState] = {}
        self._connected: set[int] = set()
        self._silent_since: dict[int, int] = {}
        self._distrusted: set[int] = set()
        self._fabric_ports: set[PortId] = set()
        self._refused: set[PortId] = set()
        self._tunnels: set[PortId] = set()
        self._unsettled: set[PortId] = set()  # Of bonds.
        self.multipath = bool(self.bonds)
        self._links = Links(link_timeout_ns)
        self._protected_names: tuple[str, ...] = ()
        self.hosts: dict[bytes, Host] = {}
        self._hosts_at: dict[PortId, dict[bytes, Host]] = {}
        self._owners: dict[tuple[bytes, bytes], bytes] = {}
        self._vlans_of: dict[bytes, set[bytes]] = {}  # By address.
        self._changed_hosts: set[bytes] = set()
        self._version = 0
        self.changes = self.port_changes = self.address_changes = 0
        self._trees = Trees((), ())
        self._trees_version = self._coming_version = 0
        self._coming: Trees | None = None
        self._paths: dict[tuple[int, int, int], tuple[PortId, ...] | None] = {}

    @property
    def version(self) -> int:
        return self._version + self._links.version

    def _count_change(self) -> None:
        """A port or a link has changed, or may have."""
        self.changes += 1
        self.port_changes += 1

    # Switches and ports

    def connect(self, switch: int, ports: Iterable[Port], now_ns: int) -> None:
        self._connected.add(switch)
        self._silent_since.pop(switch, None)
        if switch in self._distrusted:
            self._distrusted.discard(switch)
            self._version += 1
        # Hosts of a bond move to those of its ports that are up before the others are gone.
        ports = sorted(ports, key=lambda port: not port.up)
        for port in ports:
            self.set_port(switch, port, now_ns)
        present = {port.number for port in ports}
        for port_id in self.ports_of(switch):
            if port_id.port not in present:
                self.remove_port(port_id)
        self._links.renew(switch, now_ns)

    def disconnect(self, switch: int, now_ns: int) -> None:
        """The control channel is lost. The switch may go on forwarding, so nothing is removed."""
        self._connected.discard(switch)
        self._silent_since[switch] = now_ns

    def forget_switch(self, switch: int) -> None:
        """Forget a switch without ports and links."""
        self._silent_since.pop(switch, None)
        self._distrusted.discard(switch)

    def distrust_silent(self, now_ns: int) -> list[int]:
        """Distrust the switches whose control channel has been lost for too long; returns them."""
        silent = [
            switch
            for switch, since_ns in self._silent_since.items()
            if now_ns - since_ns >= self._control_grace_ns
        ]
        for switch in silent:
            del self._silent_since[switch]
            self._distrusted.add(switch)
            self._version += 1
        return silent

    def set_port(self, switch: int, port: Port, now_ns: int) -> None:
        """Add a port or update its state. A port that goes down loses its link and its hosts."""
        self._count_change()
        port_id = PortId(switch, port.number)
        known = self._ports.get(port_id)
        if not port.up:
            self._links.failed(port_id, now_ns)
            self._fabric_ports.discard(port_id)
            self._tunnels.discard(port_id)
            self._refused.discard(port_id)
        settled_ns = now_ns + PORT_GRACE_NS
        if known is not None and known.port.up and port.up:
            settled_ns = known.settled_ns
        membership = self.vlans.membership(switch, port)
        self._ports[port_id] = _PortState(port, settled_ns, membership)
        self._update_bond(port_id, now_ns)
        if not port.up:
            self._forget_hosts(port_id)

    def remove_port(self, port_id: PortId) -> None:
        self._count_change()
        self._ports.pop(port_id, None)
        self._update_bond(port_id, 0)
        self._links.remove_port(port_id)
        self._forget_hosts(port_id)
        self._fabric_ports.discard(port_id)
        self._refused.discard(port_id)
        self._tunnels.discard(port_id)

    def _bonded(self, port_id: PortId) -> set[PortId]:
        """The ports of the bond of a port."""
        bond = self.bonds.bond(port_id)
        return {PortId(port_id.switch, port) for port in bond.ports} if bond else set()

    def _update_bond(self, port_id: PortId, now_ns: int) -> None:
        """A port has changed, or is gone. The hosts of the bond that it was or is in are at the
        port that stands for it now, and are reached by other ports."""
        former, state = self._bonded(port_id), self._ports.get(port_id)
        if state is None:
            self.bonds.remove_port(port_id)
        else:
            port = replace(state.port, up=state.port.up and port_id not in self._refused)
            settled = now_ns >= state.settled_ns
            self.bonds.set_port(port_id.switch, port, settled=settled)
            if port.up and not settled and self.bonds.bond(port_id):
                self._unsettled.add(port_id)
        present, others = self._bonded(port_id), former - {port_id}
        for one in former | present:
            has_left = one == port_id and others and not others & present
            place = self.place(min(others) if has_left else one)
            for host in self.hosts_at(one):
                self.learn(host.mac, place)
                self._changed_hosts.add(host.mac)

    def settle_bonds(self, now_ns: int) -> None:
        """Use the ports of bonds that have been up for long enough without leading to a switch."""
        states = ((port_id, self._ports.get(port_id)) for port_id in self._unsettled)
        due = [one for one, state in states if state is None or now_ns >= state.settled_ns]
        self._unsettled.difference_update(due)
        for port_id in due:
            self.bonds.settle(port_id)
        for port_id in due:
            self._update_bond(port_id, now_ns)

    def settle(self, port_id: PortId) -> None:
        """It is known that this port leads to hosts, and the others of its bond: end their grace
        periods."""
        for one in self._bonded(port_id) | {port_id}:
            if one in self._ports:
                self._ports[one].settled_ns = 0

    def port(self, port_id: PortId) -> Port | None:
        state = self._ports.get(port_id)
        return state.port if state else None

    def membership(self, port_id: PortId) -> Membership | None:
        """The VLANs of a port that a rule names; None if none does."""
        state = self._ports.get(port_id)
        return state.membership if state else None

    def tags_at(self, port_id: PortId, tags: bytes) -> bytes | None:
        """The tags that a frame with these has on the wire of a port for hosts; None if the port
        does not carry its VLAN."""
        state = self._ports.get(port_id)
        return self.vlans.on_wire(state.membership, tags) if state else None

    def place(self, port_id: PortId) -> PortId:
        """Where hosts behind a port are: at itself, or at the port that stands for its bond."""
        return self.bonds.place(port_id)

    def macs_at(self, port_id: PortId) -> set[bytes]:
        """The switch's own Ethernet addresses at a port, or at the ports of its bond."""
        states = (self._ports.get(one) for one in self._bonded(port_id) | {port_id})
        return {state.port.mac for state in states if state is not None}

    def is_for_hosts(self, port_id: PortId) -> bool:
        """Whether the operator has named a port as one for hosts: it leads to no switch."""
        return self.membership(port_id) is not None or self.bonds.bond(port_id) is not None

    def connected(self) -> set[int]:
        return set(self._connected)

    def ports_of(self, switch: int) -> list[PortId]:
        return [port_id for port_id in self._ports if port_id.switch == switch]

    def live_ports(self) -> list[PortId]:
        """The ports that are up, of connected switches."""
        return [
            port_id
            for port_id, state in self._ports.items()
            if state.port.up and port_id.switch in self._connected
        ]

    def is_link(self, port_id: PortId) -> bool:
        return port_id in self._links

    def is_edge(self, port_id: PortId, now_ns: int) -> bool:
        """Whether hosts are behind this port; False while that is not certain."""
        state = self._ports.get(port_id)
        return (
            state is not None
            and state.port.up
            and now_ns >= state.settled_ns
            and port_id not in self._links
            and not self._links.is_quarantined(port_id, now_ns)
            and not self.may_protect(port_id)
            and port_id not in self._refused
        )

    def edge_ports(self, now_ns: int) -> list[PortId]:
        return [port_id for port_id in self.live_ports() if self.is_edge(port_id, now_ns)]

    def edge_places(self, now_ns: int) -> list[PortId]:
        """The edge ports, of those of a bond only the one that stands for it."""
        return [port for port in self.edge_ports(now_ns) if port == self.place(port)]

    def host_ports(self, now_ns: int) -> list[PortId]:
        """The edge places whose port has not led to a switch since it was down last, whatever has
        become of that link."""
        return [port for port in self.edge_places(now_ns) if port not in self._fabric_ports]

    # Links

    def presume_link(self, port_id: PortId, now_ns: int) -> None:
        """This port was a link before the controller started; discovery has time to confirm it."""
        if port_id not in self._links:
            self._count_change()
            self._fabric_ports.add(port_id)
            self._links.presume(port_id, now_ns)

    def link_seen(self, a: PortId, b: PortId, now_ns: int) -> bool:
        """A discovery frame went from `a` to `b`. Returns whether the link is new."""
        if a == b or a not in self._ports or b not in self._ports:
            return False
        known = self._links.knows(a, b)
        if not self._links.seen(a, b, now_ns) or known:
            return False
        self._count_change()
        for port_id in (a, b):
            self._fabric_ports.add(port_id)
            self._forget_hosts(port_id)
        return True

    def refuse_link(self, a: PortId, b: PortId) -> bool:
        """There is a link that must not be used: until its ports have been down, they lead neither
        to a switch nor to hosts. Returns whether that is new."""
        if a == b or {a, b} <= self._refused or not {a, b} <= self._ports.keys():
            return False
        for port_id in (a, b):
            self._refused.add(port_id)
            self._update_bond(port_id, 0)
            self._forget_hosts(port_id)
        self._count_change()
        return True

    def set_tunnel(self, port_id: PortId, *, is_tunnel: bool) -> None:
        """A frame came in by this port, out of a tunnel or not."""
        (self._tunnels.add if is_tunnel else self._tunnels.discard)(port_id)

    def is_tunnel(self, port_id: PortId) -> bool:
        """Whether this port is known to be the end of a tunnel."""
        return port_id in self._tunnels

    def expire_links(self, now_ns: int) -> list[Link]:
        """Drop the links that are no longer seen. To be called more often than the timeout."""
        expired = self._links.expire(now_ns, self._connected)
        if expired:
            self._count_change()
        return expired

    def peer(self, port_id: PortId) -> PortId | None:
        """The port at the other end of this one's link; None without a link that was seen."""
        return self._links.far_end(port_id) if self._links.is_seen(port_id) else None

    def link_ports(self) -> list[PortId]:
        """The ports that lead, or are presumed to lead, to another switch."""
        return self._links.ports

    def has_links(self, switch: int) -> bool:
        return any(port_id.switch == switch for port_id in self.link_ports())

    def links(self) -> list[Link]:
        return self._links.all

    def doubtful_links(self) -> set[Link]:
        """The links that kept failing, and those of switches whose control channel is lost for
        long."""
        distrusted = self._distrusted
        return set(self._links.doubtful) | {
            link for link in self.links() if {end.switch for end in link} & distrusted
        }

    # Protected links

    def protect(self, names: tuple[str, ...]) -> None:
        """Ports whose names match one of these patterns are ends of protected links."""
        if names != self._protected_names:
            self._protected_names = names
            self._version += 1
            self._count_change()

    def may_protect(self, port_id: PortId) -> bool:
        """Whether a port is meant to be an end of a protected link. No hosts are behind it."""
        state = self._ports.get(port_id) if self._protected_names else None
        return state is not None and any(
            fnmatchcase(state.port.name, pattern) for pattern in self._protected_names
        )

    def is_protected(self, link: Link) -> bool:
        return all(map(self.may_protect, link))

    def protected_links(self) -> list[Link]:
        """The protected links that are up, but for those on trial because they kept failing."""
        if not self._protected_names:
            return []
        doubtful = self._links.doubtful
        return [link for link in self.links() if link not in doubtful and self.is_protected(link)]

    def is_presumed(self, port_id: PortId) -> bool:
        """Whether this port led to a switch before the controller started, which discovery has
        neither confirmed nor denied yet."""
        return self._links.is_presumed(port_id)

    def _forget_hosts(self, port_id: PortId) -> None:
        for host in self.hosts_at(port_id):
            self.forget(host.mac)

    # Hosts

    def learn(self, mac: bytes, port_id: PortId) -> bool:
        """A host is behind an edge port. Returns whether it is new there."""
        host = self.hosts.get(mac)
        if host is not None and host.port == port_id:
            return False
        if host is None:
            host = self.hosts[mac] = Host(mac, port_id)
        else:
            self._leave_port(host)
            host.port = port_id
        self._hosts_at.setdefault(port_id, {})[mac] = host
        self.changes += 1
        self._changed_hosts.add(mac)
        return True

    def bind(self, mac: bytes, address: bytes, vlan: bytes = b"") -> None:
        """A known host has this address; its former owner does not any more."""
        self.unbind(address, vlan)
        self.address_changes += 1
        self._owners[vlan, address] = mac
        self._vlans_of.setdefault(address, set()).add(vlan)
        self.hosts[mac].addresses.add((vlan, address))

    def unbind(self, address: bytes, vlan: bytes = b"") -> None:
        """No host has this address."""
        previous = self._owners.pop((vlan, address), None)
        if previous is not None:
            self.address_changes += 1
            self.hosts[previous].addresses.discard((vlan, address))
            vlans = self._vlans_of[address]
            vlans.discard(vlan)
            if not vlans:
                del self._vlans_of[address]

    def owner(self, address: bytes, vlan: bytes = b"") -> Host | None:
        mac = self._owners.get((vlan, address))
        return self.hosts[mac] if mac is not None else None

    def owners(self, address: bytes) -> dict[bytes, Host]:
        """The hosts that have this address, by its VLAN."""
        vlans = self._vlans_of.get(address, ())
        return {vlan: self.hosts[self._owners[vlan, address]] for vlan in vlans}

    def owns(self, mac: bytes, address: bytes, vlan: bytes = b"") -> bool | None:
        """Whether a host, or another one behind its port, has an address. None if no host has: it
        is beyond a router."""
        owner = self._owners.get((vlan, address))
        return None if owner is None else owner == mac or self.together(owner, mac)

    def is_inside(self, end: bytes) -> bool:
        """Whether a host has an address, which follows its VLAN, if any; others are beyond a
        router."""
        return split_end(end) in self._owners

    def hosts_at(self, port_id: PortId) -> list[Host]:
        return list(self._hosts_at.get(port_id, {}).values())

    def n_hosts_at(self, port_id: PortId) -> int:
        return len(self._hosts_at.get(port_id, ()))

    def port_of(self, mac: bytes) -> PortId | None:
        """Where a host is; None if it is not known."""
        host = self.hosts.get(mac)
        return host.port if host is not None else None

    def together(self, mac: bytes, other: bytes) -> bool:
        """Whether two hosts are known to be behind the same port."""
        a, b = self.hosts.get(mac), self.hosts.get(other)
        return a is not None and b is not None and a.port == b.port

    def n_addresses_at(self, port_id: PortId) -> int:
        """How many addresses the hosts behind a port have."""
        return sum(len(host.addresses) for host in self._hosts_at.get(port_id, {}).values())

    def forget(self, mac: bytes) -> None:
        host = self.hosts[mac]
        for vlan, address in list(host.addresses):
            self.unbind(address, vlan)
        del self.hosts[mac]
        self._leave_port(host)
        self.changes += 1
        self._changed_hosts.add(mac)

    def _leave_port(self, host: Host) -> None:
        others = self._hosts_at[host.port]
        del others[host.mac]
        if not others:
            del self._hosts_at[host.port]

    def take_changed_hosts(self) -> set[bytes]:
        """The hosts that appeared, moved or disappeared since the last call."""
        changed, self._changed_hosts = self._changed_hosts, set()
        return changed

    # Paths

    @property
    def trees(self) -> Trees:
        """The paths in force between switches. They are over the present links, unless somebody
        prepares those step by step."""
        if self._coming is None and not self.is_large():
            while not self.prepare_paths():
                pass
        return self._trees

    @property
    def paths_version(self) -> int:
        """The version whose paths are in force."""
        return self._trees_version

    @property
    def spent(self) -> float:
        """The work on the paths that are in force and those that are in preparation."""
        return self._trees.spent + (self._coming.spent if self._coming else 0)

    def is_large(self) -> bool:
        """Whether paths are to be prepared step by step, because all at once would take long."""
        return self._links.n_seen > _MANY_ENDS

    def prepare_paths(self) -> bool:
        """Go one step further towards paths over the present links; returns whether paths are in
        force that were not before, or none are to be prepared.

        What has begun is brought to its end even if links have changed since: they may change all
        the time.
        """
        if self._coming is None:
            if self._trees_version == self.version:
                return True
            self._coming_version = self.version
            self._coming = Trees(
                [link for link in self.links() if not self.is_protected(link)],
                self._edge_switches(),
                frozenset(self._distrusted),
                self._links.doubtful,
                self._trees.roots,
                self._trees,
            )
        elif self._coming.prepare():
            self._trees, self._trees_version = self._coming, self._coming_version
            self._coming = None
            self._paths = {}
            return True
        return False

    def path(
        self, src_mac: bytes, dst_mac: bytes, path_id: int | None
    ) -> tuple[PortId, ...] | None:
        """The egress ports from host to host, ending with the receiver's; None without a path.

        An unknown path id counts as 0.
        """
        src, dst = self.hosts.get(src_mac), self.hosts.get(dst_mac)
        if src is None or dst is None:
            return None
        between = self.between(src.port.switch, dst.port.switch, path_id or 0)
        return None if between is None else (*between, self.bonds.member(dst.port, path_id or 0))

    def between(self, src: int, dst: int, path_id: int) -> tuple[PortId, ...] | None:
        """The egress ports from switch to switch; None without a path."""
        trees = self.trees
        key = src, dst, path_id
        if key not in self._paths:
            path = []
            switch = src
            while switch != dst:
                port = trees.next_port(switch, dst, path_id)
                far_end = None if port is None else self.peer(PortId(switch, port))
                if port is None or far_end is None:
                    break
                path.append(PortId(switch, port))
                switch = far_end.switch
            self._paths[key] = tuple(path) if switch == dst else None
        return self._paths[key]

    def _edge_switches(self) -> set[int]:
        """The switches with a port for hosts: one that is up and never led to a switch."""
        return {
            port_id.switch
            for port_id, state in self._ports.items()
            if state.port.up and port_id not in self._fabric_ports and not self.may_protect(port_id)
        }
