"""When the volumes that a switch counts are asked for."""

from controller.core.flows.polling import Polling

S = 10**9


def asked_at(polling: Polling, begin_s: int, end_s: int) -> list[int]:
    """The seconds in which switch 1 is asked. It answers at once, without news."""
    seconds = []
    for second in range(begin_s, end_s):
        if polling.due(1, second * S):
            seconds.append(second)
            polling.answered(1, second * S)
    return seconds


def test_a_switch_without_news_is_asked_ever_more_rarely() -> None:
    polling = Polling(1 * S)
    polling.opened(1)
    assert asked_at(polling, 0, 16) == [0, 1, 3, 7, 15]


def test_a_shorter_interval_holds_for_requests_that_were_due_later() -> None:
    polling = Polling(1000 * S)
    polling.opened(1)
    assert asked_at(polling, 0, 2000) == [0, 1000]
    # The next one was due at 3000.
    polling.reconfigure(10 * S, 2000 * S)
    assert asked_at(polling, 2000, 2100) == [2020, 2060]


def test_a_longer_interval_begins_with_the_next_request() -> None:
    polling = Polling(10 * S)
    polling.opened(1)
    assert asked_at(polling, 0, 5) == [0]
    polling.reconfigure(100 * S, 5 * S)
    assert asked_at(polling, 5, 300) == [10, 210]
