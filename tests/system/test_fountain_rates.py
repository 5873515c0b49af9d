"""Senders that take their rate from a real controller, which is killed under them."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from experiments.network import api
from experiments.traffic import fountain
from experiments.traffic.program import Command
from testbed import sandbox
from testbed.bed import Bed
from testbed.command import run
from testbed.config import BedConfig
from testbed.host import Host

EXPIRY_S = 2.0
RATE_BPS = 20_000_000
OBJECT_BYTES = 1 << 30
# A new controller learns where hosts are when they ask for each other's address again, which by
# default takes Linux 15 to 45 s.
ADDRESSES_HOLD_MS = 2000

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.long, pytest.mark.timing]

Messages = Iterator[dict[str, Any]]


def guided_by(messages: Messages, whom: str) -> None:
    """Read until the sender says that this is who guides it; it is killed if it never does."""
    next(said for said in messages if said["event"] == "guided" and said["by"] == whom)


def ask_for_addresses_often(host: Host) -> None:
    """Have a host confirm the addresses of its neighbours every few seconds."""
    device = f"net.ipv4.neigh.{host.name}-eth0"
    times = (f"base_reachable_time_ms={ADDRESSES_HOLD_MS}", "delay_first_probe_time=1")
    run(["sysctl", "-q", "-w", *(f"{device}.{time}" for time in times)], pid=host.pid)


def delivered(messages: Messages) -> int:
    """What the sender says next of its progress, in bytes."""
    progress = next(said for said in messages if said["event"] == "progress")
    return int(progress["bytes"])


def test_senders_fall_back_while_their_controller_is_gone_and_recover() -> None:
    served = api.prepare(sandbox.RUN_DIR / "api")
    config = BedConfig(
        topology="star",
        senders=1,
        rate_bps=RATE_BPS,
        queue={"release": "thread", "scheduler": "drr"},
        controller={"northbound": served.section()},
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        sender, receiver = bed.host(bed.roles.senders[0]), bed.host(bed.roles.receiver)
        for host in (sender, receiver):
            ask_for_addresses_often(host)
        api.reach([sender])
        api.meet([(sender, receiver)])
        log, file = bed.run_dir / "workload.log", bed.run_dir / "object"
        fountain.make_hollow(file, OBJECT_BYTES)
        place = fountain.Place(receiver.pid, receiver.IP(), fountain.PORT)
        with fountain.receiver(bed.run_dir / "in", place, log) as to:
            argv = fountain.send_argv(to, file, served.send_options("flow"))
            argv.append(f"--expiry={EXPIRY_S:g}")
            with Command(argv, name="fountain send", log=log, pid=sender.pid) as sending:
                messages = sending.messages(timeout_s=90)
                guided_by(messages, "told")
                assert delivered(messages) < delivered(messages)

                assert bed.controller is not None
                bed.controller.kill()
                killed_s = time.monotonic()
                guided_by(messages, "tfrc")
                assert time.monotonic() - killed_s <= EXPIRY_S + 1
                # What was going on goes on.
                assert delivered(messages) < delivered(messages)

                bed.controller.start()
                guided_by(messages, "told")
                assert delivered(messages) < delivered(messages)
