"""Announced flows in a fabric of several ways: they go where their shares are reckoned for."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from controller.cli.client import Client
from controller.model.values import switch_id
from controller.ops.event_log import read_events
from experiments.network import api
from experiments.traffic import fountain
from experiments.traffic.program import Command
from testbed import sandbox
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from testbed.host import Host
from tracing import Fabric

RATE_BPS = 20_000_000
OBJECT_BYTES = 1 << 30
TRIED_PORTS = 24

pytestmark = [pytest.mark.netns, pytest.mark.switch]


@contextmanager
def sending(
    bed: Bed, served: api.Api, flow: str, sender: Host, to: fountain.Server
) -> Iterator[None]:
    """While it lasts, a sender sends with the rate of an announced flow."""
    file = bed.run_dir / flow
    fountain.make_hollow(file, OBJECT_BYTES)
    argv = fountain.send_argv(to, file, served.send_options(flow))
    log = bed.run_dir / "workload.log"
    with Command(argv, name="fountain send", log=log, pid=sender.pid) as process:
        messages = process.messages(timeout_s=90)
        next(said for said in messages if said["event"] == "guided" and said["by"] == "told")
        process.ignore()
        yield
        process.terminate()


def audits(bed: Bed) -> list[dict[str, Any]]:
    """What all audits have found so far."""
    return read_events(bed.events, "switch_audited")


def test_datagrams_of_announced_flows_take_one_way_each_whatever_their_ports() -> None:
    served = api.prepare(sandbox.RUN_DIR / "api")
    config = BedConfig(
        topology="leaf-spine",
        shape={"spines": 2, "leaves": 2, "hosts": 3},
        senders=2,
        rate_bps=RATE_BPS,
        queue={"release": "thread", "scheduler": "drr"},
        controller={"northbound": served.section(), "budgets": {"audit_interval": "1 s"}},
    )
    drawn = random.Random(1)
    with Bed(config) as bed:
        bed.require_forwarding()
        fabric, client = Fabric(bed), Client(str(served.directory / "controller.sock"))
        senders = [bed.host(name) for name in bed.roles.senders]
        receiver = bed.host(bed.roles.receiver)
        dpids = {switch.name: switch.dpid for switch in bed.net.switches}

        def ways(sender: Host) -> set[tuple[str, ...]]:
            """The egress ports that its datagrams leave by, as the API names them."""
            ports = [(drawn.randrange(1024, 65_536), fountain.PORT) for _ in range(TRIED_PORTS)]
            taken = [fabric.datagrams_way(sender, receiver, pair) for pair in ports]
            return {tuple(f"{dpids[s.switch]}:{s.out_port}" for s in way) for way in taken}

        api.reach(senders)
        api.meet([(sender, receiver) for sender in senders])
        assert [len(ways(sender)) for sender in senders] == [2, 2]
        place = fountain.Place(receiver.pid, receiver.IP(), fountain.PORT)
        log = bed.run_dir / "workload.log"
        with (
            fountain.receiver(bed.run_dir / "in", place, log) as to,
            sending(bed, served, "flow1", senders[0], to),
            sending(bed, served, "flow2", senders[1], to),
        ):
            taken = [ways(sender) for sender in senders]
            assert [len(way) for way in taken] == [1, 1]
            assert taken[0] != taken[1], "there are two ways for two flows"
            for sender, (way,) in zip(senders, taken, strict=True):
                path = client.ask("bandwidth", {"src": sender.IP(), "dst": receiver.IP()})
                assert [link["link"] for link in path["links"]][1:] == list(way), path
            # What the switches tell of these entries is what was meant, in audits that began since.
            before = Counter(audit["switch"] for audit in audits(bed))
            wait_until(
                lambda: all(
                    Counter(audit["switch"] for audit in audits(bed))[switch] >= before[switch] + 2
                    for switch in map(switch_id, dpids.values())
                ),
                timeout_s=20,
                what="all switches are audited",
            )
            assert all(audit["restored"] == audit["removed"] == 0 for audit in audits(bed))
        wait_until(
            lambda: [len(ways(sender)) for sender in senders] == [2, 2],
            timeout_s=10,
            what="the flows' ways are given up",
        )
