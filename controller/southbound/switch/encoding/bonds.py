"""By which members of a bond frames enter and leave: tables BOND_IN and BOND_OUT."""

from controller.model.entries import BondEgress, BondIngress
from controller.southbound.codec.match import (
    IN_PORT,
    METADATA,
    NXM_IN_PORT,
    Match,
    exact,
    load,
    output,
    unpack_load,
    unpack_output,
)
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.encoding.flow_match import of_path_id, path_id_in
from controller.southbound.switch.pipeline import TO_A_GROUP, Kind, Table, cookie_of

_TO_A_GROUP, _OF_PATH_ID, _OF_ANY = 200, 100, 50


def _encode_bond_ingress(entry: BondIngress) -> FlowEntries:
    is_of_group = entry.path_id is None
    which: Match = (TO_A_GROUP,) if is_of_group else of_path_id(entry.path_id)
    match = (exact(IN_PORT, entry.port), *which)
    priority = _TO_A_GROUP if is_of_group else _OF_PATH_ID
    actions = load(NXM_IN_PORT, 0, 8 * NXM_IN_PORT.length, entry.member)
    cookie = cookie_of(Kind.BOND_INGRESS)
    return (FlowEntry(Table.BOND_IN, priority, cookie, match, actions, Table.EDGE),)


def _decode_bond_ingress(found: Found) -> BondIngress:
    member = unpack_load(found.instructions.actions)
    return BondIngress(found.number(IN_PORT), path_id_in(found.values), member)


def _encode_bond_egress(entry: BondEgress) -> FlowEntries:
    match = (exact(METADATA, entry.port), *of_path_id(entry.path_id))
    priority = _OF_ANY if entry.path_id is None else _OF_PATH_ID
    head = Table.BOND_OUT, priority, cookie_of(Kind.BOND_EGRESS), match
    if entry.by_vlan:
        return (FlowEntry(*head, goto=Table.EGRESS, metadata=entry.member),)
    return (FlowEntry(*head, output(entry.member)),)


def _decode_bond_egress(found: Found) -> BondEgress:
    port, member = found.number(METADATA), found.instructions.metadata
    if member is not None:
        return BondEgress(port, path_id_in(found.values), member, by_vlan=True)
    return BondEgress(port, path_id_in(found.values), unpack_output(found.instructions.actions))


CODINGS = (
    Coding(Kind.BOND_INGRESS, BondIngress, _encode_bond_ingress, _decode_bond_ingress),
    Coding(Kind.BOND_EGRESS, BondEgress, _encode_bond_egress, _decode_bond_egress),
)
