"""How many packet-ins a switch may send, for each port and class of packet-ins.

The switch itself enforces the limits. Every port has a meter for each class, and flow entries in
front of the static ones that send their copies through these meters. A meter limits the copies,
never the traffic, but for frames to groups. So no host can starve another host or another class.
Packet-ins without such a meter (while flows are relearnt, or before a port's meters are installed)
share the controller meter of the switch. Meters with numbers from 0x10000 on belong to Weir.
"""

from dataclasses import dataclass

from controller.model.packet_ins import PacketClass
from controller.southbound.codec.meters import CONTROLLER_METER, Meter
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch import pipeline

METERED = (
    PacketClass.UNKNOWN,
    PacketClass.NEIGHBOUR,
    PacketClass.DISCOVERY,
    PacketClass.SYN,
    PacketClass.END,
    PacketClass.FLOODED,
)

_FIRST_METER, _LAST_METER = 0x10000, 0xFFFEFFFF
_CLASS_BITS = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """Packet-ins a second.

    The first six are for each class by one port: of what is flooded, the frames themselves, with
    their copies. `unmetered_pps` is for all that have no meter of
    their own. `switch_*` are what the controller reads of one switch: copied segments, the ends of
    connections once the segments are over their limit, and each other class.
    """

    unknown_pps: int
    neighbour_pps: int
    discovery_pps: int
    syn_pps: int
    end_pps: int
    flooded_pps: int
    unmetered_pps: int
    switch_segments_pps: int
    switch_ends_pps: int
    switch_frames_pps: int

    def of_port(self, packets: PacketClass) -> int:
        """The limit of a class by one port."""
        match packets:
            case PacketClass.NEIGHBOUR:
                return self.neighbour_pps
            case PacketClass.DISCOVERY:
                return self.discovery_pps
            case PacketClass.SYN:
                return self.syn_pps
            case PacketClass.END:
                return self.end_pps
            case PacketClass.FLOODED:
                return self.flooded_pps
        return self.unknown_pps


def meters(port: int, limits: Limits) -> list[Meter]:
    """The meters of a port."""
    rates = ((packets, limits.of_port(packets)) for packets in METERED)
    return [Meter(meter_of(port, packets), rate, rate) for packets, rate in rates]


def entries(port: int) -> list[FlowEntry]:
    """The entries in front of the static ones for a port. Their copies go through its meters."""
    metered = (
        pipeline.budgeted(entry, port, meter_of(port, pipeline.packet_class(entry.cookie)))
        for entry in pipeline.STATIC
    )
    return [entry for entry in metered if entry is not None]


def unmetered(limits: Limits) -> Meter:
    """The meter of all packet-ins that have no other."""
    return Meter(CONTROLLER_METER, limits.unmetered_pps, limits.unmetered_pps)


def owned(number: int) -> bool:
    """Whether a meter with this number is Weir's."""
    return _FIRST_METER <= number <= _LAST_METER


def owner(number: int) -> tuple[int, PacketClass]:
    """The port and the class that a meter is for; the controller meter is for no port."""
    if number == CONTROLLER_METER:
        return 0, PacketClass.SEGMENT
    port, packets = divmod(number - _FIRST_METER, 1 << _CLASS_BITS)
    return port, PacketClass(packets)


def meter_of(port: int, packets: PacketClass) -> int:
    """The number of the meter of a class by one port."""
    return _FIRST_METER + (port << _CLASS_BITS) + packets
