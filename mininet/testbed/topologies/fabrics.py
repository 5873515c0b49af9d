"""Multi-rooted fabrics."""

from collections.abc import Mapping
from typing import ClassVar

from controller.model.values import datapath_id
from testbed.topologies import TOPOLOGIES, Choice, IncastTopo


class FabricTopo(IncastTopo):
    """Hosts h1, h2, ... at edge switches, tiers above them.

    The last host reads from the first ones, and the port to it is the bottleneck. The background
    flow comes to it from the host before.
    """

    def _tier(self, letter: str, tier: int, count: int) -> list[str]:
        """Add the switches of a tier, with its number in their datapath ids: 0x101, 0x102, ..."""
        names = [f"{letter}{i}" for i in range(1, count + 1)]
        for number, name in enumerate(names, 1):
            self.addSwitch(name, dpid=datapath_id(tier << 8 | number))
        return names

    def _edge_hosts(
        self, edges: list[str], hosts_per_edge: int, senders: tuple[str, ...], limit_bytes: int
    ) -> None:
        names = tuple(f"h{i}" for i in range(1, len(edges) * hosts_per_edge + 1))
        if len(senders) > _room_for(len(names)):
            raise ValueError(
                f"{len(senders)} senders, a sender of the background flow and a receiver "
                f"need more than {len(names)} hosts"
            )
        *others, last = names
        for i, edge in enumerate(edges):
            here = names[i * hosts_per_edge : (i + 1) * hosts_per_edge]
            self._hosts(edge, tuple(name for name in here if name != last))
        self.addHost(last)
        self._link(edges[-1], last, limit_bytes=limit_bytes)
        self._set_roles(senders, last, background=(others[-1], last), bottleneck=(edges[-1], last))


class FatTree(FabricTopo):
    """Al-Fares et al., SIGCOMM 2008: ``k`` pods of k/2 edge (e) and k/2 aggregation switches (a),
    (k/2)^2 cores (c), k/2 hosts at each edge switch."""

    name = "fat-tree"
    summary = """\
k pods (Al-Fares et al.): hosts h1.., edge switches e1.., aggregation a1.., cores
c1..; h1..hN send to the last host, and the port to it is the bottleneck"""
    choices: ClassVar = {"k": Choice(4, "pods; an even number")}

    @classmethod
    def most_senders(cls, shape: Mapping[str, int]) -> int:
        return _room_for(shape["k"] ** 3 // 4)

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        k = self.shape["k"]
        if k < 2 or k % 2:
            raise ValueError(f"a fat-tree's k is even, not {k}")
        half = k // 2
        cores = self._tier("c", 1, half * half)
        aggregations = self._tier("a", 2, k * half)
        edges = self._tier("e", 3, k * half)
        for i, aggregation in enumerate(aggregations):
            pod, place = divmod(i, half)
            for core in cores[place * half : (place + 1) * half]:
                self._link(aggregation, core)
            for edge in edges[pod * half : (pod + 1) * half]:
                self._link(aggregation, edge)
        self._edge_hosts(edges, half, senders, bottleneck_limit_bytes)


class LeafSpine(FabricTopo):
    """Every one of the ``leaves`` (l) has a link to every one of the ``spines`` (s), and as many
    ``hosts``."""

    name = "leaf-spine"
    summary = """\
spine switches s1.., leaf switches l1.., and hosts h1.. at the leaves;
h1..hN send to the last host, and the port to it is the bottleneck"""
    choices: ClassVar = {
        "spines": Choice(2, "spine switches"),
        "leaves": Choice(4, "leaf switches"),
        "hosts": Choice(4, "hosts at each leaf"),
    }

    @classmethod
    def most_senders(cls, shape: Mapping[str, int]) -> int:
        return _room_for(shape["leaves"] * shape["hosts"])

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        shape = self.shape
        if min(shape.values()) < 1:
            raise ValueError("a leaf-spine needs a spine, a leaf and a host at each, at least")
        spines = self._tier("s", 1, shape["spines"])
        leaves = self._tier("l", 2, shape["leaves"])
        for leaf in leaves:
            for spine in spines:
                self._link(leaf, spine)
        self._edge_hosts(leaves, shape["hosts"], senders, bottleneck_limit_bytes)


def _room_for(hosts: int) -> int:
    """Return how many of so many hosts can be senders."""
    return hosts - 2


TOPOLOGIES.add(FatTree)
TOPOLOGIES.add(LeafSpine)
