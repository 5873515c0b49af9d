"""Shares are max-min fair: each flow has what it wants, or a full link on which nobody has more."""

from collections.abc import Mapping
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.bandwidth.max_min import Contention, Demand, FairShares

LINKS = range(5)


def max_min(
    links: Mapping[Any, Contention], demands: Mapping[Any, Demand[Any]]
) -> dict[Any, float]:
    """The shares of flows that join one after the other."""
    shares: FairShares[Any, Any] = FairShares()
    for flow, demand in demands.items():
        for link in demand.links:
            shares.set_link(link, links[link])
        shares.put(flow, demand)
    assert shares.settle() == demands.keys()
    return {flow: shares.share(flow) for flow in demands}


def all_rise_together(
    links: Mapping[Any, Contention], demands: Mapping[Any, Demand[Any]]
) -> dict[Any, float]:
    """The same by progressive filling (Bertsekas and Gallager, section 6.5.2): all shares rise in
    steps until they have what they want, or a link of theirs is full."""
    rates, local = dict.fromkeys(demands, 0.0), dict.fromkeys(links, 0.0)
    left = {link: one.shared_bps for link, one in links.items()}
    open_flows = set(demands)
    sharing = {link: one.sharing for link, one in links.items()}
    open_local = {link for link, (flows, _) in sharing.items() if flows}

    def wanted(link: Any) -> float:
        flows, wanted_bps = sharing[link]
        return wanted_bps / flows

    while open_flows or open_local:
        rising = {
            link: sum(link in demands[flow].links for flow in open_flows)
            + (sharing[link][0] if link in open_local else 0)
            for link in links
        }
        steps = [left[link] / count for link, count in rising.items() if count]
        steps += [demands[flow].most_bps - rates[flow] for flow in open_flows]
        steps += [wanted(link) - local[link] for link in open_local]
        step = max(0.0, min(steps))
        if step == inf:
            return {flow: inf if flow in open_flows else rate for flow, rate in rates.items()}
        for flow in open_flows:
            rates[flow] += step
        for link in open_local:
            local[link] += step
        for link, count in rising.items():
            left[link] -= step * count
        full = {link for link in links if left[link] <= 1e-9 * links[link].capacity_bps}
        open_flows = {
            flow
            for flow in open_flows
            if rates[flow] < demands[flow].most_bps - 1e-9 and full.isdisjoint(demands[flow].links)
        }
        open_local = {
            link for link in open_local if link not in full and local[link] < wanted(link) - 1e-9
        }
    return rates


def test_the_papers_parking_lot() -> None:
    # DFCP section 7.6: B1 of 1 Gb/s for flows 1 and 2, B2 of 400 Mb/s for flow 1, then for 3 too.
    links = {"B1": Contention(1000), "B2": Contention(400)}
    demands = {1: Demand(("B1", "B2")), 2: Demand(("B1",))}
    assert max_min(links, demands) == {1: 400, 2: 600}
    demands[3] = Demand(("B2",))
    assert max_min(links, demands) == {1: 200, 2: 800, 3: 200}


def test_a_small_demand_leaves_the_rest_to_others() -> None:
    demands = {"a": Demand(("l",), 10), "b": Demand(("l",)), "c": Demand(("l",))}
    assert max_min({"l": Contention(100)}, demands) == {"a": 10, "b": 45, "c": 45}


@pytest.mark.parametrize(
    ("local_flows", "local_bps", "share"),
    [(0, 0, 100), (3, inf, 25), (1, 20, 80), (3, 30, 70), (3, 90, 25), (9, 45, 55), (1, 60, 50)],
)
def test_local_flows_take_their_part_and_no_more_than_they_want(
    local_flows: int, local_bps: float, share: float
) -> None:
    link = Contention(100, local_flows, local_bps)
    assert max_min({"l": link}, {"f": Demand(("l",))}) == {"f": pytest.approx(share)}


@pytest.mark.parametrize(("local_bps", "each"), [(inf, 15), (70, 15), (40, 30), (0, 50)])
def test_what_is_reserved_is_theirs_and_so_is_what_nobody_uses(
    local_bps: float, each: float
) -> None:
    link = Contention(100, 7, local_bps, reserved=0.3)
    demands = {n: Demand(("l",)) for n in range(2)}
    assert max_min({"l": link}, demands) == {n: pytest.approx(each) for n in range(2)}


def test_nobody_and_nothing() -> None:
    assert max_min({"l": Contention(100, 2, inf)}, {}) == {}
    assert max_min({}, {"f": Demand(())}) == {"f": inf}
    assert max_min({}, {"f": Demand((), 5)}) == {"f": 5}
    assert max_min({"l": Contention(0)}, {"f": Demand(("l",))}) == {"f": 0}


contentions = st.builds(
    Contention,
    st.floats(1, 1000),
    st.integers(0, 4),
    st.one_of(st.just(inf), st.floats(0, 500)),
)
demands_over_links = st.builds(
    Demand,
    st.lists(st.sampled_from(LINKS), min_size=1, max_size=4, unique=True).map(tuple),
    st.one_of(st.just(inf), st.floats(0, 500)),
)


@given(st.fixed_dictionaries(dict.fromkeys(LINKS, contentions)), st.lists(demands_over_links))
def test_every_flow_has_what_it_wants_or_a_full_link_where_none_has_more(
    links: dict[int, Contention], wanted: list[Demand]
) -> None:
    demands = dict(enumerate(wanted))
    shares = max_min(links, demands)
    for link, contention in links.items():
        of_link = {flow: shares[flow] for flow in demands if link in demands[flow].links}
        assert sum(of_link.values()) <= contention.capacity_bps * (1 + 1e-9)
    for flow, demand in demands.items():
        assert shares[flow] <= demand.most_bps
        if shares[flow] < demand.most_bps:
            assert any(_is_bottleneck(links, demands, shares, flow, link) for link in demand.links)


changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 7), demands_over_links),
        st.tuples(st.just("remove"), st.integers(0, 7)),
        st.tuples(st.just("link"), st.sampled_from(LINKS), contentions),
        st.tuples(st.just("settle")),
    ),
    max_size=30,
)


@given(st.fixed_dictionaries(dict.fromkeys(LINKS, contentions)), changes)
def test_after_any_changes_shares_are_those_of_progressive_filling(
    links: dict[int, Contention], changes: list[tuple[Any, ...]]
) -> None:
    shares: FairShares[int, int] = FairShares()
    demands: dict[int, Demand[int]] = {}
    told: dict[int, float] = {}
    for kind, *of in [*changes, ("settle",)]:
        if kind == "put":
            flow, demand = of
            for link in demand.links:
                shares.set_link(link, links[link])
            demands[flow] = demand
            shares.put(flow, demand)
        elif kind == "remove":
            demands.pop(of[0], None)
            told.pop(of[0], None)
            shares.remove(of[0])
        elif kind == "link":
            links[of[0]] = of[1]
            if of[0] in shares.links:
                shares.set_link(*of)
        else:
            told |= {flow: shares.share(flow) for flow in shares.settle()}
            assert told == pytest.approx(all_rise_together(links, demands), abs=1e-6)
            assert set(shares.links) == {link for one in demands.values() for link in one.links}
            for flow, demand in demands.items():
                assert (shares.bottleneck(flow) is None) == (told[flow] >= demand.most_bps)


def test_changes_too_small_to_be_seen_overload_no_link() -> None:
    # Capacities of 1 Gb/s: TCP that wants 0.8 bit/s less is no change, and then it is two flows.
    shares: FairShares[int, str] = FairShares()
    for flow in range(4):
        shares.set_link(f"uplink {flow}", Contention(1e10))
        shares.set_link("b", Contention(1e9, 1, 40_000.0))
        shares.put(flow, Demand((f"uplink {flow}", "b")))
    for local_flows, local_bps in ((1, 40_000.0), (1, 39_999.2), (2, 39_999.2)):
        shares.set_link("b", Contention(1e9, local_flows, local_bps))
        shares.settle()
        assert sum(map(shares.share, range(4))) == pytest.approx(1e9 - local_bps, rel=1e-8)


@given(st.randoms(use_true_random=False))
def test_many_small_changes_overload_no_link(chance: Random) -> None:
    shares: FairShares[int, int] = FairShares()
    links, demands = dict.fromkeys(LINKS, Contention(1e9)), dict[int, Demand[int]]()
    for _ in range(60):
        flow, link = chance.randrange(12), chance.choice(LINKS)
        match chance.choice(("put", "put", "remove", "capacity", "local")):
            case "put":
                of = tuple(chance.sample(LINKS, chance.randint(1, 3)))
                demands[flow] = Demand(of, chance.choice((inf, 1e9 / 3, 1e9 / 7, 2e8)))
                for one in of:
                    shares.set_link(one, links[one])
                shares.put(flow, demands[flow])
            case "remove":
                demands.pop(flow, None)
                shares.remove(flow)
            case "capacity":
                links[link] = Contention(1e9 * (1 + chance.uniform(-5e-10, 5e-10)))
            case "local":
                local_bps = 4e4 + chance.uniform(-8, 8)
                links[link] = Contention(1e9, chance.randint(1, 2), local_bps)
        if link in shares.links:
            shares.set_link(link, links[link])
        shares.settle()
        for one, contention in links.items():
            load_bps = sum(shares.share(flow) for flow in demands if one in demands[flow].links)
            assert load_bps <= contention.capacity_bps * (1 + 1e-7)
        for flow, demand in demands.items():
            assert shares.share(flow) <= demand.most_bps
            if shares.share(flow) < demand.most_bps * (1 - 1e-7):
                bottleneck = shares.bottleneck(flow)
                over = [one for one in demands if bottleneck in demands[one].links]
                assert shares.share(flow) >= max(map(shares.share, over)) * (1 - 1e-7)


def _is_bottleneck(
    links: dict[int, Contention],
    demands: dict[int, Demand],
    shares: dict[int, float],
    flow: int,
    link: int,
) -> bool:
    contention, own = links[link], shares[flow]
    others = [shares[other] for other in demands if link in demands[other].links]
    local = 0.0
    if contention.local_flows:
        wanted = contention.local_bps / contention.local_flows
        # Local flows have what the others have, or what they want.
        local = contention.local_flows * min(wanted, max(others))
    full = sum(others) + local >= contention.capacity_bps * (1 - 1e-6)
    return full and own >= max(others) * (1 - 1e-9)
