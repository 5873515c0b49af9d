"""One TCP connection and its two flows, as the controller knows them from copied segments."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import NamedTuple, Self

from controller.core.values import FlowClass, PortId

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

MAX_WINDOW_SCALE = 14  # RFC 7323 section 2.3: a larger shift is to be taken as 14.
DEFAULT_MSS_BYTES = {4: 536, 16: 1220}  # RFC 9293 section 3.7.1, by length of the address.


class FlowKey(NamedTuple):
    """The addresses and ports of one direction; addresses are packed (4 or 16 bytes)."""

    src: bytes
    src_port: int
    dst: bytes
    dst_port: int

    @property
    def reverse(self) -> Self:
        return type(self)(self.dst, self.dst_port, self.src, self.src_port)

    def fields(self) -> dict[str, object]:
        """The key as it stands in the event log."""
        return {
            "src": str(ip_address(self.src)),
            "src_port": self.src_port,
            "dst": str(ip_address(self.dst)),
            "dst_port": self.dst_port,
        }


@dataclass(frozen=True, slots=True)
class Segment:
    """What a copied TCP segment tells; `mss_bytes`, `window_scale` are None without the option."""

    key: FlowKey
    flags: int
    sequence: int
    acknowledgment: int
    src_mac: bytes
    dst_mac: bytes
    payload_bytes: int = 0
    mss_bytes: int | None = None
    window_scale: int | None = None

    def answers(self, syn: "Segment") -> bool:
        """Whether this SYN-ACK acknowledges that SYN."""
        return self.acknowledgment == (syn.sequence + 1) % 2**32

    @property
    def shift(self) -> int:
        return min(self.window_scale or 0, MAX_WINDOW_SCALE)

    @property
    def offered_mss_bytes(self) -> int:
        return self.mss_bytes or DEFAULT_MSS_BYTES[len(self.key.src)]


@dataclass(slots=True, eq=False)
class Flow:
    """One direction of a connection: the data from `key.src` to `key.dst`.

    `window_scale` is the receiver's: the windows that govern this flow stand in segments of
    `key.reverse`. None means unknown, and such a flow's windows are left alone.
    """

    key: FlowKey
    mss_bytes: int
    window_scale: int | None = None
    ports: tuple[PortId, ...] = ()
    cls: FlowClass = FlowClass.BURST
    volume_bytes: int = 0


@dataclass(slots=True, eq=False)
class Connection:
    """`forward` carries the initiator's data, `reverse` the responder's."""

    initiator_mac: bytes
    responder_mac: bytes
    initial_sequence: int
    opened_ns: int
    forward: Flow
    reverse: Flow
    established: bool = False
    accounted_at: tuple[int, ...] = ()
    finished: set[FlowKey] = field(default_factory=set)

    @property
    def key(self) -> FlowKey:
        return self.forward.key

    @property
    def flows(self) -> tuple[Flow, Flow]:
        return self.forward, self.reverse

    def flow(self, key: FlowKey) -> Flow:
        """The flow of that direction."""
        return self.forward if key == self.forward.key else self.reverse
