"""What a switch says before it is ready."""

from controller.southbound.waiting import Waiting


def test_states_come_first_the_last_word_of_each() -> None:
    waiting: Waiting[str] = Waiting()
    assert waiting.put_frames("frame", 1)
    assert waiting.put_state("port 1", "down")
    assert waiting.put_state("port 2", "up")
    assert waiting.put_state("port 1", "up again")
    assert len(waiting) == 3
    assert waiting.take() == ["up", "up again", "frame"]
    assert waiting.take() == []


def test_states_do_not_go_under_among_frames() -> None:
    waiting: Waiting[int] = Waiting()
    taken = sum(waiting.put_frames(n, 10) for n in range(1000))
    assert taken < 1000
    assert waiting.lost == 10 * (1000 - taken)
    assert waiting.put_state("port", -1)
    assert waiting.take()[0] == -1
    assert waiting.put_frames(1, 1)


def test_it_is_bounded() -> None:
    waiting: Waiting[int] = Waiting()
    taken = sum(waiting.put_state(n, n) for n in range(100_000))
    assert taken == len(waiting) < 100_000
    assert waiting.lost == 100_000 - taken
    assert waiting.put_state(5, 5), "what is known can always change"
