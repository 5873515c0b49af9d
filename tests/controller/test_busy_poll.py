"""The loop looks again and again for a while after a notice, and then sleeps."""

from collections.abc import Callable

import pytest

from controller.runtime import busy_poll
from controller.runtime.busy_poll import BusyPoll


class Loop:
    """Eventlet's, as far as a busy_poll needs it, in virtual time."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.due: list[Callable[[], None]] = []

    def schedule_call_global(self, delay_s: float, call: Callable[[], None]) -> None:
        assert delay_s == 0
        self.due.append(call)

    def turns(self, turn_ns: int) -> int:
        """How often it looks for input before it may wait for some."""
        turns = 0
        while self.due:
            turns += 1
            self.now_ns += turn_ns
            self.due.pop()()
        return turns


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    loop = Loop()
    monkeypatch.setattr(busy_poll, "get_hub", lambda: loop)
    return loop


def test_it_ends(loop: Loop) -> None:
    watch = BusyPoll(lambda: loop.now_ns)
    watch.keep()
    assert loop.turns(100_000) == 5
    watch.keep()
    assert loop.turns(100_000) == 5


def test_another_notice_prolongs_it_and_starts_no_second_one(loop: Loop) -> None:
    watch = BusyPoll(lambda: loop.now_ns)
    watch.keep()
    loop.now_ns = 400_000
    watch.keep()
    assert len(loop.due) == 1
    assert loop.turns(100_000) == 5
