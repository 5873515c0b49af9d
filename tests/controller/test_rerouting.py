"""What follows from the move of hosts with many connections is done a few at a time."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.flows import connections
from controller.core.flows.flow_table import PAIR_KEPT_NS
from controller.model.entries import FlowCounter, HostWindow
from controller.model.flow import FIN, FlowKey
from controller.model.values import PortId
from engine_bench import RECEIVER, SECOND, SENDERS, Slow, joined, make_engine

HOSTS = [*SENDERS[:2], RECEIVER]
# Where no host is at first.
FREE = [PortId(switch, port) for port in range(33, 40) for switch in (2, 1)]


@pytest.fixture(autouse=True, scope="module")
def _one_at_a_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name in ("_REROUTED_PER_TURN", "_MOVED_PER_TURN", "_DROPPED_PER_TURN"):
            patched.setattr(connections, name, 1)
        yield


def check(bench: Slow) -> None:
    """Routes, counts and entries are what a controller that did all at once would have."""
    engine = bench.engine
    table, fabric = engine.flow_table, engine.fabric
    flows: Counter[PortId] = Counter()
    counters: Counter[tuple[int, FlowKey]] = Counter()
    windows: set[tuple[PortId, bytes]] = set()
    pairs = table.host_pairs
    for pair in pairs:
        ends = pair.initiator_mac, pair.responder_mac
        switches = dict.fromkeys(fabric.hosts[mac].port.switch for mac in ends)
        assert pair.edges == tuple(switches)
        for lane, way in zip(pair.lanes, (ends, ends[::-1]), strict=True):
            assert lane.ports == (fabric.path(*way, pair.path_id) or ())
            flows.update(dict.fromkeys(lane.ports, len(pair.members)))
            if pair.members:
                windows.update((port_id, lane.receiver) for port_id in lane.ports)
        for connection in pair.members:
            if connection.record is not None:
                assert connection.record.switches == pair.edges[:1]
                for key in (connection.key, connection.answer_key):
                    counters[pair.edges[0], FlowKey.unpack(key)] += 1
    for port_id in {*flows, *FREE}:
        assert {lane for pair in pairs for lane in pair.lanes} >= table.lanes(port_id)
        counts = table.counts(port_id)
        assert counts.background + counts.burst == flows[port_id]
    held = Counter(
        (switch, entry.flow) for switch in (1, 2) for entry in bench.entries(switch, FlowCounter)
    )
    assert held == counters
    for (switch, port), end in windows:
        assert any(
            (entry.port, entry.address) == (port, end)
            for entry in bench.entries(switch, HostWindow)
        )


def end(bench: Slow, key: FlowKey) -> None:
    bench.segment(key, FIN)
    bench.segment(key.reverse, FIN)


def test_a_host_with_many_peers_moves_in_many_turns() -> None:
    bench = joined(Slow(make_engine()))
    for sender in SENDERS:
        bench.connect(sender, RECEIVER)
    bench.sleep(3 * SECOND)
    bench.settle()
    check(bench)
    bench.place(RECEIVER, PortId(1, 33))
    assert bench.settle() >= len(SENDERS) - 1
    check(bench)


def test_pairs_without_connections_are_dropped_in_many_turns() -> None:
    bench = joined(Slow(make_engine()))
    for sender in SENDERS:
        end(bench, bench.connect(sender, RECEIVER))
    bench.now_ns += 2 * PAIR_KEPT_NS
    assert len(bench.engine.flow_table.host_pairs) == len(SENDERS)
    bench.do(bench.engine.tend(bench.now_ns))
    assert len(bench.engine.flow_table.host_pairs) == len(SENDERS) - 1
    assert bench.settle() == len(SENDERS)
    assert not bench.engine.flow_table.host_pairs


def test_a_switch_that_is_given_up_meanwhile_does_not_hide_the_move() -> None:
    bench = joined(Slow(make_engine()))
    bench.switch_up(3)
    for number, sender in enumerate(SENDERS[:6]):
        bench.connect(RECEIVER, sender, number)
    bench.sleep(2 * SECOND)
    bench.settle()
    bench.do(bench.engine.switch_down(3, bench.now_ns))
    bench.now_ns += 3600 * SECOND
    bench.link(PortId(1, 40), PortId(2, 40))
    bench.place(RECEIVER, PortId(1, 33))
    bench.do(bench.engine.tend(bench.now_ns))
    assert 3 in bench.engine.connections.routes.given_up or not bench.engine.fabric.ports_of(3)
    bench.settle()
    check(bench)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_happens_meanwhile_the_end_is_right(data: st.DataObject) -> None:
    bench = joined(Slow(make_engine()))
    free, port = FREE.copy(), 1000
    opened = [bench.connect(HOSTS[n % 2], RECEIVER, n) for n in range(6)]
    bench.sleep(2 * SECOND)
    bench.settle()
    for _ in range(data.draw(st.integers(5, 25))):
        what = data.draw(st.sampled_from(["open", "open", "end", "move", "sleep", "long"]))
        if what == "open":
            src, dst = data.draw(st.permutations(HOSTS))[:2]
            port += 1
            opened.append(bench.connect(src, dst, port))
        elif what == "end" and opened:
            end(bench, opened.pop(data.draw(st.integers(0, len(opened) - 1))))
        elif what == "move":
            host = data.draw(st.sampled_from(HOSTS))
            bench.now_ns += SECOND
            before, after = bench.places[host], free.pop(0)
            free.append(before)
            bench.place(host, after)
        elif what == "sleep":
            bench.sleep(SECOND)
        elif what == "long":
            bench.now_ns += 2 * PAIR_KEPT_NS
        bench.link(PortId(1, 40), PortId(2, 40))
        for _ in range(data.draw(st.integers(0, 3))):
            bench.go_on()
    bench.settle()
    check(bench)
