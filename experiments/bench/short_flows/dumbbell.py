"""Two senders, two receivers, and one link of 100 Mb/s between their switches.

h1 sends short flows to h2, h3 sends beside them to h4. As in the ATP paper (section III) the
switch's queue is short and governed by RED, and hosts send segments as the wire has them: no
offloads.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from experiments.network.bridge import add_host, mac
from testbed import shaping
from testbed.bottleneck import Bottleneck, Loss, Red
from testbed.command import run
from testbed.host import Host
from testbed.link import OFFLOADS_OFF
from testbed.shaping import Egress

RATE_BPS = 100_000_000
BUFFER_BYTES = 64 * 1024
# Floyd's ratio of the thresholds; the weight is what tc-red(8) computes for bursts of 27 kB.
RED = Red(min_bytes=16 * 1024, max_bytes=48 * 1024, max_p=0.1, weight_shift=4)
# Of every host: Linux's default, whatever this machine has.
CONTROL = "cubic"

_NEAR, _FAR = "near0", "far0"
_SIDES = {"west": (1, 3, _NEAR), "east": (2, 4, _FAR)}


@dataclass(frozen=True)
class Dumbbell:
    """The hosts h1 to h4, and the frames on the link: towards the receivers, and perhaps back.
    Without ``red`` frames are dropped only where they find the buffer full."""

    hosts: tuple[Host, ...]
    link: Bottleneck
    back: Bottleneck | None = None
    red: Red | None = RED

    def start(self, loss: Loss, sysctls: Mapping[str, str], seed: int = 1) -> None:
        """Set the losses, and the short flows' hosts, which forget what they know of paths."""
        for host in self.hosts[:2]:
            words = [f"net.ipv4.{name}={value}" for name, value in sysctls.items()]
            run(["sysctl", "-q", "-w", *words], pid=host.pid)
            run(["ip", "tcp_metrics", "flush", "all"], pid=host.pid)
        self.set_loss(loss, seed)

    def set_loss(self, loss: Loss, seed: int) -> None:
        """Have frames lost from now on, and count from zero."""
        self.link.set(loss, self.red, seed)
        if self.back:
            self.back.set(loss, self.red, seed + 1000)

    def tail_drops(self) -> int:
        """Return how many frames have found the buffer full, in all."""
        qdiscs = json.loads(run(["tc", "-j", "-s", "qdisc", "show", "dev", _NEAR]))
        return sum(int(q["drops"]) for q in qdiscs if q["kind"] == "bfifo")


def address(number: int) -> str:
    """The address of host hN."""
    return f"10.0.0.{number}"


@contextmanager
def dumbbell(
    *, both_ways: bool = False, red: Red | None = RED, buffer_bytes: int = BUFFER_BYTES
) -> Iterator[Dumbbell]:
    """Context manager: the network stands, in this sandbox. ``both_ways``: frames are lost on the
    way back, too. ``buffer_bytes`` are of each switch, towards the other one."""
    run(["ip", "link", "add", _NEAR, "type", "veth", "peer", "name", _FAR])
    for device in (_NEAR, _FAR):
        run(["ethtool", "-K", device, *OFFLOADS_OFF])
    hosts = tuple(add_host(number, f"{address(number)}/24") for number in range(1, 5))
    for side, (one, other, device) in _SIDES.items():
        run(["ip", "link", "add", side, "type", "bridge", "mcast_snooping", "0"])
        for port in (f"s{one}", f"s{other}", device):
            run(["ip", "link", "set", port, "master", side, "up"])
        run(["ip", "link", "set", side, "up"])
    for number, host in enumerate(hosts, 1):
        run(["ip", "link", "set", "lo", "up"], pid=host.pid)
        for other in range(1, 5):
            if other != number:
                entry = (address(other), "lladdr", mac(other), "nud", "permanent")
                run(["ip", "neigh", "replace", *entry, "dev", "eth0"], pid=host.pid)
        # By the route: a namespace's default may be none that is restricted on this machine.
        route = ("10.0.0.0/24", "dev", "eth0", "src", address(number), "proto", "kernel")
        words = (*route, "scope", "link", "congctl", CONTROL)
        run(["ip", "route", "change", *words], pid=host.pid)
    for device in (_NEAR, _FAR):
        shaping.install(device, Egress(RATE_BPS, buffer_bytes))
    try:
        back = Bottleneck(_FAR, RATE_BPS) if both_ways else None
        yield Dumbbell(hosts, Bottleneck(_NEAR, RATE_BPS), back, red)
    finally:
        for host in hosts:
            host.terminate()
