"""The actual and the wanted state: entries of switches, connections of hosts and of the controller.

Nothing here knows the layout of the flow tables. Entries are compared as Open vSwitch prints them,
and read only for the addresses and ports that they name.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from controller.ops.event_log import read_events
from testbed.command import run
from testbed.ovs import Ovs

# Two ends in no order, each an address and a port.
Connection = frozenset[tuple[str, int]]

_FIELD = re.compile(r"(\w+)=([^,\s]+)")
_ADDRESSES = ("nw_src", "nw_dst", "ipv6_src", "ipv6_dst")
_SHORT_LIVED = "hard_timeout="


def entries(ovs: Ovs, bridge: str) -> set[str]:
    """The entries of a bridge, without their counters and without those that expire however much
    they are used."""
    lines = ovs.ofctl("dump-flows", "--no-stats", bridge).splitlines()
    return {line.strip() for line in lines if "table=" in line or "priority=" in line} - {
        line.strip() for line in lines if _SHORT_LIVED in line
    }


def connections_in(dump: Iterable[str]) -> set[Connection]:
    """The connections that entries name, by both addresses and ports."""
    found = set()
    for line in dump:
        named = dict(_FIELD.findall(line.partition(" actions=")[0]))
        addresses = [named[field] for field in _ADDRESSES if field in named]
        if len(addresses) == 2 and {"tp_src", "tp_dst"} <= named.keys():
            ports = int(named["tp_src"]), int(named["tp_dst"])
            found.add(_connection(*zip(addresses, ports, strict=True)))
    return found


def hosts_in(dump: Iterable[str]) -> set[str]:
    """The Ethernet and IP addresses that entries match whole, in their usual form."""
    found = set()
    for line in dump:
        named = _FIELD.findall(line.partition(" actions=")[0])
        for field, value in named:
            if field == "dl_dst" and "/" not in value:
                found.add(value)
            elif field in _ADDRESSES and "/" not in value:
                found.add(str(ip_address(value)))
    return found


def connections_known(events: Path) -> set[Connection]:
    """The present GVT of the controller that writes this log, with ``log.connections``.

    What is dormant may have ended.
    """
    known: set[Connection] = set()
    for event in read_events(events):
        if event["event"] == "start":
            known.clear()
        elif event["event"] in ("connection_opened", "connection_woken"):
            known.add(_ends(event))
        elif event["event"] in ("connection_closed", "connection_dormant"):
            known.discard(_ends(event))
    return known


def connections_established(pids: Iterable[int]) -> set[Connection]:
    """The connections that the hosts report, each through a process in its namespace."""
    found = set()
    for pid in pids:
        for line in run(["ss", "-Htn", "state", "established"], pid=pid).splitlines():
            _, _, local, peer, *_ = line.split()
            found.add(_connection(_end(local), _end(peer)))
    return found


def _end(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return str(ip_address(address.strip("[]").partition("%")[0])), int(port)


def _ends(event: dict[str, str]) -> Connection:
    return _connection(
        (event["src"], int(event["src_port"])), (event["dst"], int(event["dst_port"]))
    )


def _connection(*ends: tuple[str, int]) -> Connection:
    return frozenset((str(ip_address(address)), port) for address, port in ends)
