"""Whatever breaks, each event is recorded, or is of a time that is told as a gap."""

import math
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api.recording.incident import find
from test_recording import Controller, Recorded

# By how often they happen.
ACTIONS = [
    *["happens"] * 6,
    *["hears"] * 4,
    *["writes"] * 4,
    *["loses its controller", "finds its controller"] * 2,
    "is killed",
    "controller is killed",
    "both are killed",
    "disk is full",
    "disk has room",
    *["disk is damaged"] * 2,
]


class Model(Recorded):
    """A recording, and all that has happened."""

    def __init__(self) -> None:
        super().__init__()
        self.happened: list[tuple[str, dict[str, Any]]] = []
        self.n_runs = 1
        self.controller = Controller("run 1", remembered=20)
        self.is_heard = False
        # What was before the first recording is of no gap.
        self.finds()
        self.writes()

    def act(self, action: str, number: int) -> None:
        self.now_s += 1 + number % 5
        acts: dict[str, Callable[[int], None]] = {
            "happens": self.happens_somehow,
            "hears": lambda _: self.hears(),
            "writes": lambda _: self.writes(),
            "loses its controller": lambda _: self.parts(),
            "finds its controller": lambda _: self.finds(),
            "is killed": lambda _: self.killed(),
            "controller is killed": lambda _: self.controller_killed(),
            "both are killed": lambda _: self.both_killed(),
            "disk is full": lambda _: self.fills(True),
            "disk has room": lambda _: self.fills(False),
            "disk is damaged": self.damaged,
        }
        acts[action](number)

    def happens_somehow(self, number: int) -> None:
        # Mostly a few, now and then more than it remembers.
        n = number % 4 if number % 7 else 30
        self.controller.happens(self.now_s, n)
        new = self.controller.events[len(self.controller.events) - n :] if n else []
        self.happened += [(self.controller.run, event) for event in new]

    def hears(self) -> None:
        if self.is_heard:
            self.hear()

    def writes(self) -> None:
        self.write()

    def parts(self) -> None:
        self.recording.end()
        self.is_heard = False

    def finds(self) -> None:
        if not self.is_heard:
            self.connect()
            self.is_heard = True

    def killed(self) -> None:
        self.restart()
        self.is_heard = False

    def controller_killed(self) -> None:
        self.parts()
        self.n_runs += 1
        self.controller = Controller(f"run {self.n_runs}", remembered=20)

    def both_killed(self) -> None:
        self.controller_killed()
        self.killed()

    def fills(self, full: bool) -> None:
        self.disk.full = full

    def damaged(self, number: int) -> None:
        """A bit of a segment."""
        names = sorted(name for name in self.disk.names() if self.disk.read(name))
        if names:
            data = self.disk._files[names[number % len(names)]]
            data[number * 31 % len(data)] ^= 1 << number % 8

    def check(self) -> None:
        begin_s, end_s = 0.0, self.now_s + 1
        once, again = (self.segments.read(begin_s, end_s) for _ in range(2))
        found = find(once, again, begin_s, end_s, None, most=10**6)
        gaps = [*found.gaps, self.recording.present_gap(self.now_s), self.writer.lost]
        recorded = {(event["serial"], event["wall_s"]) for event in found.events}
        assert len(recorded) == len(found.events), "an event is recorded twice"
        # Before that, it is told that nothing is known.
        known_s = math.inf if self.segments.begin_s is None else self.segments.begin_s
        for run, event in self.happened:
            wall_s = event["wall_s"]
            if wall_s > known_s and (event["serial"], wall_s) not in recorded:
                told = [gap for gap in gaps if gap is not None]
                assert any(gap.from_s <= wall_s <= gap.to_s for gap in told), (run, event, told)


@settings(max_examples=400)
@given(
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 10**6)), min_size=20, max_size=60)
)
def test_each_event_is_recorded_or_of_a_gap(actions: list[tuple[str, int]]) -> None:
    model = Model()
    for action, number in actions:
        model.act(action, number)
    # In the end all is well again.
    model.fills(False)
    model.finds()
    model.hears()
    model.writes()
    model.check()
