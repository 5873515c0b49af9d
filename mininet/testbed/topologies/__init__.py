"""The networks that incast is studied on, one module each. A new one is a new module here.

A module derives a class from ``IncastTopo`` and calls ``TOPOLOGIES.add`` with it. ``weir-lab``,
``weir-experiment run`` and ``mn --custom mininet/custom.py`` then know it.
"""

from collections.abc import Mapping
from typing import Any

from testbed.config import BedConfig
from testbed.registry import Registry
from testbed.topologies.base import Choice, IncastTopo, Roles

__all__ = [
    "SENDERS", "TOPOLOGIES", "Choice", "IncastTopo", "Roles", "at_most", "described", "topology",
    "topology_of",
]  # fmt: skip

SENDERS = 32
"""How many there are unless one asks for others, and where there is room for them."""

TOPOLOGIES: Registry[type[IncastTopo]] = Registry("topology", __name__)


def topology(name: str, **params: Any) -> IncastTopo:
    """Make the topology called ``name``; ``params`` as for IncastTopo.build."""
    return TOPOLOGIES.named(name)(**params)


def topology_of(config: BedConfig) -> IncastTopo:
    """Make the topology that ``config`` asks for. Raises ValueError where that cannot be."""
    senders = config.senders
    return topology(
        config.topology,
        senders=at_most(SENDERS, config.topology, config.shape) if senders is None else senders,
        rate_bps=config.rate_bps,
        bottleneck_limit_bytes=config.bottleneck_limit_bytes,
        limit_bytes=config.limit_bytes,
        edge_limit_bytes=config.edge_limit_bytes,
        shape=config.shape,
    )


def at_most(wanted: int, name: str, shape: Mapping[str, int] | None = None) -> int:
    """Return ``wanted`` senders, or as many as the topology called ``name`` has room for."""
    topo = TOPOLOGIES.named(name)
    most = topo.most_senders(topo.chosen(shape))
    return wanted if most is None else max(1, min(wanted, most))


def described() -> str:
    """Return all topologies and their --shape options, for the help of a command."""
    lines = []
    for name, topo in TOPOLOGIES.items():
        first, *rest = topo.summary.splitlines()
        lines += [f"  {name:<12} {first}", *(f"{'':15}{line}" for line in rest)]
        lines += [
            f"{'':15}--shape {f'{choice}={what.default}':<14} {what.about}"
            for choice, what in topo.choices.items()
        ]
    return "\n".join(lines)
