"""Who may say that a host or an address is at a port: nobody takes what is another's for long, or
fills the tables with what is not there.

A host that moves is believed at once, since virtual machines do. But it is asked for where it was
(`resolution`), and if it answers there, somebody has pretended: then it stays there for a while,
each time for longer.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from controller.core.topology.fabric import Fabric
from controller.model.effects import Effect, Record, Warn
from controller.model.values import PortId

QUIET_NS = 10 * 10**9
BARE_FOR_NS = 1800 * 10**9
SEARCH_EVERY_NS = 10**9
# A host that is asked whether it has moved answers within this time, if it has not.
DENIED_WITHIN_NS = 10**9
BACK_WITHIN_NS = 10 * 10**9
HOLD_NS, LONGEST_HOLD_NS = 60 * 10**9, 3600 * 10**9
_LIMIT = 4096
# As many places of one thing are remembered.
_PLACES = 8


class Refusal(StrEnum):
    """Why something is not believed, in the words of the event log."""

    HOSTS = "hosts"
    ADDRESSES = "addresses"
    HOST_ELSEWHERE = "host elsewhere"
    ADDRESS_TAKEN = "address taken"
    ADDRESS_BORROWED = "address borrowed"


_TEXTS = {
    Refusal.HOSTS: "has more hosts than fabric.hosts_per_port",
    Refusal.ADDRESSES: "has more addresses than fabric.addresses_per_port",
    Refusal.HOST_ELSEWHERE: "sends from the Ethernet address of a host at another port",
    Refusal.ADDRESS_TAKEN: "claims the IP address of another host",
    Refusal.ADDRESS_BORROWED: "sends TCP segments from the IP address of a host at another port",
}


@dataclass(frozen=True, slots=True)
class BoundHost:
    """This host is at this port only, given by number or name."""

    mac: bytes
    switch: int
    port: int | str


@dataclass(frozen=True, slots=True)
class PortSecuritySettings:
    """How many hosts, and addresses of hosts, are learnt at one port. Without `moves`, a host stays
    where it was first heard until its port goes down or it is silent for long."""

    hosts_per_port: int = 1024
    addresses_per_port: int = 4096
    moves: bool = True
    bound: tuple[BoundHost, ...] = ()


class PortSecurity:
    """Admits hosts and addresses to ports. `refused` counts what was not believed.

    `doubt` is called with a host that is said to be elsewhere, and is not believed to be, and the
    time: it is asked for where it is, and forgotten if it does not answer.
    """

    def __init__(
        self,
        fabric: Fabric,
        settings: PortSecuritySettings,
        emit: Callable[[Effect], None],
        doubt: Callable[[bytes, int], None],
    ) -> None:
        self._fabric = fabric
        self._settings = settings
        self._emit = emit
        self._doubt = doubt
        self._bound = {host.mac: host for host in settings.bound}
        self._moves = _Damping()
        self._takeovers = _Damping()
        # Hosts without an address: nobody can ask for them.
        self._bare_since: dict[bytes, int] = {}
        self._searched_ns: dict[PortId, int] = {}
        self._since: dict[tuple[PortId, Refusal], int] = {}  # By when it was last refused.
        self.refused: dict[tuple[PortId, Refusal], int] = {}

    def admits_host(self, mac: bytes, port_id: PortId, now_ns: int) -> bool:
        """Whether a host is believed to be at a port that it was not at."""
        host = self._fabric.hosts.get(mac)
        bound = self._bound.get(mac)
        if bound is not None and not self._is(bound, port_id):
            return self._refuse(port_id, Refusal.HOST_ELSEWHERE, now_ns)
        if not self._has_room(port_id, now_ns):
            return self._refuse(port_id, Refusal.HOSTS, now_ns)
        if host is None:
            self._bare_since[mac] = now_ns
            return True
        before = host.port
        move = self._moves.judge(mac, before, port_id, now_ns) if self._settings.moves else None
        if move is _Move.BACK:
            self._refuse(before, Refusal.HOST_ELSEWHERE, now_ns)
        elif move is not _Move.BELIEVED:
            if move is _Move.HELD:
                self._doubt(mac, now_ns)
            return self._refuse(port_id, Refusal.HOST_ELSEWHERE, now_ns)
        return True

    def has_just_moved(self, mac: bytes, now_ns: int) -> bool:
        """Whether a host was said to have moved so lately that it could not deny it yet."""
        return self._moves.since_ns(mac) > now_ns - DENIED_WITHIN_NS

    def lost_address(self, mac: bytes, now_ns: int) -> None:
        """A host may have no address any more, so nobody can ask for it."""
        host = self._fabric.hosts.get(mac)
        if host is not None and not host.addresses:
            self._bare_since[mac] = now_ns

    def _has_room(self, port_id: PortId, now_ns: int) -> bool:
        """Whether there is room for one more host, if need be for one that nobody can ask for and
        that has been there for long."""
        if self._fabric.n_hosts_at(port_id) < self._settings.hosts_per_port:
            return True
        if now_ns - self._searched_ns.get(port_id, -SEARCH_EVERY_NS) < SEARCH_EVERY_NS:
            return False
        self._searched_ns[port_id] = now_ns
        for host in self._fabric.hosts_at(port_id):
            since_ns = self._bare_since.get(host.mac, now_ns)
            if not host.addresses and now_ns - since_ns >= BARE_FOR_NS:
                self._fabric.forget(host.mac)
                self._emit(Record("host_lost", {"mac": host.mac.hex(":")}))
                return True
        return False

    def admits_address(self, mac: bytes, vlan: bytes, address: bytes, now_ns: int) -> bool:
        """Whether a known host is believed to have an address that it had not."""
        fabric = self._fabric
        owner, port_id = fabric.owner(address, vlan), fabric.hosts[mac].port
        if fabric.n_addresses_at(port_id) >= self._settings.addresses_per_port:
            return self._refuse(port_id, Refusal.ADDRESSES, now_ns)
        if owner is None:
            return True
        move = self._takeovers.judge((vlan, address), owner.mac, mac, now_ns)
        if move is _Move.BACK:
            self._refuse(owner.port, Refusal.ADDRESS_TAKEN, now_ns)
        elif move is not _Move.BELIEVED:
            self._doubt(owner.mac, now_ns)
            return self._refuse(port_id, Refusal.ADDRESS_TAKEN, now_ns)
        return True

    def refuse_segment(self, mac: bytes, vlan: bytes, address: bytes, now_ns: int) -> None:
        """A host has sent a segment of others' connection from the address of one of them."""
        port_id = self._fabric.port_of(mac)
        if port_id is None:
            return
        # Whose address it is may be the lie of another one.
        if self._takeovers.since_ns((vlan, address)) <= now_ns - BACK_WITHIN_NS:
            self._refuse(port_id, Refusal.ADDRESS_BORROWED, now_ns)

    def fullness(self) -> dict[str, tuple[int, int]]:
        """How full the tables of hosts are, and how full they can be."""
        fabric, settings = self._fabric, self._settings
        ports = {host.port for host in fabric.hosts.values()}
        addresses = max(map(fabric.n_addresses_at, ports), default=0)
        return {
            "hosts at one port": (
                max(map(fabric.n_hosts_at, ports), default=0),
                settings.hosts_per_port,
            ),
            "addresses at one port": (addresses, settings.addresses_per_port),
        }

    def tend(self, now_ns: int) -> None:
        """Report the ports at which all has been believed for QUIET_NS."""
        hosts = self._fabric.hosts
        for mac in list(self._bare_since):
            if mac not in hosts or hosts[mac].addresses:
                del self._bare_since[mac]
        self._moves.tend(now_ns)
        self._takeovers.tend(now_ns)
        for (port_id, refusal), seen_ns in list(self._since.items()):
            if now_ns - seen_ns >= QUIET_NS:
                del self._since[port_id, refusal]
                fields = self._fields(port_id, refusal)
                fields["refused"] = self.refused.get((port_id, refusal), 0)
                self._emit(Record("port_believed", fields))

    def forget(self, switch: int) -> None:
        """A switch is gone for good."""
        for known in (self._since, self.refused):
            for key in [key for key in known if key[0].switch == switch]:
                del known[key]
        for port_id in [port_id for port_id in self._searched_ns if port_id.switch == switch]:
            del self._searched_ns[port_id]

    def _is(self, bound: BoundHost, port_id: PortId) -> bool:
        """Whether a host is bound to a port, or to another one of its bond."""
        port, bond = self._fabric.port(port_id), self._fabric.bonds.bond(port_id)
        ports = bond.ports.values() if bond else [port] if port else []
        names = {name for one in ports for name in (one.number, one.name)}
        return bound.switch == port_id.switch and bound.port in names

    def _refuse(self, port_id: PortId, refusal: Refusal, now_ns: int) -> bool:
        """Count and report; returns False."""
        key = port_id, refusal
        if key in self.refused or len(self.refused) < _LIMIT:
            self.refused[key] = self.refused.get(key, 0) + 1
        if key in self._since or len(self._since) < _LIMIT:
            if key not in self._since:
                self._emit(Record("port_disbelieved", self._fields(port_id, refusal)))
                text = f"port {port_id.port} {_TEXTS[refusal]}, which is not believed"
                self._emit(Warn(port_id.switch, text))
            self._since[key] = now_ns
        return False

    @staticmethod
    def _fields(port_id: PortId, refusal: Refusal) -> dict[str, object]:
        return {"port": str(port_id), "reason": refusal.value}


class _Move(Enum):
    BELIEVED = auto()
    BACK = auto()
    HELD = auto()


@dataclass(slots=True)
class _Hold:
    until_ns: int
    hold_ns: int


class _Damping:
    """Whether something that moves from one place to another is believed to."""

    def __init__(self) -> None:
        # Where it was lately, and until when; the first that has moved first.
        self._moved: dict[Hashable, dict[Hashable, int]] = {}
        self._held: dict[Hashable, _Hold] = {}

    def judge(self, thing: Hashable, here: Hashable, there: Hashable, now_ns: int) -> _Move:
        """Something that is known to be here is said to be there."""
        held = self._held.get(thing)
        if held is not None and now_ns < held.until_ns:
            return _Move.HELD
        places = self._moved.pop(thing, {})
        if now_ns - places.get(there, -BACK_WITHIN_NS) < BACK_WITHIN_NS:
            hold_ns = min(2 * held.hold_ns, LONGEST_HOLD_NS) if held else HOLD_NS
            self._held[thing] = _Hold(now_ns + hold_ns, hold_ns)
            return _Move.BACK
        recent = {place: at for place, at in places.items() if now_ns - at < BACK_WITHIN_NS}
        recent[here] = now_ns
        self._moved[thing] = dict(list(recent.items())[-_PLACES:])
        return _Move.BELIEVED

    def since_ns(self, thing: Hashable) -> int:
        """When it has moved last; long ago if it has not lately."""
        return max(self._moved.get(thing, {}).values(), default=-BACK_WITHIN_NS)

    def tend(self, now_ns: int) -> None:
        """Forget what was long ago."""
        for thing, places in list(self._moved.items()):
            if now_ns - max(places.values()) < BACK_WITHIN_NS:
                break
            del self._moved[thing]
        for thing, held in list(self._held.items()):
            if now_ns >= held.until_ns + held.hold_ns:
                del self._held[thing]
