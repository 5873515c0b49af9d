"""Entries of the model as flow entries of a switch, and back: two functions for each kind.

To decode is strict: a flow entry must be exactly what `encode` makes of the entry that it seems to
be, its counters and timeouts aside. Anything else is not one of ours.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from controller.model.entries import (
    CONTROLLER_ANSWERS_S,
    AssignPathIds,
    ControllerAnswers,
    Entry,
    Exempt,
    FloodFrom,
    FloodTo,
    FlowCounter,
    FlowWindow,
    Forward,
    ForwardVia,
    HostWindow,
    LinkPort,
    NextHop,
    PortWindow,
    ProtectedHop,
    Relearn,
    ServiceWatch,
    Steer,
    TaggedIngress,
    UntaggedIngress,
    VlanEgress,
    VlanFilter,
    VlanPort,
)
from controller.model.flow import PSH, FlowKey
from controller.model.packet_ins import PacketClass
from controller.southbound.codec.ethernet import ETH_IPV4, ETH_IPV6
from controller.southbound.codec.extension import TcpRwndRegister, unpack_action
from controller.southbound.codec.match import (
    ANY_TAG,
    ETH_DST,
    ETH_TYPE,
    IN_PORT,
    IP_PROTO,
    IPV4_DST,
    IPV4_SRC,
    IPV6_DST,
    IPV6_SRC,
    METADATA,
    NO_TAG,
    PRIORITY_TAG,
    REG0,
    REG1,
    TCP_DST,
    TCP_FLAGS,
    TCP_SRC,
    Field,
    Instructions,
    Match,
    exact,
    fin_timeout,
    in_vlan,
    load,
    load_if_live,
    multipath,
    output,
    pop_vlan,
    prefix,
    push_vlan,
    resubmit,
    set_vlan,
    unpack_instructions,
    unpack_load,
    unpack_load_if_live,
    unpack_match,
    unpack_output,
    unpack_outputs,
    unpack_set_vlan,
    vlan_in,
)
from controller.southbound.codec.openflow import SEND_FLOW_REMOVED, FlowEntry, FlowStats
from controller.southbound.switch.budgets import meter_of
from controller.southbound.switch.pipeline import (
    COPY,
    HAS_PATH_ID,
    PATH_ID_BITS,
    RESOLUTION,
    TO_A_HOST,
    Kind,
    Table,
    cookie_of,
    detail_of,
    kind_of,
    path_id_of,
    tcp,
)

COUNTER_IDLE_S = 3600  # For counters that outlive their controller, which removes them earlier.
FINISHED_IDLE_S = 30
RELEARN_S = 5

# Priorities in table VLAN, where links come before what is known of ports, and that before what no
# port is known to carry; and in table EGRESS.
_LINK, _PORT_VLAN, _VLAN_PORT, _NO_VLAN, _OTHER_VLAN = 300, 100, 50, 20, 10

# Priorities in tables FLOOD and FLOOD_OUT.
# What comes over a link was flooded by a switch
# for which no controller answers.
_FLOOD_FROM_LINK, _ANSWERED, _FLOOD_FROM = 350, 300, 100
_FLOOD_TO_VLAN, _FLOOD_TO = 100, 50

# Priorities in table REGULATE: what is exempt comes before the window of a flow, that before its
# host's, and that before its port's.
_EXEMPT, _FLOW_WINDOW, _HOST_WINDOW, _PORT_WINDOW = 300, 200, 100, 50

# Priorities in table PATH: over a protected port that is up, once it is known whether it is; and by
# NextHop otherwise.
_LIVE_HOP, _PROTECTED_HOP, _HOP_OF_PATH_ID, _HOP = 160, 150, 100, 50

# Priorities in table COUNT: what is counted is not copied up.
_FLOW_COUNTER, _SERVICE_WATCH, _RELEARN = 100, 60, 50

_PROTO_UDP = 17
_PUSHED = TCP_FLAGS, PSH.to_bytes(2, "big"), PSH.to_bytes(2, "big")

FlowEntries = tuple[FlowEntry, ...]


class _Found(NamedTuple):
    """A flow entry that was read back. `values` are those of the match, whatever their masks."""

    cookie: int
    match: Match
    values: dict[Field, bytes]
    instructions: Instructions

    def number(self, field: Field) -> int:
        return int.from_bytes(self.values[field], "big")


class Decoded(NamedTuple):
    """The entry that a flow entry belongs to, and how many flow entries make it."""

    entry: Entry
    n_flow_entries: int


# Two functions for each kind. Those that decode raise KeyError or ValueError for anything else.
# They need not check all of it, because `decode` encodes the result again and compares.


def _encode_link_port(entry: LinkPort) -> FlowEntries:
    match = (exact(IN_PORT, entry.port),)
    return (
        FlowEntry(Table.EDGE, 380, cookie_of(Kind.LINK), match, goto=Table.COUNT),
        FlowEntry(Table.VLAN, _LINK, cookie_of(Kind.LINK), match, goto=Table.PATH_ID),
    )


def _decode_link_port(found: _Found) -> LinkPort:
    return LinkPort(found.number(IN_PORT))


def _encode_controller_answers(_: ControllerAnswers) -> FlowEntries:
    """It has been copied up before."""
    cookie = cookie_of(Kind.CONTROLLER_ANSWERS)
    return tuple(
        FlowEntry(Table.FLOOD, _ANSWERED, cookie, seen_to, hard_timeout_s=CONTROLLER_ANSWERS_S)
        for seen_to in (*RESOLUTION, (TO_A_HOST,))
    )


def _decode_controller_answers(_: _Found) -> ControllerAnswers:
    return ControllerAnswers()


def _encode_flood_from(entry: FloodFrom) -> FlowEntries:
    match, cookie = (exact(IN_PORT, entry.port),), cookie_of(Kind.FLOOD_FROM, int(entry.of_hosts))
    if not entry.of_hosts:
        return (FlowEntry(Table.FLOOD, _FLOOD_FROM_LINK, cookie, match, goto=Table.FLOOD_OUT),)
    meter = meter_of(entry.port, PacketClass.FLOODED)
    return (
        FlowEntry(
            *(Table.FLOOD, _FLOOD_FROM, cookie, match, COPY), goto=Table.FLOOD_OUT, meter=meter
        ),
    )


def _decode_flood_from(found: _Found) -> FloodFrom:
    return FloodFrom(found.number(IN_PORT), bool(detail_of(found.cookie)))


def _encode_flood_to(entry: FloodTo) -> FlowEntries:
    match: Match = () if entry.vlan is None else in_vlan(entry.vlan)
    actions = b"".join(map(output, entry.tagged))
    if entry.untagged:
        actions += pop_vlan() + b"".join(map(output, entry.untagged))
    priority = _FLOOD_TO if entry.vlan is None else _FLOOD_TO_VLAN
    return (FlowEntry(Table.FLOOD_OUT, priority, cookie_of(Kind.FLOOD_TO), match, actions),)


def _decode_flood_to(found: _Found) -> FloodTo:
    tagged, untagged = unpack_outputs(found.instructions.actions)
    vlan = vlan_in(found.values) if found.match else None
    return FloodTo(vlan, tuple(tagged), tuple(untagged))


def _encode_vlan_filter(_: VlanFilter) -> FlowEntries:
    cookie = cookie_of(Kind.VLAN_FILTER)
    return (
        FlowEntry(Table.VLAN, _NO_VLAN, cookie, PRIORITY_TAG, goto=Table.PATH_ID),
        FlowEntry(Table.VLAN, _OTHER_VLAN, cookie, ANY_TAG),
    )


def _decode_vlan_filter(_: _Found) -> VlanFilter:
    return VlanFilter()


def _encode_vlan_port(entry: VlanPort) -> FlowEntries:
    cookie = cookie_of(Kind.VLAN_PORT)
    return (
        FlowEntry(Table.VLAN, _VLAN_PORT, cookie, (exact(IN_PORT, entry.port),)),
        FlowEntry(Table.EGRESS, _VLAN_PORT, cookie, (exact(METADATA, entry.port),)),
    )


def _decode_vlan_port(found: _Found) -> VlanPort:
    return VlanPort(found.number(IN_PORT if IN_PORT in found.values else METADATA))


def _encode_tagged_ingress(entry: TaggedIngress) -> FlowEntries:
    match, cookie = (exact(IN_PORT, entry.port), *in_vlan(entry.vlan)), Kind.TAGGED_INGRESS
    return (FlowEntry(Table.VLAN, _PORT_VLAN, cookie_of(cookie), match, goto=Table.PATH_ID),)


def _decode_tagged_ingress(found: _Found) -> TaggedIngress:
    return TaggedIngress(found.number(IN_PORT), vlan_in(found.values))


def _encode_untagged_ingress(entry: UntaggedIngress) -> FlowEntries:
    port, cookie = exact(IN_PORT, entry.port), cookie_of(Kind.UNTAGGED_INGRESS)
    return tuple(
        FlowEntry(Table.VLAN, _PORT_VLAN, cookie, (port, *form), actions, Table.PATH_ID)
        for form, actions in (
            (NO_TAG, push_vlan(entry.vlan)),
            (PRIORITY_TAG, set_vlan(entry.vlan)),
        )
    )


def _decode_untagged_ingress(found: _Found) -> UntaggedIngress:
    return UntaggedIngress(found.number(IN_PORT), unpack_set_vlan(found.instructions.actions))


def _encode_vlan_egress(entry: VlanEgress) -> FlowEntries:
    match = (exact(METADATA, entry.port), *in_vlan(entry.vlan))
    actions = (b"" if entry.tagged else pop_vlan()) + output(entry.port)
    cookie = cookie_of(Kind.VLAN_EGRESS, int(entry.tagged))
    return (FlowEntry(Table.EGRESS, _PORT_VLAN, cookie, match, actions),)


def _decode_vlan_egress(found: _Found) -> VlanEgress:
    tagged = bool(detail_of(found.cookie))
    return VlanEgress(found.number(METADATA), vlan_in(found.values), tagged)


def _encode_relearn(entry: Relearn) -> FlowEntries:
    return tuple(
        FlowEntry(
            Table.COUNT,
            _RELEARN,
            cookie_of(Kind.RELEARN),
            (exact(IN_PORT, entry.port), *tcp(eth_type)),
            COPY,
            Table.REGULATE,
            hard_timeout_s=RELEARN_S,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
    )


def _decode_relearn(found: _Found) -> Relearn:
    return Relearn(found.number(IN_PORT))


def _encode_path_ids(_: AssignPathIds) -> FlowEntries:
    actions = load(REG0, PATH_ID_BITS, 1, 1) + multipath(REG0, PATH_ID_BITS)
    return (FlowEntry(Table.PATH_ID, 100, cookie_of(Kind.PATH_IDS), (), actions, Table.EDGE),)


def _decode_path_ids(_: _Found) -> AssignPathIds:
    return AssignPathIds()


def _encode_steer(entry: Steer) -> FlowEntries:
    eth_type, src, dst = _family(entry.src)
    match: Match = (
        *(exact(ETH_TYPE, eth_type), exact(IP_PROTO, _PROTO_UDP), *in_vlan(entry.vlan)),
        *(exact(src, entry.src), exact(dst, entry.dst)),
    )
    actions = load(REG0, 0, PATH_ID_BITS + 1, HAS_PATH_ID | entry.path_id)
    return (FlowEntry(Table.PATH_ID, 200, cookie_of(Kind.STEER), match, actions, Table.EDGE),)


def _decode_steer(found: _Found) -> Steer:
    src, dst = (found.values[field] for field in _address_fields(found.values))
    path_id = path_id_of(unpack_load(found.instructions.actions))
    if path_id is None:
        raise ValueError("datagrams are given no path id")
    return Steer(src, dst, path_id, vlan_in(found.values))


def _encode_flow_counter(entry: FlowCounter) -> FlowEntries:
    """The switch reports a counter that was idle for COUNTER_IDLE_S or, after a FIN or RST, for
    FINISHED_IDLE_S: no controller may have been there to hear of the end."""
    path_id = 0 if entry.path_id is None else HAS_PATH_ID | entry.path_id
    return (
        FlowEntry(
            Table.COUNT,
            _FLOW_COUNTER,
            cookie_of(Kind.FLOW_COUNTER, int(entry.forward) | path_id << 1),
            _match_of_flow(entry.flow),
            fin_timeout(FINISHED_IDLE_S),
            Table.REGULATE,
            idle_timeout_s=COUNTER_IDLE_S,
            flags=SEND_FLOW_REMOVED,
        ),
    )


def _decode_flow_counter(found: _Found) -> FlowCounter:
    return flow_counter(_flow_of_match(found.values), found.cookie)


def flow_counter(flow: FlowKey, cookie: int) -> FlowCounter:
    """The counter of a flow, by the cookie of its flow entry."""
    detail = detail_of(cookie)
    return FlowCounter(flow, bool(detail & 1), path_id_of(detail >> 1))


@lru_cache(maxsize=65_536)
def counted_flow(match: bytes) -> FlowKey:
    """The flow of a FlowCounter, by the packed match of its flow entry. Raises ValueError."""
    try:
        return _flow_of_match({field: value for field, value, _ in unpack_match(match)})
    except KeyError as missing:
        raise ValueError(f"a flow counter without the match field {missing}") from None


def _encode_service_watch(entry: ServiceWatch) -> FlowEntries:
    """One for each direction. Wherever they enter: the client's switch sees both, and counts them.

    The last segment of what a program writes is pushed, so there is a copy for each request and
    answer, and none for each segment or ACK.
    """
    eth_type, src, dst = _family(entry.client)
    return tuple(
        FlowEntry(
            Table.COUNT,
            _SERVICE_WATCH,
            cookie_of(Kind.SERVICE_WATCH),
            (
                *(*tcp(eth_type), _PUSHED, *in_vlan(entry.vlan)),
                *(exact(src, sender), exact(dst, receiver), exact(tcp_port, entry.tcp_port)),
            ),
            COPY,
            Table.REGULATE,
        )
        for sender, receiver, tcp_port in (
            (entry.client, entry.server, TCP_DST),
            (entry.server, entry.client, TCP_SRC),
        )
    )


def _decode_service_watch(found: _Found) -> ServiceWatch:
    sender, receiver = (found.values[field] for field in _address_fields(found.values))
    vlan = vlan_in(found.values)
    if TCP_DST in found.values:
        return ServiceWatch(sender, receiver, found.number(TCP_DST), vlan)
    return ServiceWatch(receiver, sender, found.number(TCP_SRC), vlan)


def _encode_host_window(entry: HostWindow) -> FlowEntries:
    eth_type, src, _ = _family(entry.address)
    match = (
        *(exact(IN_PORT, entry.port), *tcp(eth_type), *in_vlan(entry.vlan)),
        exact(src, entry.address),
    )
    actions = TcpRwndRegister(entry.register, entry.window_scale).pack()
    cookie = cookie_of(Kind.HOST_WINDOW)
    return (FlowEntry(Table.REGULATE, _HOST_WINDOW, cookie, match, actions, Table.FORWARD),)


def _decode_host_window(found: _Found) -> HostWindow:
    src, _ = _address_fields(found.values)
    return HostWindow(
        found.number(IN_PORT),
        found.values[src],
        *_scaled_register(found),
        vlan_in(found.values),
    )


def _encode_port_window(entry: PortWindow) -> FlowEntries:
    actions = TcpRwndRegister(entry.register, None).pack()
    cookie = cookie_of(Kind.PORT_WINDOW)
    return tuple(
        FlowEntry(
            Table.REGULATE,
            _PORT_WINDOW,
            cookie,
            (exact(IN_PORT, entry.port), *tcp(eth_type)),
            actions,
            Table.FORWARD,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
    )


def _decode_port_window(found: _Found) -> PortWindow:
    action = _register_action(found)
    if action.window_scale is not None:
        raise ValueError("the window scale of one host for all hosts of a port")
    return PortWindow(found.number(IN_PORT), action.register)


def _encode_flow_window(entry: FlowWindow) -> FlowEntries:
    match = (exact(IN_PORT, entry.port), *_match_of_flow(entry.segments))
    actions = TcpRwndRegister(entry.register, entry.window_scale).pack()
    cookie = cookie_of(Kind.FLOW_WINDOW)
    return (FlowEntry(Table.REGULATE, _FLOW_WINDOW, cookie, match, actions, Table.FORWARD),)


def _decode_flow_window(found: _Found) -> FlowWindow:
    flow = _flow_of_match(found.values)
    return FlowWindow(found.number(IN_PORT), flow, *_scaled_register(found))


def _encode_forward(entry: Forward) -> FlowEntries:
    match, cookie = (exact(ETH_DST, entry.mac),), cookie_of(Kind.FORWARD)
    if entry.by_vlan:
        return (
            FlowEntry(Table.FORWARD, 100, cookie, match, goto=Table.EGRESS, metadata=entry.port),
        )
    return (FlowEntry(Table.FORWARD, 100, cookie, match, output(entry.port)),)


def _decode_forward(found: _Found) -> Forward:
    mac, port = found.values[ETH_DST], found.instructions.metadata
    if port is not None:
        return Forward(mac, port, by_vlan=True)
    return Forward(mac, unpack_output(found.instructions.actions))


def _encode_forward_via(entry: ForwardVia) -> FlowEntries:
    match, cookie = (exact(ETH_DST, entry.mac),), cookie_of(Kind.FORWARD_VIA)
    return (FlowEntry(Table.FORWARD, 100, cookie, match, goto=Table.PATH, metadata=entry.switch),)


def _decode_forward_via(found: _Found) -> ForwardVia:
    if found.instructions.metadata is None:
        raise ValueError("an entry without the switch that its hosts are behind")
    return ForwardVia(found.values[ETH_DST], found.instructions.metadata)


def _encode_next_hop(entry: NextHop) -> FlowEntries:
    match: Match = (exact(METADATA, entry.destination),)
    priority = _HOP
    if entry.path_id is not None:
        match = (*match, exact(REG0, HAS_PATH_ID | entry.path_id))
        priority = _HOP_OF_PATH_ID
    return (FlowEntry(Table.PATH, priority, cookie_of(Kind.NEXT_HOP), match, output(entry.port)),)


def _decode_next_hop(found: _Found) -> NextHop:
    path_id = path_id_of(found.number(REG0)) if REG0 in found.values else None
    return NextHop(found.number(METADATA), path_id, unpack_output(found.instructions.actions))


def _encode_protected_hop(entry: ProtectedHop) -> FlowEntries:
    """One for each family has the switch find out whether the port is up, and a third one uses it
    then. So TCP is back on the other paths without a controller."""
    cookie = cookie_of(Kind.PROTECTED_HOP)
    to_destination = exact(METADATA, entry.destination)
    find_out = load_if_live(REG1, entry.port) + resubmit(Table.PATH)
    is_up = (to_destination, exact(REG1, entry.port))
    return (
        *(
            FlowEntry(
                Table.PATH,
                _PROTECTED_HOP,
                cookie,
                (to_destination, exact(REG1, 0), *tcp(eth_type)),
                find_out,
            )
            for eth_type in (ETH_IPV4, ETH_IPV6)
        ),
        FlowEntry(Table.PATH, _LIVE_HOP, cookie, is_up, output(entry.port)),
    )


def _decode_protected_hop(found: _Found) -> ProtectedHop:
    destination, port = found.number(METADATA), found.number(REG1)
    return ProtectedHop(destination, port or unpack_load_if_live(found.instructions.actions))


def _encode_exempt(entry: Exempt) -> FlowEntries:
    """One for each direction, and without a network for each of both families."""
    network, port = entry.network, entry.port
    families = [_family(network)] if network else [_family(bytes(4)), _family(bytes(16))]
    return tuple(
        FlowEntry(
            Table.REGULATE,
            _EXEMPT,
            cookie_of(Kind.EXEMPT),
            (
                *tcp(eth_type),
                *((prefix(address, network, entry.prefix_bits),) if entry.prefix_bits else ()),
                *((exact(tcp_port, port),) if port else ()),
            ),
            goto=Table.FORWARD,
        )
        for eth_type, *addresses in families
        for address, tcp_port in zip(addresses, (TCP_SRC, TCP_DST), strict=True)
    )


def _decode_exempt(found: _Found) -> Exempt:
    network, prefix_bits, port = b"", 0, 0
    for field, value, mask in found.match:
        if field in (IPV4_SRC, IPV4_DST, IPV6_SRC, IPV6_DST):
            network, ones = value, 8 * len(value)
            prefix_bits = ones if mask is None else int.from_bytes(mask, "big").bit_count()
        elif field in (TCP_SRC, TCP_DST):
            port = int.from_bytes(value, "big")
    return Exempt(network, prefix_bits, port)


class _Coding(NamedTuple):
    kind: Kind
    type: type[Entry]
    encode: Callable[[Any], FlowEntries]
    decode: Callable[[_Found], Entry]


_CODINGS = (
    _Coding(Kind.LINK, LinkPort, _encode_link_port, _decode_link_port),
    _Coding(
        *(Kind.CONTROLLER_ANSWERS, ControllerAnswers),
        *(_encode_controller_answers, _decode_controller_answers),
    ),
    _Coding(Kind.FLOOD_FROM, FloodFrom, _encode_flood_from, _decode_flood_from),
    _Coding(Kind.FLOOD_TO, FloodTo, _encode_flood_to, _decode_flood_to),
    _Coding(Kind.VLAN_FILTER, VlanFilter, _encode_vlan_filter, _decode_vlan_filter),
    _Coding(Kind.VLAN_PORT, VlanPort, _encode_vlan_port, _decode_vlan_port),
    _Coding(Kind.TAGGED_INGRESS, TaggedIngress, _encode_tagged_ingress, _decode_tagged_ingress),
    _Coding(
        *(Kind.UNTAGGED_INGRESS, UntaggedIngress),
        *(_encode_untagged_ingress, _decode_untagged_ingress),
    ),
    _Coding(Kind.VLAN_EGRESS, VlanEgress, _encode_vlan_egress, _decode_vlan_egress),
    _Coding(Kind.RELEARN, Relearn, _encode_relearn, _decode_relearn),
    _Coding(Kind.PATH_IDS, AssignPathIds, _encode_path_ids, _decode_path_ids),
    _Coding(Kind.STEER, Steer, _encode_steer, _decode_steer),
    _Coding(Kind.FLOW_COUNTER, FlowCounter, _encode_flow_counter, _decode_flow_counter),
    _Coding(Kind.SERVICE_WATCH, ServiceWatch, _encode_service_watch, _decode_service_watch),
    _Coding(Kind.HOST_WINDOW, HostWindow, _encode_host_window, _decode_host_window),
    _Coding(Kind.PORT_WINDOW, PortWindow, _encode_port_window, _decode_port_window),
    _Coding(Kind.FLOW_WINDOW, FlowWindow, _encode_flow_window, _decode_flow_window),
    _Coding(Kind.FORWARD, Forward, _encode_forward, _decode_forward),
    _Coding(Kind.FORWARD_VIA, ForwardVia, _encode_forward_via, _decode_forward_via),
    _Coding(Kind.NEXT_HOP, NextHop, _encode_next_hop, _decode_next_hop),
    _Coding(Kind.PROTECTED_HOP, ProtectedHop, _encode_protected_hop, _decode_protected_hop),
    _Coding(Kind.EXEMPT, Exempt, _encode_exempt, _decode_exempt),
)
_OF_TYPE = {coding.type: coding.encode for coding in _CODINGS}
_OF_KIND: dict[int, _Coding] = {coding.kind: coding for coding in _CODINGS}


def encode(entry: Entry) -> FlowEntries:
    """The flow entries that stand for an entry, all of which make it."""
    return _OF_TYPE[type(entry)](entry)


def decode(stats: FlowStats) -> Decoded | None:
    """The entry that a flow entry belongs to; None if it is not exactly one that `encode` makes."""
    kind = kind_of(stats.cookie)
    coding = None if kind is None else _OF_KIND.get(kind)
    if coding is None:
        return None
    try:
        match = unpack_match(stats.match)
        instructions = unpack_instructions(stats.instructions)
        values = {field: value for field, value, _ in match}
        entry = coding.decode(_Found(stats.cookie, match, values, instructions))
    except (KeyError, ValueError):
        return None
    flow_entries = coding.encode(entry)
    for made in flow_entries:
        if (
            (made.table, made.priority, made.cookie) == (stats.table, stats.priority, stats.cookie)
            and (made.match == match or frozenset(made.match) == frozenset(match))
            and made.instructions == instructions
        ):
            return Decoded(entry, len(flow_entries))
    return None


def _register_action(found: _Found) -> TcpRwndRegister:
    action = unpack_action(found.instructions.actions)
    if not isinstance(action, TcpRwndRegister):
        raise ValueError("a window entry without a register")
    return action


def _scaled_register(found: _Found) -> tuple[int, int]:
    """The register and the window scale of a host."""
    action = _register_action(found)
    if action.window_scale is None:
        raise ValueError("a window entry of one host without its window scale")
    return action.register, action.window_scale


def _match_of_flow(flow: FlowKey) -> Match:
    eth_type, src, dst = _family(flow.src)
    return (
        *tcp(eth_type),
        *in_vlan(flow.vlan),
        exact(src, flow.src),
        exact(dst, flow.dst),
        exact(TCP_SRC, flow.src_port),
        exact(TCP_DST, flow.dst_port),
    )


def _flow_of_match(values: dict[Field, bytes]) -> FlowKey:
    src, dst = _address_fields(values)
    src_port, dst_port = (int.from_bytes(values[field], "big") for field in (TCP_SRC, TCP_DST))
    return FlowKey(values[src], src_port, values[dst], dst_port, vlan_in(values))


def _address_fields(values: dict[Field, bytes]) -> tuple[Field, Field]:
    return (IPV4_SRC, IPV4_DST) if IPV4_SRC in values else (IPV6_SRC, IPV6_DST)


def _family(address: bytes) -> tuple[int, Field, Field]:
    if len(address) == 4:
        return ETH_IPV4, IPV4_SRC, IPV4_DST
    return ETH_IPV6, IPV6_SRC, IPV6_DST
