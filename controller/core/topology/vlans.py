"""Which VLANs a port carries, and in which form (IEEE 802.1Q clause 6.9).

Without any rule, every port carries every VLAN as it comes. With rules, the ports that they name
are members of the VLANs that they say, and all other ports for hosts carry frames without a tag
only, which are in no VLAN. Links between switches carry all VLANs, with tags. Within the fabric a
frame has the tag of its VLAN, whatever it has on the wire of its port.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller.core.topology.named_ports import NamedPorts
from controller.model.values import Port
from controller.model.vlans import TAG_BYTES, outer_vlan_of, tag


@dataclass(frozen=True, slots=True)
class Membership:
    """The VLANs of a port: those that it carries with tags, and the one that its frames without a
    tag are in (empty: it takes none without)."""

    tagged: frozenset[bytes] = frozenset()
    untagged: bytes = b""

    @property
    def all(self) -> list[bytes]:
        return sorted(self.tagged | ({self.untagged} if self.untagged else set()))

    def on_wire(self, tags: bytes) -> bytes | None:
        """The tags that a frame with these has on the wire of the port; None if the port does not
        carry its VLAN."""
        vlan = outer_vlan_of(tags)
        if vlan and vlan == self.untagged:
            return tags[TAG_BYTES:]
        return tags if vlan in self.tagged else None


@dataclass(frozen=True, slots=True)
class VlanRule(NamedPorts):
    """The VLANs of some ports."""

    membership: Membership


class Ways(NamedTuple):
    """Ports that a frame leaves by as it is, and those by which it leaves without its tag."""

    tagged: tuple[int, ...]
    untagged: tuple[int, ...]


class Vlans:
    """The VLANs of all ports, by rules, of which the first that fits a port decides."""

    def __init__(self, rules: Iterable[VlanRule] = ()) -> None:
        self._rules = tuple(rules)

    def __bool__(self) -> bool:
        """Whether ports carry some VLANs only."""
        return bool(self._rules)

    @property
    def all(self) -> list[bytes]:
        """All VLANs that rules name, and none (empty)."""
        named = {vlan for rule in self._rules for vlan in rule.membership.all}
        return [b"", *sorted(named)]

    def membership(self, switch: int, port: Port) -> Membership | None:
        """The VLANs of a port that a rule names; None if none does."""
        return next((rule.membership for rule in self._rules if rule.fits(switch, port)), None)

    def ways_out(
        self,
        vlan: bytes | None,
        links: Iterable[int],
        edges: Mapping[int, Membership | None],
    ) -> Ways:
        """By which links and ports for hosts a frame in a VLAN leaves (empty: in none; None:
        whatever VLAN it is in)."""
        tagged, untagged, tags = set(links), set[int](), tag(vlan or b"")
        for port, membership in edges.items():
            form = self.on_wire(membership, tags)
            if form is not None:
                (untagged if vlan and not form else tagged).add(port)
        return Ways(tuple(sorted(tagged)), tuple(sorted(untagged)))

    def on_wire(self, membership: Membership | None, tags: bytes) -> bytes | None:
        """The tags that a frame with these has on the wire of a port for hosts, with the VLANs that
        a rule names for it; None if the port does not carry its VLAN."""
        if not self._rules:
            return tags
        if membership is not None:
            return membership.on_wire(tags)
        return None if outer_vlan_of(tags) else tags
