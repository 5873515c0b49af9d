"""The networks that incast is studied on, and who plays which part in them."""

from dataclasses import dataclass
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

    def build(
        self, *, senders: int, rate_bps: int, bottleneck_limit_bytes: int, limit_bytes: int
    ) -> None:
        """Called by Mininet's Topo.

        ``bottleneck_limit_bytes`` is the buffer of the bottleneck port, ``limit_bytes`` that of
        every other device, which is to be large enough never to lose anything.
        """
        if senders < 1:
            raise ValueError(f"senders must be at least 1, not {senders}")
        self._rate_bps = rate_bps
        self._limit_bytes = limit_bytes
        self._build(tuple(f"h{i}" for i in range(1, senders + 1)), bottleneck_limit_bytes)

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        raise NotImplementedError

    def _link(
        self, switch: str, node: str, *, limit_bytes: int | None = None, **ports: int
    ) -> None:
        self.addLink(
            switch,
            node,
            rate_bps=self._rate_bps,
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


TOPOLOGIES: dict[str, type[IncastTopo]] = {"fig8": Fig8, "star": Star}


def topology(name: str, **params: Any) -> IncastTopo:
    """Make the topology called ``name``; ``params`` as for IncastTopo.build."""
    if name not in TOPOLOGIES:
        raise ValueError(f"no topology {name!r}: there are {', '.join(TOPOLOGIES)}")
    return TOPOLOGIES[name](**params)
