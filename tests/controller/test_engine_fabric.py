"""Connections and their regulation in a fabric of many ways, as it is and when parts of it fail."""

import pytest

from controller.core.bandwidth.announced import Announced
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.model.effects import Effect
from controller.model.entries import (
    AssignPathIds,
    FlowCounter,
    HeldEntry,
    HostWindow,
    NextHop,
    Steer,
)
from controller.model.flow import FlowKey
from controller.model.values import N_PATH_IDS, FlowClass, Port, PortId
from engine_bench import RECEIVER, SECOND, SENDERS, EngineBench, make_engine, records
from fabrics import LEAF, SPINE, leaf_spine
from packets import Host

A, B, *_ = SENDERS
S1, S2 = SPINE, SPINE + 1
NEAR, FAR, THIRD = LEAF, LEAF + 1, LEAF + 2
WIRING = leaf_spine(spines=2, leaves=3)
PEERS = {a: b for link in WIRING.links for a, b in (link, link[::-1])}
SWITCHES = (S1, S2, NEAR, FAR, THIRD)


class Fabric(EngineBench):
    """Two spines, three leaves; A and B at the first leaf, the receiver at the second."""

    def survivors(self, switch: int) -> list[HeldEntry]:
        return [HeldEntry(entry, 0, 3 * SECOND) for entry in self.held.get(switch, {}).values()]

    def start(self) -> None:
        """The switches connect, with what they hold, and discovery goes round."""
        for switch in SWITCHES:
            self.switch_up(switch, *self.survivors(switch), ports=3 if switch in (S1, S2) else 12)
        self.discover()
        self.now_ns += PORT_GRACE_NS

    def discover(self, *dead: int) -> None:
        for a, b in PEERS.items():
            if not {a.switch, b.switch} & set(dead):
                self.link(a, b)

    def wait(self, seconds: int, *dead: int) -> None:
        for _ in range(seconds):
            self.discover(*dead)
            self.sleep(SECOND)

    def ways(self, key: FlowKey) -> list[tuple[PortId, ...]]:
        """Where the data of either direction leaves by, as it is counted."""
        connection = self.engine.flow_table.find(key.pack())
        assert connection is not None
        return [lane.ports for lane in connection.pair.lanes]

    def hops(self, src: int, dst: int, path_id: int) -> list[PortId]:
        """Where frames go by what the switches hold."""
        path = []
        while src != dst:
            held = self.held[src]
            entry = held.get(NextHop(dst, path_id, 0).key) or held[NextHop(dst, None, 0).key]
            assert isinstance(entry, NextHop)
            path.append(PortId(src, entry.port))
            src = PEERS[path[-1]].switch
        return path

    def announce(self, name: str, src: Host, dst: Host) -> None:
        announced = Announced(src.address, dst.address)
        self.do(self.engine.announce(name, announced, self.now_ns))

    def steered(self, src: Host, dst: Host) -> dict[int, int]:
        """The path ids that datagrams from host to host are given, by switch."""
        path_ids = {}
        for switch in SWITCHES:
            for entry in self.entries(switch, Steer):
                assert isinstance(entry, Steer)
                if (entry.src, entry.dst) == (src.address, dst.address):
                    path_ids[switch] = entry.path_id
        return path_ids

    def is_held(self, port_id: PortId, address: bytes) -> bool:
        return any(
            (entry.port, entry.address) == (port_id.port, address)
            for entry in self.entries(port_id.switch, HostWindow)
            if isinstance(entry, HostWindow)
        )


def fabric() -> Fabric:
    bench = Fabric(make_engine())
    bench.start()
    bench.place(A, PortId(NEAR, 10))
    bench.place(B, PortId(NEAR, 11))
    bench.place(RECEIVER, PortId(FAR, 10))
    return bench


def one_way() -> EngineBench:
    """Two switches and a link."""
    bench = EngineBench(make_engine())
    for switch in (1, 2):
        bench.switch_up(switch)
    bench.link(PortId(1, 40), PortId(2, 40))
    bench.now_ns += PORT_GRACE_NS
    bench.place(A, PortId(1, 1))
    bench.place(RECEIVER, PortId(2, 1))
    return bench


def spine_of(bench: Fabric, path_id: int) -> int:
    return PEERS[bench.hops(NEAR, FAR, path_id)[0]].switch


def test_path_ids_are_given_where_they_are_needed() -> None:
    bench = fabric()
    for leaf in (NEAR, FAR):
        assert bench.entries(leaf, AssignPathIds) == {AssignPathIds()}
    for spine in (S1, S2):
        assert bench.entries(spine, AssignPathIds) == set()
        assert {
            hop.path_id for hop in bench.entries(spine, NextHop) if isinstance(hop, NextHop)
        } == {None}
    assert {spine_of(bench, path_id) for path_id in range(N_PATH_IDS)} == {S1, S2}


def test_on_one_way_no_path_ids_are_given() -> None:
    bench = one_way()
    assert bench.entries(1, AssignPathIds) == bench.entries(2, AssignPathIds) == set()


def test_announced_flows_go_the_way_that_their_shares_are_reckoned_for() -> None:
    bench = fabric()
    bench.announce("a", A, RECEIVER)
    bench.announce("b", B, RECEIVER)
    ways = []
    for name, host in (("a", A), ("b", B)):
        path_ids = bench.steered(host, RECEIVER)
        (path_id,) = set(path_ids.values())
        path = bench.hops(NEAR, FAR, path_id)
        assert set(path_ids) == {port.switch for port in path}
        path_of = bench.engine.path_bandwidth(host.address, RECEIVER.address, bench.now_ns)
        assert [state.link for state in path_of.links][1:] == [*path, PortId(FAR, 10)], name
        ways.append(path)
    assert ways[0] != ways[1], "there are two ways for two flows"
    assert bench.steered(RECEIVER, A) == {}


def test_a_flow_finds_its_way_again_and_leaves_nothing_behind() -> None:
    bench = fabric()
    bench.announce("a", A, RECEIVER)
    bench.announce("again", A, RECEIVER)
    path_id = bench.steered(A, RECEIVER)[NEAR]
    spine = spine_of(bench, path_id)
    for port_id, peer in PEERS.items():
        if spine in (port_id.switch, peer.switch):
            port = Port(port_id.port, "down", bytes(6), up=False)
            bench.do(bench.engine.port_changed(port_id.switch, port, bench.now_ns))
    path_ids = bench.steered(A, RECEIVER)
    assert spine not in path_ids
    assert set(path_ids) == {port.switch for port in bench.hops(NEAR, FAR, path_id)}
    bench.do(bench.engine.withdraw("a", bench.now_ns))
    assert bench.steered(A, RECEIVER) == path_ids
    bench.do(bench.engine.withdraw("again", bench.now_ns))
    assert bench.steered(A, RECEIVER) == {}


def test_flows_of_one_way_part_when_there_is_another() -> None:
    bench = Fabric(make_engine())
    bench.start()
    for port_id in (a for a, b in PEERS.items() if S2 in (a.switch, b.switch)):
        port = Port(port_id.port, "down", bytes(6), up=False)
        bench.do(bench.engine.port_changed(port_id.switch, port, bench.now_ns))
    for host, place in ((A, PortId(NEAR, 10)), (B, PortId(NEAR, 11)), (RECEIVER, PortId(FAR, 10))):
        bench.place(host, place)
    for name, host in (("a", A), ("b", B)):
        bench.announce(name, host, RECEIVER)
        assert S2 not in bench.steered(host, RECEIVER)
    for port_id in (a for a, b in PEERS.items() if S2 in (a.switch, b.switch)):
        port = Port(port_id.port, "up", bytes(6), up=True)
        bench.do(bench.engine.port_changed(port_id.switch, port, bench.now_ns))
    bench.now_ns += PORT_GRACE_NS
    bench.discover()
    bench.sleep(SECOND)
    assert {tuple(bench.steered(host, RECEIVER)) for host in (A, B)} == {(S1, NEAR), (S2, NEAR)}


def test_on_one_way_nothing_is_steered() -> None:
    bench = one_way()
    announced = Announced(A.address, RECEIVER.address)
    bench.do(bench.engine.announce("a", announced, bench.now_ns))
    assert bench.engine.estimation.bandwidth.announced("a") is not None
    assert bench.entries(1, Steer) == bench.entries(2, Steer) == set()


@pytest.mark.parametrize("path_id", range(N_PATH_IDS))
def test_a_connection_is_counted_and_held_on_the_way_of_its_path_id(path_id: int) -> None:
    bench = fabric()
    key = bench.connect(A, RECEIVER, path_id=path_id)
    there, back = bench.ways(key)
    assert list(there) == [*bench.hops(NEAR, FAR, path_id), PortId(FAR, 10)]
    assert list(back) == [*bench.hops(FAR, NEAR, path_id), PortId(NEAR, 10)]
    for port_id in there:
        assert bench.is_held(port_id, RECEIVER.address)
    for port_id in back:
        assert bench.is_held(port_id, A.address)


def test_one_without_a_path_id_is_taken_to_go_the_way_of_the_first() -> None:
    bench = fabric()
    for src_port in (1, 2):
        key = bench.connect(A, RECEIVER, src_port, path_id=None)
        assert list(bench.ways(key)[0])[:-1] == bench.hops(NEAR, FAR, 0)
    assert bench.complaints == [NEAR]


@pytest.mark.parametrize("how", ["silent", "ports down"])
def test_a_lost_spine_moves_its_connections_and_their_windows_and_no_others(how: str) -> None:
    bench = fabric()
    keys = {
        path_id: bench.connect(A, RECEIVER, 1 + path_id, path_id=path_id)
        for path_id in range(N_PATH_IDS)
    }
    before = {path_id: bench.ways(key) for path_id, key in keys.items()}
    spines = {path_id: spine_of(bench, path_id) for path_id in keys}
    if how == "silent":
        bench.do(bench.engine.switch_down(S1, bench.now_ns))
        bench.wait(1, S1)
    else:
        for leaf in (NEAR, FAR, THIRD):
            for port_id, peer in PEERS.items():
                if port_id.switch == leaf and peer.switch == S1:
                    down = Port(port_id.port, "down", b"\2\1\0\0\0\1", False)
                    bench.do(bench.engine.port_changed(leaf, down, bench.now_ns))
    for path_id, key in keys.items():
        assert spine_of(bench, path_id) == S2
        ways = bench.ways(key)
        assert list(ways[0]) == [*bench.hops(NEAR, FAR, path_id), PortId(FAR, 10)]
        if spines[path_id] == S2:
            assert ways == before[path_id]
        for port_id in ways[0]:
            assert bench.is_held(port_id, RECEIVER.address)
    lost = next(ways[0][0] for path_id, ways in before.items() if spines[path_id] == S1)
    assert not bench.is_held(lost, RECEIVER.address)
    kept = next(ways[0][0] for path_id, ways in before.items() if spines[path_id] == S2)
    assert bench.engine.flow_table.counts(lost).flows == 0
    assert bench.engine.flow_table.counts(kept).flows == N_PATH_IDS


def test_it_is_used_again_when_it_is_back() -> None:
    bench = fabric()
    before = [spine_of(bench, path_id) for path_id in range(N_PATH_IDS)]
    bench.do(bench.engine.switch_down(S1, bench.now_ns))
    bench.wait(2, S1)
    bench.switch_up(S1, ports=3)
    bench.wait(1)
    assert [spine_of(bench, path_id) for path_id in range(N_PATH_IDS)] == before


def test_the_only_way_is_used_although_its_switch_has_lost_its_controller() -> None:
    bench = fabric()
    for spine in (S1, S2):
        bench.do(bench.engine.switch_down(spine, bench.now_ns))
    bench.wait(5, S1, S2)
    assert bench.hops(NEAR, FAR, 0)


def test_a_short_loss_of_control_moves_nothing() -> None:
    bench = fabric()
    before = [spine_of(bench, path_id) for path_id in range(N_PATH_IDS)]
    bench.do(bench.engine.switch_down(S1, bench.now_ns))
    bench.sleep(SECOND // 4)
    bench.switch_up(S1, *bench.survivors(S1), ports=3)
    bench.wait(1)
    assert [spine_of(bench, path_id) for path_id in range(N_PATH_IDS)] == before
    assert S1 not in {e["switch"] for e in records(bench.last, "switch_avoided")}


def test_background_flows_keep_windows_of_their_own_on_the_new_way() -> None:
    bench = fabric()
    path_id = next(path_id for path_id in range(N_PATH_IDS) if spine_of(bench, path_id) == S1)
    key = bench.connect(A, RECEIVER, path_id=path_id)
    bench.wait(2)
    bench.volume(NEAR, key, 10**7)
    assert PortId(FAR, 10) in bench.ways(key)[0]
    assert bench.engine.flow_table.flows(PortId(FAR, 10), FlowClass.BACKGROUND) == {key}
    bench.do(bench.engine.switch_down(S1, bench.now_ns))
    bench.wait(1, S1)
    for port_id in bench.ways(key)[0]:
        assert bench.engine.flow_table.counts(port_id).background == 1
        assert any(
            entry.key.kind == "flow-window" and entry.key.identity[0] == port_id.port
            for entry in bench.held[port_id.switch].values()
        )


def test_a_new_controller_knows_the_path_ids_by_the_flow_counters() -> None:
    bench = fabric()
    path_id = next(
        path_id for path_id in range(N_PATH_IDS) if spine_of(bench, path_id) != spine_of(bench, 0)
    )
    key = bench.connect(A, RECEIVER, path_id=path_id)
    bench.wait(3)
    counter = bench.held[NEAR][FlowCounter(key, True).key]
    assert counter == FlowCounter(key, True, path_id)

    after = Fabric(make_engine(), now_ns=bench.now_ns, places=bench.places, held=bench.held)
    after.start()
    after.place(A, PortId(NEAR, 10))
    after.place(RECEIVER, PortId(FAR, 10))
    assert after.ways(key) == bench.ways(key)
    after.wait(15)
    assert [spine_of(after, i) for i in range(N_PATH_IDS)] == [
        spine_of(bench, i) for i in range(N_PATH_IDS)
    ]
    assert after.ways(key) == bench.ways(key)


def test_a_kept_discovery_frame_makes_no_link() -> None:
    bench = fabric()
    kept_ns = bench.now_ns
    bench.wait(5)
    seen: list[Effect] = []
    for _ in range(3):
        seen += bench.do(
            bench.engine.link_seen(PortId(NEAR, 10), PortId(FAR, 11), kept_ns, bench.now_ns)
        )
    assert not records(seen, "link_up")
    assert not records(seen, "host_lost")
    assert len(records(seen, "discovery_replayed")) == 1
