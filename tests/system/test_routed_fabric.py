"""A fabric as operators have them: VLANs, a router between them, and pools that were idle for long.

A client in one VLAN holds a pool of connections through a Linux router to servers in another one.
"""

from dataclasses import replace
from typing import Any

import pytest

from controller.cli.client import Client
from controller.ops.event_log import read_events
from pools import pool, timeouts, wait_until_reached
from testbed import sandbox
from testbed.bed import Bed
from testbed.command import run, wait_until
from testbed.config import BedConfig
from testbed.host import Host
from testbed.topologies import topology_of

SERVERS, EACH = 40, 50
CONNECTIONS = SERVERS * EACH
# The emulation of two legs, each through three switches, takes two processors at 50 Mb/s.
RATE_BPS = 20_000_000
BLOCK_BYTES = 1_000_000
V_SERVERS, V_CLIENT = 10, 20
# A host has one port, so the router takes over that of another one.
ROUTER, ROUTERS_OTHER_PORT = "h41", "h42"
EXPIRY = "3 s"

pytestmark = [
    *(pytest.mark.netns, pytest.mark.switch, pytest.mark.slow, pytest.mark.timing),
    pytest.mark.long,  # Goodput near the rate of the link depends on how fast the machine is.
]


def config(socket: str) -> BedConfig:
    """Servers at both leaves; the router's two ports, and the client, at the second."""
    bare = BedConfig(
        topology="leaf-spine",
        shape={"spines": 2, "leaves": 2, "hosts": 22},
        senders=SERVERS,
        rate_bps=RATE_BPS,
        edge_limit_bytes=64 * 1024,
    )
    topo = topology_of(bare)

    def ports(*names: str) -> list[str]:
        """The devices of the switches' ports to these hosts."""
        found = []
        for a, b in topo.links():
            host, switch = (a, b) if a in names else (b, a)
            if host in names:
                found.append(f"{switch}-eth{topo.port(switch, host)[0]}")
        return found

    vlans = [
        {"ports": ports(*topo.roles.senders), "access": V_SERVERS},
        {"ports": ports(topo.roles.receiver), "access": V_CLIENT},
        {"ports": ports(ROUTER), "access": V_SERVERS},
        {"ports": ports(ROUTERS_OTHER_PORT), "access": V_CLIENT},
    ]
    sections: dict[str, dict[str, Any]] = {
        "fabric": {"vlans": vlans},
        "classifier": {"expiry": EXPIRY},
        "northbound": {"socket": socket},
        "log": {"connections": True},
    }
    return replace(bare, controller=sections)


def address_of(vlan: int, number: int) -> str:
    return f"10.{vlan}.0.{number}"


def readdress(host: Host, vlan: int, number: int) -> None:
    """A host has an address of its VLAN's subnet, and the router for all others."""
    host.setIP(address_of(vlan, number), 16)
    run(["ip", "route", "add", "default", "via", address_of(vlan, 254)], pid=host.pid)


def make_router(host: Host, other: Host) -> None:
    """A host routes between its own port and that of the other one."""
    devices = str(host.defaultIntf()), str(other.defaultIntf())
    run(["ip", "link", "set", devices[1], "netns", str(host.pid)], pid=other.pid)
    for device, vlan in zip(devices, (V_SERVERS, V_CLIENT), strict=True):
        run(["ip", "addr", "flush", "dev", device], pid=host.pid)
        run(["ip", "addr", "add", f"{address_of(vlan, 254)}/16", "dev", device], pid=host.pid)
        run(["ip", "link", "set", device, "up"], pid=host.pid)
    run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"], pid=host.pid)


def test_incast_over_a_pool_that_was_idle_across_a_router() -> None:
    socket = str(sandbox.RUN_DIR / "controller.sock")
    with Bed(config(socket)) as bed:
        asked = Client(socket)
        servers, client = (
            [bed.host(name) for name in bed.roles.senders],
            bed.host(bed.roles.receiver),
        )
        for number, server in enumerate(servers, 1):
            readdress(server, V_SERVERS, number)
        readdress(client, V_CLIENT, 1)
        make_router(bed.host(ROUTER), bed.host(ROUTERS_OTHER_PORT))

        wait_until_reached(client, servers)

        def tables() -> dict[str, Any]:
            found: dict[str, Any] = asked.ask("controller")["tables"]
            return found

        def dormant() -> int:
            return int(tables()["bounds"]["dormant connections"]["entries"])

        def woken() -> int:
            return len(read_events(bed.events, "connection_woken"))

        with pool(client, servers, each=EACH, block_bytes=BLOCK_BYTES) as reads:
            # Each connection is two legs.
            wait_until(
                lambda: tables()["connections"] + dormant() >= 2 * CONNECTIONS,
                timeout_s=30,
                what="all legs are known",
            )
            young = reads.goodput_mbps()
            wait_until(
                lambda: dormant() == 2 * CONNECTIONS, timeout_s=60, what="all legs are dormant"
            )
            assert tables()["connections"] == 0
            before, slept = timeouts(servers), woken()
            goodput = reads.goodput_mbps()
            lost = timeouts(servers) - before
            print(f"{young:.1f} Mb/s young, {goodput:.1f} Mb/s after idleness, {lost} timeouts")
            assert woken() - slept == 2 * CONNECTIONS
            assert lost == 0
            assert goodput >= 0.9 * RATE_BPS / 1e6
        assert tables()["given_up"].get("elsewhere", 0) == 0
