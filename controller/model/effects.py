"""What the core wants done: plain values. The application turns them into messages."""

from dataclasses import dataclass
from typing import NamedTuple

from controller.model.entries import Entry
from controller.model.values import FlowClass, Hold, PortId


@dataclass(frozen=True, slots=True)
class Install:
    """Add the entry; it replaces one with the same key."""

    switch: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Delete the entry."""

    switch: int
    entry: Entry


class RegisterWindow(NamedTuple):
    """The new limit of a window register, and the egress port and flow class that it is for."""

    register: int
    port: int
    cls: FlowClass
    hold: Hold


class SetWindows(NamedTuple):
    """Set window registers of a switch, in one message."""

    switch: int
    windows: tuple[RegisterWindow, ...]
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Remind:
    """Call `Engine.widen` at this time."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class GoOn:
    """Call `Engine.go_on` as soon as others have had their turn: there is more to do."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Send this frame out of these ports."""

    ports: tuple[PortId, ...]
    frame: bytes


@dataclass(frozen=True, slots=True)
class NeighbourReply:
    """Answer ARP or neighbour discovery: send the asker, out of `port`, that `address` is at `mac`.

    `tags` are the VLAN tags of the question.
    """

    port: PortId
    mac: bytes
    address: bytes
    asker_mac: bytes
    asker_address: bytes
    tags: bytes = b""


@dataclass(frozen=True, slots=True)
class AddressProbe:
    """Ask a host, out of its `port`, whether it still has the address (RFC 5227, RFC 4862).

    `asker_mac` is no host's address.
    """

    port: PortId
    mac: bytes
    address: bytes
    asker_mac: bytes
    tags: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupQuery:
    """Ask the hosts behind a port who is in a multicast group, or for all groups if it is zero (of
    4 or 16 bytes), to be answered within so many seconds. `asker_mac` is no host's address."""

    port: PortId
    group: bytes
    within_s: int
    asker_mac: bytes
    tags: bytes = b""


@dataclass(frozen=True, slots=True)
class LinkProbe:
    """Send a discovery frame out of this port."""

    port: PortId
    mac: bytes


@dataclass(frozen=True, slots=True)
class ReadFlowCounters:
    """Ask a switch for its flow counters."""

    switch: int


@dataclass(frozen=True, slots=True)
class ReadQueues:
    """Ask a switch for the state of its egress queues."""

    switch: int


@dataclass(frozen=True, slots=True)
class RepeatNotices:
    """Have a switch repeat the notice of a port at this interval while the port is congested.

    0 leaves the interval to the queue's configuration.
    """

    switch: int
    port: int
    interval_us: int


@dataclass(frozen=True, slots=True)
class ReadPorts:
    """Ask a switch for the counters of its ports."""

    switch: int


@dataclass(frozen=True, slots=True)
class ReadTunnels:
    """Ask a switch for what has come in within tunnels."""

    switch: int


@dataclass(frozen=True, slots=True)
class Audit:
    """Ask a switch for all that it holds."""

    switch: int


@dataclass(frozen=True, slots=True)
class TimeControl:
    """Measure the round trip of a control channel: ask the switch for an answer, at `sent_ns`."""

    switch: int
    sent_ns: int


@dataclass(frozen=True, slots=True)
class TellShare:
    """Tell the followers of an announced flow its new share, or that the flow is gone."""

    flow: str


@dataclass(frozen=True, slots=True)
class Warn:
    """Log that something is wrong with a switch which a person can mend."""

    switch: int
    text: str


class Record(NamedTuple):
    """Write a line to the event log."""

    event: str
    fields: dict[str, object]


Order = (
    Install
    | Withdraw
    | SetWindows
    | RepeatNotices
    | ReadFlowCounters
    | ReadQueues
    | ReadPorts
    | ReadTunnels
    | TimeControl
    | Audit
)
Effect = (
    Order
    | Remind
    | GoOn
    | Deliver
    | NeighbourReply
    | AddressProbe
    | GroupQuery
    | LinkProbe
    | TellShare
    | Warn
    | Record
)
