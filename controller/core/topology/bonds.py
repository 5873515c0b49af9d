"""Bonds: ports of one switch that lead to the same hosts over several cables (IEEE 802.1AX).

To the fabric a bond is one place. A connection's frames to its hosts leave by the member that its
path id belongs to, so each member is an egress port with a queue and connections of its own. Hosts
spread what they send by a rule of their own: the switch counts it as having entered by the member
that the other direction leaves by (`BondIngress`), so that paths stay symmetric.

Parallel links between switches are no bonds: `trees` spreads path ids over them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.core.topology.named_ports import NamedPorts
from controller.model.values import N_PATH_IDS, Port, PortId

_Key = tuple[int, int]  # A switch, and the number of a rule.


@dataclass(slots=True)
class Bond:
    """The ports that are there, and in order those that carry frames. `place` is the one that
    stands for all; None as long as none of them has been up. `members` are the ports that frames of
    each path id leave by; empty if there is none. `seats` are the numbers of all ports that there
    have been, `settled` those of ports that surely lead to hosts."""

    ports: dict[int, Port] = field(default_factory=dict)
    seats: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    usable: tuple[int, ...] = ()
    members: tuple[int, ...] = ()
    place: int | None = None

    def deal(self) -> None:
        """Deal the path ids to all seats in turn. Those of a port that carries nothing are dealt to
        the others, to those with fewest first; no other path id moves."""
        seats = sorted(self.seats)
        homes = [seats[path_id % len(seats)] for path_id in range(N_PATH_IDS)]
        load = {port: homes.count(port) for port in self.usable}
        members = []
        for home in homes if load else ():
            member = home
            if home not in load:
                member = min(self.usable, key=load.__getitem__)
                load[member] += 1
            members.append(member)
        self.members = tuple(members)


class Bonds:
    """The bonds of all switches, by rules; on each switch that has ports of its, a rule makes one
    bond. `version` rises when a bond has other ports."""

    def __init__(self, rules: Iterable[NamedPorts] = ()) -> None:
        self._rules = tuple(rules)
        self._bonds: dict[_Key, Bond] = {}
        self._key_of: dict[PortId, _Key] = {}
        self._telling: set[int] = set()
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self._rules)

    def bond(self, port_id: PortId) -> Bond | None:
        """The bond that a port is a member of."""
        key = self._key_of.get(port_id)
        return None if key is None else self._bonds[key]

    @property
    def all(self) -> list[tuple[int, Bond]]:
        """All bonds, each with its switch."""
        return [(switch, bond) for (switch, _), bond in sorted(self._bonds.items())]

    def set_port(self, switch: int, port: Port, *, settled: bool) -> None:
        """Add a port or update its description, by which it may be in another bond or in none. It
        may lead to a switch unless it is `settled`."""
        port_id = PortId(switch, port.number)
        if port.live and switch not in self._telling:
            self._telling.add(switch)
            for (of, _), bond in self._bonds.items():
                if of == switch:
                    self._update(switch, bond)
        named = (number for number, rule in enumerate(self._rules) if rule.fits(switch, port))
        number = next(named, None)
        if self._key_of.get(port_id) != (switch, number):
            self.remove_port(port_id)
        if number is not None:
            key = self._key_of[port_id] = switch, number
            bond = self._bonds.setdefault(key, Bond())
            bond.ports[port.number] = port
            bond.seats.add(port.number)
            (bond.settled.add if settled else bond.settled.discard)(port.number)
            self._update(switch, bond)

    def settle(self, port_id: PortId) -> None:
        """A port surely leads to hosts, which counts from the next `set_port` in its bond on."""
        bond = self.bond(port_id)
        if bond is not None:
            bond.settled.add(port_id.port)

    def remove_port(self, port_id: PortId) -> None:
        key = self._key_of.pop(port_id, None)
        if key is not None:
            bond = self._bonds[key]
            del bond.ports[port_id.port]
            if bond.ports:
                self._update(port_id.switch, bond)
            else:
                del self._bonds[key]
                self.version += 1

    def place(self, port_id: PortId) -> PortId:
        """Where hosts behind a port are: at the port that stands for its bond, or at itself."""
        bond = self.bond(port_id)
        if bond is None or bond.place is None:
            return port_id
        return PortId(port_id.switch, bond.place)

    def member(self, port_id: PortId, path_id: int) -> PortId:
        """The port that frames with a path id to the hosts behind a port leave by."""
        bond = self.bond(port_id)
        if bond is None or not bond.members:
            return port_id
        return PortId(port_id.switch, bond.members[path_id])

    def _update(self, switch: int, bond: Bond) -> None:
        """Of the ports that are up, those carry frames that are live: with LACP, those on which the
        other end takes part. A switch that says it of no port does not tell. Those that may lead to
        a switch are used if there are no others."""
        tells = switch in self._telling
        up = sorted(n for n, port in bond.ports.items() if port.up and (port.live or not tells))
        bond.usable = tuple(number for number in up if number in bond.settled) or tuple(up)
        if bond.usable and bond.place not in bond.usable:
            bond.place = bond.usable[0]
        bond.deal()
        self.version += 1
