"""The events that a session reports of its switch."""

from collections.abc import Hashable
from typing import NamedTuple

from controller.model.entries import HeldEntry
from controller.model.flow import Reading, SegmentFields
from controller.model.packet_ins import GroupMessage, NeighbourMessage, OverBudget
from controller.model.values import Port, TunnelKind
from controller.southbound.codec import discovery, extension, openflow


class Ready(NamedTuple):
    """The switch can be used. `held` are the core's entries that it holds."""

    n_registers: int
    held: list[HeldEntry]
    keeps_accounts: bool = False
    tells_queues: bool = False
    repeats_notices: bool = False
    has_meters: bool = False


class SegmentsCopied(NamedTuple):
    """TCP segments in the order in which they entered."""

    segments: list[SegmentFields]


class NeighbourMessageReceived(NamedTuple):
    in_port: int
    message: NeighbourMessage


class LinkDiscovered(NamedTuple):
    """A discovery frame entered by `in_port`, out of a tunnel if `by_tunnel`."""

    in_port: int
    origin: discovery.Origin
    by_tunnel: bool = False


class FrameMissed(NamedTuple):
    """A frame whose destination the switch does not know."""

    in_port: int
    src_mac: bytes
    dst_mac: bytes
    frame: bytes


class FrameFlooded(NamedTuple):
    """A frame to a group, which the switch has flooded."""

    in_port: int
    src_mac: bytes


class GroupMessageReceived(NamedTuple):
    in_port: int
    src_mac: bytes
    said: GroupMessage


class FlowCountersRead(NamedTuple):
    """Readings of flow counters; `more` of the same answer follow."""

    readings: list[Reading]
    more: bool


class FlowCounterExpired(NamedTuple):
    """The switch has removed the counter of an idle flow; `key` is the packed key of the flow."""

    key: bytes


class PortChanged(NamedTuple):
    port: Port


class PortRemoved(NamedTuple):
    number: int


class QueueNotice(NamedTuple):
    """`missed` is how many notices of this queue were lost just before this one."""

    notice: extension.QueueEvent
    missed: int


class QueuesRead(NamedTuple):
    """The egress queues of the switch, all of them."""

    queues: list[extension.QueueStats]


class ConnectionsSampled(NamedTuple):
    """What has become of TCP connections, of all ports with an egress queue."""

    ports: list[extension.TcpStats]


class PortsCounted(NamedTuple):
    """Counters of ports; `more` of the same answer follow."""

    ports: list[openflow.PortStats]
    more: bool


class TunnelsCounted(NamedTuple):
    """How many datagrams of tunnels have entered: the port, the kind, the version of IP outside,
    the number."""

    readings: list[tuple[int, TunnelKind, int, int]]


class ControlTimed(NamedTuple):
    """The switch has answered the question that was sent at this time."""

    sent_ns: int


class Acknowledged(NamedTuple):
    """The entries of these keys are in force."""

    tags: list[Hashable]


class EntryRefused(NamedTuple):
    """The switch has refused the entry of this key."""

    tag: Hashable


class AuditRead(NamedTuple):
    """A part of what the switch holds; `more` parts of the same audit follow.

    `restored` and `removed` count the session's own entries and meters that were put right.
    """

    held: list[HeldEntry]
    restored: int
    removed: int
    more: bool


class CopiesDropped(NamedTuple):
    """What the switch's meters have dropped since they were last read."""

    dropped: list[OverBudget]


Event = (
    Ready
    | SegmentsCopied
    | NeighbourMessageReceived
    | LinkDiscovered
    | FrameFlooded
    | GroupMessageReceived
    | FrameMissed
    | FlowCountersRead
    | FlowCounterExpired
    | PortChanged
    | PortRemoved
    | QueueNotice
    | QueuesRead
    | ConnectionsSampled
    | PortsCounted
    | TunnelsCounted
    | ControlTimed
    | Acknowledged
    | EntryRefused
    | AuditRead
    | CopiesDropped
)
