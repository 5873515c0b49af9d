"""A Mininet link whose two ends are shaped, without offloads, and checked."""

import re
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Switch

from testbed import shaping
from testbed.command import run
from testbed.host import Host
from testbed.shaping import Egress

# Segments that exist only between a host and its veth would never be seen by a switch in user
# space, and a checksum that the device was to fill in never gets filled in.
OFFLOADS_OFF = ("tx", "off", "gso", "off", "tso", "off", "gro", "off")
# What `ethtool -k` calls these.
_OFFLOADS = {
    "tx-checksumming": "tx",
    "generic-segmentation-offload": "gso",
    "tcp-segmentation-offload": "tso",
    "generic-receive-offload": "gro",
}


class ShapedIntf(Intf):
    """One end of a ShapedLink.

    A host's end is shaped at once. A switch's end is only remembered in ``egress``: the switch
    sets its queue when it adds the port, since ovs-vswitchd removes a qdisc that it finds on a
    port it adds.
    """

    egress: Egress

    def config(self, egress: Egress, **params: Any) -> dict[str, Any]:
        """Called by Mininet once the device is where it belongs."""
        result: dict[str, Any] = super().config(**params)
        self.egress = egress
        run(["ethtool", "-K", self.name, *OFFLOADS_OFF], pid=self.node.pid)
        if not isinstance(self.node, Switch):
            shaping.install(self.name, egress, pid=self.node.pid)
        return result

    def offload_faults(self) -> list[str]:
        """Say which offloads the device has by now; empty when it has none of OFFLOADS_OFF."""
        found = offloads_on(run(["ethtool", "-k", self.name], pid=self.node.pid))
        return [f"{self.name}: {name} is on" for name in found]

    def ifconfig(self, *args: str) -> str:
        """Called by Mininet, also for the prompt's ``link h1 s1 up``."""
        said: str = super().ifconfig(*args)
        if args == ("up",) and isinstance(self.node, Host):
            self.node.restore()
        return said


def offloads_on(shown: str) -> list[str]:
    """Parse ``ethtool -k``: which of OFFLOADS_OFF are on."""
    states = dict(re.findall(r"^([\w-]+): (\w+)", shown, re.MULTILINE))
    return [short for name, short in _OFFLOADS.items() if states.get(name) != "off"]


class ShapedLink(Link):
    """``rate_bps`` both ways, with buffers of ``limit1_bytes`` and ``limit2_bytes`` at the ends.

    The first is that of ``node1``'s end, the second that of ``node2``'s.
    """

    def __init__(
        self,
        node1: Any,
        node2: Any,
        *,
        rate_bps: int,
        limit1_bytes: int,
        limit2_bytes: int,
        **params: Any,
    ) -> None:
        params["intf"] = ShapedIntf
        super().__init__(
            node1,
            node2,
            params1={"egress": Egress(rate_bps, limit1_bytes)},
            params2={"egress": Egress(rate_bps, limit2_bytes)},
            **params,
        )
