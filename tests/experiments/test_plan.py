"""Plans have the load, the times and the order that they are to have. Nothing is sent here."""

import heapq
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise, permutations

import pytest

from experiments import workloads
from experiments.traffic.plan import (
    Flow,
    Plan,
    poisson_ns,
    queries,
    rate_of_load,
    shuffles,
    staggered_flows,
)
from experiments.traffic.sizes import Sizes
from experiments.traffic.wire import Wire
from experiments.workloads.partition_aggregate import answered
from experiments.workloads.planned import Ground, Planned

HOSTS = ("h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8")
GROUND = Ground(HOSTS, "r1", 100_000_000)


def planned(name: str, **fields: object) -> Plan:
    made = workloads.workload(name, fields)
    assert isinstance(made, Planned)
    return made.plan(GROUND)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.9])
@pytest.mark.parametrize(
    ("name", "fields", "seconds"),
    [
        ("web-search", {}, 20_000),
        ("web-search", {"scale": 0.1}, 2_000),
        ("data-mining", {}, 20_000),
        ("fixed-size", {"size_bytes": 500}, 5),
    ],
)
def test_the_load_is_offered(
    name: str, fields: dict[str, float], seconds: float, load: float
) -> None:
    """In frames' bytes, over so long a time that the largest flows even out."""
    flows = planned(name, load=load, seconds=seconds, warm_up_s=0, **fields).flows
    frames_bytes = sum(GROUND.wire.frames_bytes(flow.size_bytes) for flow in flows)
    assert frames_bytes * 8 / seconds / GROUND.bottleneck_bps == pytest.approx(load, rel=0.03)
    assert {flow.dst for flow in flows} == {"r1"}
    each = Counter(flow.src for flow in flows)
    assert set(each) == set(HOSTS)
    assert max(each.values()) < 1.2 * min(each.values())


def test_the_load_of_answers_to_queries() -> None:
    for fan_out in (0, 3):
        given = {"senders": 8, "seconds": 499, "warm_up_s": 1, "fan_out": fan_out}
        flows = planned("partition-aggregate", **given).flows
        frames_bytes = sum(GROUND.wire.frames_bytes(flow.size_bytes) for flow in flows)
        assert frames_bytes * 8 / 500 / GROUND.bottleneck_bps == pytest.approx(0.3, rel=0.05)


def test_rpcs_come_on_top() -> None:
    fields = {"load": 0.5, "seconds": 100.0, "warm_up_s": 0}
    without = planned("web-search", **fields)
    flows = planned("web-search", **fields, rpcs_per_s=200, rpc_bytes=64).flows
    assert [flow for flow in flows if flow.kind == "flow"] == without.flows
    rpcs = [flow for flow in flows if flow.kind == "rpc"]
    assert len(rpcs) == pytest.approx(20_000, rel=0.03)
    assert {flow.size_bytes for flow in rpcs} == {64}


@pytest.mark.parametrize("name", ["web-search", "partition-aggregate"])
def test_what_warms_up_does_not_count(name: str) -> None:
    flows = planned(name, senders=8, seconds=20, warm_up_s=5).flows
    assert {flow.counted for flow in flows} == {True, False}
    for flow in flows:
        assert flow.counted == (flow.at_ns >= 5e9)
        assert flow.at_ns < 25e9


def test_times_are_a_poisson_process() -> None:
    """Gaps are exponential: mean and standard deviation alike; counts have their mean as
    variance."""
    times = list(poisson_ns(100, 1000, random.Random(7)))
    gaps = [(b - a) / 1e9 for a, b in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert (mean, deviation) == pytest.approx((0.01, 0.01), rel=0.02)
    counts = Counter(at // 1_000_000_000 for at in times)
    variance = sum((counts[second] - 100) ** 2 for second in range(1000)) / 1000
    assert variance == pytest.approx(100, rel=0.15)
    assert 0 <= times[0] <= times[-1] < 1000e9


@pytest.mark.parametrize("name", ["web-search", "data-mining", "partition-aggregate", "all-to-all"])
def test_a_seed_is_a_plan(name: str) -> None:
    one, same, other = (planned(name, senders=8, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.flows != other.flows


def test_frames_are_counted_for_every_flow() -> None:
    """The rate is the load over the mean of the frames, by brute force over a small range."""
    sizes, wire = Sizes([(1, 0), (4000, 1)]), Wire()
    mean = sum(wire.frames_bytes(size) for size in range(1, 4001)) / 4000
    rate = rate_of_load(0.5, sizes, 1e8, wire)
    assert rate == pytest.approx(0.5e8 / 8 / mean, rel=0.001)


def shared_evenly(flows: Sequence[Flow], link_bps: float) -> list[float]:
    """The slowdowns of flows that share a link evenly, in virtual time: each gets 1/n of it while n
    are there. ``served`` is what each that was there all the time would have got by now."""
    served = now_s = 0.0
    active: list[tuple[float, float, float]] = []
    slowdowns = []

    def drain(until_s: float) -> None:
        nonlocal served, now_s
        while active and now_s + (active[0][0] - served) * len(active) <= until_s:
            now_s += (active[0][0] - served) * len(active)
            served, began_s, alone_s = heapq.heappop(active)
            slowdowns.append((now_s - began_s) / alone_s)
        served += (until_s - now_s) / len(active) if active else 0
        now_s = until_s

    for flow in sorted(flows, key=lambda flow: flow.at_ns):
        drain(flow.at_ns / 1e9)
        alone_s = GROUND.wire.ideal_ns(flow.size_bytes, link_bps, 0, 1) / 1e9
        heapq.heappush(active, (served + alone_s, now_s, alone_s))
    drain(1e9)
    return slowdowns


@pytest.mark.parametrize(
    ("name", "load", "seconds"),
    [("fixed-size", 0.3, 100), ("fixed-size", 0.8, 200), ("web-search", 0.5, 20_000)],
)
def test_slowdown_of_an_even_share(name: str, load: float, seconds: float) -> None:
    """It is 1 / (1 - load) whatever the sizes (processor sharing): so times, sizes, load and ideal
    time fit together."""
    flows = planned(name, load=load, seconds=seconds).flows
    slowdowns = shared_evenly(flows, GROUND.bottleneck_bps)
    assert len(slowdowns) == len(flows)
    assert min(slowdowns) == pytest.approx(1)
    assert sum(slowdowns) / len(slowdowns) == pytest.approx(1 / (1 - load), rel=0.05)


def test_staggered() -> None:
    flows = staggered_flows(["h1", "h2", "h3"], "r1", 2.0)
    assert [flow.at_ns / 1e9 for flow in flows] == [0, 2, 4]
    assert {flow.lasts_ns for flow in flows} == {6_000_000_000}
    assert [flow.src for flow in flows] == ["h1", "h2", "h3"]


def test_a_query_asks_so_many_workers_at_one_moment() -> None:
    flows = queries(HOSTS, "r1", Sizes.fixed(10), 100, 1, 3, random.Random(1))
    groups: dict[int, list[Flow]] = {}
    for flow in flows:
        groups.setdefault(flow.group, []).append(flow)
    assert len(groups) > 50
    for group in groups.values():
        assert len({flow.src for flow in group}) == 3
        assert len({flow.at_ns for flow in group}) == 1


def test_a_round_of_a_shuffle_follows_the_one_before() -> None:
    flows = shuffles(["a", "b", "c"], 7, 2, random.Random(1))
    for number, after in ((0, None), (1, 0)):
        group = [flow for flow in flows if flow.group == number]
        assert {(flow.src, flow.dst) for flow in group} == set(permutations("abc", 2))
        assert {flow.after for flow in group} == {after}


def test_a_plan_passes_between_processes() -> None:
    plan = planned("staggered", senders=3, asked="no")
    assert Plan.from_record(json.loads(json.dumps(asdict(plan)))) == plan
    assert plan.asked is False


@pytest.mark.parametrize(
    ("asked", "fresh", "round_trips"),
    [(True, False, 1), (True, True, 2), (False, False, 0.5), (False, True, 1.5)],
)
def test_round_trips(asked: bool, fresh: bool, round_trips: float) -> None:
    assert Plan([], asked=asked, fresh=fresh).round_trips == round_trips


def test_queries_and_their_deadlines() -> None:
    """One is in time, one has a late answer, one lacks an answer and counts for nothing."""
    plan = Plan([Flow(0, "h1", "r1", 5, group=group) for group in (0, 0, 1, 1, 2, 2)])
    ends_ms = ((0, 8), (0, 10), (1, 9), (1, 11), (2, 3))
    flows = [
        {"start_ns": 0, "end_ns": ms * 1_000_000, "bytes": 5, "group": group}
        for group, ms in ends_ms
    ]
    first, second = answered(flows, plan, 10)
    assert (first["met"], first["in_time"], first["answers"]) == (True, 2, 2)
    assert (second["met"], second["in_time"], second["end_ns"]) == (False, 1, 11_000_000)
    assert second["bytes"] == 10


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("web-search", {"load": "1"}, "load must be between 0 and 1, not 1"),
        ("web-search", {"seconds": "0"}, "seconds must be more than 0, not 0"),
        ("web-search", {"scale": "0"}, "scale must be more than 0, not 0"),
        ("web-search", {"fresh": "maybe"}, "fresh must be yes or no, not 'maybe'"),
        ("web-search", {"senders": "0"}, "senders must be at least 1, not 0"),
        ("data-mining", {"largest_bytes": "-1"}, "largest_bytes must be at least 0, not -1"),
        ("fixed-size", {"size_bytes": "0"}, "size_bytes must be at least 1, not 0"),
        ("partition-aggregate", {"fan_out": "33"}, "fan_out must be 0 (all) to 32, the senders"),
        ("partition-aggregate", {"deadline_ms": "0"}, "deadline_ms must be more than 0, not 0"),
        ("staggered", {"interval_s": "0"}, "interval_s must be more than 0, not 0"),
        ("web-search", {"warm_up_s": "-1"}, "warm_up_s must be at least 0, not -1"),
        ("shares", {"share_bytes": "0"}, "share_bytes must be at least 1, not 0"),
        ("shares", {"senders": "0"}, "senders must be at least 1, not 0"),
        ("all-to-all", {"rounds": "0"}, "rounds must be at least 1, not 0"),
    ],
)
def test_a_workload_that_cannot_be(name: str, given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError) as refused:
        workloads.workload(name, given)
    assert complaint in str(refused.value)


def test_truths() -> None:
    for written, value in (("yes", True), ("True", True), ("no", False), ("0", False)):
        made = workloads.workload("web-search", {"fresh": written})
        assert workloads.as_record(made)["fresh"] is value


def test_a_fixed_amount_from_each() -> None:
    """Each block is of as many shares as there are connections, and follows the one before."""
    flows = planned("shares", connections_per_sender=2, share_bytes=100, rounds=2).flows
    for number, after in ((0, None), (1, 0)):
        group = [flow for flow in flows if flow.group == number]
        assert Counter(flow.src for flow in group) == dict.fromkeys(HOSTS, 2)
        assert {(flow.size_bytes, flow.after, flow.at_ns) for flow in group} == {(100, after, 0)}
