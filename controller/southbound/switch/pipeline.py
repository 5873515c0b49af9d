"""The flow tables of a switch, as data, and how to read them back.

    0 label     where paths differ by connection, register 0 becomes the frame's label: a hash, or
                for datagrams between two hosts what the controller has chosen
    1 edge      link discovery goes up, as do ARP and neighbour discovery for a group; SYN, FIN and
                RST, ARP and neighbour discovery for one host are copied up where they enter the
                fabric
    2 account   one entry per flow whose bytes are counted
    3 regulate  the windows in segments that enter by a port are held to the port's registers,
                but for those of connections that the operator has exempted
    4 forward   by destination: out of a port, or to the switch in the metadata; others go up
    5 path      to another switch, by label; to one that cannot be reached, nowhere

Every entry carries a cookie that tells whose it is, of which layout and what for. The functions
take and give plain values, because what they mean is not known here.
"""

from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from controller.southbound.codec.ethernet import ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_LLDP
from controller.southbound.codec.extension import TcpRwndRegister, unpack_action
from controller.southbound.codec.match import (
    CONTROLLER,
    ETH_DST,
    ETH_TYPE,
    ICMPV6_TYPE,
    IN_PORT,
    IP_PROTO,
    IPV4_DST,
    IPV4_SRC,
    IPV6_DST,
    IPV6_SRC,
    METADATA,
    REG0,
    TCP_DST,
    TCP_FLAGS,
    TCP_SRC,
    Field,
    Instructions,
    Match,
    copied_bytes,
    fin_timeout,
    load,
    metered_copy,
    multipath,
    output,
    unpack_instructions,
    unpack_load,
    unpack_match,
    unpack_output,
)
from controller.southbound.codec.neighbours import ADVERTISEMENT, PROTO_ICMPV6, SOLICITATION
from controller.southbound.codec.openflow import SEND_FLOW_REMOVED, FlowEntry, FlowStats

COPY_BYTES = 192  # Room for Ethernet, two VLAN tags, IPv6 with options and a full TCP header.
ACCOUNT_IDLE_S = 3600  # For who outlives his controller; a controller expires them earlier.
FINISHED_IDLE_S = 30
RELEARN_S = 5

_OWNER = 0x57454952  # "WEIR"
_LAYOUT = 2
COOKIE = _OWNER << 32
COOKIE_MASK = 0xFFFFFFFF << 32


class Table(IntEnum):
    LABEL = 0
    EDGE = 1
    ACCOUNT = 2
    REGULATE = 3
    FORWARD = 4
    PATH = 5


class Kind(IntEnum):
    """What an entry is for."""

    STATIC = 0
    LINK = 1
    RELEARN = 2
    ACCOUNT = 3
    HOST_WINDOW = 4
    FLOW_WINDOW = 5
    FORWARD = 6
    EXEMPT = 7
    LABELLING = 8
    BEHIND = 9
    HOP = 10
    STEER = 11
    PORT_WINDOW = 12
    BUDGET = 32


class PacketClass(IntEnum):
    """What a packet-in is about; the cookie of the entry that copied it up tells it."""

    UNKNOWN = 0
    NEIGHBOUR = 1
    DISCOVERY = 2
    SYN = 3
    END = 4
    SEGMENT = 5


class FiveTuple(NamedTuple):
    """A direction of a TCP connection; addresses are packed, 4 or 16 bytes."""

    src: bytes
    src_port: int
    dst: bytes
    dst_port: int


class Place(NamedTuple):
    """What identifies a flow entry on its switch."""

    table: int
    priority: int
    match: frozenset[tuple[Field, bytes, bytes | None]] | bytes


class Decoded(NamedTuple):
    """An entry that was read back: its kind, and the arguments of the function that makes it."""

    kind: Kind
    arguments: tuple[int | bytes | bool | FiveTuple | None, ...]


def _cookie(kind: Kind, detail: int = 0) -> int:
    return COOKIE | _LAYOUT << 16 | detail << 8 | kind


ACCOUNT_COOKIE = _cookie(Kind.ACCOUNT)
ACCOUNT_COOKIE_MASK = ~(0xFF << 8) & 0xFFFFFFFFFFFFFFFF


def _static(
    table: Table,
    priority: int,
    match: Match,
    actions: bytes = b"",
    goto: Table | None = None,
    packets: PacketClass = PacketClass.UNKNOWN,
) -> FlowEntry:
    return FlowEntry(table, priority, _cookie(Kind.STATIC, packets), match, actions, goto)


def _exact(field: Field, value: int | bytes) -> tuple[Field, bytes, None]:
    return field, value if isinstance(value, bytes) else value.to_bytes(field.length, "big"), None


def _tcp(eth_type: int) -> Match:
    return _exact(ETH_TYPE, eth_type), _exact(IP_PROTO, 6)


_PROTO_UDP = 17

_COPY = output(CONTROLLER, COPY_BYTES)
_COPIED_FLAGS = ((0x001, PacketClass.END), (0x002, PacketClass.SYN), (0x004, PacketClass.END))
_TO_A_GROUP = ETH_DST, bytes.fromhex("010000000000"), bytes.fromhex("010000000000")
_RESOLUTION: tuple[Match, ...] = (
    (_exact(ETH_TYPE, ETH_ARP),),
    *(
        (_exact(ETH_TYPE, ETH_IPV6), _exact(IP_PROTO, PROTO_ICMPV6), _exact(ICMPV6_TYPE, kind))
        for kind in (SOLICITATION, ADVERTISEMENT)
    ),
)

# A label is a hash of four bits; the bit above them tells one from no label.
_LABEL_BITS = 4
LABELS = 1 << _LABEL_BITS
_LABELLED = LABELS


def label_of(register: int) -> int | None:
    """The label in register 0; None without one."""
    return register ^ _LABELLED if register >> _LABEL_BITS == 1 else None


STATIC: tuple[FlowEntry, ...] = (
    _static(Table.LABEL, 0, (), goto=Table.EDGE),
    _static(
        *(Table.EDGE, 400, (_exact(ETH_TYPE, ETH_LLDP),), output(CONTROLLER)),
        packets=PacketClass.DISCOVERY,
    ),
    *(
        _static(
            *(Table.EDGE, 350, (*resolution, _TO_A_GROUP), output(CONTROLLER)),
            packets=PacketClass.NEIGHBOUR,
        )
        for resolution in _RESOLUTION
    ),
    # Hosts ask those that they know anew now and then (RFC 1122 section 2.3.2.1, RFC 4861 section
    # 7.3), and must not find them gone because a controller is.
    *(
        _static(
            *(Table.EDGE, 250, resolution, output(CONTROLLER), Table.ACCOUNT),
            packets=PacketClass.NEIGHBOUR,
        )
        for resolution in _RESOLUTION
    ),
    *(
        _static(
            Table.EDGE,
            200,
            (*_tcp(eth_type), (TCP_FLAGS, flag.to_bytes(2, "big"), flag.to_bytes(2, "big"))),
            _COPY,
            Table.ACCOUNT,
            packets,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
        for flag, packets in _COPIED_FLAGS
    ),
    _static(Table.EDGE, 0, (), goto=Table.ACCOUNT),
    _static(Table.ACCOUNT, 0, (), goto=Table.REGULATE),
    _static(Table.REGULATE, 0, (), goto=Table.FORWARD),
    # IEEE 802.1Q table 8-1: frames to these addresses are between neighbours and not forwarded.
    _static(
        Table.FORWARD,
        200,
        ((ETH_DST, bytes.fromhex("0180c2000000"), bytes.fromhex("fffffffffff0")),),
    ),
    _static(Table.FORWARD, 0, (), output(CONTROLLER)),
    _static(Table.PATH, 0, ()),
)


def packet_class(cookie: int) -> PacketClass:
    """What a packet-in with this cookie is about."""
    kind, detail = cookie & 0xFF, cookie >> 8 & 0xFF
    if cookie >> 16 != COOKIE >> 16 | _LAYOUT:
        return PacketClass.UNKNOWN
    if kind == Kind.RELEARN:
        return PacketClass.SEGMENT
    known = kind in (Kind.STATIC, Kind.BUDGET) and detail <= PacketClass.SEGMENT
    return PacketClass(detail) if known else PacketClass.UNKNOWN


def budgeted(static: FlowEntry, port: int, meter: int) -> FlowEntry | None:
    """The same for what enters by one port, with the copy limited by a meter; None if nothing is
    copied up."""
    max_len = copied_bytes(static.actions)
    if max_len is None:
        return None
    return replace(
        static,
        priority=static.priority + 1,
        cookie=_cookie(Kind.BUDGET, packet_class(static.cookie)),
        match=(_exact(IN_PORT, port), *static.match),
        actions=metered_copy(max_len, meter),
    )


def link(port: int) -> tuple[FlowEntry, ...]:
    """What enters by this port was looked at where it entered the fabric."""
    match = (_exact(IN_PORT, port),)
    return (FlowEntry(Table.EDGE, 300, _cookie(Kind.LINK), match, goto=Table.ACCOUNT),)


def relearn(port: int) -> tuple[FlowEntry, ...]:
    """For RELEARN_S, copy up the segments that enter by this port and belong to no account."""
    return tuple(
        FlowEntry(
            Table.ACCOUNT,
            50,
            _cookie(Kind.RELEARN),
            (_exact(IN_PORT, port), *_tcp(eth_type)),
            _COPY,
            Table.REGULATE,
            hard_timeout_s=RELEARN_S,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
    )


def labelling() -> tuple[FlowEntry, ...]:
    """Give every frame its label."""
    actions = load(REG0, _LABEL_BITS, 1, 1) + multipath(REG0, _LABEL_BITS)
    return (FlowEntry(Table.LABEL, 100, _cookie(Kind.LABELLING), (), actions, Table.EDGE),)


def steer(src: bytes, dst: bytes, label: int) -> tuple[FlowEntry, ...]:
    """Give datagrams of UDP between two hosts, in this direction, a label of the controller's
    choice."""
    eth_type, src_field, dst_field = _family(src)
    match: Match = (
        *(_exact(ETH_TYPE, eth_type), _exact(IP_PROTO, _PROTO_UDP)),
        *(_exact(src_field, src), _exact(dst_field, dst)),
    )
    actions = load(REG0, 0, _LABEL_BITS + 1, _LABELLED | label)
    return (FlowEntry(Table.LABEL, 200, _cookie(Kind.STEER), match, actions, Table.EDGE),)


def account(flow: FiveTuple, forward: bool, label: int | None) -> tuple[FlowEntry, ...]:
    """Count the bytes of a flow; the switch tells when it has been idle for ACCOUNT_IDLE_S, or,
    after a FIN or RST, for FINISHED_IDLE_S: nobody may have been there to hear of its end."""
    detail = int(forward) | (0 if label is None else (_LABELLED | label) << 1)
    return (
        FlowEntry(
            Table.ACCOUNT,
            100,
            _cookie(Kind.ACCOUNT, detail),
            _five_tuple(flow),
            fin_timeout(FINISHED_IDLE_S),
            Table.REGULATE,
            idle_timeout_s=ACCOUNT_IDLE_S,
            flags=SEND_FLOW_REMOVED,
        ),
    )


def host_window(
    port: int, address: bytes, register: int, window_scale: int
) -> tuple[FlowEntry, ...]:
    """Segments that enter by `port` from `address` are held to the register."""
    eth_type, src, _ = _family(address)
    match = (_exact(IN_PORT, port), *_tcp(eth_type), _exact(src, address))
    actions = TcpRwndRegister(register, window_scale).pack()
    cookie = _cookie(Kind.HOST_WINDOW)
    return (FlowEntry(Table.REGULATE, 100, cookie, match, actions, Table.FORWARD),)


def port_window(port: int, register: int) -> tuple[FlowEntry, ...]:
    """The same for those from hosts without an entry, by the scales that the switch has seen."""
    actions = TcpRwndRegister(register, None).pack()
    cookie = _cookie(Kind.PORT_WINDOW)
    return tuple(
        FlowEntry(
            Table.REGULATE,
            50,
            cookie,
            (_exact(IN_PORT, port), *_tcp(eth_type)),
            actions,
            Table.FORWARD,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
    )


def flow_window(
    port: int, segments: FiveTuple, register: int, window_scale: int
) -> tuple[FlowEntry, ...]:
    """The same for those of one connection; it comes before the host's entry."""
    match = (_exact(IN_PORT, port), *_five_tuple(segments))
    actions = TcpRwndRegister(register, window_scale).pack()
    cookie = _cookie(Kind.FLOW_WINDOW)
    return (FlowEntry(Table.REGULATE, 200, cookie, match, actions, Table.FORWARD),)


def forward(mac: bytes, port: int) -> tuple[FlowEntry, ...]:
    """Frames to `mac` leave by `port`."""
    match = (_exact(ETH_DST, mac),)
    return (FlowEntry(Table.FORWARD, 100, _cookie(Kind.FORWARD), match, output(port)),)


def behind(mac: bytes, switch: int) -> tuple[FlowEntry, ...]:
    """Frames to `mac` go to another switch first."""
    match, cookie = (_exact(ETH_DST, mac),), _cookie(Kind.BEHIND)
    return (FlowEntry(Table.FORWARD, 100, cookie, match, goto=Table.PATH, metadata=switch),)


def hop(destination: int, label: int | None, port: int) -> tuple[FlowEntry, ...]:
    """Frames to a switch leave by `port`; without a label, those that no other entry is for."""
    match: Match = (_exact(METADATA, destination),)
    if label is not None:
        match = (*match, _exact(REG0, _LABELLED | label))
    priority = 50 if label is None else 100
    return (FlowEntry(Table.PATH, priority, _cookie(Kind.HOP), match, output(port)),)


def exempt(network: bytes, prefix_bits: int, port: int) -> tuple[FlowEntry, ...]:
    """Leave alone all TCP segments, of both directions, of whoever is in the network (of any, if it
    is empty) at the port (at any, if it is 0)."""
    families = [_family(network)] if network else [_family(bytes(4)), _family(bytes(16))]
    return tuple(
        FlowEntry(
            Table.REGULATE,
            300,
            _cookie(Kind.EXEMPT),
            (
                *_tcp(eth_type),
                *((_prefix(address, network, prefix_bits),) if prefix_bits else ()),
                *((_exact(tcp_port, port),) if port else ()),
            ),
            goto=Table.FORWARD,
        )
        for eth_type, *addresses in families
        for address, tcp_port in zip(addresses, (TCP_SRC, TCP_DST), strict=True)
    )


def _prefix(field: Field, network: bytes, bits: int) -> tuple[Field, bytes, bytes | None]:
    """A mask of ones only is none: that is how Open vSwitch tells the entry."""
    host_bits = 8 * len(network) - bits
    mask = ((1 << 8 * len(network)) - 1 >> host_bits << host_bits).to_bytes(len(network), "big")
    return field, network, mask if host_bits else None


_MAKERS = {
    Kind.LINK: link,
    Kind.RELEARN: relearn,
    Kind.ACCOUNT: account,
    Kind.HOST_WINDOW: host_window,
    Kind.FLOW_WINDOW: flow_window,
    Kind.PORT_WINDOW: port_window,
    Kind.FORWARD: forward,
    Kind.EXEMPT: exempt,
    Kind.LABELLING: labelling,
    Kind.STEER: steer,
    Kind.BEHIND: behind,
    Kind.HOP: hop,
}


def entries(decoded: Decoded) -> tuple[FlowEntry, ...]:
    """All that stands on the switch where an entry of this kind and with these arguments does."""
    made: tuple[FlowEntry, ...] = _MAKERS[decoded.kind](*decoded.arguments)  # type: ignore[operator]
    return made


def place(entry: FlowEntry) -> Place:
    """The place of an entry: adding another one there replaces it."""
    return Place(entry.table, entry.priority, frozenset(entry.match))


def place_read_back(stats: FlowStats) -> Place:
    """The place of an entry that was read back; one of its own if its match is not one of ours."""
    try:
        return Place(stats.table, stats.priority, frozenset(unpack_match(stats.match)))
    except ValueError:
        return Place(stats.table, stats.priority, stats.match)


def decode(stats: FlowStats) -> Decoded | None:
    """What an entry is for; None if it is not exactly as the functions above would make it."""
    kind = stats.cookie & 0xFF
    if stats.cookie >> 16 != COOKIE >> 16 | _LAYOUT or kind not in _MAKERS:
        return None
    try:
        match = unpack_match(stats.match)
        found = unpack_instructions(stats.instructions)
        decoded = Decoded(Kind(kind), _arguments(Kind(kind), match, found, stats.cookie))
    except ValueError:
        return None
    for entry in entries(decoded):
        same_place = place(entry) == Place(stats.table, stats.priority, frozenset(match))
        if same_place and found == (entry.actions, entry.goto, entry.metadata):
            return decoded
    return None


def account_detail(cookie: int) -> tuple[bool, int | None]:
    """By the cookie of an account: whether it is of the forward direction, and the label."""
    detail = cookie >> 8 & 0xFF
    return bool(detail & 1), label_of(detail >> 1)


@lru_cache(maxsize=65_536)
def decode_account(match: bytes) -> FiveTuple:
    """The flow of an account's packed match. Raises ValueError."""
    return _read_five_tuple({field: value for field, value, _ in unpack_match(match)})


def _exempted(match: Match) -> tuple[bytes, int, int]:
    network, prefix_bits, port = b"", 0, 0
    for field, value, mask in match:
        if field in (IPV4_SRC, IPV4_DST, IPV6_SRC, IPV6_DST):
            network, ones = value, 8 * len(value)
            prefix_bits = ones if mask is None else _number(mask).bit_count()
        elif field in (TCP_SRC, TCP_DST):
            port = _number(value)
    return network, prefix_bits, port


def _arguments(
    kind: Kind, fields: Match, instructions: Instructions, cookie: int
) -> tuple[int | bytes | bool | FiveTuple | None, ...]:
    if kind is Kind.EXEMPT:
        return _exempted(fields)
    match = {field: value for field, value, _ in fields}
    try:
        match kind:
            case Kind.LINK | Kind.RELEARN:
                return (_number(match[IN_PORT]),)
            case Kind.ACCOUNT:
                return (_read_five_tuple(match), *account_detail(cookie))
            case Kind.LABELLING:
                return ()
            case Kind.STEER:
                src, dst = (match[field] for field in _address_fields(match))
                label = label_of(unpack_load(instructions.actions))
                if label is None:
                    raise ValueError("datagrams are given no label")
                return src, dst, label
            case Kind.FORWARD:
                return match[ETH_DST], unpack_output(instructions.actions)
            case Kind.BEHIND:
                if instructions.metadata is None:
                    raise ValueError("an entry without the switch that its hosts are behind")
                return match[ETH_DST], instructions.metadata
            case Kind.HOP:
                label = label_of(_number(match[REG0])) if REG0 in match else None
                port = unpack_output(instructions.actions)
                return _number(match[METADATA]), label, port
        action = unpack_action(instructions.actions)
        if not isinstance(action, TcpRwndRegister):
            raise ValueError("a window entry without a register")
        if (action.window_scale is None) is not (kind is Kind.PORT_WINDOW):
            raise ValueError("the scale of one host where there are many, or the reverse")
        if kind is Kind.PORT_WINDOW:
            return _number(match[IN_PORT]), action.register
        window = action.register, action.window_scale
        if kind is Kind.HOST_WINDOW:
            address = match[IPV4_SRC] if IPV4_SRC in match else match[IPV6_SRC]
            return _number(match[IN_PORT]), address, *window
        return _number(match[IN_PORT]), _read_five_tuple(match), *window
    except KeyError as missing:
        raise ValueError(f"an entry without the match field {missing}") from None


def _five_tuple(flow: FiveTuple) -> Match:
    eth_type, src, dst = _family(flow.src)
    return (
        *_tcp(eth_type),
        _exact(src, flow.src),
        _exact(dst, flow.dst),
        _exact(TCP_SRC, flow.src_port),
        _exact(TCP_DST, flow.dst_port),
    )


def _read_five_tuple(match: dict[Field, bytes]) -> FiveTuple:
    src, dst = _address_fields(match)
    try:
        return FiveTuple(match[src], _number(match[TCP_SRC]), match[dst], _number(match[TCP_DST]))
    except KeyError as missing:
        raise ValueError(f"an entry without the match field {missing}") from None


def _address_fields(match: dict[Field, bytes]) -> tuple[Field, Field]:
    return (IPV4_SRC, IPV4_DST) if IPV4_SRC in match else (IPV6_SRC, IPV6_DST)


def _family(address: bytes) -> tuple[int, Field, Field]:
    if len(address) == 4:
        return ETH_IPV4, IPV4_SRC, IPV4_DST
    return ETH_IPV6, IPV6_SRC, IPV6_DST


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big")
