"""Where frames to groups may come from, and where they go: tables FLOOD and FLOOD_OUT."""

from controller.model.entries import CONTROLLER_ANSWERS_S, ControllerAnswers, FloodFrom, FloodTo
from controller.model.packet_ins import PacketClass
from controller.southbound.codec.match import (
    IN_PORT,
    NXM_IN_PORT,
    Match,
    exact,
    in_vlan,
    load,
    output,
    pop_vlan,
    unpack_load,
    unpack_outputs,
    vlan_in,
)
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch.budgets import meter_of
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.pipeline import (
    COPY,
    RESOLUTION,
    TO_A_HOST,
    Kind,
    Table,
    cookie_of,
    detail_of,
)

# What comes over a link was flooded by a switch for which no controller answers.
_FLOOD_FROM_LINK, _ANSWERED, _FLOOD_FROM = 350, 300, 100
_FLOOD_TO_VLAN, _FLOOD_TO = 100, 50


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
        actions = COPY + load(NXM_IN_PORT, 0, 8 * NXM_IN_PORT.length, entry.counts_as)
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


def _encode_flood_to(entry: FloodTo) -> FlowEntries:
    match: Match = () if entry.vlan is None else in_vlan(entry.vlan)
    actions = b"".join(map(output, entry.tagged))
    if entry.untagged:
        actions += pop_vlan() + b"".join(map(output, entry.untagged))
    priority = _FLOOD_TO if entry.vlan is None else _FLOOD_TO_VLAN
    return (FlowEntry(Table.FLOOD_OUT, priority, cookie_of(Kind.FLOOD_TO), match, actions),)


def _decode_flood_to(found: Found) -> FloodTo:
    tagged, untagged = unpack_outputs(found.instructions.actions)
    vlan = vlan_in(found.values) if found.match else None
    return FloodTo(vlan, tuple(tagged), tuple(untagged))


CODINGS = (
    Coding(
        Kind.CONTROLLER_ANSWERS,
        ControllerAnswers,
        _encode_controller_answers,
        _decode_controller_answers,
    ),
    Coding(Kind.FLOOD_FROM, FloodFrom, _encode_flood_from, _decode_flood_from),
    Coding(Kind.FLOOD_TO, FloodTo, _encode_flood_to, _decode_flood_to),
)
