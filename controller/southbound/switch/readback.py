"""Sorts the flow entries that a switch holds: the session's own, the core's, and stale ones.

An entry that consists of several flow entries counts only if all of them are there.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from controller.model.entries import Entry, FlowCounter, HeldEntry
from controller.model.flow import FlowKey, payload_bytes
from controller.southbound.codec.match import pack_instructions, pack_match, unpack_instructions
from controller.southbound.codec.openflow import FlowEntry, FlowStats, Place
from controller.southbound.switch import encoding, pipeline
from controller.southbound.switch.encoding import Decoded


class ReadBack:
    """Takes a reply part by part. `own` are the session's own flow entries.

    `stale` are those that neither the session nor the core can have made; `missing` are those of
    `own` that the switch does not hold.
    """

    def __init__(self, own: Mapping[Place, FlowEntry]) -> None:
        self._own = own
        self.missing = dict(own)
        self.stale: dict[Place, FlowStats] = {}
        self._partial: dict[Entry, list[FlowStats]] = {}

    def take(self, flow_entries: Iterable[FlowStats]) -> list[HeldEntry]:
        """The core's entries in a part."""
        held = []
        for stats in flow_entries:
            decoded = _decode(stats)
            if decoded is None:
                self._not_the_cores(stats)
                continue
            entry, size = decoded
            if size == 1:
                held.append(_held(entry, stats))
                continue
            siblings = self._partial.setdefault(entry, [])
            siblings.append(stats)
            if len(siblings) == size:
                del self._partial[entry]
                held.append(_held(entry, stats))
        return held

    def finish(self) -> None:
        """The reply is complete: entries of which a part is missing are stale."""
        for siblings in self._partial.values():
            for stats in siblings:
                self.stale[stats.place] = stats
        self._partial = {}

    def _not_the_cores(self, stats: FlowStats) -> None:
        place = stats.place
        wanted = self._own.get(place)
        if wanted is None:
            self.stale[place] = stats
        elif _is(wanted, stats):
            self.missing.pop(place, None)


def _held(entry: Entry, stats: FlowStats) -> HeldEntry:
    volume_bytes = 0
    if isinstance(entry, FlowCounter):
        volume_bytes = payload_bytes(entry.flow.pack(), stats.byte_count, stats.packet_count)
    return HeldEntry(entry, volume_bytes, stats.duration_ns)


def _is(wanted: FlowEntry, stats: FlowStats) -> bool:
    try:
        found = unpack_instructions(stats.instructions)
    except ValueError:
        return False
    return (stats.cookie, found) == (wanted.cookie, wanted.instructions)


def _decode(stats: FlowStats) -> Decoded | None:
    """Audits read the same entries again and again, so what was decoded is cached. Flow counters
    come and go, so they are not; they are recognised by their form, which is quick."""
    kind = stats.cookie & pipeline.FLOW_COUNTER_COOKIE_MASK
    if kind == pipeline.FLOW_COUNTER_COOKIE and _form(stats) in _COUNTER_FORMS:
        try:
            flow = encoding.counted_flow(stats.match)
        except ValueError:
            return None
        return Decoded(encoding.flow_counter(flow, stats.cookie), 1)
    return _decoded(stats.table, stats.priority, stats.cookie, stats.match, stats.instructions)


@lru_cache(maxsize=4_096)
def _decoded(
    table: int, priority: int, cookie: int, match: bytes, instructions: bytes
) -> Decoded | None:
    return encoding.decode(FlowStats(table, priority, cookie, 0, 0, 0, match, instructions))


def _form(stats: FlowStats) -> tuple[int, int, int, bytes]:
    return stats.table, stats.priority, len(stats.match), stats.instructions


def _counter_form(address_bytes: int, vlan: bytes) -> tuple[int, int, int, bytes]:
    address = bytes(address_bytes)
    (entry,) = encoding.encode(FlowCounter(FlowKey(address, 0, address, 0, vlan), forward=False))
    match_bytes = len(pack_match(entry.match))
    instructions = pack_instructions(entry.actions, entry.goto)
    return entry.table, entry.priority, match_bytes, instructions


_COUNTER_FORMS = {
    _counter_form(address_bytes, vlan) for address_bytes in (4, 16) for vlan in (b"", b"\0\1")
}
