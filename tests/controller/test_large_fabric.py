"""A fabric whose paths are computed a few milliseconds at a time, whatever happens meanwhile."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.topology import fabric, next_hops
from controller.core.topology.trees import Trees
from controller.model.entries import NextHop
from controller.model.values import N_PATH_IDS, Port, PortId
from engine_bench import SECOND, Slow, make_engine
from fabrics import Wiring, fat_tree
from packets import Host

Hops = dict[tuple[int, int], dict[int | None, int]]


@pytest.fixture(autouse=True, scope="module")
def _in_small_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fabric, "_MANY_ENDS", 0)
        patched.setattr(next_hops, "_LEAST_STEP", 0.5)
        yield


def built(wiring: Wiring, n_hosts: int = 8) -> Slow:
    bench = Slow(make_engine(), now_ns=100 * SECOND)
    for switch in sorted({end.switch for link in wiring.links for end in link}):
        bench.switch_up(switch)
    for link in wiring.links:
        bench.link(*link)
    bench.now_ns += SECOND
    for number, edge in enumerate(wiring.edges[:n_hosts]):
        bench.place(Host(number + 1), PortId(edge, 30))
    return bench


def installed(bench: Slow) -> Hops:
    """The ports of all next hops, by switch and destination."""
    found: Hops = {}
    for switch, entries in bench.held.items():
        for entry in entries.values():
            if isinstance(entry, NextHop):
                found.setdefault((switch, entry.destination), {})[entry.path_id] = entry.port
    return found


def wanted(trees: Trees, destinations: list[int]) -> Hops:
    found: Hops = {}
    for destination in destinations:
        by_path_id = [trees.next_ports(destination, path_id) for path_id in range(N_PATH_IDS)]
        for switch, usual in by_path_id[0].items():
            others = {i: ports[switch] for i, ports in enumerate(by_path_id)}
            hops: dict[int | None, int] = {None: usual}
            hops |= {i: port for i, port in others.items() if port != usual}
            found[switch, destination] = hops
    return found


def set_port(bench: Slow, port_id: PortId, *, up: bool) -> None:
    mac = bytes([2, 1, 0, 0, port_id.switch % 256, 0])
    port = Port(port_id.port, f"s{port_id.switch}-eth{port_id.port}", mac, up)
    bench.do(bench.engine.port_changed(port_id.switch, port, bench.now_ns))


def test_the_paths_are_those_that_a_small_fabric_has_at_once() -> None:
    wiring = fat_tree(4)
    bench = built(wiring)
    assert bench.settle() > 3
    trees = bench.engine.fabric.trees
    anew = Trees(wiring.links, bench.engine.fabric._edge_switches(), former_roots=trees.roots)
    assert installed(bench) == wanted(anew, wiring.edges)


def test_a_lost_link_is_gone_round() -> None:
    wiring = fat_tree(4)
    bench = built(wiring)
    bench.settle()
    edges, roots = bench.engine.fabric._edge_switches(), bench.engine.fabric.trees.roots
    set_port(bench, wiring.links[0][0], up=False)
    assert bench.settle() > 1
    after = Trees(wiring.links[1:], edges, former_roots=roots)
    assert installed(bench) == wanted(after, wiring.edges)


def test_hosts_that_come_and_go_are_followed() -> None:
    wiring = fat_tree(4)
    bench = built(wiring, n_hosts=1)
    bench.settle()
    for number, edge in enumerate(wiring.edges[1:4], 2):
        bench.place(Host(number), PortId(edge, 30))
        bench.settle()
    assert installed(bench) == wanted(bench.engine.fabric.trees, wiring.edges[:4])
    for edge in wiring.edges[:3]:
        set_port(bench, PortId(edge, 30), up=False)
        bench.settle()
    assert installed(bench) == wanted(bench.engine.fabric.trees, wiring.edges[3:4])


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_whatever_happens_meanwhile_the_end_is_right(data: st.DataObject) -> None:
    wiring = fat_tree(4)
    bench = built(wiring, n_hosts=3)
    lost: set[int] = set()
    for _ in range(12):
        index = data.draw(st.integers(0, len(wiring.links) - 1))
        if index in lost:
            lost.discard(index)
            bench.now_ns += 3600 * SECOND  # It is not on trial.
            set_port(bench, wiring.links[index][0], up=True)
            for number, link in enumerate(wiring.links):
                if number not in lost:
                    bench.link(*link)
        elif len(lost) < 4:
            lost.add(index)
            set_port(bench, wiring.links[index][0], up=False)
        for _ in range(data.draw(st.integers(0, 6))):
            bench.go_on()
    bench.settle()
    trees, edges = bench.engine.fabric.trees, bench.engine.fabric._edge_switches()
    left = [link for number, link in enumerate(wiring.links) if number not in lost]
    doubtful = bench.engine.fabric._links.doubtful
    anew = Trees(left, edges, doubtful=doubtful, former_roots=trees.roots)
    destinations = sorted({host.port.switch for host in bench.engine.fabric.hosts.values()})
    assert installed(bench) == wanted(anew, destinations)
