"""What the core has a switch hold, entry by entry, in terms that are not OpenFlow's.

An entry has a key and a value: an entry with the same key and another value replaces it.
`southbound/switch/encoding` turns entries into flow entries and back, so a new kind of entry
needs a class here and a pair of functions there.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

from controller.model.flow import FlowKey


class EntryKey(NamedTuple):
    """Identity of an entry on its switch."""

    kind: str
    identity: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class LinkPort:
    """The port leads to another switch, so what enters by it was copied up elsewhere."""

    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("link", (self.port,))


@dataclass(frozen=True, slots=True)
class Relearn:
    """For a few seconds, copy up the segments that enter by this edge port and are not counted."""

    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("relearn", (self.port,))


@dataclass(frozen=True, slots=True)
class VlanFilter:
    """Frames in a VLAN enter by links only, and by the ports that carry it."""

    @property
    def key(self) -> EntryKey:
        return EntryKey("vlan-filter", ())


@dataclass(frozen=True, slots=True)
class VlanPort:
    """The port takes and gets only what is in one of its VLANs."""

    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("vlan-port", (self.port,))


@dataclass(frozen=True, slots=True)
class TaggedIngress:
    """Frames with the tag of this VLAN enter by the port."""

    port: int
    vlan: bytes

    @property
    def key(self) -> EntryKey:
        return EntryKey("tagged-ingress", (self.port, self.vlan))


@dataclass(frozen=True, slots=True)
class UntaggedIngress:
    """Frames without the tag of a VLAN that enter by the port are in this one."""

    port: int
    vlan: bytes

    @property
    def key(self) -> EntryKey:
        return EntryKey("untagged-ingress", (self.port,))


@dataclass(frozen=True, slots=True)
class VlanEgress:
    """Frames in this VLAN leave by the port, with its tag or without."""

    port: int
    vlan: bytes
    tagged: bool

    @property
    def key(self) -> EntryKey:
        return EntryKey("vlan-egress", (self.port, self.vlan))


# For how long a switch relies on the controller without being told again.
CONTROLLER_ANSWERS_S = 10


@dataclass(frozen=True, slots=True)
class ControllerAnswers:
    """For a few seconds, questions of ARP and neighbour discovery, and frames to hosts that the
    switch does not know, go to the controller only: without it they are flooded."""

    @property
    def key(self) -> EntryKey:
        return EntryKey("controller-answers", ())


@dataclass(frozen=True, slots=True)
class FloodFrom:
    """Frames to a group that enter by this port are flooded. If it is `of_hosts`, only so many are,
    and these are copied up, too. If it `counts_as` another port of its bond, they do not leave by
    that."""

    port: int
    of_hosts: bool
    counts_as: int | None = None

    @property
    def key(self) -> EntryKey:
        return EntryKey("flood-from", (self.port,))


@dataclass(frozen=True, slots=True)
class FloodTo:
    """What is flooded in a VLAN (empty: in none; None: whatever VLAN it is in) leaves by the
    `tagged` ports as it is and by the `untagged` ones without its tag; never where it has entered.
    """

    vlan: bytes | None
    tagged: tuple[int, ...]
    untagged: tuple[int, ...] = ()

    @property
    def key(self) -> EntryKey:
        return EntryKey("flood-to", (self.vlan,))


@dataclass(frozen=True, slots=True)
class GroupsFollowed:
    """For a few seconds, each GroupTo and GroupMessages is in force, in all VLANs or, if it is
    `untagged`, in none only. Without it, all of that is flooded."""

    untagged: bool

    @property
    def key(self) -> EntryKey:
        return EntryKey("groups-followed", ())


@dataclass(frozen=True, slots=True)
class GroupMessages:
    """Messages of IGMP, MLD and PIM that enter by this port go to the controller only, which sends
    them on."""

    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("group-messages", (self.port,))


@dataclass(frozen=True, slots=True)
class GroupTo:
    """What is sent to a group (packed IPv4 or IPv6 address) in a VLAN (empty: none) leaves by these
    ports only, as with FloodTo."""

    vlan: bytes
    group: bytes
    tagged: tuple[int, ...]
    untagged: tuple[int, ...] = ()

    @property
    def key(self) -> EntryKey:
        return EntryKey("group-to", (self.vlan, self.group))


@dataclass(frozen=True, slots=True)
class AssignPathIds:
    """Frames get a path id from a hash of their connection; without this entry they have none."""

    @property
    def key(self) -> EntryKey:
        return EntryKey("path-ids", ())


@dataclass(frozen=True, slots=True)
class Steer:
    """All UDP datagrams from `src` to `dst` (packed addresses) in a VLAN (empty: none) get this
    path id."""

    src: bytes
    dst: bytes
    path_id: int
    vlan: bytes = b""

    @property
    def key(self) -> EntryKey:
        return EntryKey("steer", (self.src, self.dst, self.vlan))


@dataclass(frozen=True, slots=True)
class FlowCounter:
    """Count the bytes of one flow.

    `forward` if the flow is the initiator's data. `path_id` is that of its frames, None if they
    have none.
    """

    flow: FlowKey
    forward: bool
    path_id: int | None = None

    @property
    def key(self) -> EntryKey:
        return EntryKey("flow-counter", (self.flow,))


@dataclass(frozen=True, slots=True)
class TunnelCounter:
    """Count the datagrams of tunnels that enter by the port."""

    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("tunnel-counter", (self.port,))


@dataclass(frozen=True, slots=True)
class ServiceWatch:
    """Copy up what the hosts `client` and `server` (packed addresses) send to each other in a VLAN
    (empty: none) from and to the server's TCP port, if it is pushed (RFC 9293 section 3.9.1.2) and
    not counted: one of the connections is dormant."""

    client: bytes
    server: bytes
    tcp_port: int
    vlan: bytes = b""

    @classmethod
    def of(cls, flow: FlowKey) -> Self:
        """The watch for a flow from a client to its server."""
        return cls(flow.src, flow.dst, flow.dst_port, flow.vlan)

    @property
    def ends(self) -> tuple[bytes, bytes]:
        """Both hosts, each its VLAN, if any, and its address."""
        return self.vlan + self.client, self.vlan + self.server

    @property
    def key(self) -> EntryKey:
        return EntryKey("service-watch", (self.client, self.server, self.tcp_port, self.vlan))


@dataclass(frozen=True, slots=True)
class HostWindow:
    """Lower the window in segments from `address` in a VLAN (empty: none) that enter by `port` to
    the register's window."""

    port: int
    address: bytes
    register: int
    window_scale: int
    vlan: bytes = b""

    @property
    def end(self) -> bytes:
        """The host: its VLAN, if any, and its address."""
        return self.vlan + self.address

    @property
    def key(self) -> EntryKey:
        return EntryKey("host-window", (self.port, self.end))


@dataclass(frozen=True, slots=True)
class PortWindow:
    """Put segments that enter by `port` from hosts without a HostWindow into the register's account
    of credit. The switch reads their window scales from their SYNs."""

    port: int
    register: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("port-window", (self.port,))


@dataclass(frozen=True, slots=True)
class FlowWindow:
    """A HostWindow for one connection, before that of its host; `segments` names its ACKs."""

    port: int
    segments: FlowKey
    register: int
    window_scale: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("flow-window", (self.port, self.segments))


@dataclass(frozen=True, slots=True)
class BondIngress:
    """Frames with this path id (None: to groups) that enter by `port`, a member of a bond, count as
    having entered by `member`, another one: that by which the other direction leaves."""

    port: int
    path_id: int | None
    member: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("bond-ingress", (self.port, self.path_id))


@dataclass(frozen=True, slots=True)
class BondEgress:
    """Frames with this path id to the hosts of the bond of `port` leave by `member`; if `by_vlan`,
    only those in its VLANs, in the form that they have there.

    If `path_id` is None, it is for all path ids that have no entry of their own.
    """

    port: int
    path_id: int | None
    member: int
    by_vlan: bool = False

    @property
    def key(self) -> EntryKey:
        return EntryKey("bond-egress", (self.port, self.path_id))


@dataclass(frozen=True, slots=True)
class Forward:
    """Frames to `mac`, a host of this switch, leave by `port`; if `by_vlan`, only those in its
    VLANs, in the form that they have there; if `by_bond`, by BondEgress."""

    mac: bytes
    port: int
    by_vlan: bool = False
    by_bond: bool = False

    @property
    def key(self) -> EntryKey:
        return forward_key(self.mac)


@dataclass(frozen=True, slots=True)
class ForwardVia:
    """Frames to `mac` go to another switch, by NextHop; `switch` is its datapath id."""

    mac: bytes
    switch: int

    @property
    def key(self) -> EntryKey:
        return forward_key(self.mac)


def forward_key(mac: bytes) -> EntryKey:
    """Forward and ForwardVia share a key, so there is one entry for each host."""
    return EntryKey("forward", (mac,))


@dataclass(frozen=True, slots=True)
class NextHop:
    """Frames to switch `destination` with this path id leave by `port`.

    If `path_id` is None, it is for all path ids that have no entry of their own.
    """

    destination: int
    path_id: int | None
    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("next-hop", (self.destination, self.path_id))


@dataclass(frozen=True, slots=True)
class ProtectedHop:
    """TCP segments to switch `destination` leave by `port`, the end of a protected link that leads
    there, whatever their path id; while the port has no carrier, by NextHop."""

    destination: int
    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("protected-hop", (self.destination,))


@dataclass(frozen=True, slots=True)
class Exempt:
    """Do not touch the windows of connections with one end in the network and at the TCP port.

    An empty network stands for any address, port 0 for any port.
    """

    network: bytes
    prefix_bits: int
    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("exempt", (self.network, self.prefix_bits, self.port))


Entry = (
    LinkPort
    | ControllerAnswers
    | FloodFrom
    | FloodTo
    | GroupsFollowed
    | GroupMessages
    | GroupTo
    | VlanFilter
    | VlanPort
    | TaggedIngress
    | UntaggedIngress
    | VlanEgress
    | Relearn
    | AssignPathIds
    | Steer
    | FlowCounter
    | TunnelCounter
    | ServiceWatch
    | HostWindow
    | PortWindow
    | FlowWindow
    | BondIngress
    | BondEgress
    | Forward
    | ForwardVia
    | NextHop
    | ProtectedHop
    | Exempt
)


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """An entry that a switch holds, and its age. `volume_bytes` is the payload that a FlowCounter
    has counted, 0 for all other entries."""

    entry: Entry
    volume_bytes: int
    age_ns: int
