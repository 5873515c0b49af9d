"""One thing is broken at a time, in a run that is fine otherwise: one check says so, and which."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from experiments.emulation import Emulation
from experiments.measure import validity
from experiments.measure.trace import QueueTrace
from experiments.measure.validity import OF_A_QUIET_MACHINE, Check
from experiments.runner import RunSpec, bed_config, usual_host
from experiments.workloads import Workload
from experiments.workloads.long_flows import LongFlows
from experiments.workloads.reads import Reads
from starving import starved
from testbed.bed import Bed
from testbed.command import run
from testbed.netns import network_of

pytestmark = [pytest.mark.netns, pytest.mark.switch]

READS = Reads(senders=2, rounds=10, block_bytes=200_000)
Breaking = Callable[[Bed], AbstractContextManager[None]]


def spec_of(workload: Workload) -> RunSpec:
    return RunSpec("reno", workload, topology="star", background=False, host=usual_host())


def ran(
    breaking: Breaking, workload: Workload = READS, bed: Bed | None = None
) -> tuple[dict[str, Any], QueueTrace]:
    """The record of a run during whose workload something is broken, and its queue; on a test bed
    of its own, or on one that stands."""
    spec = spec_of(workload)
    with ExitStack() as stack:
        standing = bed or stack.enter_context(Bed(bed_config(spec)))
        broken = stack.enter_context(ExitStack())

        class Broken(Emulation):
            # Called by every run, and by workloads once their connections are open.
            def begin(self) -> None:
                super().begin()
                if not done:
                    done.append(broken.enter_context(breaking(standing)))

        done: list[None] = []
        return Broken(spec, standing).measure()


def failed(
    breaking: Breaking, workload: Workload = READS, bed: Bed | None = None
) -> dict[str, Check]:
    """The checks that do not hold of such a run."""
    record, _ = ran(breaking, workload, bed)
    return {check.name: check for check in validity.checks(record) if not check.holds}


def but_for_the_machine(checks: dict[str, Check]) -> dict[str, str]:
    """What these measured, without those that a busy machine explains."""
    return {n: check.measured for n, check in checks.items() if n not in OF_A_QUIET_MACHINE}


def test_nothing_broken() -> None:
    record, queue = ran(lambda _bed: nullcontext(), LongFlows(senders=2, seconds=1.0))
    found = {check.name: check for check in validity.checks(record) if not check.holds}
    assert but_for_the_machine(found) == {}
    # All that came and was not dropped has left, but for a frame or so while the record began.
    left = record["arrived"] - record["dropped"]
    assert len(queue.departure_ns) == pytest.approx(left, abs=5)
    assert queue.departure_bytes.sum() / left == pytest.approx(1514, rel=0.05)
    # Ideally one each in 121 us.
    gap_us = np.median(np.diff(queue.departure_ns)) / 1000
    assert gap_us == pytest.approx(record["spacing"]["frame_us"], rel=0.1)


def test_what_releases_packets_has_a_processor_at_once() -> None:
    """From the start, whoever has or has not seen to it that packets are forwarded."""
    found = []
    with Bed(bed_config(spec_of(READS))) as bed:
        for task in Path(f"/proc/{bed.ovs.vswitchd_pid}/task").iterdir():
            policy = os.sched_getscheduler(int(task.name)) & ~os.SCHED_RESET_ON_FORK
            found.append(((task / "comm").read_text().strip(), policy))
    releasing = [policy for name, policy in found if name.startswith("hrtimer")]
    assert releasing == [os.SCHED_RR]
    # Nor have the others, which can wait, become what its main thread is.
    assert [policy for _, policy in found].count(os.SCHED_RR) == 2


def command(*argv: str, host: str | None = None) -> Callable[[Bed], None]:
    """Runs in the namespace of a host or of the switch."""

    def there(bed: Bed) -> None:
        run(list(argv), pid=bed.host(host).pid if host else None)

    return there


def buffer_of(limit_bytes: int) -> Callable[[Bed], None]:
    """Gives the bottleneck another buffer."""

    def there(bed: Bed) -> None:
        qos = bed.ovs.vsctl("get", "Port", bed.roles.bottleneck, "qos").strip()
        bed.ovs.vsctl("set", "QoS", qos, f"other_config:limit-bytes={limit_bytes}")

    return there


class Change(NamedTuple):
    """What ``changes`` a setting while the workload runs, what takes that ``back``, which check
    finds it, and what that says."""

    changes: Callable[[Bed], None]
    back: Callable[[Bed], None] | None
    check: str
    measured: Sequence[str]


RMEM = "net.ipv4.tcp_rmem=4096 65536 1048576"
CHANGES = {
    "host-offload": Change(
        command("ethtool", "-K", "r1-eth0", "gro", "on", host="r1"),
        command("ethtool", "-K", "r1-eth0", "gro", "off", host="r1"),
        "offloads off",
        ["r1-eth0: gro is on"],
    ),
    "switch-offload": Change(
        command("ethtool", "-K", "s1-eth1", "gro", "on"),
        command("ethtool", "-K", "s1-eth1", "gro", "off"),
        "offloads off",
        ["s1-eth1: gro is on"],
    ),
    "port-qdisc": Change(
        command(
            *("tc", "qdisc", "add", "dev", "s1-eth1", "root"),
            *("tbf", "rate", "300mbit", "burst", "100kb", "limit", "1mb"),
        ),
        command("tc", "qdisc", "del", "dev", "s1-eth1", "root"),
        "qdiscs as asked",
        ["s1-eth1: the kernel has a qdisc tbf there, too"],
    ),
    "asked-setting": Change(
        command("sysctl", "-q", "-w", RMEM, host="h2"),
        command("sysctl", "-q", "-w", "net.ipv4.tcp_rmem=4096 131072 6291456", host="h2"),
        "host settings as printed",
        ["h2: tcp_rmem is 4096 65536 1048576, asked for 4096 131072 6291456"],
    ),
    "setting": Change(
        command("sysctl", "-q", "-w", "net.ipv4.tcp_sack=0", host="h2"),
        command("sysctl", "-q", "-w", "net.ipv4.tcp_sack=1", host="h2"),
        "host settings as printed",
        ["h2: tcp_sack was 1, is 0"],
    ),
    "buffer": Change(
        buffer_of(32768),
        buffer_of(65536),
        "qdiscs as asked",
        ["'limit_bytes': 32768", "'limit_bytes': 65536"],
    ),
    # Its own class cannot be put back in one command, so it is the last one.
    "host-qdisc": Change(
        command("tc", "qdisc", "replace", "dev", "h1-eth0", "root", "pfifo", host="h1"),
        None,
        "qdiscs as asked",
        ["h1-eth0: no HTB class"],
    ),
}


@pytest.mark.slow
def test_a_setting_is_not_what_it_was() -> None:
    """On one test bed, one after the other: what was changed is put back before the next."""

    def found(change: Change) -> dict[str, str]:
        @contextmanager
        def breaking(bed: Bed) -> Iterator[None]:
            change.changes(bed)
            yield
            if change.back is not None:
                change.back(bed)

        return but_for_the_machine(failed(breaking, bed=standing))

    with Bed(bed_config(spec_of(READS))) as standing:
        told = {name: found(change) for name, change in CHANGES.items()}
    assert {name: list(one) for name, one in told.items()} == {
        name: [change.check] for name, change in CHANGES.items()
    }
    for name, change in CHANGES.items():
        for part in change.measured:
            assert part in told[name][change.check], name


@pytest.mark.timing
def test_drops_at_another_port() -> None:
    """Two hosts send more to a third one than its port takes, if they have the processors to."""

    @contextmanager
    def flood(bed: Bed) -> Iterator[None]:
        to = (bed.host("h1").IP(), 9)
        threads = []
        for name in ("h2", "b1"):
            with network_of(bed.host(name).pid):
                sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)

            def send(sender: socket.socket = sender) -> None:
                for _ in range(3000):
                    # Until h1 says that nobody listens, and again.
                    try:
                        sender.sendto(bytes(1400), to)
                    except ConnectionRefusedError:
                        continue

            threads.append(threading.Thread(target=send))
            threads[-1].start()
        yield
        for thread in threads:
            thread.join()

    found = failed(flood)
    assert "at s1-eth2 (other egress queues)" in found["drops only at the bottleneck"].measured
    assert but_for_the_machine(found) == {}


@pytest.mark.timing
def test_others_take_the_processors() -> None:
    @contextmanager
    def busy(_bed: Bed) -> Iterator[None]:
        count = 2 * (os.cpu_count() or 1)
        spinning = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
        try:
            yield
        finally:
            for one in spinning:
                one.kill()
                one.wait()

    found = failed(busy, LongFlows(senders=2, seconds=2.0))
    # None but what passes while the measurement begins and ends, of 20 % that there have to be.
    idle_pct = int(found["processors"].measured.partition("% idle")[0])
    assert idle_pct < 10


@pytest.mark.timing
def test_the_switch_stands_still_now_and_then() -> None:
    """The processors may be idle enough, and the link as fast as it is.

    It stands still once in 5 ms, in which 41 packets leave: one gap of these is 2 ms too long, more
    than twice the 1 % that are not looked at.
    """

    def hold(bed: Bed) -> AbstractContextManager[None]:
        tell = partial(os.kill, bed.ovs.vswitchd_pid)
        return starved(tell, stopped_s=0.002, running_s=0.003)

    # It goes on until what was measured has been read.
    found = failed(hold, LongFlows(senders=2, seconds=2.0))
    assert "us off (99th percentile)" in found["spacing of departures"].measured
    assert but_for_the_machine(found) == {}
