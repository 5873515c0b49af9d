"""Refused connections are told once for each host and reason, then ever more rarely, counted."""

import pytest

from controller.ops.refusals import Refusals

SECOND = 10**9
SWITCH, OTHER = ("10.0.0.7", 4001), ("10.0.0.8", 4002)


class World:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now_ns = 0
        self._caplog = caplog
        self._refusals = Refusals("switch", lambda: self.now_ns)

    def refuse(self, reason: str = "no", address: tuple[str, int] = SWITCH) -> str:
        """The line, if there is one."""
        self._caplog.clear()
        self._refusals.tell(address, reason)
        return self._caplog.text

    def retry_for(self, seconds: int, every: int = 8) -> list[str]:
        lines = []
        for _ in range(0, seconds, every):
            self.now_ns += every * SECOND
            lines.append(self.refuse())
        return [line for line in lines if line]


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> World:
    return World(caplog)


def test_the_line_names_peer_and_reason(world: World) -> None:
    assert world.refuse().endswith("refused the switch at 10.0.0.7:4001: no\n")


def test_hosts_and_reasons_are_told_apart(world: World) -> None:
    assert world.refuse()
    assert world.refuse("why not")
    assert world.refuse(address=OTHER)
    assert not world.refuse()


def test_what_was_not_told_is_counted(world: World) -> None:
    world.refuse()
    assert [world.refuse() for _ in range(5)] == [""] * 5
    world.now_ns = 10 * SECOND
    assert "no (and 5 times since the last such line)" in world.refuse()


def test_a_day_of_retries_is_a_few_lines_an_hour(world: World) -> None:
    world.refuse()
    first_hour, second_hour = world.retry_for(3600), world.retry_for(3600)
    assert len(first_hour) <= 12
    assert len(second_hour) <= 6
    assert "(and 74 times since" in second_hour[-1]


def test_one_who_comes_back_later_is_told_of_at_once(world: World) -> None:
    world.refuse()
    world.retry_for(3600)
    world.now_ns += 3600 * SECOND
    world.refuse()
    world.now_ns += 3600 * SECOND
    assert "since" not in world.refuse()
    world.now_ns += 10 * SECOND
    assert world.refuse()


def test_a_host_with_ever_new_reasons_is_not_told_of_for_ever(world: World) -> None:
    lines = [world.refuse(f"nonsense {number}") for number in range(1000)]
    assert len([line for line in lines if line]) == 9
    assert "too many different reasons" in lines[8]
    assert world.refuse("no", OTHER)
    world.now_ns += 20 * SECOND
    assert "nonsense 1001" in world.refuse("nonsense 1001")
