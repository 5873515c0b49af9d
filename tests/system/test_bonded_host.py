"""Incast to a host with two cables to its switch: each carries connections of its own."""

from dataclasses import replace

import pytest

from pools import pool, timeouts, wait_until_reached
from testbed.bed import Bed
from testbed.command import run
from testbed.config import BedConfig
from testbed.host import Host
from testbed.topologies import topology_of

SERVERS = 32
RATE_BPS = 30_000_000
# Its cable is the receiver's second one.
OTHER = "b1"

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.slow, pytest.mark.timing]


def config() -> tuple[BedConfig, list[str]]:
    """A star, and the switch's two ports that are a bond."""
    bare = BedConfig(
        topology="star", senders=SERVERS, rate_bps=RATE_BPS, edge_limit_bytes=64 * 1024
    )
    topo = topology_of(bare)
    ports = [f"s1-eth{topo.port('s1', host)[0]}" for host in (topo.roles.receiver, OTHER)]
    return replace(bare, controller={"fabric": {"bonds": [{"ports": ports}]}}), ports


def bond(host: Host, other: Host) -> None:
    """Give a host the cable of another one, and let it use both, as Linux's balance-xor does: it
    takes what comes by either, and sends by one or the other as a bit of the ports says."""
    first, second = str(host.defaultIntf()), str(other.defaultIntf())
    run(["ip", "link", "set", second, "netns", str(host.pid)], pid=other.pid)
    for words in (
        f"ip addr flush dev {second}",
        f"ip link set {second} address {host.MAC()}",
        f"ip link set {second} up",
        f"tc qdisc add dev {first} clsact",
        f"tc qdisc add dev {second} clsact",
        f"tc filter add dev {second} ingress u32 match u32 0 0 "
        f"action mirred ingress redirect dev {first}",
        # The second lowest bit of the source port.
        f"tc filter add dev {first} egress protocol ip u32 match ip sport 2 0x2 "
        f"action mirred egress redirect dev {second}",
    ):
        run(words.split(), pid=host.pid)


@pytest.mark.timeout(180)
def test_incast_to_both_ports_of_a_bond() -> None:
    settings, ports = config()
    with Bed(settings) as bed:
        receiver = bed.host(bed.roles.receiver)
        servers = [bed.host(name) for name in bed.roles.senders]
        bond(receiver, bed.host(OTHER))
        wait_until_reached(receiver, servers)
        before = timeouts(servers)
        with pool(receiver, servers, each=2, block_bytes=1_000_000) as reads:
            goodput = [reads.goodput_mbps() for _ in range(5)]
        lost = timeouts(servers) - before
        queues = bed.bottleneck_switch.queues()
        dropped = [int(queues[port]["dropped_packets"]) for port in ports]
        sent = [int(queues[port]["tx_bytes"]) for port in ports]
        print(f"{goodput} Mb/s, {lost} timeouts, {dropped} packets dropped, {sent} bytes sent")
        assert lost == 0
        assert dropped == [0, 0]
        # With one connection of each server, the busier of both ports carries 20 of 32.
        assert min(sent) > 0.3 * sum(sent)
        assert sorted(goodput)[2] > 1.3 * RATE_BPS / 1e6
