"""Entries of the model as flow entries of a switch, and back: two functions for each kind.

To decode is strict: a flow entry must be exactly what `encode` makes of the entry that it seems to
be, its counters and timeouts aside. Anything else is not one of ours.
"""

from typing import NamedTuple

from controller.model.entries import Entry
from controller.southbound.codec.match import unpack_instructions, unpack_match
from controller.southbound.codec.openflow import FlowStats
from controller.southbound.switch.encoding import (
    bonds,
    floods,
    flows,
    paths,
    tunnels,
    vlans,
    windows,
)
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.encoding.flows import FINISHED_IDLE_S, counted_flow, flow_counter
from controller.southbound.switch.encoding.tunnels import counted_tunnel
from controller.southbound.switch.pipeline import kind_of

__all__ = [
    "FINISHED_IDLE_S",
    "Decoded",
    "counted_flow",
    "counted_tunnel",
    "decode",
    "encode",
    "flow_counter",
]

_CODINGS = (
    *(*paths.CODINGS, *vlans.CODINGS, *bonds.CODINGS),
    *(*floods.CODINGS, *flows.CODINGS, *tunnels.CODINGS, *windows.CODINGS),
)
_OF_TYPE = {coding.type: coding.encode for coding in _CODINGS}
_OF_KIND: dict[int, Coding] = {coding.kind: coding for coding in _CODINGS}


class Decoded(NamedTuple):
    """The entry that a flow entry belongs to, and how many flow entries make it."""

    entry: Entry
    n_flow_entries: int


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
        entry = coding.decode(Found(stats.cookie, match, values, instructions))
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
