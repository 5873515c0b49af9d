"""What a switch holds, entry by entry, free of OpenFlow.

An entry has a `key`, which says which entry it is, and a value, which may change under the same
key. `southbound/switch/encoding.py` turns entries into flow entries and back: a new kind of entry
needs a class here and a pair of functions there.
"""

from dataclasses import dataclass
from typing import NamedTuple

from controller.model.flow import FlowKey


class EntryKey(NamedTuple):
    """Identity of an entry on its switch."""

    kind: str
    identity: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class LinkPort:
    """What enters by this port comes from another switch and was looked at there."""

    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("link", (self.port,))


@dataclass(frozen=True, slots=True)
class Relearn:
    """For a short while, copy up segments of uncounted flows that enter by this edge port."""

    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("relearn", (self.port,))


@dataclass(frozen=True, slots=True)
class AssignPathIds:
    """Frames get a path id from a hash of their connection; without this entry they have none."""

    @property
    def key(self) -> EntryKey:
        return EntryKey("path-ids", ())


@dataclass(frozen=True, slots=True)
class Steer:
    """Datagrams of UDP from `src` to `dst`, packed addresses, have this path id, whatever their
    ports."""

    src: bytes
    dst: bytes
    path_id: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("steer", (self.src, self.dst))


@dataclass(frozen=True, slots=True)
class FlowCounter:
    """Count the bytes of one flow. `forward` tells whether its data is the initiator's.

    The path id is that of its frames, None if they have none.
    """

    flow: FlowKey
    forward: bool
    path_id: int | None = None

    @property
    def key(self) -> EntryKey:
        return EntryKey("flow-counter", (self.flow,))


@dataclass(frozen=True, slots=True)
class HostWindow:
    """Segments that enter by `port` from `address` carry no larger window than the register's."""

    port: int
    address: bytes
    register: int
    window_scale: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("host-window", (self.port, self.address))


@dataclass(frozen=True, slots=True)
class PortWindow:
    """Segments that enter by `port` from hosts without a HostWindow are in the register's account
    of credit; the switch goes by the window scales that it has seen in their SYNs."""

    port: int
    register: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("port-window", (self.port,))


@dataclass(frozen=True, slots=True)
class FlowWindow:
    """An exception to HostWindow for one connection; `segments` is the direction of its ACKs."""

    port: int
    segments: FlowKey
    register: int
    window_scale: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("flow-window", (self.port, self.segments))


@dataclass(frozen=True, slots=True)
class Forward:
    """Frames to `mac`, a host of this switch, leave by `port`."""

    mac: bytes
    port: int

    @property
    def key(self) -> EntryKey:
        return forward_key(self.mac)


@dataclass(frozen=True, slots=True)
class ForwardVia:
    """Frames to `mac` go to another switch first, that of this datapath id."""

    mac: bytes
    switch: int

    @property
    def key(self) -> EntryKey:
        return forward_key(self.mac)


def forward_key(mac: bytes) -> EntryKey:
    """There is one entry for a host, wherever it is."""
    return EntryKey("forward", (mac,))


@dataclass(frozen=True, slots=True)
class NextHop:
    """Frames to another switch leave by `port`; without `path_id`, those of all other path ids."""

    destination: int
    path_id: int | None
    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("next-hop", (self.destination, self.path_id))


@dataclass(frozen=True, slots=True)
class Exempt:
    """Windows stay as they are of all connections with an end in the network and at the TCP port.

    As `policy.Rule` has them: no network is empty, no port 0.
    """

    network: bytes
    prefix_bits: int
    port: int

    @property
    def key(self) -> EntryKey:
        return EntryKey("exempt", (self.network, self.prefix_bits, self.port))


Entry = (
    LinkPort
    | Relearn
    | AssignPathIds
    | Steer
    | FlowCounter
    | HostWindow
    | PortWindow
    | FlowWindow
    | Forward
    | ForwardVia
    | NextHop
    | Exempt
)


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """An entry that a switch holds, and its age. `volume_bytes` is the payload that a FlowCounter
    has counted, 0 for all other entries."""

    entry: Entry
    volume_bytes: int
    age_ns: int
