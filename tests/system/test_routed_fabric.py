"""A fabric as operators have them: VLANs and a router between them, a site behind a VXLAN tunnel, a
host with a bond, and pools that were idle for long.

A client in one VLAN holds a pool of connections through a Linux router to servers in another one.
It has two cables to its leaf, and 15 of 40 servers are at a leaf that only a tunnel leads to.
"""

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from cables import bond, take_cable
from controller.cli.client import Client
from controller.ops.event_log import read_events
from pools import pool, timeouts, wait_until_reached
from testbed import sandbox
from testbed.bed import Bed
from testbed.command import run, wait_until
from testbed.config import BedConfig
from testbed.host import Host
from testbed.ovs import Ovs
from testbed.topologies import TOPOLOGIES, topology_of
from testbed.topologies.fabrics import LeafSpine
from traffic import tables

SERVERS, EACH = 40, 50
CONNECTIONS = SERVERS * EACH
# The emulation of two legs, each through three switches, takes two processors at 50 Mb/s.
RATE_BPS = 20_000_000
BLOCK_BYTES = 1_000_000
V_SERVERS, V_CLIENT = 10, 20
# A host has one port, so the router and the client take over those of others.
ROUTER, ROUTERS_OTHER_PORT, CLIENTS_OTHER_PORT = "h41", "h42", "h43"
# The tunnel's ends: the leaf, a bridge without a controller, and its address.
TUNNEL_ENDS = (("l1", "u1", "10.9.0.1"), ("l2", "u2", "10.9.0.2"))
TUNNEL_PORT = 99
EXPIRY = "3 s"

pytestmark = [
    *(pytest.mark.netns, pytest.mark.switch, pytest.mark.slow, pytest.mark.timing),
    pytest.mark.long,  # Goodput near the rate of the link depends on how fast the machine is.
]


class RemoteLeaf(LeafSpine):
    """A leaf-spine whose first leaf has hosts, but no link to any spine."""

    name = "remote-leaf"

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        spines = self._tier("s", 1, self.shape["spines"])
        leaves = self._tier("l", 2, self.shape["leaves"])
        for leaf in leaves[1:]:
            for spine in spines:
                self._link(leaf, spine)
        self._edge_hosts(leaves, self.shape["hosts"], senders, bottleneck_limit_bytes)


class Fabric(Bed):
    """`bonded` are the devices of the switch's ports that lead to the client."""

    def __init__(self, socket: str) -> None:
        """The servers are at all leaves; the router and the client, with two ports each, at the
        last. The controller is asked at this socket."""
        bare = BedConfig(
            topology=RemoteLeaf.name,
            shape={"spines": 2, "leaves": 3, "hosts": 15},
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

        self.bonded = ports(topo.roles.receiver, CLIENTS_OTHER_PORT)
        vlans = [
            {"ports": ports(*topo.roles.senders), "access": V_SERVERS},
            {"ports": self.bonded, "access": V_CLIENT},
            {"ports": ports(ROUTER), "access": V_SERVERS},
            {"ports": ports(ROUTERS_OTHER_PORT), "access": V_CLIENT},
        ]
        sections: dict[str, dict[str, Any]] = {
            "fabric": {"vlans": vlans, "bonds": [{"ports": self.bonded}]},
            "classifier": {"expiry": EXPIRY},
            "northbound": {"socket": socket},
            "log": {"connections": True},
        }
        super().__init__(replace(bare, controller=sections))
        # Both ends of the tunnel are in one kernel, which has a route of its own between them.
        self.ovs = Ovs(self.ovs.prefix, self.ovs.run_dir, ["--disable-system-route"])

    def make_tunnel(self) -> None:
        """The only way to the first leaf, and the network below it."""
        for _, bridge, address in TUNNEL_ENDS:
            self.ovs.vsctl(
                *("add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev"),
                "fail_mode=standalone",
            )
            run(["ip", "addr", "add", f"{address}/24", "dev", bridge])
            run(["ip", "link", "set", bridge, "up"])
        for (leaf, bridge, _), (_, other, remote) in permutations(TUNNEL_ENDS):
            patch = f"{bridge}-{other}"
            self.ovs.vsctl(
                *("add-port", bridge, patch, "--", "set", "Interface", patch, "type=patch"),
                *(f"options:peer={other}-{bridge}", "--"),
                *("add-port", leaf, f"{leaf}-vx", "--", "set", "Interface", f"{leaf}-vx"),
                *("type=vxlan", f"options:remote_ip={remote}", "options:key=77"),
                f"ofport_request={TUNNEL_PORT}",
            )
            self.ovs.appctl("ovs/route/add", f"{remote}/32", bridge)
            (device,) = json.loads(run(["ip", "-j", "link", "show", "dev", other]))
            self.ovs.appctl("tnl/neigh/set", bridge, remote, device["address"])


def address_of(vlan: int, number: int) -> str:
    return f"10.{vlan}.0.{number}"


def readdress(host: Host, vlan: int, number: int) -> None:
    """A host has an address of its VLAN's subnet, and the router for all others."""
    host.setIP(address_of(vlan, number), 16)
    run(["ip", "route", "add", "default", "via", address_of(vlan, 254)], pid=host.pid)


def make_router(host: Host, other: Host) -> None:
    """A host routes between its own port and that of the other one."""
    devices = str(host.defaultIntf()), take_cable(host, other)
    run(["ip", "addr", "flush", "dev", devices[0]], pid=host.pid)
    for device, vlan in zip(devices, (V_SERVERS, V_CLIENT), strict=True):
        run(["ip", "addr", "add", f"{address_of(vlan, 254)}/16", "dev", device], pid=host.pid)
    run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"], pid=host.pid)


def test_incast_over_a_pool_that_was_idle_across_a_router() -> None:
    # Here, in a process of the test's own: whoever tests all topologies means those of the lab.
    TOPOLOGIES.add(RemoteLeaf)
    socket = str(sandbox.RUN_DIR / "controller.sock")
    with Fabric(socket) as bed:
        bed.make_tunnel()
        servers, client = (
            [bed.host(name) for name in bed.roles.senders],
            bed.host(bed.roles.receiver),
        )
        for number, server in enumerate(servers, 1):
            readdress(server, V_SERVERS, number)
        readdress(client, V_CLIENT, 1)
        make_router(bed.host(ROUTER), bed.host(ROUTERS_OTHER_PORT))
        bond(client, bed.host(CLIENTS_OTHER_PORT))

        wait_until_reached(client, servers)

        def dormant() -> int:
            return int(tables(socket)["bounds"]["dormant connections"]["entries"])

        def woken() -> int:
            return len(read_events(bed.events, "connection_woken"))

        with pool(client, servers, each=EACH, block_bytes=BLOCK_BYTES) as reads:
            # Each connection is two legs.
            wait_until(
                lambda: tables(socket)["connections"] + dormant() >= 2 * CONNECTIONS,
                timeout_s=30,
                what="all legs are known",
            )
            young = reads.goodput_mbps()
            wait_until(
                lambda: dormant() == 2 * CONNECTIONS, timeout_s=60, what="all legs are dormant"
            )
            assert tables(socket)["connections"] == 0
            before, slept = timeouts(servers), woken()
            goodput = reads.goodput_mbps()
            lost = timeouts(servers) - before
            print(f"{young:.1f} Mb/s young, {goodput:.1f} Mb/s after idleness, {lost} timeouts")
            assert woken() - slept == 2 * CONNECTIONS
            assert lost == 0
            assert goodput >= 0.9 * RATE_BPS / 1e6
        assert tables(socket)["given_up"].get("elsewhere", 0) == 0

        queues = bed.bottleneck_switch.queues()
        sent = [int(queues[port]["tx_bytes"]) for port in bed.bonded]
        assert min(sent) > 0.3 * sum(sent)
        rows = Client(socket).ask("ports", {})["ports"]
        ends = [row for row in rows if row["port"] == TUNNEL_PORT]
        assert [row["tunnel"] for row in ends] == [True, True]
