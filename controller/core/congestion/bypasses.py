"""Where an operator has turned regulation off, and until when.

A bypass covers everything, a switch or a port. Bypasses do not replace each other: a port is
regulated again once the last one that covers it has ended.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controller.model.values import datapath_id


class Place(NamedTuple):
    """A port by its name; without a port a whole switch; without a switch everything."""

    switch: int | None = None
    port: str | None = None

    def __str__(self) -> str:
        if self.switch is None:
            return "everything"
        switch = f"switch {datapath_id(self.switch)}"
        return switch if self.port is None else f"port {self.port} of {switch}"

    def covers(self, place: "Place") -> bool:
        """Whether a place is within this one, or the same."""
        return self.switch in (None, place.switch) and self.port in (None, place.port)


class Bypass(NamedTuple):
    """No regulation at a place. `until_ns` None: until it is turned on again. `by` says who asked
    for it."""

    place: Place
    until_ns: int | None
    by: str


class Bypasses:
    """All of them, at most one for a place."""

    def __init__(self) -> None:
        self._by_place: dict[Place, Bypass] = {}

    def __iter__(self) -> Iterator[Bypass]:
        return iter(list(self._by_place.values()))

    def add(self, bypass: Bypass) -> None:
        """Add one, in place of the former one at this place."""
        self._by_place[bypass.place] = bypass

    def remove(self, place: Place) -> list[Bypass]:
        """Remove those at a place and within it; returns them."""
        return self._take([known for known in self if place.covers(known.place)])

    def replace(self, bypasses: Iterable[Bypass]) -> tuple[list[Bypass], list[Bypass]]:
        """Have these instead of all others; returns those that have ended and those that are at
        places without one before."""
        former, self._by_place = self._by_place, {new.place: new for new in bypasses}
        ended = [known for known in former.values() if known.place not in self._by_place]
        return ended, [new for new in self if new.place not in former]

    def expire(self, now_ns: int) -> list[Bypass]:
        """Remove those whose time is over; returns them."""
        return self._take(
            [known for known in self if known.until_ns is not None and known.until_ns <= now_ns]
        )

    def covering(self, place: Place) -> list[Bypass]:
        """Those that a place is within."""
        return [known for known in self if known.place.covers(place)]

    def _take(self, taken: list[Bypass]) -> list[Bypass]:
        for bypass in taken:
            del self._by_place[bypass.place]
        return taken
