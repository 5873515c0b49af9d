"""Random faults while TCP runs, then: is everything as it should be, and has nothing grown?

WEIR_CHAOS_SEED=N   repeats the faults of a run, whose seed is told when it fails
WEIR_CHAOS_FAULTS=N how many (20)
"""

import os
import random
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from experiments.chaos import faults, hostile, state
from experiments.chaos.clock import SteppedClock
from experiments.chaos.faults import Target
from experiments.chaos.stalls import Span, stalls, without_reason
from experiments.chaos.vitals import Vitals, vitals
from experiments.traffic.program import Program
from experiments.traffic.reader import IncastSpec
from packets import Host as ForeignHost
from seeds import messages
from testbed.bed import Bed
from testbed.command import run, wait_until
from testbed.config import BedConfig
from testbed.controller import PORT
from testbed.host import Host
from traffic import incast, is_regulated, ping_all

SENDERS = 4
WINDOW_TTL_S = 3
CONFIG = BedConfig(
    topology="fig8",
    senders=SENDERS,
    rate_bps=20_000_000,
    controller={
        "fabric": {"switch_grace": "5 s"},
        "regulation": {"window_ttl": f"{WINDOW_TTL_S} s"},
        # Of some connections nobody has seen the end, nor can: they are given up for their silence.
        "classifier": {"expiry": "20 s"},
    },
)
# What a transfer of a second's round trips can stand still for without a packet lost.
STALL_S = 1.5
# After packets were lost, as also where windows have expired, TCP tries again after 0.2, 0.4, 0.8,
# 1.6, ... s.
RECOVERY_S = 3.0
# By then a switch that was away is taken for gone, half a handshake for hostile, and what no
# connection claimed is swept from the switches.
QUIET_S = 60.0
SWEPT_S = 13.0
# The first wave fills what holds the latest of something.
FIRST_WAVE, WAVES, WAVE = 2000, 3, 400
ADDRESS = "127.0.0.1", PORT
# A connection that becomes no switch's is let in for so long (transport.channel).
HANDSHAKE_S = 20.0
FLICKER_KB, GROWTH_KB = 512, 2048

pytestmark = [
    pytest.mark.netns,
    pytest.mark.switch,
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.timeout(600),
]


def add_ipv6(bed: Bed) -> None:
    for host in bed.hosts:
        device = host.defaultIntf().name
        run(["sysctl", "-q", "-w", f"net.ipv6.conf.{device}.disable_ipv6=0"], pid=host.pid)
        run(["ip", "-6", "addr", "add", f"{ipv6(bed, host)}/64", "dev", device], pid=host.pid)


def ipv6(bed: Bed, host: Host) -> str:
    return f"fd00::{bed.hosts.index(host) + 1:x}"


def addresses(bed: Bed) -> set[str]:
    """All by which hosts are known, Ethernet and IP."""
    hosts = bed.hosts
    return {
        *(host.MAC() for host in hosts),
        *(host.IP() for host in hosts),
        *(ipv6(bed, host) for host in hosts),
    }


@contextmanager
def transfer(bed: Bed, sender: str, to: str, log: Path) -> Iterator[Program]:
    """A flow that never ends to an address of the host that takes background flows."""
    receiver = bed.host(bed.roles.background_receiver)
    ends = [f"--receiver-pid={receiver.pid}", f"--receiver={to}"]
    ends.append(f"--sender-pid={bed.host(sender).pid}")
    with Program("experiments.traffic.bulk", ends, log=log) as bulk:
        bulk.expect("connected")
        yield bulk


@contextmanager
def churn(bed: Bed, log: Path) -> Iterator[None]:
    """Short connections between some of the hosts, over IPv4 and IPv6, ended well or not."""
    hosts = [bed.host(name) for name in (*bed.roles.senders[:2], bed.roles.receiver)]
    with ExitStack() as programs:
        started = []
        for host in hosts:
            args = ["--address", host.IP(), "--address", ipv6(bed, host)]
            for other in hosts:
                if other is not host:
                    args += ["--peer", other.IP(), "--peer", ipv6(bed, other)]
            program = Program("experiments.soak.traffic", args, log=log, pid=host.pid)
            started.append(programs.enter_context(program))
        yield
        for program in started:
            program.finish()
            program.expect("done")


def say(what: object) -> None:
    """For whoever has to find out what went wrong; times are of CLOCK_MONOTONIC."""
    print(f"{time.monotonic():9.1f}  {what}", flush=True)


def strike(target: Target, plan: list[faults.Fault], rng: random.Random) -> list[Span]:
    """All faults, with pauses; returns when packets may have been lost."""
    hurt = []
    for number, fault in enumerate(plan, 1):
        begin = time.monotonic()
        say(f"{number:3} {fault}")
        fault.strike(target)
        if fault.hurts:
            hurt.append((begin, time.monotonic()))
        time.sleep(rng.uniform(0, 2))
    return hurt


def held(bed: Bed) -> dict[str, set[str]]:
    return {switch.name: state.entries(bed.ovs, switch.name) for switch in bed.switches}


def differences(bed: Bed) -> list[str]:
    """Between what the hosts have, what the controller knows and what the switches hold."""
    found = []
    established = state.connections_established(host.pid for host in bed.hosts)
    known = state.connections_known(bed.events)
    found += [f"unknown to the controller: {sorted(c)}" for c in established - known]
    found += [f"known to the controller alone: {sorted(c)}" for c in known - established]
    for name, dump in held(bed).items():
        stale = state.connections_in(dump) - established
        found += [f"{name} has entries for what is over: {sorted(c)}" for c in stale]
        strange = state.hosts_in(dump) - addresses(bed)
        found += [f"{name} has entries for nobody: {address}" for address in strange]
    return found


def until_quiet(bed: Bed) -> None:
    told: list[str] = []

    def quiet() -> bool:
        told[:] = differences(bed)
        return not told

    try:
        wait_until(quiet, timeout_s=QUIET_S, what="all agree", poll_s=1.0)
    except TimeoutError as late:
        shown = [*told[:20], f"{len(told)} differences in all"]
        raise AssertionError("\n".join([str(late), *shown])) from late


def test_chaos(tmp_path: Path) -> None:
    seed = int(os.environ.get("WEIR_CHAOS_SEED") or secrets.randbits(32))
    plan = faults.draw(seed, int(os.environ.get("WEIR_CHAOS_FAULTS") or 20))
    say(f"WEIR_CHAOS_SEED={seed}: {faults.told(plan)}")
    log = tmp_path / "log"
    with Bed(CONFIG) as bed, ExitStack() as traffic:
        add_ipv6(bed)
        assert bed.controller is not None
        for record in (bed.controller.log, bed.events):
            traffic.callback(shutil.copy, record, tmp_path)
        corpus = messages(ForeignHost(201), ForeignHost(202))
        links = [intf.name for switch in bed.switches for intf in switch.links]
        target = Target(bed, SteppedClock(tmp_path), corpus, links, WINDOW_TTL_S)
        bed.controller.stop()
        target.start_controller(monotonic=False)
        target.require_reconnected()
        bed.require_forwarding()

        receiver = bed.host(bed.roles.background_receiver)
        bulk = [
            traffic.enter_context(transfer(bed, bed.roles.background_sender, to, log))
            for to in (receiver.IP(), ipv6(bed, receiver))
        ]
        spec = IncastSpec(senders=SENDERS, rounds=100_000, block_bytes=200_000)
        reads = traffic.enter_context(incast(bed, spec))
        with churn(bed, log):
            hurt = strike(target, plan, random.Random(f"{seed} pauses"))
            target.require_reconnected()
        say("the faults are over")
        reads.require_progress(20, 30, "after the faults")
        until_quiet(bed)
        assert is_regulated(bed), "nothing is regulated any more"
        bed.controller.require_running()

        say("all agree")
        assert bed.controller.process is not None
        # Nobody else is let in for long: its own, for switches and for commands, the two by which
        # its threads wake it, and one for each switch.
        pid, ours_open = bed.controller.process.pid, 2 + 2 + len(bed.switches)
        wait_until(
            lambda: vitals(pid).descriptors.count("socket") == ours_open,
            timeout_s=HANDSHAKE_S + 10,
            what=f"{ours_open} sockets are open, and no half-made connection",
            poll_s=2.0,
        )
        require_that_a_successor_agrees(target)
        say("a successor agrees")
        require_flat(target)
        assert ping_all(bed) == []
        for sock in target.left_open:
            sock.close()

        for program in bulk:
            program.finish()
        found = [s for b in bulk for s in stalls(b.expect("done")["bytes"], STALL_S)]
        bed.controller.require_running()
        # What other peers are refused, and refuse, is their own affair.
        ours = [f"switch={switch.dpid} " for switch in bed.switches]
        errors = [
            line
            for line in bed.controller.errors()
            if not re.search(r" refused[ ,]| Handshake: ", line)
            or any(name in line for name in ours)
        ]
    say(f"stalls {found}, hurt {hurt}, unregulated {target.unregulated}")
    assert without_reason(found, hurt + target.unregulated, RECOVERY_S) == []
    assert errors == []


def lasting(bed: Bed) -> dict[str, set[str]]:
    """The entries that are not of single connections: of those, one end's may do."""
    return {
        name: {entry for entry in entries if not state.connections_in([entry])}
        for name, entries in held(bed).items()
    }


def require_that_a_successor_agrees(target: Target) -> None:
    """A fresh controller, which knows nothing but what the switches hold, changes nothing, not even
    when it sweeps away what nobody wants."""
    bed = target.bed
    assert bed.controller is not None
    before = lasting(bed)
    bed.controller.kill()
    target.start_controller(monotonic=False)
    target.require_reconnected()
    swept_s = time.monotonic() + SWEPT_S
    while time.monotonic() < swept_s:
        after = lasting(bed)
        for name, entries in before.items():
            assert sorted(entries ^ after[name]) == [], f"{name} differs"
        time.sleep(1)
    until_quiet(bed)


def settled(pid: int) -> Vitals:
    """What a process takes once it takes about the same three times in a row; memory moves a little
    with the traffic."""
    seen: list[Vitals] = []

    def same() -> bool:
        seen.append(vitals(pid))
        last = seen[-3:]
        rss_kb = [v.rss_kb for v in last]
        others = {(v.threads, v.descriptors) for v in last}
        return len(last) == 3 and len(others) == 1 and max(rss_kb) - min(rss_kb) <= FLICKER_KB

    what = "the controller takes about the same all the time"
    wait_until(same, timeout_s=60, what=what, poll_s=2.0)
    return seen[-1]


def require_flat(target: Target) -> None:
    """What only passes by leaves nothing behind in the controller."""
    rng = random.Random(1)
    controller = target.bed.controller
    assert controller is not None and controller.process is not None
    pid = controller.process.pid
    seen: list[Vitals] = []
    hostile.storm(ADDRESS, range(0xBEE00000, 0xBEE00000 + FIRST_WAVE), FIRST_WAVE, rng)
    for wave in range(WAVES):
        strangers = range(0xBEEF0000 + wave * WAVE, 0xBEEF0000 + (wave + 1) * WAVE)
        hostile.storm(ADDRESS, strangers, WAVE, rng)
        hostile.nonsense(ADDRESS, target.corpus, 30, rng)
        seen.append(settled(pid))
        say(seen[-1])
    first, last = seen[0], seen[-1]
    assert last.threads == first.threads
    assert last.descriptors == first.descriptors
    assert last.rss_kb - first.rss_kb < GROWTH_KB
