"""What switches send up: the classes of packet-ins, and messages of ARP, IPv6 ND, IGMP and MLD."""

from enum import Enum, IntEnum, auto
from typing import NamedTuple


class PacketClass(IntEnum):
    """What a packet-in is about. The cookie of the entry that copied it up has this number.

    What is FLOODED was sent on by the switch already.
    """

    UNKNOWN = 0
    NEIGHBOUR = 1
    DISCOVERY = 2
    SYN = 3
    END = 4
    SEGMENT = 5
    FLOODED = 6

    @property
    def word(self) -> str:
        """The class as operators know it."""
        return self.name.lower()


class OverBudget(NamedTuple):
    """How many packet-ins of one class were dropped because a port was over its budget, and how
    many of them a second lately. The port is 0 if it is not known."""

    port: int
    packets: PacketClass
    dropped: int
    per_s: float


class NeighbourMessage(NamedTuple):
    """A message of ARP or of IPv6 neighbour discovery.

    The sender has `mac` and `address`, which is zero if it has none yet. It `asks` who has
    `target`, or says that it has the address itself. `tags` are the VLAN tags of `frame`, the whole
    frame that carried the message.
    """

    asks: bool
    mac: bytes
    address: bytes
    target: bytes
    dst_mac: bytes
    tags: bytes
    frame: bytes


class GroupKind(Enum):
    """What a message about multicast groups is.

    A multicast router asks by a QUERY, and hosts say by a REPORT which groups they have joined or
    left. By ROUTING messages, routers speak to each other (PIM).
    """

    QUERY = auto()
    REPORT = auto()
    ROUTING = auto()


class GroupMessage(NamedTuple):
    """A message of IGMP, MLD or PIM.

    `groups` are those of a REPORT, packed addresses, each with whether the sender is a member from
    now on. `vlan` is that of `frame`, which carried the message.
    """

    kind: GroupKind
    groups: tuple[tuple[bytes, bool], ...]
    vlan: bytes
    frame: bytes
