"""What notices of queues say of ports between two samples. Pure.

A queue may be longer than its threshold for some milliseconds, which hardly any sample meets. So
the worst of the last second counts, and everybody who asks once a second hears of it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from controller.model.values import Notice, PortId

HELD_S = 1.0
_LEVELS = {Notice.CR.label: 0, Notice.CN_L.label: 1, Notice.CN_M.label: 2, Notice.CN_H.label: 3}


class Heard(NamedTuple):
    """A notice that came at `at_s` of a clock that does not jump. It is of `wall_s` of the day."""

    at_s: float
    wall_s: float
    level: int
    queue_bytes: int
    limit_bytes: int


class Notices:
    """Takes events as they come. Times are of a clock that does not jump."""

    def __init__(self) -> None:
        self._last: dict[PortId, Heard] = {}
        self._worst: dict[PortId, Heard] = {}
        self._sampled_s = 0.0

    def hear(self, events: Iterable[Mapping[str, Any]], now_s: float) -> bool:
        """Take events, in their order. Returns whether there were notices."""
        any_notice = False
        for event in events:
            if event.get("event") == "queue_event":
                any_notice = True
                level = _LEVELS[event["notice"]]
                port_id = PortId(event["switch"], event["port"])
                heard = Heard(now_s, event["wall_s"], level, event["bytes"], event["limit_bytes"])
                self._last[port_id] = heard
                worst = self._worst.get(port_id)
                if level and (worst is None or not _is_held(worst, now_s) or level >= worst.level):
                    self._worst[port_id] = heard
        return any_notice

    def sampled(self, wall_s: float, now_s: float) -> None:
        """There is a sample of this time of day: what was heard before is in it. What is later by
        its clock, which may have been set, counts until the next sample."""
        self._last = {
            port_id: heard
            for port_id, heard in self._last.items()
            if heard.wall_s > wall_s and heard.at_s >= self._sampled_s
        }
        self._worst = {
            port_id: heard for port_id, heard in self._worst.items() if _is_held(heard, now_s)
        }
        self._sampled_s = now_s

    def now(self, now_s: float) -> dict[PortId, Heard]:
        """What is to be said of ports in place of the last sample; of those that are listed, those
        of level 0 are not congested any more."""
        told = dict(self._last)
        for port_id, heard in self._worst.items():
            last = told.get(port_id)
            if _is_held(heard, now_s) and (last is None or last.level < heard.level):
                told[port_id] = heard
        return told


def _is_held(heard: Heard, now_s: float) -> bool:
    return now_s - heard.at_s < HELD_S
