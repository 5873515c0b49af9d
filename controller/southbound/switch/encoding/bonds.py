"""By which members of a bond frames enter and leave: tables BOND_IN and BOND_OUT."""

from controller.model.entries import BondEgress, BondIngress
from controller.southbound.codec.match import (
    IN_PORT,
    METADATA,
    NXM_IN_PORT,
    REG0,
    Match,
    exact,
    load,
    output,
    unpack_load,
    unpack_output,
)
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.pipeline import (
    HAS_PATH_ID,
    TO_A_GROUP,
    Kind,
    Table,
    cookie_of,
    path_id_of,
)

_TO_A_GROUP, _OF_PATH_ID, _OF_ANY = 200, 100, 50


def _encode_bond_ingress(entry: BondIngress) -> FlowEntries:
    match: Match = (exact(IN_PORT, entry.port), TO_A_GROUP)
    priority = _TO_A_GROUP
    if entry.path_id is not None:
        match = exact(IN_PORT, entry.port), exact(REG0, HAS_PATH_ID | entry.path_id)
        priority = _OF_PATH_ID
    actions = load(NXM_IN_PORT, 0, 8 * NXM_IN_PORT.length, entry.member)
    cookie = cookie_of(Kind.BOND_INGRESS)
    return (FlowEntry(Table.BOND_IN, priority, cookie, match, actions, Table.EDGE),)


def _decode_bond_ingress(found: Found) -> BondIngress:
    member = unpack_load(found.instructions.actions)
    return BondIngress(found.number(IN_PORT), _path_id_in(found), member)


def _encode_bond_egress(entry: BondEgress) -> FlowEntries:
    match: Match = (exact(METADATA, entry.port),)
    priority, cookie = _OF_ANY, cookie_of(Kind.BOND_EGRESS)
    if entry.path_id is not None:
        match = (*match, exact(REG0, HAS_PATH_ID | entry.path_id))
        priority = _OF_PATH_ID
    head = Table.BOND_OUT, priority, cookie, match
    if entry.by_vlan:
        return (FlowEntry(*head, goto=Table.EGRESS, metadata=entry.member),)
    return (FlowEntry(*head, output(entry.member)),)


def _decode_bond_egress(found: Found) -> BondEgress:
    port, member = found.number(METADATA), found.instructions.metadata
    if member is not None:
        return BondEgress(port, _path_id_in(found), member, by_vlan=True)
    return BondEgress(port, _path_id_in(found), unpack_output(found.instructions.actions))


def _path_id_in(found: Found) -> int | None:
    return path_id_of(found.number(REG0)) if REG0 in found.values else None


CODINGS = (
    Coding(Kind.BOND_INGRESS, BondIngress, _encode_bond_ingress, _decode_bond_ingress),
    Coding(Kind.BOND_EGRESS, BondEgress, _encode_bond_egress, _decode_bond_egress),
)
