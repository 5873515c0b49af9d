"""What a switch says before it is ready."""

from controller.southbound.switch.backlog import Backlog


def test_states_come_first_the_last_word_of_each() -> None:
    backlog: Backlog[str] = Backlog()
    assert backlog.put_frames("frame", 1)
    assert backlog.put_state("port 1", "down")
    assert backlog.put_state("port 2", "up")
    assert backlog.put_state("port 1", "up again")
    assert len(backlog) == 3
    assert backlog.take() == ["up", "up again", "frame"]
    assert backlog.take() == []


def test_states_do_not_go_under_among_frames() -> None:
    backlog: Backlog[int] = Backlog()
    taken = sum(backlog.put_frames(n, 10) for n in range(1000))
    assert taken < 1000
    assert backlog.put_state("port", -1)
    assert backlog.take()[0] == -1
    assert backlog.put_frames(1, 1)


def test_it_is_bounded() -> None:
    backlog: Backlog[int] = Backlog()
    taken = sum(backlog.put_state(n, n) for n in range(100_000))
    assert taken == len(backlog) < 100_000
    assert backlog.put_state(5, 5), "what is known can always change"
