"""What may have happened while a switch was not heard."""

from controller.core.flows.channel_history import UNTOLD_FOR_NS, Watch

SECOND = 10**9
NOW = 1000 * SECOND


def test_only_an_unbroken_watch_sees_all() -> None:
    watch = Watch()
    watch.begin(1, False, NOW)
    watch.begin(2, True, NOW)
    assert watch.saw_all([1, 2], NOW)
    assert watch.saw_all([1], NOW - SECOND)
    assert not watch.saw_all([1, 2], NOW - SECOND)
    watch.end(1, NOW + SECOND)
    assert not watch.saw_all([1], NOW + 2 * SECOND)
    watch.begin(1, True, NOW + 3 * SECOND)
    assert watch.saw_all([1], NOW + 3 * SECOND)


def test_what_is_seen_to_go_on_has_not_ended_unseen() -> None:
    watch = Watch()
    watch.begin(1, True, NOW)
    assert watch.may_be_untold([1], NOW - SECOND, NOW + 20 * SECOND)
    assert not watch.may_be_untold([1], NOW + 10 * SECOND, NOW + 20 * SECOND)


def test_in_the_end_everything_has_been_told() -> None:
    watch = Watch()
    watch.begin(1, True, NOW)
    assert not watch.may_be_untold([1], NOW - SECOND, NOW + UNTOLD_FOR_NS + 1)
    watch.forget(1)
    assert not watch.may_be_untold([1], NOW - SECOND, NOW)


def test_a_switch_without_past_has_nothing_to_tell() -> None:
    watch = Watch()
    watch.begin(1, False, SECOND)
    assert not watch.may_be_untold([1], 0, SECOND)
