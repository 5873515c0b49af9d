"""The networks that incast is studied on, and who plays which part in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mininet.topo import Topo


@dataclass(frozen=True)
class Roles:
    """Who does what, by name.

    The bottleneck is the switch port ``bottleneck`` of switch ``switch``; ``far_end`` is the
    device on the other side of its link, in node ``far_node``.
    """

    senders: tuple[str, ...]
    receiver: str
    background_sender: str
    background_receiver: str
    switch: str
    bottleneck_port: int
    bottleneck: str
    far_node: str
    far_end: str


class IncastTopo(Topo):
    """What the topologies share: ``roles``, and links that are all alike but for one buffer."""

    roles: Roles
    default_senders = 8
    # What can be chosen of the shape, and what it is otherwise.
    shape: Mapping[str, int] = MappingProxyType({})

    def build(
        self,
        *,
        senders: int,
        rate_bps: int,
        bottleneck_limit_bytes: int,
        limit_bytes: int,
        shape: Mapping[str, int] | None = None,
    ) -> None:
        """Called by Mininet's Topo.

        ``bottleneck_limit_bytes`` is the buffer of the bottleneck port, ``limit_bytes`` that of
        every other device, which is to be large enough never to lose anything.
        """
        if senders < 1:
            raise ValueError(f"senders must be at least 1, not {senders}")
        unknown = set(shape or {}) - set(self.shape)
        if unknown:
            known = ", ".join(self.shape) or "nothing"
            raise ValueError(f"no {', '.join(sorted(unknown))} to choose: there is {known}")
        self.shape = {**self.shape, **(shape or {})}
        self._rate_bps = rate_bps
        self._limit_bytes = limit_bytes
        self._build(tuple(f"h{i}" for i in range(1, senders + 1)), bottleneck_limit_bytes)

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        raise NotImplementedError

    def _link(
        self,
        switch: str,
        node: str,
        *,
        rate_bps: int | None = None,
        limit_bytes: int | None = None,
        **ports: int,
    ) -> None:
        self.addLink(
            switch,
            node,
            rate_bps=rate_bps or self._rate_bps,
            limit1_bytes=limit_bytes or self._limit_bytes,
            limit2_bytes=self._limit_bytes,
            **ports,
        )

    def _hosts(self, switch: str, names: tuple[str, ...]) -> None:
        for name in names:
            self.addHost(name)
            self._link(switch, name)


class Fig8(IncastTopo):
    """The paper's Figure 8: N senders at s1, two receivers at s2, one link between the switches.

    The bottleneck is s1's port to s2. r1 reads from all senders; the background flow goes from a
    sender of its own, b1, to r2, and shares nothing with the reads but the bottleneck.
    """

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        self.addSwitch("s1")
        self.addSwitch("s2")
        self._link("s1", "s2", limit_bytes=bottleneck_limit_bytes, port1=1, port2=1)
        self._hosts("s1", (*senders, "b1"))
        self._hosts("s2", ("r1", "r2"))
        self.roles = Roles(senders, "r1", "b1", "r2", "s1", 1, "s1-eth1", "s2", "s2-eth1")


class Star(IncastTopo):
    """One switch; the bottleneck is its port to r1, which reads and takes the background flow."""

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        self.addSwitch("s1")
        self.addHost("r1")
        self._link("s1", "r1", limit_bytes=bottleneck_limit_bytes, port1=1)
        self._hosts("s1", (*senders, "b1"))
        self.roles = Roles(senders, "r1", "b1", "r1", "s1", 1, "s1-eth1", "r1", "r1-eth0")


class ParkingLot(IncastTopo):
    """Three switches in a row and three flows (the DFCP paper's Figure 8): the first from h1 at s1
    over both links to r1 at s3, the second from h2 at s1 to r2 at s2, the third from h3 at s2 to r3
    at s3. The second link has ``second_pct`` percent of the others' rate, and is the bottleneck.
    """

    default_senders = 1
    shape = MappingProxyType({"second_pct": 40})

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        if len(senders) != 1:
            raise ValueError(f"one sender crosses a parking lot, not {len(senders)}")
        for name in ("s1", "s2", "s3"):
            self.addSwitch(name)
        second_bps = self._rate_bps * self.shape["second_pct"] // 100
        limit_bytes = bottleneck_limit_bytes
        self._link("s1", "s2", limit_bytes=limit_bytes, port1=1, port2=1)
        self._link("s2", "s3", rate_bps=second_bps, limit_bytes=limit_bytes, port1=2, port2=1)
        self._hosts("s1", (*senders, "h2"))
        self._hosts("s2", ("h3", "r2"))
        self._hosts("s3", ("r1", "r3"))
        self.roles = Roles(senders, "r1", "h2", "r2", "s2", 2, "s2-eth2", "s3", "s3-eth1")


class FabricTopo(IncastTopo):
    """What multi-rooted fabrics share: hosts h1, h2, ... at edge switches, tiers above them.

    The last host reads from the first ones and is the bottleneck; the background flow goes between
    the two hosts before it.
    """

    def _tier(self, letter: str, tier: int, count: int) -> list[str]:
        """The switches of a tier, with datapath ids that tell it: 0x101, 0x102, ..."""
        names = [f"{letter}{i}" for i in range(1, count + 1)]
        for number, name in enumerate(names, 1):
            self.addSwitch(name, dpid=f"{tier << 8 | number:x}")
        return names

    def _edge_hosts(
        self, edges: list[str], hosts_per_edge: int, senders: tuple[str, ...], limit_bytes: int
    ) -> None:
        names = tuple(f"h{i}" for i in range(1, len(edges) * hosts_per_edge + 1))
        if len(senders) > len(names) - 3:
            raise ValueError(
                f"{len(senders)} senders, two hosts of a background flow and a receiver "
                f"need more than {len(names)} hosts"
            )
        *others, last = names
        for i, edge in enumerate(edges):
            here = names[i * hosts_per_edge : (i + 1) * hosts_per_edge]
            self._hosts(edge, tuple(name for name in here if name != last))
        self.addHost(last)
        self._link(edges[-1], last, limit_bytes=limit_bytes)
        port, _ = self.port(edges[-1], last)
        edge = edges[-1]
        sender, receiver = others[-2:]
        self.roles = Roles(
            senders, last, sender, receiver, edge, port, f"{edge}-eth{port}", last, f"{last}-eth0"
        )


class FatTree(FabricTopo):
    """Al-Fares et al., SIGCOMM 2008: ``k`` pods of k/2 edge (e) and k/2 aggregation switches (a),
    (k/2)^2 cores (c), k/2 hosts at each edge switch."""

    shape = MappingProxyType({"k": 4})

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

    shape = MappingProxyType({"spines": 2, "leaves": 4, "hosts": 4})

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


TOPOLOGIES: dict[str, type[IncastTopo]] = {
    "fig8": Fig8,
    "star": Star,
    "parking-lot": ParkingLot,
    "fat-tree": FatTree,
    "leaf-spine": LeafSpine,
}


def default_senders(name: str) -> int:
    """How many senders the topology called ``name`` has, unless one asks for others."""
    return _named(name).default_senders


def topology(name: str, **params: Any) -> IncastTopo:
    """Make the topology called ``name``; ``params`` as for IncastTopo.build."""
    return _named(name)(**params)


def _named(name: str) -> type[IncastTopo]:
    if name not in TOPOLOGIES:
        raise ValueError(f"no topology {name!r}: there are {', '.join(TOPOLOGIES)}")
    return TOPOLOGIES[name]
