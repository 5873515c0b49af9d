"""Which frames may enter and leave by which ports: tables VLAN and EGRESS."""

from controller.model.entries import (
    TaggedIngress,
    UntaggedIngress,
    VlanEgress,
    VlanFilter,
    VlanPort,
)
from controller.southbound.codec.match import (
    ANY_TAG,
    IN_PORT,
    METADATA,
    NO_TAG,
    PRIORITY_TAG,
    exact,
    in_vlan,
    output,
    pop_vlan,
    push_vlan,
    set_vlan,
    unpack_set_vlan,
    vlan_in,
)
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.pipeline import Kind, Table, cookie_of, detail_of

# Links come before what is known of ports, and that before what no port is known to carry.
LINK_PRIORITY = 300
_PORT_VLAN, _VLAN_PORT, _NO_VLAN, _OTHER_VLAN = 100, 50, 20, 10


def _encode_vlan_filter(_: VlanFilter) -> FlowEntries:
    cookie = cookie_of(Kind.VLAN_FILTER)
    return (
        FlowEntry(Table.VLAN, _NO_VLAN, cookie, PRIORITY_TAG, goto=Table.PATH_ID),
        FlowEntry(Table.VLAN, _OTHER_VLAN, cookie, ANY_TAG),
    )


def _decode_vlan_filter(_: Found) -> VlanFilter:
    return VlanFilter()


def _encode_vlan_port(entry: VlanPort) -> FlowEntries:
    cookie = cookie_of(Kind.VLAN_PORT)
    return (
        FlowEntry(Table.VLAN, _VLAN_PORT, cookie, (exact(IN_PORT, entry.port),)),
        FlowEntry(Table.EGRESS, _VLAN_PORT, cookie, (exact(METADATA, entry.port),)),
    )


def _decode_vlan_port(found: Found) -> VlanPort:
    return VlanPort(found.number(IN_PORT if IN_PORT in found.values else METADATA))


def _encode_tagged_ingress(entry: TaggedIngress) -> FlowEntries:
    match, cookie = (exact(IN_PORT, entry.port), *in_vlan(entry.vlan)), Kind.TAGGED_INGRESS
    return (FlowEntry(Table.VLAN, _PORT_VLAN, cookie_of(cookie), match, goto=Table.PATH_ID),)


def _decode_tagged_ingress(found: Found) -> TaggedIngress:
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


def _decode_untagged_ingress(found: Found) -> UntaggedIngress:
    return UntaggedIngress(found.number(IN_PORT), unpack_set_vlan(found.instructions.actions))


def _encode_vlan_egress(entry: VlanEgress) -> FlowEntries:
    match = (exact(METADATA, entry.port), *in_vlan(entry.vlan))
    actions = (b"" if entry.tagged else pop_vlan()) + output(entry.port)
    cookie = cookie_of(Kind.VLAN_EGRESS, int(entry.tagged))
    return (FlowEntry(Table.EGRESS, _PORT_VLAN, cookie, match, actions),)


def _decode_vlan_egress(found: Found) -> VlanEgress:
    tagged = bool(detail_of(found.cookie))
    return VlanEgress(found.number(METADATA), vlan_in(found.values), tagged)


CODINGS = (
    Coding(Kind.VLAN_FILTER, VlanFilter, _encode_vlan_filter, _decode_vlan_filter),
    Coding(Kind.VLAN_PORT, VlanPort, _encode_vlan_port, _decode_vlan_port),
    Coding(Kind.TAGGED_INGRESS, TaggedIngress, _encode_tagged_ingress, _decode_tagged_ingress),
    Coding(
        Kind.UNTAGGED_INGRESS, UntaggedIngress, _encode_untagged_ingress, _decode_untagged_ingress
    ),
    Coding(Kind.VLAN_EGRESS, VlanEgress, _encode_vlan_egress, _decode_vlan_egress),
)
