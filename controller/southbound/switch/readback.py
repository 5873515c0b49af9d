"""What a switch was found to hold, sorted: what the session itself has put there, what the core
has, and what nobody can have meant.

The entries of one decoded entry count only when all of them are there.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from controller.southbound.codec.match import pack_instructions, pack_match, unpack_instructions
from controller.southbound.codec.openflow import FlowEntry, FlowStats
from controller.southbound.switch import pipeline
from controller.southbound.switch.pipeline import Decoded, Kind, Place


class Held(NamedTuple):
    """An entry that a switch holds, with its counters and its age."""

    decoded: Decoded
    byte_count: int
    packet_count: int
    age_ns: int


class ReadBack:
    """Takes a reply part by part. `own` are the entries that the session wants there.

    `stale` holds what is not as anybody would have made it; `missing` what of `own` was not there.
    """

    def __init__(self, own: Mapping[Place, FlowEntry]) -> None:
        self._own = own
        self.missing = dict(own)
        self.stale: dict[Place, FlowStats] = {}
        self._partial: dict[Decoded, list[FlowStats]] = {}

    def take(self, entries: list[FlowStats]) -> list[Held]:
        """What of a part is the core's."""
        held = []
        for stats in entries:
            decoded = _decode(stats)
            if decoded is None:
                self._not_the_cores(stats)
                continue
            size = _size(decoded)
            if size == 1:
                held.append(Held(decoded, stats.byte_count, stats.packet_count, stats.duration_ns))
                continue
            siblings = self._partial.setdefault(decoded, [])
            siblings.append(stats)
            if len(siblings) == size:
                del self._partial[decoded]
                byte_count = sum(sibling.byte_count for sibling in siblings)
                packet_count = sum(sibling.packet_count for sibling in siblings)
                held.append(Held(decoded, byte_count, packet_count, stats.duration_ns))
        return held

    def finish(self) -> None:
        """There are no more: what has not come together is stale."""
        for siblings in self._partial.values():
            for stats in siblings:
                self.stale[pipeline.place_read_back(stats)] = stats
        self._partial = {}

    def _not_the_cores(self, stats: FlowStats) -> None:
        place = pipeline.place_read_back(stats)
        wanted = self._own.get(place)
        if wanted is None:
            self.stale[place] = stats
        elif _is(wanted, stats):
            self.missing.pop(place, None)


def _is(wanted: FlowEntry, stats: FlowStats) -> bool:
    try:
        found = unpack_instructions(stats.instructions)
    except ValueError:
        return False
    return (stats.cookie, *found) == (wanted.cookie, wanted.actions, wanted.goto, wanted.metadata)


def _decode(stats: FlowStats) -> Decoded | None:
    """An audit reads the same entries again and again; accounts are many, and come and go.

    What has been decoded is remembered for some audits only: what is gone would stay in it.
    """
    kind = stats.cookie & pipeline.ACCOUNT_COOKIE_MASK
    if kind == pipeline.ACCOUNT_COOKIE and _form(stats) in _ACCOUNT_FORMS:
        try:
            flow = pipeline.decode_account(stats.match)
        except ValueError:
            return None
        return Decoded(Kind.ACCOUNT, (flow, *pipeline.account_detail(stats.cookie)))
    return _decoded(stats.table, stats.priority, stats.cookie, stats.match, stats.instructions)


@lru_cache(maxsize=4_096)
def _decoded(
    table: int, priority: int, cookie: int, match: bytes, instructions: bytes
) -> Decoded | None:
    return pipeline.decode(FlowStats(table, priority, cookie, 0, 0, 0, match, instructions))


def _form(stats: FlowStats) -> tuple[int, int, int, bytes]:
    return stats.table, stats.priority, len(stats.match), stats.instructions


def _account_form(address_bytes: int) -> tuple[int, int, int, bytes]:
    address = bytes(address_bytes)
    (entry,) = pipeline.account(
        pipeline.FiveTuple(address, 0, address, 0), forward=False, label=None
    )
    match_bytes = len(pack_match(entry.match))
    instructions = pack_instructions(entry.actions, entry.goto)
    return entry.table, entry.priority, match_bytes, instructions


_ACCOUNT_FORMS = _account_form(4), _account_form(16)
_ALONE = frozenset(Kind) - {Kind.RELEARN, Kind.EXEMPT, Kind.PORT_WINDOW}


def _size(decoded: Decoded) -> int:
    """Of how many entries it consists."""
    return 1 if decoded.kind in _ALONE else len(pipeline.entries(decoded))
