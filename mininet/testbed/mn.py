"""Weir's parts for ``mn``, Mininet's own command: topologies, switch, link and controller.

``mininet/custom.py`` is what ``mn --custom`` loads; it puts ``mn`` into a sandbox of its own first.
Everything else about a network is up to ``mn``, and these parts go with its own ones: a link
that is not told otherwise has 100 Mb/s and large buffers.
"""

import atexit
import functools
import os
from collections.abc import Sequence
from typing import Any

from mininet import node
from testbed import controller, link, switch
from testbed.config import BedConfig
from testbed.ovs import Ovs, find_prefix
from testbed.sandbox import RUN_DIR
from testbed.topologies import IncastTopo, at_most, topology

_DEFAULTS = BedConfig()
# Unless one asks for others, and where there is room for them.
_SENDERS = 8


class Incast:
    """``--topo fig8,8`` or ``--topo star,8,rate=100,buffer=64``: senders, Mb/s, and KiB at the
    bottleneck; ``--topo fat-tree,8,k=4``, ``--topo leaf-spine,8,spines=2,leaves=4,hosts=4``.

    The controller is configured for the last one that was made.
    """

    chosen: "Incast | None" = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.rate_bps = _DEFAULTS.rate_bps
        self.bottleneck_limit_bytes = _DEFAULTS.bottleneck_limit_bytes
        self.topo: IncastTopo

    def __call__(
        self, senders: int | None = None, rate: int = 100, buffer: int = 64, **shape: int
    ) -> IncastTopo:
        """Called by ``mn`` with what stands behind the topology's name."""
        self.rate_bps, self.bottleneck_limit_bytes = rate * 1_000_000, buffer * 1024
        made = topology(
            self.name,
            senders=at_most(_SENDERS, self.name, shape) if senders is None else senders,
            rate_bps=self.rate_bps,
            bottleneck_limit_bytes=self.bottleneck_limit_bytes,
            limit_bytes=_DEFAULTS.limit_bytes,
            shape=shape,
        )
        self.topo = made
        Incast.chosen = self
        return made


class Link(link.ShapedLink):
    """``--link weir``, for topologies that say nothing about rates and buffers, too."""

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        limit_bytes = _DEFAULTS.limit_bytes
        defaults = {
            "rate_bps": _DEFAULTS.rate_bps,
            "limit1_bytes": limit_bytes,
            "limit2_bytes": limit_bytes,
        }
        super().__init__(node1, node2, **(defaults | params))


class Switch(switch.Switch):
    """``--switch weir``. Without a controller it learns by itself."""

    def __init__(self, name: str, **params: Any) -> None:
        super().__init__(name, ovs=_ovs(), **params)

    def start(self, controllers: Sequence[node.Controller]) -> None:
        """Called by Mininet."""
        self.fail_mode = "secure" if controllers else "standalone"
        super().start(controllers)


class Controller(controller.Controller):
    """``--controller weir``, or ``--controller weir,scheme=sdtcp``."""

    def __init__(self, name: str, *, scheme: str = "weir", **params: Any) -> None:
        chosen = Incast.chosen
        queues = []
        if chosen is not None:
            queues.append(
                controller.QueueConfig(
                    switch=chosen.topo.switch_id(chosen.topo.roles.switch),
                    port=chosen.topo.roles.bottleneck_port,
                    egress_buffer_bytes=chosen.bottleneck_limit_bytes,
                )
            )
        config = controller.configuration(
            scheme=scheme,
            rate_bps=chosen.rate_bps if chosen else _DEFAULTS.rate_bps,
            limit_bytes=_DEFAULTS.limit_bytes,
            queues=queues,
            events=RUN_DIR / "events.jsonl",
        )
        super().__init__(name, config=config, run_dir=RUN_DIR, **params)


@functools.cache
def _ovs() -> Ovs:
    """Return the daemons that all switches share, and have the prompt find their programs."""
    ovs = Ovs(find_prefix(), RUN_DIR / "ovs")
    ovs.start()
    atexit.register(ovs.stop)
    os.environ.update(ovs.env)
    return ovs
