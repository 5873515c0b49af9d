"""The networks have the parts that an experiment relies on."""

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import networkx as nx
import pytest

from controller.model.values import switch_id
from mininet import node
from testbed.config import BedConfig
from testbed.topologies import TOPOLOGIES, IncastTopo, at_most, topology, topology_of

RATE_BPS, BOTTLENECK_BYTES, OTHER_BYTES = 100_000_000, 65536, 1 << 20
IFNAMSIZ = 16
# So that there is room for 120 senders.
SHAPES = {"fat-tree": {"k": 8}, "leaf-spine": {"hosts": 32}}


# Those that any number of senders may be in.
MANY = [name for name in TOPOLOGIES if name != "parking-lot"]


def make(name: str, senders: int = 32) -> IncastTopo:
    return topology(
        name,
        senders=senders,
        rate_bps=RATE_BPS,
        bottleneck_limit_bytes=BOTTLENECK_BYTES,
        limit_bytes=OTHER_BYTES,
        shape=SHAPES.get(name),
    )


def ends(topo: IncastTopo) -> dict[str, tuple[str, int]]:
    """Every end of every link: the other end and the buffer at this one, by device."""
    found = {}
    for _, _, link in topo.links(withInfo=True):
        first = f"{link['node1']}-eth{link['port1']}"
        second = f"{link['node2']}-eth{link['port2']}"
        assert link["rate_bps"] == RATE_BPS
        found[first] = (second, link["limit1_bytes"])
        found[second] = (first, link["limit2_bytes"])
    return found


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("senders", [1, 32, 120])
def test_roles_are_played_by_nodes_that_are_there(name: str, senders: int) -> None:
    topo = make(name, senders)
    roles = topo.roles
    hosts = set(topo.hosts())
    assert len(set(roles.senders)) == senders
    players = {*roles.senders, roles.receiver, roles.background_sender, roles.background_receiver}
    assert players <= hosts
    assert roles.background_sender not in roles.senders
    links = ends(topo)
    assert links[roles.bottleneck][0] == roles.far_end
    assert roles.bottleneck == f"{roles.switch}-eth{roles.bottleneck_port}"
    assert roles.far_end.startswith(f"{roles.far_node}-")
    assert all(len(device) < IFNAMSIZ for device in links)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_topology_has_room_for_its_own_number_of_senders(name: str) -> None:
    senders = topology_of(BedConfig(topology=name)).roles.senders
    assert len(senders) == (1 if name == "parking-lot" else 14 if name in SHAPES else 32)
    assert at_most(8, name) == min(8, len(senders))


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_reads_and_background_flow_cross_the_bottleneck(name: str) -> None:
    topo = topology_of(BedConfig(topology=name))
    roles = topo.roles
    network: nx.Graph[str] = nx.Graph(topo.links())
    flows = [(sender, roles.receiver) for sender in roles.senders]
    for ends_of in (*flows, (roles.background_sender, roles.background_receiver)):
        for path in nx.all_shortest_paths(network, *ends_of):
            assert (roles.switch, roles.far_node) in pairwise(path), ends_of


@pytest.mark.parametrize("name", MANY)
def test_only_the_bottleneck_is_shallow(name: str) -> None:
    topo = make(name)
    shallow = {device for device, (_, limit) in ends(topo).items() if limit != OTHER_BYTES}
    assert shallow == {topo.roles.bottleneck}
    assert ends(topo)[topo.roles.bottleneck][1] == BOTTLENECK_BYTES


@pytest.mark.parametrize("name", MANY)
def test_every_port_to_a_host_can_be_shallow(name: str) -> None:
    topo = topology_of(BedConfig(topology=name, senders=8, edge_limit_bytes=40_000))
    hosts = set(topo.hosts())
    limits = {
        limit
        for device, (other, limit) in ends(topo).items()
        if other.partition("-")[0] in hosts and device != topo.roles.bottleneck
    }
    assert limits == {40_000}
    others = {limit for other, limit in ends(topo).values() if other.partition("-")[0] not in hosts}
    assert others - {BedConfig().bottleneck_limit_bytes} == {BedConfig().limit_bytes}


def test_figure_8_puts_senders_and_receivers_on_either_side() -> None:
    topo = make("fig8", senders=3)
    near = {other for device, (other, _) in ends(topo).items() if device.startswith("s1-")}
    assert near == {"h1-eth0", "h2-eth0", "h3-eth0", "b1-eth0", "s2-eth1"}


def test_a_fat_tree_has_so_many_of_each() -> None:
    topo = topology(
        "fat-tree",
        senders=8,
        rate_bps=RATE_BPS,
        bottleneck_limit_bytes=BOTTLENECK_BYTES,
        limit_bytes=OTHER_BYTES,
    )
    tiers = Counter(switch[0] for switch in topo.switches())
    assert (tiers, len(topo.hosts())) == ({"c": 4, "a": 8, "e": 8}, 16)
    between = [link for link in topo.links() if not {link[0][0], link[1][0]} & {"h"}]
    assert len(between) == 32
    degrees = Counter(end for link in topo.links() for end in link)
    assert {degrees[switch] for switch in topo.switches()} == {4}
    datapath_ids = {topo.nodeInfo(switch)["dpid"] for switch in topo.switches()}
    assert len(datapath_ids) == 20


@pytest.mark.parametrize(
    ("name", "shape", "wrong"),
    [
        ("fat-tree", {"k": 3}, "even, not 3"),
        ("fat-tree", {"k": 2}, "need more than 2 hosts"),
        ("fat-tree", {"spines": 2}, "fat-tree has no spines to choose: its --shape options are k"),
        ("leaf-spine", {"spines": 0}, "at least"),
        ("star", {"k": 4}, "topology star has no k to choose: it has no --shape options"),
    ],
)
def test_a_shape_that_cannot_be(name: str, shape: dict[str, int], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        topology(
            name,
            senders=2,
            rate_bps=RATE_BPS,
            bottleneck_limit_bytes=BOTTLENECK_BYTES,
            limit_bytes=OTHER_BYTES,
            shape=shape,
        )


def test_unknown_name_and_no_senders() -> None:
    with pytest.raises(ValueError, match="there are fat-tree, fig8, leaf-spine"):
        make("ring")
    with pytest.raises(ValueError, match="at least 1"):
        make("star", senders=0)


def test_a_parking_lot_has_two_bottlenecks_of_different_rates() -> None:
    topo = topology(
        "parking-lot",
        senders=1,
        rate_bps=RATE_BPS,
        bottleneck_limit_bytes=BOTTLENECK_BYTES,
        limit_bytes=OTHER_BYTES,
        shape={"second_pct": 30},
    )
    links = {(a, b): info for a, b, info in topo.links(withInfo=True)}
    assert links["s1", "s2"]["rate_bps"] == RATE_BPS
    assert links["s2", "s3"]["rate_bps"] == 30_000_000
    for ends_of in (("s1", "s2"), ("s2", "s3")):
        assert links[ends_of]["limit1_bytes"] == BOTTLENECK_BYTES
    assert sorted(topo.hosts()) == ["h1", "h2", "h3", "r1", "r2", "r3"]
    assert topo.port("s2", "s3") == (topo.roles.bottleneck_port, 1)
    assert topo.roles.bottleneck_bps == 30_000_000
    with pytest.raises(ValueError, match="has one sender, not 3"):
        topology(
            "parking-lot",
            senders=3,
            rate_bps=RATE_BPS,
            bottleneck_limit_bytes=1,
            limit_bytes=1,
        )


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_switch_ids_are_those_that_mininet_gives(name: str) -> None:
    """The controller is configured before there are switches."""
    topo = make(name, 1)
    for switch in topo.switches():
        assert topo.switch_id(switch) == given_by_mininet(topo, switch)


@pytest.mark.parametrize(
    ("name", "dpid"), [("s7", None), ("x12y3", None), ("a", "10"), ("b", "0:1f")]
)
def test_a_switch_id_of_ones_own(name: str, dpid: str | None) -> None:
    topo = make("star", 1)
    topo.addSwitch(name, dpid=dpid)
    assert topo.switch_id(name) == given_by_mininet(topo, name)


def test_a_switch_without_a_number() -> None:
    topo = make("star", 1)
    topo.addSwitch("core")
    with pytest.raises(ValueError, match="switch core has neither a dpid nor a number"):
        topo.switch_id("core")


def given_by_mininet(topo: IncastTopo, switch: str) -> int:
    """What Mininet makes of the name, and of what the topology says of the switch."""
    namesake = SimpleNamespace(name=switch, dpidLen=node.Switch.dpidLen)
    return switch_id(node.Switch.defaultDpid(namesake, topo.nodeInfo(switch).get("dpid")))
