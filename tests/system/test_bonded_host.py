"""Incast to a host with two cables to its switch: each carries connections of its own."""

from dataclasses import replace

import pytest

from cables import bond
from pools import pool, timeouts, wait_until_reached
from testbed.bed import Bed
from testbed.config import BedConfig
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
