"""DCTCP on the hosts, ECN marks by the switch: what each does is what the other counts on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.bench.switch.dctcp import bed_config, blocks, long_flows
from experiments.measure import netstat
from experiments.traffic.program import Program
from testbed import dctcp
from testbed.bed import Bed
from testbed.command import run, wait_until
from testbed.config import BedConfig, HostSettings
from testbed.host import Host

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.usefixtures("dctcp_kernel")]

SENT_BYTES = 1_000_000


@contextmanager
def standing(config: BedConfig) -> Iterator[Bed]:
    with Bed(config) as bed:
        bed.require_forwarding()
        yield bed


@pytest.mark.slow
@pytest.mark.timing
def test_the_queue_stays_at_the_threshold(tmp_path: Path) -> None:
    with standing(bed_config("dctcp")) as bed:
        flows = long_flows(bed, tmp_path / "log", settle_s=2, measured_s=5)
        read = blocks(bed, tmp_path / "log", rounds=20)
    for measured in (flows, read):
        assert 0.7 <= measured.mean_queue_bytes / dctcp.K_BYTES <= 1.3
        assert measured.timeouts == 0
        assert measured.marks > 0
        # What the switch has marked has come, and the senders know it, but for what was under way
        # when the connections were closed.
        assert measured.received_ce == pytest.approx(measured.marks, rel=0.01)
        assert measured.echoed == pytest.approx(measured.received_ce, rel=0.02)


@pytest.mark.timing
def test_a_loss_is_answered_as_any_tcp_does(tmp_path: Path) -> None:
    """RFC 8257, section 3.5: where nothing is marked the estimate goes to zero, and a reduction by
    it would be none at all; the senders would go on as they do until most of what they send is
    lost."""
    limit_bytes = 65536
    config = replace(
        bed_config("dctcp", senders=2),
        bottleneck_limit_bytes=limit_bytes,
        # What finds so much in the queue is dropped.
        queue={"release": "thread", "ecn-threshold": str(limit_bytes)},
    )
    with standing(config) as bed:
        flows = long_flows(bed, tmp_path / "log", settle_s=1, measured_s=5)
    segments = flows.goodput_mbps * 1e6 * 6 / (8 * 1448)
    assert flows.marks == 0
    assert 0 < flows.drops < 0.03 * segments


def test_nothing_is_marked_that_does_not_ask_for_it(tmp_path: Path) -> None:
    hosts = HostSettings(congestion_control="reno", ecn=False)
    with standing(replace(bed_config("dctcp", senders=4), host=hosts)) as bed:
        flows = long_flows(bed, tmp_path / "log", settle_s=1, measured_s=2)
    assert flows.mean_queue_bytes > dctcp.K_BYTES
    assert (flows.marks, flows.received_ce) == (0, 0)


@pytest.mark.parametrize("peer_takes_part", [True, False])
def test_a_peer_without_ecn_makes_it_reno(tmp_path: Path, peer_takes_part: bool) -> None:
    """RFC 3168, section 6.1.1: no ECT on a connection on which ECN has not been agreed."""
    with standing(bed_config("dctcp", senders=1)) as bed:
        sender, receiver = bed.host("h1"), bed.host(bed.roles.receiver)
        if not peer_takes_part:
            settings = ("net.ipv4.tcp_ecn=0", "net.ipv4.tcp_congestion_control=reno")
            run(["sysctl", "-q", "-w", *settings], pid=receiver.pid)
        ends = [f"--receiver-pid={receiver.pid}", f"--receiver={receiver.IP()}"]
        ends.append(f"--sender-pid={sender.pid}")
        before = netstat.counters(receiver.pid)
        with Program("experiments.traffic.bulk", ends, log=tmp_path / "log") as bulk:
            bulk.expect("connected")
            wait_until(
                lambda: received(receiver, before) > SENT_BYTES, timeout_s=30, what="data has come"
            )
            shown = run(["ss", "-tinH", "dst", receiver.IP()], pid=sender.pid).split()
            came = netstat.grown(before, netstat.counters(receiver.pid))
        used = sender.tcp_settings()["tcp_congestion_control"]
    assert used.startswith("dctcp_")
    assert ("reno" in shown, used in shown) == (not peer_takes_part, peer_takes_part)
    capable = came.get("IpExt.InECT0Pkts", 0) + came.get("IpExt.InCEPkts", 0)
    if peer_takes_part:
        assert capable > SENT_BYTES / 1500
    else:
        assert capable <= 1, "no more than the SYN, which asked"


def received(host: Host, before: dict[str, int]) -> int:
    return netstat.grown(before, netstat.counters(host.pid)).get("IpExt.InOctets", 0)
