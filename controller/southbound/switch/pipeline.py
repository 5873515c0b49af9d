"""The flow tables of a switch: what each is for, and the entries that are always there.

    0 vlan      where ports carry some VLANs only, a frame gets the tag of its VLAN, or goes nowhere
    1 path id   where paths differ by connection, register 0 becomes the frame's path id: a hash, or
                for datagrams between two hosts what the controller has chosen
    2 bond in   what enters by one member of a bond counts as having entered by the member that the
                other direction leaves by
    3 edge      link discovery goes up, as do ARP and neighbour discovery for a group; SYN, FIN and
                RST, ARP and neighbour discovery for one host are copied up where they enter the
                fabric
    4 count     one entry per flow whose bytes are counted; of services with dormant connections,
                what is pushed and not counted is copied up; datagrams of tunnels are counted by the
                port that they enter by
    5 regulate  the windows in segments that enter by a port are held to the port's registers,
                but for those of connections that the operator has exempted
    6 forward   by destination: out of a port, or to the port, bond or switch in the metadata;
                others go up, and on to table 10
    7 bond out  by the member of the bond in the metadata that the path id belongs to
    8 egress    where ports carry some VLANs only: out of the port in the metadata if it carries
                the frame's, with or without the tag
    9 path      to another switch: TCP over a protected link if there is one that is up and in use,
                all else by path id; to one that cannot be reached, nowhere
    10 flood    frames to groups, from where they may come; from hosts through a meter; from
                elsewhere they go up. What the controller sees to goes no further while it is there,
                as messages about groups, where these are followed
    11 flood out to all other ports that have their VLAN, and links of the tree; to a group whose
                members are known only towards these

Every entry has a cookie that says that it is Weir's, of which layout and what for. The entries that
the core wants in these tables, with their priorities, are in `encoding`.
"""

from dataclasses import replace
from enum import IntEnum

from controller.model.packet_ins import PacketClass
from controller.model.values import N_PATH_IDS
from controller.southbound.codec.ethernet import ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_LLDP
from controller.southbound.codec.match import (
    CONTROLLER,
    ETH_DST,
    ETH_TYPE,
    ICMPV6_TYPE,
    IN_PORT,
    IP_PROTO,
    METADATA,
    TCP_FLAGS,
    Match,
    copied_bytes,
    exact,
    in_vlan,
    metered_copy,
    output,
    output_to,
)
from controller.southbound.codec.neighbours import ADVERTISEMENT, PROTO_ICMPV6, SOLICITATION
from controller.southbound.codec.openflow import FlowEntry

COPY_BYTES = 192  # Enough for Ethernet, two VLAN tags, IPv6 with options and a full TCP header.

_OWNER = 0x57454952  # "WEIR"
# To be raised if an entry of an earlier version would be read as one of this version and mean
# something else: a kind with another number, a detail with another meaning. Other priorities,
# matches or actions need no new layout: such an entry decodes to None, is stale, and is replaced.
_LAYOUT = 2
COOKIE = _OWNER << 32
COOKIE_MASK = 0xFFFFFFFF << 32


class Table(IntEnum):
    VLAN = 0
    PATH_ID = 1
    BOND_IN = 2
    EDGE = 3
    COUNT = 4
    REGULATE = 5
    FORWARD = 6
    BOND_OUT = 7
    EGRESS = 8
    PATH = 9
    FLOOD = 10
    FLOOD_OUT = 11


class Kind(IntEnum):
    """What an entry is for."""

    STATIC = 0
    LINK = 1
    RELEARN = 2
    FLOW_COUNTER = 3
    HOST_WINDOW = 4
    FLOW_WINDOW = 5
    FORWARD = 6
    EXEMPT = 7
    PATH_IDS = 8
    FORWARD_VIA = 9
    NEXT_HOP = 10
    STEER = 11
    PORT_WINDOW = 12
    PROTECTED_HOP = 13
    SERVICE_WATCH = 14
    VLAN_FILTER = 15
    VLAN_PORT = 16
    TAGGED_INGRESS = 17
    UNTAGGED_INGRESS = 18
    VLAN_EGRESS = 19
    CONTROLLER_ANSWERS = 20
    FLOOD_FROM = 21
    FLOOD_TO = 22
    BOND_INGRESS = 23
    BOND_EGRESS = 24
    TUNNEL_COUNTER = 25
    GROUPS_FOLLOWED = 26
    GROUP_TO = 27
    GROUP_MESSAGES = 28
    BUDGET = 32


def cookie_of(kind: Kind, detail: int = 0) -> int:
    """The cookie of an entry; the detail is a byte, whose meaning depends on the kind."""
    return COOKIE | _LAYOUT << 16 | detail << 8 | kind


def kind_of(cookie: int) -> int | None:
    """The number of an entry's kind; None if the entry is not one of ours, of this layout."""
    return cookie & 0xFF if cookie >> 16 == COOKIE >> 16 | _LAYOUT else None


def detail_of(cookie: int) -> int:
    return cookie >> 8 & 0xFF


TUNNEL_COUNTER_COOKIE = cookie_of(Kind.TUNNEL_COUNTER)
FLOW_COUNTER_COOKIE = cookie_of(Kind.FLOW_COUNTER)
ALL_OF_COOKIE = 0xFFFFFFFFFFFFFFFF
FLOW_COUNTER_COOKIE_MASK = ~(0xFF << 8) & ALL_OF_COOKIE


def _static(
    table: Table,
    priority: int,
    match: Match,
    actions: bytes = b"",
    goto: Table | None = None,
    packets: PacketClass = PacketClass.UNKNOWN,
) -> FlowEntry:
    return FlowEntry(table, priority, cookie_of(Kind.STATIC, packets), match, actions, goto)


PROTO_UDP = 17


def tcp(eth_type: int) -> Match:
    """All TCP segments over IPv4 or IPv6."""
    return exact(ETH_TYPE, eth_type), exact(IP_PROTO, 6)


COPY = output(CONTROLLER, COPY_BYTES)
_COPIED_FLAGS = ((0x001, PacketClass.END), (0x002, PacketClass.SYN), (0x004, PacketClass.END))
_GROUP_BIT = bytes.fromhex("010000000000")
TO_A_GROUP, TO_A_HOST = (ETH_DST, _GROUP_BIT, _GROUP_BIT), (ETH_DST, bytes(6), _GROUP_BIT)
RESOLUTION: tuple[Match, ...] = (
    (exact(ETH_TYPE, ETH_ARP),),
    *(
        (exact(ETH_TYPE, ETH_IPV6), exact(IP_PROTO, PROTO_ICMPV6), exact(ICMPV6_TYPE, kind))
        for kind in (SOLICITATION, ADVERTISEMENT)
    ),
)

# A path id is a hash of four bits; the bit above them tells one from none.
PATH_ID_BITS = 4
HAS_PATH_ID = 1 << PATH_ID_BITS
assert N_PATH_IDS == 1 << PATH_ID_BITS


def path_id_of(register: int) -> int | None:
    """The path id in register 0; None without one."""
    return register ^ HAS_PATH_ID if register >> PATH_ID_BITS == 1 else None


STATIC: tuple[FlowEntry, ...] = (
    # Between neighbours, and without a tag on any port (IEEE 802.1Q table 8-1).
    _static(Table.VLAN, 400, (exact(ETH_TYPE, ETH_LLDP),), goto=Table.EDGE),
    _static(Table.VLAN, 0, (), goto=Table.PATH_ID),
    _static(Table.PATH_ID, 0, (), goto=Table.BOND_IN),
    _static(Table.BOND_IN, 0, (), goto=Table.EDGE),
    _static(
        *(Table.EDGE, 400, (exact(ETH_TYPE, ETH_LLDP),), output(CONTROLLER)),
        packets=PacketClass.DISCOVERY,
    ),
    *(
        _static(
            *(Table.EDGE, 350, (*resolution, TO_A_GROUP), output(CONTROLLER), Table.COUNT),
            packets=PacketClass.NEIGHBOUR,
        )
        for resolution in RESOLUTION
    ),
    # Hosts check now and then whether those that they know are still there (RFC 1122 section
    # 2.3.2.1, RFC 4861 section 7.3). That must work without a controller.
    *(
        _static(
            *(Table.EDGE, 250, resolution, output(CONTROLLER), Table.COUNT),
            packets=PacketClass.NEIGHBOUR,
        )
        for resolution in RESOLUTION
    ),
    *(
        _static(
            Table.EDGE,
            200,
            (*tcp(eth_type), (TCP_FLAGS, flag.to_bytes(2, "big"), flag.to_bytes(2, "big"))),
            COPY,
            Table.COUNT,
            packets,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
        for flag, packets in _COPIED_FLAGS
    ),
    _static(Table.EDGE, 0, (), goto=Table.COUNT),
    _static(Table.COUNT, 0, (), goto=Table.REGULATE),
    _static(Table.REGULATE, 0, (), goto=Table.FORWARD),
    # IEEE 802.1Q table 8-1: frames to these addresses are between neighbours and not forwarded.
    _static(
        Table.FORWARD,
        200,
        ((ETH_DST, bytes.fromhex("0180c2000000"), bytes.fromhex("fffffffffff0")),),
    ),
    _static(Table.FORWARD, 150, (TO_A_GROUP,), goto=Table.FLOOD),
    _static(Table.FORWARD, 0, (), output(CONTROLLER), Table.FLOOD),
    _static(Table.BOND_OUT, 0, ()),
    _static(Table.EGRESS, 10, in_vlan(b""), output_to(METADATA)),
    _static(Table.EGRESS, 0, ()),
    _static(Table.PATH, 0, ()),
    _static(Table.FLOOD, 0, (), output(CONTROLLER)),
    _static(Table.FLOOD_OUT, 0, ()),
)


def packet_class(cookie: int) -> PacketClass:
    """What a packet-in with this cookie is about."""
    kind, detail = kind_of(cookie), detail_of(cookie)
    if kind in (Kind.RELEARN, Kind.SERVICE_WATCH):
        return PacketClass.SEGMENT
    if kind == Kind.FLOOD_FROM:
        return PacketClass.FLOODED
    if kind == Kind.GROUP_MESSAGES:
        return PacketClass.NEIGHBOUR
    known = kind in (Kind.STATIC, Kind.BUDGET) and detail <= PacketClass.SEGMENT
    return PacketClass(detail) if known else PacketClass.UNKNOWN


def budgeted(static: FlowEntry, port: int, meter: int) -> FlowEntry | None:
    """A static entry for one port, with its copy through a meter; None if it copies nothing."""
    max_len = copied_bytes(static.actions)
    if max_len is None:
        return None
    return replace(
        static,
        priority=static.priority + 1,
        cookie=cookie_of(Kind.BUDGET, packet_class(static.cookie)),
        match=(exact(IN_PORT, port), *static.match),
        actions=metered_copy(max_len, meter),
    )
