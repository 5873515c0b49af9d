"""What switches send up: the classes of packet-ins, and the messages of ARP and IPv6 ND."""

from enum import IntEnum
from typing import NamedTuple


class PacketClass(IntEnum):
    """What a packet-in is about; numbered as in the cookie of the entry that copied it up."""

    UNKNOWN = 0
    NEIGHBOUR = 1
    DISCOVERY = 2
    SYN = 3
    END = 4
    SEGMENT = 5

    @property
    def word(self) -> str:
        """The class as operators know it."""
        return self.name.lower()


class OverBudget(NamedTuple):
    """Packet-ins of one class that were dropped because a port (0 if it is not known which) was
    over its budget: how many, and how many a second lately."""

    port: int
    packets: PacketClass
    dropped: int
    per_s: float


class NeighbourMessage(NamedTuple):
    """A message of ARP or of IPv6 neighbour discovery; `frame` is the whole frame that carried it.

    The sender has `mac` and `address`. It `asks` who has `target`, or tells that it has them
    itself. A sender that has no address yet has one of zeros. `tags` are the frame's VLAN tags.
    """

    asks: bool
    mac: bytes
    address: bytes
    target: bytes
    dst_mac: bytes
    tags: bytes
    frame: bytes
