"""Two hosts gone mad on the real switch: discovery, other hosts' connections and regulation go on,
and the controller says who it is."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controller.ops.event_log import read_events
from experiments.traffic.reader import IncastSpec
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from testbed.host import Host
from testbed.link import ShapedIntf
from traffic import account, flood, incast, is_regulated

SYNS_PER_S, ARPS_PER_S = 50_000, 5_000
SERVERS, CONNECTIONS = 6, 8
# What an account of credit remembers; the least recently used connection goes first.
MOST_CONNECTIONS = 8192
CALLS = 20
CALL_PORT = 7777

_SERVE = f"""
import socket
with socket.create_server(("", {CALL_PORT})) as listening:
    print("listening", flush=True)
    while True:
        listening.accept()[0].close()
"""
_CALL = f"""
import socket, sys
for _ in range({CALLS}):
    socket.create_connection((sys.argv[1], {CALL_PORT}), timeout=10).close()
"""

pytestmark = [pytest.mark.netns, pytest.mark.switch]


@contextmanager
def server(host: Host) -> Iterator[None]:
    """Takes calls."""
    serving = host.popen([sys.executable, "-c", _SERVE], text=True, stderr=None)
    try:
        assert serving.stdout is not None
        assert serving.stdout.readline()
        yield
    finally:
        serving.kill()
        serving.wait()


def events(bed: Bed, kind: str) -> list[dict[str, object]]:
    return read_events(bed.events, kind)


def port_of(host: Host) -> str:
    """The switch's port that a host is at, as the event log has it."""
    peer = peer_of(host)
    return f"{peer.node.dpid}:{peer.node.ports[peer]}"


def peer_of(host: Host) -> ShapedIntf:
    """The interface of that port."""
    intf = host.defaultIntf()
    (peer,) = {intf.link.intf1, intf.link.intf2} - {intf}
    return peer


def connections_to(host: Host) -> int:
    """How many connections are in the account of the port that a host is at."""
    peer = peer_of(host)
    return peer.node.accounts()[peer.name]["now.connections"]


def test_floods_stop_nobody_else_and_are_named() -> None:
    config = BedConfig(
        topology="fig8",
        senders=SERVERS,
        scheme="weir",
        controller={"log": {"connections": True}},
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        *servers, syn_host, arp_host = bed.roles.senders
        mad, madder = bed.host(syn_host), bed.host(arp_host)
        caller, called = bed.host("b1"), bed.host(bed.roles.background_receiver)
        links_before = len(events(bed, "link_up"))
        with (
            flood("syn", mad, madder, SYNS_PER_S) as syns,
            flood("arp", madder, mad, ARPS_PER_S) as arps,
            server(called),
        ):
            wait_until(
                lambda: len(events(bed, "packet_ins_limited")) >= 2,
                timeout_s=45,
                what="both hosts are found to be over budget",
            )
            assert is_regulated(bed)
            spec = IncastSpec(
                senders=len(servers), rounds=10_000, connections_per_sender=CONNECTIONS
            )
            with incast(bed, spec, servers) as reads:
                reads.require_progress(3, 30, "during the floods")
                # A connection is in two accounts: requests go one way, answers the other.
                assert account(bed)["now.connections"] == len(servers) * CONNECTIONS
                in_accounts = {name: connections_to(bed.host(name)) for name in servers}
                assert in_accounts == dict.fromkeys(servers, CONNECTIONS)
                assert 0 < connections_to(mad) <= MOST_CONNECTIONS
                assert is_regulated(bed)
                call = caller.popen([sys.executable, "-c", _CALL, called.IP()], stderr=None)
                assert call.wait(30) == 0
                reads.require_progress(3, 30, "under regulation")
            wait_until(
                lambda: len(calls(bed, caller)) >= CALLS,
                timeout_s=10,
                what="the new connections are known",
            )
            wait_until(lambda: len(syns.rates) >= 5, timeout_s=10, what="a while of floods")
        offenders = {
            (event["port"], event["class"]): event for event in events(bed, "packet_ins_limited")
        }
        assert offenders.keys() == {(port_of(mad), "syn"), (port_of(madder), "neighbour")}
        assert offenders[port_of(mad), "syn"]["hosts"] == [mad.MAC()]
        assert offenders[port_of(madder), "neighbour"]["hosts"] == [madder.MAC()]
        assert events(bed, "link_down") == []
        assert len(events(bed, "link_up")) == links_before
        assert bed.controller is not None
        bed.controller.require_running()
    if max(syns.rates) < 0.9 * SYNS_PER_S or max(arps.rates) < 0.9 * ARPS_PER_S:
        pytest.skip(f"the machine is too busy for floods of that rate: {syns.rates}, {arps.rates}")


def calls(bed: Bed, caller: Host) -> list[dict[str, object]]:
    """The connections that this host has opened to CALL_PORT, as far as they are known."""
    return [
        event
        for event in events(bed, "connection_opened")
        if (event["src"], event["dst_port"]) == (caller.IP(), CALL_PORT)
    ]
