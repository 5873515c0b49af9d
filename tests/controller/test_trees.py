"""Paths between switches: symmetric, without loops, shortest, and spread over all roots."""

import gc
import weakref
from collections import Counter
from collections.abc import Collection
from itertools import permutations, product
from random import Random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.topology.links import Link
from controller.core.topology.trees import Trees
from controller.model.values import N_PATH_IDS, PortId
from fabrics import AGGREGATION, CORE, EDGE, SPINE, Wiring, fat_tree, leaf_spine

Path = tuple[PortId, ...]


def walk(trees: Trees, links: Collection[Link], src: int, dst: int, path_id: int) -> Path | None:
    """The egress ports from switch to switch, hop by hop."""
    peers = {a: b for link in links for a, b in (link, link[::-1])}
    path: list[PortId] = []
    switch = src
    while switch != dst:
        port = trees.next_ports(dst, path_id).get(switch)
        if port is None:
            return None
        path.append(PortId(switch, port))
        switch = peers[path[-1]].switch
        assert len(path) <= len(peers), "a loop"
    return tuple(path)


def entered(path: Path, links: Collection[Link]) -> Path:
    """The ports that a path enters by, the last one first."""
    peers = {a: b for link in links for a, b in (link, link[::-1])}
    return tuple(peers[port] for port in reversed(path))


def graph(links: Collection[Link]) -> "nx.MultiGraph[int]":
    return nx.MultiGraph([(a.switch, b.switch) for a, b in links])


@st.composite
def wirings(draw: st.DrawFn) -> Wiring:
    """Any fabric, with parallel links and in any number of parts."""
    wiring = Wiring()
    n = draw(st.integers(2, 9))
    switches = st.integers(1, n)
    for a, b in draw(st.lists(st.tuples(switches, switches), min_size=1, max_size=20)):
        if a != b:
            wiring.link(a, b)
    wiring.edges = sorted(draw(st.sets(switches)))
    return wiring


path_ids = st.integers(0, N_PATH_IDS - 1)


@given(wirings(), path_ids)
def test_paths_are_symmetric_and_shortest_in_any_fabric(wiring: Wiring, path_id: int) -> None:
    trees = Trees(wiring.links, wiring.edges)
    distances = dict(nx.all_pairs_shortest_path_length(graph(wiring.links)))
    for src, dst in permutations(distances, 2):
        path = walk(trees, wiring.links, src, dst, path_id)
        if dst not in distances[src]:
            assert path is None
            continue
        assert path is not None
        assert len(path) == distances[src][dst]
        assert walk(trees, wiring.links, dst, src, path_id) == entered(path, wiring.links)


@given(wirings(), path_ids, st.data())
def test_a_lost_switch_moves_only_what_led_over_it_in_any_rooted_fabric(
    wiring: Wiring, path_id: int, data: st.DataObject
) -> None:
    trees = Trees(wiring.links, wiring.edges)
    spare = sorted(set(trees.switches) - set(trees.roots) - set(wiring.edges))
    if not spare:
        return
    lost = data.draw(st.sampled_from(spare))
    left = wiring.without(lost)
    after = Trees(left, wiring.edges, former_roots=trees.roots)
    root = trees.root_of[path_id]
    if not after.switches or after.root_of[path_id] != root:
        return
    near, nearer = (
        nx.single_source_shortest_path_length(graph(links), root) for links in (wiring.links, left)
    )
    if any(near.get(switch) != nearer.get(switch) for switch in after.switches):
        return  # What is near to the root is another thing.
    for src, dst in permutations(after.switches, 2):
        path = walk(trees, wiring.links, src, dst, path_id)
        if path is not None and lost not in {port.switch for port in path}:
            assert walk(after, left, src, dst, path_id) == path


@given(wirings(), path_ids, st.data())
def test_distrusted_switches_are_gone_round_where_that_is_possible(
    wiring: Wiring, path_id: int, data: st.DataObject
) -> None:
    switches = sorted(graph(wiring.links).nodes)
    distrusted = data.draw(st.sets(st.sampled_from(switches))) if switches else set()
    trees = Trees(wiring.links, wiring.edges, distrusted)
    trusted = graph(wiring.without(*distrusted))
    whole = graph(wiring.links)
    for src, dst in permutations(switches, 2):
        path = walk(trees, wiring.links, src, dst, path_id)
        assert (path is not None) == nx.has_path(whole, src, dst)
        if path is None:
            continue
        assert walk(trees, wiring.links, dst, src, path_id) == entered(path, wiring.links)
        if src in trusted and dst in trusted and nx.has_path(trusted, src, dst):
            assert not distrusted & {port.switch for port in path}


@given(wirings(), path_ids, st.data())
def test_doubtful_links_are_gone_round_where_that_is_possible(
    wiring: Wiring, path_id: int, data: st.DataObject
) -> None:
    if not wiring.links:
        return
    doubtful = data.draw(st.sets(st.sampled_from(wiring.links)))
    trees = Trees(wiring.links, wiring.edges, doubtful=doubtful)
    trusted = graph([link for link in wiring.links if link not in doubtful])
    for src, dst in permutations(graph(wiring.links).nodes, 2):
        path = walk(trees, wiring.links, src, dst, path_id)
        assert (path is not None) == nx.has_path(graph(wiring.links), src, dst)
        if path and src in trusted and dst in trusted and nx.has_path(trusted, src, dst):
            used = {*path, *entered(path, wiring.links)}
            assert not any(set(link) <= used for link in doubtful)


@pytest.mark.parametrize("k", [2, 4, 6])
def test_the_roots_of_a_fat_tree_are_its_cores_and_get_their_share(k: int) -> None:
    wiring = fat_tree(k)
    trees = Trees(wiring.links, wiring.edges)
    cores = (k // 2) ** 2
    assert trees.roots == tuple(range(CORE, CORE + cores))
    counts = Counter(trees.root_of)
    assert max(counts.values()) - min(counts[core] for core in trees.roots) <= 1


@pytest.mark.parametrize("wiring", [fat_tree(4), leaf_spine(4, 5)], ids=["fat-tree", "leaf-spine"])
def test_between_any_two_edges_path_ids_are_spread_evenly_over_the_roots(wiring: Wiring) -> None:
    trees = Trees(wiring.links, wiring.edges)
    for src, dst in permutations(wiring.edges, 2):
        paths = [walk(trees, wiring.links, src, dst, path_id) for path_id in range(N_PATH_IDS)]
        counts = Counter(paths)
        ways = nx.all_shortest_paths(graph(wiring.links), src, dst)
        assert set(counts.values()) == {N_PATH_IDS // len(list(ways))}


def test_of_a_leaf_spine_the_roots_are_the_spines() -> None:
    wiring = leaf_spine(3, 6)
    assert Trees(wiring.links, wiring.edges).roots == (SPINE, SPINE + 1, SPINE + 2)


@pytest.mark.parametrize("wiring", [fat_tree(4), leaf_spine(4, 5)], ids=["fat-tree", "leaf-spine"])
def test_the_loss_of_a_root_moves_only_its_path_ids_and_its_return_brings_them_back(
    wiring: Wiring,
) -> None:
    before = Trees(wiring.links, wiring.edges)
    for lost in before.roots:
        left = wiring.without(lost)
        after = Trees(left, wiring.edges, former_roots=before.roots)
        for path_id in range(N_PATH_IDS):
            if before.root_of[path_id] == lost:
                assert after.root_of[path_id] != lost
                continue
            assert after.root_of[path_id] == before.root_of[path_id]
            for src, dst in permutations(wiring.edges, 2):
                path = walk(before, wiring.links, src, dst, path_id)
                assert walk(after, left, src, dst, path_id) == path
        # They are dealt to all the others, not to one of them.
        heirs = {after.root_of[i] for i in range(N_PATH_IDS) if before.root_of[i] == lost}
        assert len(heirs) == len(before.roots) - 1
        back = Trees(wiring.links, wiring.edges, former_roots=after.roots)
        assert back.root_of == before.root_of


def test_a_lost_aggregation_switch_leaves_all_cores_to_the_other_pods() -> None:
    wiring = fat_tree(4)
    left = wiring.without(AGGREGATION)
    trees = Trees(left, wiring.edges)
    used = {
        port.switch
        for path_id in range(N_PATH_IDS)
        for port in walk(trees, left, EDGE + 2, EDGE + 6, path_id) or ()
    }
    assert used >= {CORE, CORE + 1, CORE + 2, CORE + 3}


def test_parallel_links_draw_the_path_ids_and_the_loss_of_one_moves_only_its_own() -> None:
    wiring = leaf_spine(1, 2, parallel=4)
    trees = Trees(wiring.links, wiring.edges)
    src, dst = wiring.edges
    paths = {path_id: walk(trees, wiring.links, src, dst, path_id) for path_id in range(N_PATH_IDS)}
    assert len({path[0] for path in paths.values() if path}) >= 3
    lost = wiring.links[0]
    left = wiring.links[1:]
    after = Trees(left, wiring.edges)
    for path_id, path in paths.items():
        assert path is not None
        if not {*path, *entered(path, wiring.links)} & set(lost):
            assert walk(after, left, src, dst, path_id) == path


@given(st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_the_order_in_which_links_are_found_does_not_matter(order: Random) -> None:
    wiring = fat_tree(4)
    shuffled = wiring.links.copy()
    order.shuffle(shuffled)
    a, b = (Trees(links, wiring.edges) for links in (wiring.links, shuffled))
    for path_id in range(N_PATH_IDS):
        for edge in wiring.edges:
            assert a.next_ports(edge, path_id) == b.next_ports(edge, path_id)


def test_a_fabric_without_links_or_hosts_has_no_paths() -> None:
    assert Trees((), ()).next_ports(1, 0) == {}
    assert Trees((), {1}).next_ports(1, 0) == {}
    wiring = leaf_spine(1, 2)
    assert Trees(wiring.links, ()).next_ports(wiring.edges[0], 3)


@given(wirings(), st.data())
def test_what_is_taken_from_former_trees_is_what_they_would_be_anew(
    wiring: Wiring, data: st.DataObject
) -> None:
    """Links come and go, switches and links are distrusted, step after step."""
    some = st.sets(st.sampled_from(wiring.links)) if wiring.links else st.just(set())
    switches = sorted({end.switch for link in wiring.links for end in link})
    former = None
    for _ in range(3):
        links = [link for link in wiring.links if link not in data.draw(some)]
        doubtful = data.draw(some) & set(links)
        distrusted = data.draw(st.sets(st.sampled_from(switches))) if switches else set()
        roots = former.roots if former else ()
        state = links, wiring.edges, distrusted, doubtful, roots
        taken, anew = Trees(*state, former), Trees(*state)
        assert taken.root_of == anew.root_of
        for destination, path_id in product(switches, range(N_PATH_IDS)):
            ports = taken.next_ports(destination, path_id)
            assert ports == anew.next_ports(destination, path_id)
        former = taken


def test_the_loss_of_a_link_to_an_edge_leaves_half_of_the_trees_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wiring = fat_tree(6)
    # The edges of a pod are computed together, as those of a larger one are.
    monkeypatch.setattr("controller.core.topology.trees._PLACES_AT_ONCE", 3 * 2 * len(wiring.links))

    def spent(trees: Trees) -> float:
        """The work beyond that for the roots."""
        while not trees.prepare():
            pass
        before = trees.spent
        for edge in wiring.edges:
            trees.next_hops(edge)
        return trees.spent - before

    former = Trees(wiring.links, wiring.edges)
    whole = spent(former)
    (lost, *_) = (link for link in wiring.links if link[1].switch in wiring.edges)
    left = [link for link in wiring.links if link != lost]
    after = Trees(left, wiring.edges, former_roots=former.roots, former=former)
    assert spent(after) < whole / 2


def test_it_can_be_done_step_by_step() -> None:
    wiring = fat_tree(4)
    whole, steps = Trees(wiring.links, wiring.edges), Trees(wiring.links, wiring.edges)
    while not steps.prepare():
        pass
    destination = wiring.edges[3]
    while not steps.advance(destination):
        pass
    spent = steps.spent
    assert (steps.next_hops(destination) == whole.next_hops(destination)).all()
    assert steps.spent == spent > 0


def test_what_is_outdated_is_gone_at_once() -> None:
    """The collector looks at what has lived for a while only once an hour."""
    wiring = fat_tree(4)
    gc.disable()
    try:
        trees = Trees(wiring.links, wiring.edges)
        for edge, path_id in product(wiring.edges, range(N_PATH_IDS)):
            trees.next_ports(edge, path_id)
        outdated = weakref.ref(trees)
        del trees
        assert outdated() is None
    finally:
        gc.enable()
