"""What may have happened while a switch was not heard."""

from controller.core.flows.channel_history import UNTOLD_FOR_NS, ChannelHistory

SECOND = 10**9
NOW = 1000 * SECOND


def test_only_an_unbroken_watch_sees_all() -> None:
    history = ChannelHistory()
    history.connected(1, False, NOW)
    history.connected(2, True, NOW)
    assert history.saw_all([1, 2], NOW)
    assert history.saw_all([1], NOW - SECOND)
    assert not history.saw_all([1, 2], NOW - SECOND)
    history.disconnected(1, NOW + SECOND)
    assert not history.saw_all([1], NOW + 2 * SECOND)
    history.connected(1, True, NOW + 3 * SECOND)
    assert history.saw_all([1], NOW + 3 * SECOND)


def test_what_is_seen_to_go_on_has_not_ended_unseen() -> None:
    history = ChannelHistory()
    history.connected(1, True, NOW)
    assert history.may_have_ended_unseen([1], NOW - SECOND, NOW + 20 * SECOND)
    assert not history.may_have_ended_unseen([1], NOW + 10 * SECOND, NOW + 20 * SECOND)


def test_in_the_end_everything_has_been_told() -> None:
    history = ChannelHistory()
    history.connected(1, True, NOW)
    assert not history.may_have_ended_unseen([1], NOW - SECOND, NOW + UNTOLD_FOR_NS + 1)
    history.forget(1)
    assert not history.may_have_ended_unseen([1], NOW - SECOND, NOW)


def test_a_switch_without_past_has_nothing_to_tell() -> None:
    history = ChannelHistory()
    history.connected(1, False, SECOND)
    assert not history.may_have_ended_unseen([1], 0, SECOND)
