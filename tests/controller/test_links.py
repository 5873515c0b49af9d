"""Links that fail: both directions count, and who keeps failing is on trial."""

from controller.core.topology.links import PRESUMED_FOR_NS, QUARANTINE_TIMEOUTS, Links
from controller.model.values import PortId

SECOND = 10**9
TIMEOUT_NS = 4 * SECOND
A, B, C = PortId(1, 1), PortId(2, 1), PortId(3, 1)
ALL = {1, 2, 3}
NOW = 1000 * SECOND


def pass_time(links: Links, since_ns: int, until_ns: int, *ways: tuple[PortId, PortId]) -> list:
    """Every second discovery frames go these ways; returns the links that have expired."""
    expired = []
    for now_ns in range(since_ns, until_ns + 1, SECOND):
        for a, b in ways:
            links.seen(a, b, now_ns)
        expired += links.expire(now_ns, ALL)
    return expired


def flap(links: Links, now_ns: int) -> None:
    links.failed(A, now_ns)
    links.seen(A, B, now_ns)
    links.seen(B, A, now_ns)


class TestDirections:
    def test_a_link_that_is_seen_both_ways_stays(self) -> None:
        links = Links(TIMEOUT_NS)
        assert pass_time(links, NOW, NOW + 30 * SECOND, (A, B), (B, A)) == []
        assert not links.doubtful
        assert links.all == [(A, B)]

    def test_one_that_works_one_way_only_is_dropped_and_not_believed_again(self) -> None:
        links = Links(TIMEOUT_NS)
        pass_time(links, NOW, NOW + 9 * SECOND, (A, B), (B, A))
        expired = pass_time(links, NOW + 10 * SECOND, NOW + 60 * SECOND, (A, B))
        assert expired == [(A, B)]
        assert links.all == []

    def test_until_it_works_both_ways(self) -> None:
        links = Links(TIMEOUT_NS)
        pass_time(links, NOW, NOW + 60 * SECOND, (B, A))
        assert not links.seen(B, A, NOW + 61 * SECOND)
        assert links.seen(A, B, NOW + 61 * SECOND)
        assert links.all == [(A, B)]

    def test_a_silent_port_is_taken_for_no_edge_for_a_while(self) -> None:
        links = Links(TIMEOUT_NS)
        pass_time(links, NOW, NOW + SECOND, (A, B), (B, A))
        assert pass_time(links, NOW + 2 * SECOND, NOW + 9 * SECOND) == [(A, B)]
        assert A not in links
        assert links.is_quarantined(A, NOW + 9 * SECOND)
        assert not links.is_quarantined(A, NOW + (10 + 4 * QUARANTINE_TIMEOUTS) * SECOND)

    def test_one_that_goes_down_is_not(self) -> None:
        links = Links(TIMEOUT_NS)
        links.seen(A, B, NOW)
        links.failed(A, NOW)
        assert not links.is_quarantined(A, NOW)


class TestTrials:
    def test_a_failure_is_forgiven_at_once_and_a_second_one_is_not(self) -> None:
        links = Links(TIMEOUT_NS)
        links.seen(A, B, NOW)
        flap(links, NOW + SECOND)
        assert not links.doubtful
        assert links.all == [(A, B)]
        flap(links, NOW + 2 * SECOND)
        assert links.doubtful == {(A, B)}
        assert links.all == [(A, B)]
        assert A in links

    def test_it_is_used_again_when_the_trial_is_over_and_that_is_told(self) -> None:
        links = Links(TIMEOUT_NS)
        links.seen(A, B, NOW)
        for turn in range(2):
            flap(links, NOW + turn * SECOND)
        version = links.version
        pass_time(links, NOW + 2 * SECOND, NOW + 4 * SECOND, (A, B), (B, A))
        assert not links.doubtful
        assert links.all == [(A, B)]
        assert links.version > version

    def test_trials_grow_but_not_for_ever(self) -> None:
        links = Links(TIMEOUT_NS)
        links.seen(A, B, NOW)
        for turn in range(50):
            flap(links, NOW + turn * SECOND)
        pass_time(links, NOW + 50 * SECOND, NOW + 100 * SECOND, (A, B), (B, A))
        assert links.doubtful == {(A, B)}
        pass_time(links, NOW + 101 * SECOND, NOW + 115 * SECOND, (A, B), (B, A))
        assert not links.doubtful
        assert links.all == [(A, B)]

    def test_a_quiet_minute_is_a_new_beginning(self) -> None:
        links = Links(TIMEOUT_NS)
        links.seen(A, B, NOW)
        for turn in range(10):
            flap(links, NOW + turn * 61 * SECOND)
        assert not links.doubtful
        assert links.all == [(A, B)]


def test_a_port_has_one_link() -> None:
    links = Links(TIMEOUT_NS)
    links.seen(A, B, NOW)
    links.seen(A, C, NOW)
    assert links.all == [(A, C)]
    assert B not in links


def test_a_removed_port_leaves_nothing() -> None:
    links = Links(TIMEOUT_NS)
    pass_time(links, NOW, NOW + 20 * SECOND, (A, B))
    links.remove_port(A)
    assert links.seen(A, B, NOW + 21 * SECOND)


def test_a_presumed_link_is_confirmed_or_expires() -> None:
    links = Links(TIMEOUT_NS)
    links.presume(A, NOW)
    links.presume(C, NOW)
    links.seen(A, B, NOW)
    assert set(links.ports) == {A, B, C}
    pass_time(links, NOW, NOW + PRESUMED_FOR_NS + SECOND, (A, B), (B, A))
    assert set(links.ports) == {A, B}
