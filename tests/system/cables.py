"""Hosts with more than one cable: each takes over that of another host, which is left without."""

from testbed.command import run
from testbed.host import Host


def take_cable(host: Host, other: Host) -> str:
    """Give a host the port of another one. Returns its device, which is up and has no address."""
    device = str(other.defaultIntf())
    run(["ip", "link", "set", device, "netns", str(host.pid)], pid=other.pid)
    run(["ip", "addr", "flush", "dev", device], pid=host.pid)
    run(["ip", "link", "set", device, "up"], pid=host.pid)
    return device


def bond(host: Host, other: Host) -> None:
    """Let a host use the cable of another one beside its own, as Linux's balance-xor does: it takes
    what comes by either, and sends by one or the other as a bit of the ports says."""
    first, second = str(host.defaultIntf()), take_cable(host, other)
    for words in (
        f"ip link set {second} address {host.MAC()}",
        f"tc qdisc add dev {first} clsact",
        f"tc qdisc add dev {second} clsact",
        f"tc filter add dev {second} ingress u32 match u32 0 0 "
        f"action mirred ingress redirect dev {first}",
        # The second lowest bit of the source port.
        f"tc filter add dev {first} egress protocol ip u32 match ip sport 2 0x2 "
        f"action mirred egress redirect dev {second}",
    ):
        run(words.split(), pid=host.pid)
