"""A switch between two hosts, in a sandbox of its own, that forwards TCP on request.

    python -m experiments.bench.switch.forwarder PREFIX PORTS [--release=RELEASE]

Says ``{"event": "ready"}``, then for each line on its stdin, a number of seconds, has one host send
to the other for so long, and says ``{"event": "forwarded", "mbps": ...}``. Several of these stand
side by side, so that switches can be measured by turns.
"""

import argparse
import json
import os
import statistics
import sys
import time
from itertools import islice
from pathlib import Path

from experiments.network.bridge import BRIDGE, Network
from experiments.traffic.program import Program
from testbed import sandbox
from testbed.command import run
from testbed.sandbox import RUN_DIR

# Far above what flows, and what a virtual link calls its speed: the queue never fills.
_QUEUE = {"max_rate": 10_000_000_000, "limit_bytes": 4_000_000}
# Until TCP is in its stride.
_SETTLE_S = 1.0


def serve(prefix: Path, ports: int, release: str | None) -> None:
    """Build the network, and do what stdin says until it ends."""
    processors = sorted(os.sched_getaffinity(0))
    # The switch has a processor of its own, in each of the sandboxes the same one.
    os.sched_setaffinity(0, processors[:1])
    # Idle ports are to be idle: without this each would announce an address of its own.
    run(["sysctl", "-e", "-q", "-w", "net.ipv6.conf.default.disable_ipv6=1"])
    with Network(prefix, 2) as network:
        network.deliver()
        for host in network.hosts:
            # Some congestion controls pace by what they believe of the path; this one fills it.
            run(["sysctl", "-q", "-w", "net.ipv4.tcp_congestion_control=reno"], pid=host.pid)
        # The bridge has a port of its own.
        _add_idle_ports(network, ports - 3)
        if release:
            for port in (1, 2):
                network.set_queue(port, **_QUEUE, release=release)
        os.sched_setaffinity(0, processors[-1:])
        _say(event="ready")
        for line in sys.stdin:
            _say(event="forwarded", mbps=_forward(network, float(line)))


def _add_idle_ports(network: Network, count: int) -> None:
    """Ports of links that are up and carry nothing."""
    for number in range(count):
        port, peer = f"idle{number}", f"peer{number}"
        run(["ip", "link", "add", port, "up", "type", "veth", "peer", "name", peer])
        run(["ip", "link", "set", peer, "up"])
        network.ovs.vsctl("add-port", BRIDGE, port)


def _forward(network: Network, seconds: float) -> float:
    """Let host 1 send to host 2; return Mb/s of data, the median over 50 ms."""
    sender, receiver = network.hosts
    args = [
        f"--sender-pid={sender.pid}", f"--receiver-pid={receiver.pid}", "--receiver=10.0.0.2",
    ]  # fmt: skip
    with Program("experiments.traffic.bulk", args, log=RUN_DIR / "bulk.log") as bulk:
        bulk.expect("connected")
        time.sleep(_SETTLE_S + seconds)
        bulk.finish()
        received = bulk.expect("done")["bytes"]
    bin_s = received["bin_ns"] / 1e9
    # The last bin is not full.
    settled = list(islice(received["bytes"], int(_SETTLE_S / bin_s), None))[:-1]
    return statistics.median(settled) * 8 / bin_s / 1e6


def _say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> int:
    """Entry point of the process that a user starts, and of the first one in its sandbox; returns
    the exit status."""
    parser = argparse.ArgumentParser(description="A switch that forwards on request.")
    parser.add_argument("prefix", type=Path)
    parser.add_argument("ports", type=int)
    parser.add_argument("--release", help="QoS weir on both hosts' ports, and who delays there")
    parser.add_argument("--in-sandbox", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.in_sandbox:
        argv = [
            sys.executable,
            "-m",
            "experiments.bench.switch.forwarder",
            "--in-sandbox",
            *sys.argv[1:],
        ]
        return sandbox.run(argv)
    sandbox.become_first_process()
    serve(args.prefix, args.ports, args.release)
    return 0


if __name__ == "__main__":
    sys.exit(main())
