"""What all topologies share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from mininet.topo import Topo


@dataclass(frozen=True)
class Roles:
    """Who does what, by name.

    The bottleneck is the switch port ``bottleneck`` of switch ``switch``, whose link has
    ``bottleneck_bps``; ``far_end`` is the device on the other side of that link, in node
    ``far_node``. The reads go from ``senders`` to ``receiver``, the background flow from
    ``background_sender`` to ``background_receiver``: all of them cross the bottleneck.
    """

    senders: tuple[str, ...]
    receiver: str
    background_sender: str
    background_receiver: str
    switch: str
    bottleneck_port: int
    bottleneck: str
    bottleneck_bps: int
    far_node: str
    far_end: str


@dataclass(frozen=True)
class Choice:
    """A number that a topology lets choose: what it is unless one chooses, and what it means."""

    default: int
    about: str


class IncastTopo(Topo):
    """A network with ``roles``, whose links are all alike but for the buffer at the bottleneck.

    A topology has a ``name``, a ``summary`` for help texts, and the ``choices`` of its shape. It
    builds itself in ``_build``, where ``shape`` has a number for each of the choices.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    choices: ClassVar[Mapping[str, Choice]] = {}
    roles: Roles
    shape: Mapping[str, int]

    def build(
        self,
        *,
        senders: int,
        rate_bps: int,
        bottleneck_limit_bytes: int,
        limit_bytes: int,
        edge_limit_bytes: int | None = None,
        shape: Mapping[str, int] | None = None,
    ) -> None:
        """Called by Mininet's Topo.

        ``bottleneck_limit_bytes`` is the buffer of the bottleneck port, ``limit_bytes`` that of
        every other device, which is to be large enough never to lose anything; with
        ``edge_limit_bytes``, every other port of a switch to a host has this one.
        """
        if senders < 1:
            raise ValueError(f"senders must be at least 1, not {senders}")
        self.shape = self.chosen(shape)
        self._rate_bps = rate_bps
        self._limit_bytes = limit_bytes
        self._edge_limit_bytes = edge_limit_bytes or limit_bytes
        self._build(tuple(f"h{i}" for i in range(1, senders + 1)), bottleneck_limit_bytes)

    @classmethod
    def chosen(cls, shape: Mapping[str, int] | None) -> dict[str, int]:
        """Return a number for each choice. Raises ValueError if there is no such choice."""
        for name in shape or {}:
            if name not in cls.choices:
                known = ", ".join(cls.choices)
                has = f"its --shape options are {known}" if known else "it has no --shape options"
                raise ValueError(f"topology {cls.name} has no {name} to choose: {has}")
        return {name: choice.default for name, choice in cls.choices.items()} | dict(shape or {})

    @classmethod
    def most_senders(cls, shape: Mapping[str, int]) -> int | None:  # noqa: ARG003
        """Return how many senders there is room for with this shape; None for any number."""
        return None

    def switch_id(self, name: str) -> int:
        """Return the datapath id that Mininet gives a switch: unless it was added with one, the
        first number in its name. Raises ValueError for a name without any."""
        given = self.nodeInfo(name).get("dpid")
        if given is not None:
            return int(given.replace(":", ""), 16)
        number = re.search(r"\d+", name)
        if number is None:
            raise ValueError(f"switch {name} has neither a dpid nor a number in its name: give one")
        return int(number[0])

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
        """Link ``switch`` to ``node``; ``limit_bytes`` is the buffer of the switch's port."""
        usual_bytes = self._limit_bytes if self.isSwitch(node) else self._edge_limit_bytes
        self.addLink(
            switch,
            node,
            rate_bps=rate_bps or self._rate_bps,
            limit1_bytes=limit_bytes or usual_bytes,
            limit2_bytes=self._limit_bytes,
            **ports,
        )

    def _hosts(self, switch: str, names: tuple[str, ...]) -> None:
        """Add hosts, each with a link to ``switch``."""
        for name in names:
            self.addHost(name)
            self._link(switch, name)

    def _set_roles(
        self,
        senders: tuple[str, ...],
        receiver: str,
        *,
        background: tuple[str, str],
        bottleneck: tuple[str, str],
        rate_bps: int | None = None,
    ) -> None:
        """Say who does what: ``background`` are the ends of the background flow, ``bottleneck`` a
        switch and the node that its link leads to, with ``rate_bps`` if it is not as the others."""
        switch, far_node = bottleneck
        port, far_port = self.port(switch, far_node)
        self.roles = Roles(
            senders,
            receiver,
            *background,
            switch=switch,
            bottleneck_port=port,
            bottleneck=f"{switch}-eth{port}",
            bottleneck_bps=rate_bps or self._rate_bps,
            far_node=far_node,
            far_end=f"{far_node}-eth{far_port}",
        )
