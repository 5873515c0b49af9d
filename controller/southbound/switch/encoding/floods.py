"""Where frames to groups may come from, and where they go: tables FLOOD and FLOOD_OUT."""

from controller.model.entries import (
    CONTROLLER_ANSWERS_S,
    ControllerAnswers,
    FloodFrom,
    FloodTo,
    GroupMessages,
    GroupsFollowed,
    GroupTo,
)
from controller.model.packet_ins import PacketClass
from controller.southbound.codec.ethernet import ETH_IPV4, ETH_IPV6
from controller.southbound.codec.groups import (
    MLD_DONE,
    MLD_QUERY,
    MLD_REPORT,
    MLDV2_REPORT,
    PROTO_IGMP,
    PROTO_PIM,
)
from controller.southbound.codec.match import (
    ETH_TYPE,
    ICMPV6_TYPE,
    IN_PORT,
    IP_PROTO,
    IPV4_DST,
    IPV6_DST,
    METADATA,
    NXM_IN_PORT,
    VLAN_VID,
    WHOLE_PACKET,
    Match,
    exact,
    in_vlan,
    load,
    metered_copy,
    output,
    pop_vlan,
    unpack_load,
    unpack_outputs,
    vlan_in,
)
from controller.southbound.codec.neighbours import PROTO_ICMPV6
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch.budgets import meter_of
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.pipeline import (
    COPY,
    RESOLUTION,
    TO_A_GROUP,
    TO_A_HOST,
    Kind,
    Table,
    cookie_of,
    detail_of,
)

# What comes over a link was flooded by a switch for which no controller answers.
_FLOOD_FROM_LINK, _ANSWERED, _GROUP_MESSAGES, _FLOOD_FROM = 350, 300, 200, 100
_GROUP_TO, _FLOOD_TO_VLAN, _FLOOD_TO = 150, 100, 50
_TO_A_GROUP = 160
# In the metadata: groups are followed.
_FOLLOWED = 1


def _encode_controller_answers(_: ControllerAnswers) -> FlowEntries:
    """It has been copied up before."""
    cookie = cookie_of(Kind.CONTROLLER_ANSWERS)
    return tuple(
        FlowEntry(Table.FLOOD, _ANSWERED, cookie, seen_to, hard_timeout_s=CONTROLLER_ANSWERS_S)
        for seen_to in (*RESOLUTION, (TO_A_HOST,))
    )


def _decode_controller_answers(_: Found) -> ControllerAnswers:
    return ControllerAnswers()


def _encode_flood_from(entry: FloodFrom) -> FlowEntries:
    match, cookie = (exact(IN_PORT, entry.port),), cookie_of(Kind.FLOOD_FROM, int(entry.of_hosts))
    if not entry.of_hosts:
        return (FlowEntry(Table.FLOOD, _FLOOD_FROM_LINK, cookie, match, goto=Table.FLOOD_OUT),)
    meter = meter_of(entry.port, PacketClass.FLOODED)
    actions = COPY
    if entry.counts_as is not None:
        actions += load(NXM_IN_PORT, 0, 8 * NXM_IN_PORT.length, entry.counts_as)
    return (
        FlowEntry(
            *(Table.FLOOD, _FLOOD_FROM, cookie, match, actions), goto=Table.FLOOD_OUT, meter=meter
        ),
    )


def _decode_flood_from(found: Found) -> FloodFrom:
    counts_as = found.instructions.actions[len(COPY) :]
    return FloodFrom(
        found.number(IN_PORT),
        bool(detail_of(found.cookie)),
        unpack_load(counts_as) if counts_as else None,
    )


def _outputs(entry: FloodTo | GroupTo) -> bytes:
    actions = b"".join(map(output, entry.tagged))
    if entry.untagged:
        actions += pop_vlan() + b"".join(map(output, entry.untagged))
    return actions


def _encode_flood_to(entry: FloodTo) -> FlowEntries:
    match: Match = () if entry.vlan is None else in_vlan(entry.vlan)
    priority = _FLOOD_TO if entry.vlan is None else _FLOOD_TO_VLAN
    cookie = cookie_of(Kind.FLOOD_TO)
    return (FlowEntry(Table.FLOOD_OUT, priority, cookie, match, _outputs(entry)),)


def _decode_flood_to(found: Found) -> FloodTo:
    tagged, untagged = unpack_outputs(found.instructions.actions)
    vlan = vlan_in(found.values) if found.match else None
    return FloodTo(vlan, tuple(tagged), tuple(untagged))


def _encode_groups_followed(entry: GroupsFollowed) -> FlowEntries:
    vlan = in_vlan(b"") if entry.untagged else ()
    return tuple(
        FlowEntry(
            *(Table.FORWARD, _TO_A_GROUP, cookie_of(Kind.GROUPS_FOLLOWED)),
            (exact(ETH_TYPE, eth_type), TO_A_GROUP, *vlan),
            goto=Table.FLOOD,
            hard_timeout_s=CONTROLLER_ANSWERS_S,
            metadata=_FOLLOWED,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
    )


def _decode_groups_followed(found: Found) -> GroupsFollowed:
    return GroupsFollowed(untagged=VLAN_VID in found.values)


def _encode_group_messages(entry: GroupMessages) -> FlowEntries:
    """Whole: routers get them from the controller."""
    entered: Match = exact(METADATA, _FOLLOWED), exact(IN_PORT, entry.port)
    copy = metered_copy(WHOLE_PACKET, meter_of(entry.port, PacketClass.NEIGHBOUR))
    ipv4, ipv6 = exact(ETH_TYPE, ETH_IPV4), exact(ETH_TYPE, ETH_IPV6)
    messages: list[Match] = [
        (ipv4, exact(IP_PROTO, PROTO_IGMP)),
        *((ip, exact(IP_PROTO, PROTO_PIM)) for ip in (ipv4, ipv6)),
        *(
            (ipv6, exact(IP_PROTO, PROTO_ICMPV6), exact(ICMPV6_TYPE, kind))
            for kind in (MLD_QUERY, MLD_REPORT, MLD_DONE, MLDV2_REPORT)
        ),
    ]
    cookie = cookie_of(Kind.GROUP_MESSAGES)
    return tuple(
        FlowEntry(Table.FLOOD, _GROUP_MESSAGES, cookie, (*entered, *message), copy)
        for message in messages
    )


def _decode_group_messages(found: Found) -> GroupMessages:
    return GroupMessages(found.number(IN_PORT))


def _encode_group_to(entry: GroupTo) -> FlowEntries:
    is_ipv6 = len(entry.group) == 16
    match: Match = (
        exact(METADATA, _FOLLOWED),
        exact(ETH_TYPE, ETH_IPV6 if is_ipv6 else ETH_IPV4),
        exact(IPV6_DST if is_ipv6 else IPV4_DST, entry.group),
        *in_vlan(entry.vlan),
    )
    cookie = cookie_of(Kind.GROUP_TO)
    return (FlowEntry(Table.FLOOD_OUT, _GROUP_TO, cookie, match, _outputs(entry)),)


def _decode_group_to(found: Found) -> GroupTo:
    tagged, untagged = unpack_outputs(found.instructions.actions)
    values = found.values
    group = values[IPV6_DST] if IPV6_DST in values else values[IPV4_DST]
    return GroupTo(vlan_in(values), group, tuple(tagged), tuple(untagged))


CODINGS = (
    Coding(
        Kind.CONTROLLER_ANSWERS,
        ControllerAnswers,
        _encode_controller_answers,
        _decode_controller_answers,
    ),
    Coding(Kind.FLOOD_FROM, FloodFrom, _encode_flood_from, _decode_flood_from),
    Coding(Kind.FLOOD_TO, FloodTo, _encode_flood_to, _decode_flood_to),
    Coding(Kind.GROUPS_FOLLOWED, GroupsFollowed, _encode_groups_followed, _decode_groups_followed),
    Coding(Kind.GROUP_MESSAGES, GroupMessages, _encode_group_messages, _decode_group_messages),
    Coding(Kind.GROUP_TO, GroupTo, _encode_group_to, _decode_group_to),
)
