"""What the core wants done: plain values that the application turns into messages."""

from dataclasses import dataclass
from typing import NamedTuple

from controller.model.entries import Entry
from controller.model.values import FlowClass, Hold, PortId


@dataclass(frozen=True, slots=True)
class Install:
    """Add the entry, or give the entry of the same key this value."""

    switch: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Withdraw:
    switch: int
    entry: Entry


class RegisterWindow(NamedTuple):
    """A window register's new value, and the egress port and class of flows that it belongs to."""

    register: int
    port: int
    cls: FlowClass
    hold: Hold


class SetWindows(NamedTuple):
    """Set window registers of a switch, all at once."""

    switch: int
    windows: tuple[RegisterWindow, ...]
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Remind:
    """Call `Engine.widen` then."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """Send this frame out of these ports."""

    ports: tuple[PortId, ...]
    frame: bytes


@dataclass(frozen=True, slots=True)
class NeighbourReply:
    """Tell the asker, out of `port`, that `address` is at `mac`, under the same VLAN tags."""

    port: PortId
    mac: bytes
    address: bytes
    asker_mac: bytes
    asker_address: bytes
    tags: bytes = b""


@dataclass(frozen=True, slots=True)
class AddressProbe:
    """Ask a host, out of its `port`, whether it still has the address; `asker_mac` is nobody's."""

    port: PortId
    mac: bytes
    address: bytes
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
    """Have a switch repeat the notice of a port after this time while it is congested; 0: as its
    queue is configured."""

    switch: int
    port: int
    interval_us: int


@dataclass(frozen=True, slots=True)
class ReadPorts:
    """Ask a switch for the counters of its ports."""

    switch: int


@dataclass(frozen=True, slots=True)
class Audit:
    """Ask a switch for all that it holds."""

    switch: int


@dataclass(frozen=True, slots=True)
class TimeControl:
    """Ask a switch something, to see how long it takes to answer; it is `sent_ns` now."""

    switch: int
    sent_ns: int


@dataclass(frozen=True, slots=True)
class TellShare:
    """Tell those who follow it what an announced flow may send, or that there is no such flow."""

    flow: str


@dataclass(frozen=True, slots=True)
class Warn:
    """Something is wrong with a switch that a person can mend."""

    switch: int
    text: str


class Record(NamedTuple):
    """Something that an operator or an experiment wants to know: a line of the event log."""

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
    | TimeControl
    | Audit
)
Effect = (
    Order | Remind | Deliver | NeighbourReply | AddressProbe | LinkProbe | TellShare | Warn | Record
)
