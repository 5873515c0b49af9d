"""The fabric of the page's benchmark: it is as large as it says, and hangs together; and what is
made of a browser's memory."""

import pytest

from experiments.page import growth, memory, recorded
from experiments.page.shape import LARGE, SMALL, Shape


@pytest.mark.parametrize(("shape", "switches", "ports"), [(LARGE, 1000, 5000), (SMALL, 50, 240)])
def test_it_has_as_many_switches_and_ports_as_it_says(
    shape: Shape, switches: int, ports: int
) -> None:
    of_switch, cables = shape.layout()
    assert len(of_switch) == len(shape.switches) == switches
    assert sum(of_switch.values()) == ports
    ends = [end for cable in cables for end in cable]
    assert len(ends) == len(set(ends)), "a port has two cables"
    assert all(1 <= end.port <= of_switch[end.switch] for end in ends)


def test_every_switch_is_reached() -> None:
    _, cables = SMALL.layout()
    reached, left = {1}, [1]
    while left:
        at = left.pop()
        for a, b in ((a.switch, b.switch) for cable in cables for a, b in (cable, cable[::-1])):
            if a == at and b not in reached:
                reached.add(b)
                left.append(b)
    assert reached == set(SMALL.switches)


def test_hosts_are_at_ports_of_leaves_that_lead_to_no_switch() -> None:
    of_switch, cables = SMALL.layout()
    taken = {end for cable in cables for end in cable}
    edges = SMALL.edges(2)
    assert len(edges) == 2 * SMALL.pods
    assert not taken.intersection(edges)
    assert all(place.port <= of_switch[place.switch] for place in edges)


def test_too_few_ports_for_the_links_are_an_error() -> None:
    with pytest.raises(ValueError, match="fewer than the"):
        Shape(pods=1, leaves=2, spines=1, uplinks=1, ports=3).layout()


def test_what_a_page_was_seen_to_ask_is_asked_again_as_often() -> None:
    asked = [(100.0 + n, f"http://h/v1/history?port=3&from={90 + n}.000") for n in range(5)]
    asked += [(100.0, "http://h/v1/events?limit=1000"), (100.0, "http://h/assets/index.js")]
    asked += [(100.0, "http://h/v1/events/stream")]
    history, events = recorded.questions(asked)
    assert events == recorded.Question("/v1/events?limit=1000", None)
    assert history == recorded.Question("/v1/history?port=3", 1.0, 10.0)
    assert history.at(200.0) == "/v1/history?port=3&from=190.000"
    assert events.at(200.0) == "/v1/events?limit=1000"


def test_memory_is_read_as_the_kernel_writes_it() -> None:
    rollup = """\
55d0c0000000-7ffd00000000 ---p 00000000 00:00 0                          [rollup]
Rss:              200000 kB
Pss:              100000 kB
Pss_Dirty:         40000 kB
Shared_Clean:     120000 kB
Private_Clean:     30000 kB
Private_Dirty:     40000 kB
"""
    held = memory.parsed(rollup)
    assert held == pytest.approx((204.8, 102.4, 71.68))


def test_views_are_compared_with_themselves() -> None:
    sizes = [("small", 100.0), ("large", 300.0), ("small", 104.0), ("large", 304.0)]
    # Half of a round does not count.
    sizes += [("small", 108.0), ("large", 308.0), ("small", 900.0)]
    samples = [
        growth.Sample(10.0 * n, view, memory.Memory(mb, mb, mb))
        for n, (view, mb) in enumerate(sizes)
    ]
    told = growth.rounds(samples, lambda one: one.rss_mb)
    assert [at_s for at_s, _ in told] == [10, 30, 50]
    assert told[1][1] - told[0][1] == told[2][1] - told[1][1] == 4
