"""Connections, and what all connections between the same two hosts share.

There may be a million connections, but only so many pairs of hosts, and few paths between two
switches. So route, MSS and window scales are kept once for each `HostPair`. A connection itself is
little more than its two keys until it has lived long enough to be counted.
"""

from dataclasses import dataclass, field
from typing import Self

from controller.core.flows.policy import Treatment
from controller.model.flow import FlowKey, split_end
from controller.model.values import FlowClass, PortId


@dataclass(slots=True, eq=False)
class FlowRecord:
    """What is known of a counted flow. Volumes are payload, in bytes.

    `grown_ns` is when it last had payload, `traced_ns` when it last had any packet. `packets` is
    how many packets its counter had at the last reading (-1: unknown). `counted_from_bytes` and
    `counted_from_ns` are where its present life as a burst flow began; from `mark_bytes` and
    `mark_ns` its rate as a background flow is measured. `offset_bytes` were counted by former
    counters.
    """

    volume_bytes: int
    grown_ns: int
    traced_ns: int
    counted_from_ns: int
    counted_from_bytes: int = 0
    mark_bytes: int = 0
    mark_ns: int = 0
    offset_bytes: int = 0
    packets: int = 0
    still_readings: int = 0
    cls: FlowClass = FlowClass.BURST
    idle: bool = False

    @classmethod
    def started(
        cls,
        opened_ns: int,
        now_ns: int,
        volume_bytes: int = 0,
        flow_class: FlowClass = FlowClass.BURST,
        packets: int = 0,
    ) -> Self:
        """The record of a flow that is counted from now on."""
        return cls(
            volume_bytes,
            now_ns,
            now_ns,
            opened_ns,
            packets=packets,
            mark_bytes=volume_bytes,
            mark_ns=now_ns,
            cls=flow_class,
        )


@dataclass(slots=True, eq=False)
class ConnectionRecord:
    """A counted connection. Of `switches` that count it, the counters of the first are read."""

    switches: tuple[int, ...]
    forward: FlowRecord
    reverse: FlowRecord

    @property
    def traced_ns(self) -> int:
        """When the connection last had any packet."""
        return max(self.forward.traced_ns, self.reverse.traced_ns)


@dataclass(slots=True, eq=False)
class Lane:
    """One direction of a host pair: data from `src` to `dst` leaves through `ports`. `receiver` is
    `dst` with its VLAN, if any.

    `window_scale` is the receiver's, for the windows in the segments that come back. If it is None
    it is unknown, and the windows are not touched. `odd_scale` marks a lane whose scale is not its
    receiver's usual one. `members` are the pair's connections, but for those that are `dormant`.
    Those whose flow in this direction is a background flow are in `bgt`, the lane's part of BGT
    (SDTCP section 3.3); the others are its part of BRT.
    """

    forward: bool
    src: bytes
    dst: bytes
    receiver: bytes
    window_scale: int | None
    members: set["Connection"]
    dormant: set["Connection"]
    bgt: set["Connection"]
    ports: tuple[PortId, ...] = ()
    odd_scale: bool = False
    background: int = 0
    idle: int = 0
    idle_background: int = 0

    def key(self, connection: "Connection") -> bytes:
        """The connection's packed key in this direction."""
        return connection.key if self.forward else connection.answer_key

    def record(self, connection: "Connection") -> FlowRecord | None:
        """The record of a connection's flow in this direction, if it is counted."""
        record = connection.record
        if record is None:
            return None
        return record.forward if self.forward else record.reverse

    def cls(self, connection: "Connection") -> FlowClass:
        """The class of a connection's flow in this direction."""
        return FlowClass.BACKGROUND if connection in self.bgt else FlowClass.BURST

    def of(self, cls: FlowClass) -> set["Connection"]:
        """The connections whose flow in this direction is of a class."""
        return self.bgt if cls is FlowClass.BACKGROUND else self.members - self.bgt


@dataclass(slots=True, eq=False)
class Charge:
    """How many connections the hosts at a port have opened, without the dormant ones."""

    n: int = 0


@dataclass(slots=True, eq=False)
class HostPair:
    """The connections between two hosts with the same path id, MSS, window scales and treatment.

    `path_id` decides their path; it is None if the switches assign none. `edges` are the switches
    of both hosts, the initiator's first, only one if they are the same. `counted` is how many
    members are in the counts of the ports; those that are `dormant` are no members. `charge` is
    that of the initiator's port. `handshake_ns` is the least time from SYN to
    SYN-ACK among the members that came since (0: none was measured).
    """

    initiator_mac: bytes
    responder_mac: bytes
    mss_bytes: int
    forward: Lane
    reverse: Lane
    members: set["Connection"]
    dormant: set["Connection"]
    identity: tuple[object, ...] = ()
    treatment: Treatment = Treatment.ORDINARY
    path_id: int | None = None
    charge: Charge = field(default_factory=Charge)
    edges: tuple[int, ...] = ()
    counted: int = 0
    handshake_ns: int = 0

    @property
    def born(self) -> FlowClass:
        """The class of flows that are not counted yet."""
        if self.treatment is Treatment.BACKGROUND:
            return FlowClass.BACKGROUND
        return FlowClass.BURST

    @property
    def needs_own_entries(self) -> bool:
        """Whether its flows need window entries of their own from the start."""
        return (
            self.forward.odd_scale
            or self.reverse.odd_scale
            or self.treatment is Treatment.BACKGROUND
        )

    @property
    def vlan(self) -> bytes:
        """The VLAN of both hosts; empty without one."""
        return split_end(self.forward.receiver)[0]

    @property
    def lanes(self) -> tuple[Lane, Lane]:
        return self.forward, self.reverse


class Connection:
    """`key` is the packed key of the initiator's data, `answer_key` of the responder's.

    While it is `dormant`, it is no member of its pair, is not counted, and counts for no port.
    `begun_ns` is when that began or ended, or else when it opened.
    """

    __slots__ = (
        "answer_key",
        "begun_ns",
        "dormant",
        "established",
        "finished",
        "initial_sequence",
        "key",
        "opened_ns",
        "pair",
        "record",
    )

    def __init__(
        self,
        key: bytes,
        answer_key: bytes,
        pair: HostPair,
        initial_sequence: int,
        opened_ns: int,
        finished: int,
    ) -> None:
        self.key = key
        self.answer_key = answer_key
        self.pair = pair
        self.initial_sequence = initial_sequence
        self.opened_ns = self.begun_ns = opened_ns
        self.finished = finished
        self.established = True
        self.dormant = False
        self.record: ConnectionRecord | None = None

    def fields(self) -> dict[str, object]:
        """The connection as it stands in the event log."""
        return FlowKey.unpack(self.key).fields()


FINISHED_INITIATOR, FINISHED_RESPONDER = 1, 2


def host_pair_of(
    key: bytes,
    macs: tuple[bytes, bytes],
    mss_bytes: int,
    window_scales: tuple[int | None, int | None],
    treatment: Treatment,
    path_id: int | None,
) -> HostPair:
    """A host pair without members. `key` and the first scale are for the initiator's data."""
    flow = FlowKey.unpack(key)
    members: set[Connection] = set()
    dormant: set[Connection] = set()

    def lane(side: FlowKey, *, is_forward: bool) -> Lane:
        # If the policy says so, all of them are background flows, always.
        bgt = members if treatment is Treatment.BACKGROUND else set()
        scale = window_scales[0 if is_forward else 1]
        return Lane(is_forward, side.src, side.dst, side.dst_end, scale, members, dormant, bgt)

    return HostPair(
        *macs,
        mss_bytes,
        lane(flow, is_forward=True),
        lane(flow.reverse, is_forward=False),
        members,
        dormant,
        treatment=treatment,
        path_id=path_id,
    )
