"""A long and lossy link between a host and its switch.

The kernel may have no netem: ``weir-relay`` carries the host's frames between its device, which
loses its address, and a new one that has it. Rate and queue are the switch's as before.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.traffic.fountain import find
from experiments.traffic.program import ProgramError
from testbed.command import in_network, run
from testbed.host import Host
from testbed.link import OFFLOADS_OFF

_NEAR, _FAR = "near0", "far0"
# Of the device that gives its own to the new one. Locally administered.
_SPARE_MAC = "02:00:5e:00:00:01"
_READY_TIMEOUT_S, _END_TIMEOUT_S = 10.0, 5.0


@dataclass(frozen=True)
class LongLink:
    """A link with ``rtt_ms`` more round-trip time that loses a share ``loss`` of the frames in
    each direction, drawn from ``seed``."""

    rtt_ms: float = 0.0
    loss: float = 0.0
    seed: int = 1


@contextmanager
def long_link(host: Host, link: LongLink, log: Path) -> Iterator[dict[str, Any]]:
    """Context manager: ``host`` is behind ``link``. The dictionary has the relay's report
    afterwards.

    Raises ProgramError if the relay does not start or does not end well.
    """
    device = host.defaultIntf().name
    told: dict[str, Any] = {}
    _interpose(host, device)
    try:
        argv = [
            *(str(find("weir-relay")), device, _FAR, f"--delay-us={round(link.rtt_ms * 500)}"),
            *(f"--loss-ab={link.loss}", f"--loss-ba={link.loss}", f"--seed={link.seed}"),
        ]
        with log.open("ab") as stderr:
            relay = subprocess.Popen(
                in_network(host.pid, argv), stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        try:
            assert relay.stdout is not None
            if relay.stdout.readline().strip() != "ready":
                raise ProgramError(f"weir-relay does not begin; see {log}")
            yield told
        finally:
            relay.terminate()
            said, _ = relay.communicate(timeout=_END_TIMEOUT_S)
        if relay.returncode != 0:
            raise ProgramError(f"weir-relay has ended with status {relay.returncode}")
        told |= json.loads(said)
    finally:
        _restore(host, device)


def _interpose(host: Host, device: str) -> None:
    """Give address and hardware address of ``device`` to a new one."""
    (shown,) = json.loads(run(["ip", "-j", "addr", "show", "dev", device], pid=host.pid))
    own = next(one for one in shown["addr_info"] if one["family"] == "inet")
    for command in (
        ["ip", "link", "add", _NEAR, "type", "veth", "peer", "name", _FAR],
        # What is for the host is none of this device's any more, nor are questions for its address.
        ["sysctl", "-q", "-w", f"net.ipv4.conf.{device}.arp_ignore=1"],
        ["sysctl", "-q", "-w", f"net.ipv4.conf.{_FAR}.arp_ignore=1"],
        ["ip", "addr", "flush", "dev", device],
        ["ip", "link", "set", "dev", device, "address", _SPARE_MAC],
        ["ip", "link", "set", "dev", _NEAR, "address", shown["address"]],
        ["ethtool", "-K", _NEAR, *OFFLOADS_OFF],
        ["ethtool", "-K", _FAR, *OFFLOADS_OFF],
        ["ip", "link", "set", "dev", _FAR, "up"],
        ["ip", "link", "set", "dev", _NEAR, "up"],
        ["ip", "addr", "add", f"{own['local']}/{own['prefixlen']}", "dev", _NEAR],
    ):
        run(command, pid=host.pid)


def _restore(host: Host, device: str) -> None:
    (shown,) = json.loads(run(["ip", "-j", "addr", "show", "dev", _NEAR], pid=host.pid))
    own = next(one for one in shown["addr_info"] if one["family"] == "inet")
    for command in (
        ["ip", "link", "delete", _NEAR],
        ["ip", "link", "set", "dev", device, "address", shown["address"]],
        ["ip", "addr", "add", f"{own['local']}/{own['prefixlen']}", "dev", device],
    ):
        run(command, pid=host.pid)
