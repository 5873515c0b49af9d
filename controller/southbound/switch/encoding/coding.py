"""What it takes to write one kind of entry as flow entries, and to read it back."""

from collections.abc import Callable
from typing import Any, NamedTuple

from controller.model.entries import Entry
from controller.southbound.codec.match import Field, Instructions, Match
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch.pipeline import Kind

FlowEntries = tuple[FlowEntry, ...]


class Found(NamedTuple):
    """A flow entry that was read back. `values` are those of the match, whatever their masks."""

    cookie: int
    match: Match
    values: dict[Field, bytes]
    instructions: Instructions

    def number(self, field: Field) -> int:
        return int.from_bytes(self.values[field], "big")


class Coding(NamedTuple):
    """How one kind of entry is encoded and decoded.

    To decode raises KeyError or ValueError for anything else. It need not check all of it, because
    the result is encoded again and compared.
    """

    kind: Kind
    type: type[Entry]
    encode: Callable[[Any], FlowEntries]
    decode: Callable[[Found], Entry]
