"""Other controllers on the patched switch, and Weir on an unpatched one."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.southbound.codec.extension import EXPERIMENTER
from experiments.traffic.reader import IncastSpec
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from testbed.ovs import find_prefix
from traffic import capture, incast, ping_all

SENDERS = 4
PACKET_IN_HEADER = bytes([4, 10])
# ryu-manager itself cannot start with today's Eventlet; what it lacks is all that is added here.
_RYU_MANAGER = """
import sys, eventlet
eventlet.monkey_patch()
import eventlet.wsgi
eventlet.wsgi.ALREADY_HANDLED = []
from ryu.cmd.manager import main
sys.exit(main())
"""

pytestmark = [pytest.mark.netns, pytest.mark.switch]


@pytest.fixture(params=["patched", "unpatched"])
def prefix(request: pytest.FixtureRequest, stock_prefix: Path) -> Path:
    return find_prefix() if request.param == "patched" else stock_prefix


@contextmanager
def ryu_app(bed: Bed, app: str, log: Path) -> Iterator[None]:
    """Put the bed's switches under a Ryu application that knows nothing of Weir."""
    with log.open("w") as output:
        manager = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _RYU_MANAGER, "--verbose", app],
            stdout=output,
            stderr=output,
        )
    try:
        for switch in bed.switches:
            switch.ovs.vsctl(
                *("set-fail-mode", switch.name, "secure", "--"),
                *("set-controller", switch.name, "tcp:127.0.0.1:6653"),
            )
        wait_until(
            lambda: all(switch.connected() for switch in bed.switches),
            timeout_s=20,
            what=f"the switches are connected to {app}",
        )
        yield
    finally:
        manager.kill()
        manager.wait()


def test_stock_application(prefix: Path, tmp_path: Path) -> None:
    config = BedConfig(topology="star", senders=SENDERS, scheme=None, ovs_prefix=prefix)
    log = tmp_path / "ryu.log"
    with (
        Bed(config) as bed,
        capture("lo", "tcp port 6653", tmp_path / "control.pcap"),
        ryu_app(bed, "ryu.app.simple_switch_13", log),
    ):
        # The first pings are what it learns the hosts from.
        wait_until(lambda: not ping_all(bed), timeout_s=60, what="everybody reaches everybody")
        with incast(bed, IncastSpec(senders=SENDERS, rounds=20)) as reads:
            wait_until(lambda: reads.rounds == 20, timeout_s=60, what="the reads are done")
        if bed.ovs.has_egress_queues():
            queue = bed.bottleneck_switch.queues()[bed.roles.bottleneck]
            assert int(queue["sequence"]) > 0, "no threshold was crossed, so it shows nothing"
            assert bed.bottleneck_switch.registers() == bed.bottleneck_switch.accounts() == {}
        n_hosts = len(bed.hosts)
        flows = bed.bottleneck_switch.dpctl("dump-flows").count("priority=1,in_port")
    assert flows == n_hosts * (n_hosts - 1)
    said = log.read_text()
    assert "packet in" in said
    for trouble in ("Traceback", "EventOFPErrorMsg received", "unknown"):
        assert trouble not in said
    control = (tmp_path / "control.pcap").read_bytes()
    assert PACKET_IN_HEADER in control
    assert EXPERIMENTER.to_bytes(4, "big") not in control


def test_weir_on_an_unpatched_switch(stock_prefix: Path) -> None:
    config = BedConfig(topology="fig8", senders=SENDERS, scheme="weir", ovs_prefix=stock_prefix)
    with Bed(config) as bed:
        assert not ping_all(bed)
        with incast(bed, IncastSpec(senders=SENDERS, rounds=20)) as reads:
            wait_until(lambda: reads.rounds == 20, timeout_s=60, what="the reads are done")
        assert bed.controller is not None
        bed.controller.require_running()
        said = bed.controller.log.read_text().splitlines()
    missing = [line for line in said if "lacks Weir's extension" in line]
    assert len(missing) == 2, "once for each of the two switches"
    assert all("cannot lower TCP windows" in line for line in missing)
    assert not [
        line for line in said if "ERROR" in line or "CRITICAL" in line or "Traceback" in line
    ]
