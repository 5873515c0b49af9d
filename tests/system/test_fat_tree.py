"""A fat-tree of 20 switches: everybody reaches everybody, switches die, regulation follows."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from controller.ops.event_log import read_events
from experiments.traffic.reader import IncastSpec
from testbed.bed import Bed
from testbed.command import run, wait_until
from testbed.config import BedConfig
from testbed.host import Host
from testbed.switch import Switch
from tracing import Fabric
from traffic import incast

SENDERS = 6
N_LINKS = 32
RECOVERY_S = 2.0
PING_S = 0.05

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.slow, pytest.mark.timing]


def silent_pairs(hosts: list[Host], *, ipv6: bool) -> list[str]:
    """Every host pings all others, one after the other; the pairs that had no answer."""
    targets = {host.name: host.address6() if ipv6 else host.IP() for host in hosts}
    loop = "for to; do ping $0 -q -n -c 1 -w 10 ${to#*=} >/dev/null || echo ${to%=*}; done"
    runs = {}
    for host in hosts:
        others = [f"{name}={address}" for name, address in targets.items() if name != host.name]
        argv = ["sh", "-c", loop, "-6" if ipv6 else "-4", *others]
        runs[host.name] = host.popen(argv, text=True)
    return [f"{name} -> {to}" for name, run in runs.items() for to in run.communicate()[0].split()]


@contextmanager
def pings(pairs: Iterable[tuple[Host, Host]]) -> Iterator[dict[str, list[float]]]:
    """Ping all the time; the times of the answers, by pair, are there when the block has ended."""
    answered: dict[str, list[float]] = {}
    running: list[tuple[str, subprocess.Popen[str]]] = []
    for a, b in pairs:
        argv = ["ping", "-n", "-D", "-i", str(PING_S), b.IP()]
        running.append((f"{a.name} -> {b.name}", a.popen(argv, text=True)))
    try:
        yield answered
    finally:
        for name, process in running:
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=10)
            answered[name] = [float(at) for at in re.findall(r"^\[([\d.]+)\].* ttl=", said, re.M)]


def interruptions_s(
    answered: dict[str, list[float]], died: float, until: float
) -> dict[str, float]:
    """For each pair the longest time without an answer from then on."""
    return {
        name: max(b - a for a, b in pairwise([died, *(at for at in times if at > died), until]))
        for name, times in answered.items()
    }


def events(bed: Bed, kind: str) -> list[dict[str, object]]:
    return read_events(bed.events, kind)


def require_regulated(fabric: Fabric, ports: dict[str, int]) -> set[str]:
    """Each sender's data leaves by the ports that the receiver's ACKs come back through, and these
    are in the account of credit of that port, by the window scale of their connection. Returns the
    switches on the ways."""
    bed = fabric.bed
    receiver = bed.host(bed.roles.receiver)
    scales = {
        event["src_port"]: event["window_scales"][0]  # type: ignore[index]
        for event in events(bed, "connection_opened")
        if event["src"] == receiver.IP()
    }
    passed = set()
    for name, port in ports.items():
        sender = bed.host(name)
        data = fabric.way(sender, receiver, (5000, port))
        acks = fabric.way(receiver, sender, (port, 5000))
        assert [(s.switch, s.out_port, s.in_port) for s in data] == [
            (s.switch, s.in_port, s.out_port) for s in reversed(acks)
        ]
        for step in acks:
            switch = bed.switch(step.switch)
            (device,) = (i.name for i in switch.links if switch.ports[i] == step.in_port)
            assert step.register is not None, (name, acks)
            assert switch.registers()[step.register]["interface"] == device, (name, acks)
            assert switch.accounts()[device]["active"], (name, acks)
            assert step.window_scale == scales[port], (name, acks)
        passed |= {step.switch for step in data}
    return passed


def carriers(switch: Switch) -> set[str]:
    """The state of a switch's devices."""
    shown = json.loads(run(["ip", "-j", "link"]))
    names = {intf.name for intf in switch.links}
    return {link["operstate"] for link in shown if link["ifname"] in names}


def test_a_fat_tree_without_a_core_and_an_aggregation_switch() -> None:
    config = BedConfig(
        topology="fat-tree",
        shape={"k": 4},
        senders=SENDERS,
        rate_bps=20_000_000,
        bottleneck_limit_bytes=32 * 1024,
        ipv6=True,
    )
    with Bed(config) as bed:
        wait_until(
            lambda: len(events(bed, "link_up")) == N_LINKS,
            timeout_s=20,
            what="all links are known",
        )
        assert silent_pairs(bed.hosts, ipv6=False) == []
        assert silent_pairs(bed.hosts, ipv6=True) == []

        fabric = Fabric(bed)
        receiver, spec = bed.host(bed.roles.receiver), IncastSpec(SENDERS, 10_000, 200_000)
        with incast(bed, spec) as reads:
            reads.require_progress(5, 20, "before")
            ends = {bed.host(name).IP(): name for name in bed.roles.senders}
            opened = [e for e in events(bed, "connection_opened") if e["dst_port"] == 5000]
            ports = {ends[str(e["dst"])]: int(str(e["src_port"])) for e in opened}
            assert len(ports) == SENDERS
            for tier in ("c", "a"):
                passed = require_regulated(fabric, ports)
                # One on the way of some of the reads, across pods; of the senders' own pod, since
                # what is lost there must be gone round by the other pods as well.
                died = min(name for name in passed if name.startswith(tier))
                far = [bed.host(name) for name in bed.roles.senders]
                with pings([(host, receiver) for host in far]) as answered:
                    reads.require_progress(3, 20, f"before {died} is dead")
                    bed.switch(died).kill()
                    died_s = time.time()
                    wait_until(
                        lambda at=died_s: time.time() > at + RECOVERY_S + 1,  # type: ignore[misc]
                        timeout_s=10,
                        what="time to see an interruption",
                    )
                    until_s = time.time()
                assert carriers(bed.switch(died)) == {"UP"}
                gaps = interruptions_s(answered, died_s, until_s)
                print(f"{died} died: ", {name: round(gap, 2) for name, gap in gaps.items()})
                assert max(gaps.values()) < RECOVERY_S, gaps
                reads.require_progress(5, 10, f"without {died}")
                assert died not in require_regulated(fabric, ports)
        assert silent_pairs(bed.hosts, ipv6=False) == []
        assert silent_pairs(bed.hosts, ipv6=True) == []
        assert bed.controller is not None
        assert bed.controller.errors() == []
