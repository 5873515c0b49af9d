"""Links, path ids, and the ways to hosts and switches: tables PATH_ID, EDGE, FORWARD and PATH."""

from controller.model.entries import (
    AssignPathIds,
    Forward,
    ForwardVia,
    LinkPort,
    NextHop,
    ProtectedHop,
    Steer,
)
from controller.southbound.codec.ethernet import ETH_IPV4, ETH_IPV6
from controller.southbound.codec.match import (
    ETH_DST,
    ETH_TYPE,
    IN_PORT,
    IP_PROTO,
    METADATA,
    REG0,
    REG1,
    Match,
    exact,
    in_vlan,
    load,
    load_if_live,
    multipath,
    output,
    resubmit,
    unpack_load,
    unpack_load_if_live,
    unpack_output,
    vlan_in,
)
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.encoding.flow_match import (
    address_fields,
    family,
    of_path_id,
    path_id_in,
)
from controller.southbound.switch.encoding.vlans import LINK_PRIORITY
from controller.southbound.switch.pipeline import (
    HAS_PATH_ID,
    PATH_ID_BITS,
    PROTO_UDP,
    Kind,
    Table,
    cookie_of,
    path_id_of,
    tcp,
)

# Priorities in table PATH: over a protected port that is up, once it is known whether it is; and by
# NextHop otherwise.
_LIVE_HOP, _PROTECTED_HOP, _HOP_OF_PATH_ID, _HOP = 160, 150, 100, 50


def _encode_link_port(entry: LinkPort) -> FlowEntries:
    match = (exact(IN_PORT, entry.port),)
    return (
        FlowEntry(Table.EDGE, 380, cookie_of(Kind.LINK), match, goto=Table.COUNT),
        FlowEntry(Table.VLAN, LINK_PRIORITY, cookie_of(Kind.LINK), match, goto=Table.PATH_ID),
    )


def _decode_link_port(found: Found) -> LinkPort:
    return LinkPort(found.number(IN_PORT))


def _encode_path_ids(_: AssignPathIds) -> FlowEntries:
    actions = load(REG0, PATH_ID_BITS, 1, 1) + multipath(REG0, PATH_ID_BITS)
    return (FlowEntry(Table.PATH_ID, 100, cookie_of(Kind.PATH_IDS), (), actions, Table.BOND_IN),)


def _decode_path_ids(_: Found) -> AssignPathIds:
    return AssignPathIds()


def _encode_steer(entry: Steer) -> FlowEntries:
    eth_type, src, dst = family(entry.src)
    match: Match = (
        *(exact(ETH_TYPE, eth_type), exact(IP_PROTO, PROTO_UDP), *in_vlan(entry.vlan)),
        *(exact(src, entry.src), exact(dst, entry.dst)),
    )
    actions = load(REG0, 0, PATH_ID_BITS + 1, HAS_PATH_ID | entry.path_id)
    return (FlowEntry(Table.PATH_ID, 200, cookie_of(Kind.STEER), match, actions, Table.BOND_IN),)


def _decode_steer(found: Found) -> Steer:
    src, dst = (found.values[field] for field in address_fields(found.values))
    path_id = path_id_of(unpack_load(found.instructions.actions))
    if path_id is None:
        raise ValueError("datagrams are given no path id")
    return Steer(src, dst, path_id, vlan_in(found.values))


def _encode_forward(entry: Forward) -> FlowEntries:
    match, cookie = (exact(ETH_DST, entry.mac),), cookie_of(Kind.FORWARD)
    if entry.by_vlan or entry.by_bond:
        goto = Table.BOND_OUT if entry.by_bond else Table.EGRESS
        return (FlowEntry(Table.FORWARD, 100, cookie, match, goto=goto, metadata=entry.port),)
    return (FlowEntry(Table.FORWARD, 100, cookie, match, output(entry.port)),)


def _decode_forward(found: Found) -> Forward:
    mac, port = found.values[ETH_DST], found.instructions.metadata
    if port is not None:
        by_bond = found.instructions.goto == Table.BOND_OUT
        return Forward(mac, port, by_vlan=not by_bond, by_bond=by_bond)
    return Forward(mac, unpack_output(found.instructions.actions))


def _encode_forward_via(entry: ForwardVia) -> FlowEntries:
    match, cookie = (exact(ETH_DST, entry.mac),), cookie_of(Kind.FORWARD_VIA)
    return (FlowEntry(Table.FORWARD, 100, cookie, match, goto=Table.PATH, metadata=entry.switch),)


def _decode_forward_via(found: Found) -> ForwardVia:
    if found.instructions.metadata is None:
        raise ValueError("an entry without the switch that its hosts are behind")
    return ForwardVia(found.values[ETH_DST], found.instructions.metadata)


def _encode_next_hop(entry: NextHop) -> FlowEntries:
    match: Match = (exact(METADATA, entry.destination), *of_path_id(entry.path_id))
    priority = _HOP if entry.path_id is None else _HOP_OF_PATH_ID
    return (FlowEntry(Table.PATH, priority, cookie_of(Kind.NEXT_HOP), match, output(entry.port)),)


def _decode_next_hop(found: Found) -> NextHop:
    port = unpack_output(found.instructions.actions)
    return NextHop(found.number(METADATA), path_id_in(found.values), port)


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


def _decode_protected_hop(found: Found) -> ProtectedHop:
    destination, port = found.number(METADATA), found.number(REG1)
    return ProtectedHop(destination, port or unpack_load_if_live(found.instructions.actions))


CODINGS = (
    Coding(Kind.LINK, LinkPort, _encode_link_port, _decode_link_port),
    Coding(Kind.PATH_IDS, AssignPathIds, _encode_path_ids, _decode_path_ids),
    Coding(Kind.STEER, Steer, _encode_steer, _decode_steer),
    Coding(Kind.FORWARD, Forward, _encode_forward, _decode_forward),
    Coding(Kind.FORWARD_VIA, ForwardVia, _encode_forward_via, _decode_forward_via),
    Coding(Kind.NEXT_HOP, NextHop, _encode_next_hop, _decode_next_hop),
    Coding(Kind.PROTECTED_HOP, ProtectedHop, _encode_protected_hop, _decode_protected_hop),
)
