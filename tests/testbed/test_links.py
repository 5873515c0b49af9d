"""Links, hosts and switches are what was asked for, and what is not is noticed."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.measure.sampling import Sampler
from experiments.measure.validity import RATE_TOLERANCE, busiest
from experiments.traffic.program import Program
from testbed import shaping
from testbed.bed import Bed
from testbed.command import CommandError, run
from testbed.config import BedConfig, HostSettings
from testbed.host import HostError
from testbed.ovs import find_prefix
from testbed.shaping import Egress, ShapingError
from undisturbed import least_disturbed

pytestmark = pytest.mark.netns

RATE_BPS = 50_000_000
MEASURED_S = 3


@pytest.fixture(params=["unpatched", pytest.param("patched", marks=pytest.mark.switch)])
def prefix(request: pytest.FixtureRequest, stock_prefix: Path) -> Path:
    return find_prefix() if request.param == "patched" else stock_prefix


def bed(prefix: Path, **settings: Any) -> Bed:
    config = BedConfig(
        topology="star",
        senders=2,
        scheme=None,
        rate_bps=RATE_BPS,
        host=HostSettings(congestion_control="reno", **settings),
        ovs_prefix=prefix,
    )
    return Bed(config)


def carried_bps(standing: Bed, log: Path) -> float:
    """What the bottleneck carries of a long flow in its busiest second."""
    roles = standing.roles
    sender, receiver = standing.host("h1"), standing.host(roles.receiver)
    ends = [f"--sender-pid={sender.pid}", f"--receiver-pid={receiver.pid}"]
    with (
        Program(
            "experiments.traffic.bulk", [*ends, f"--receiver={receiver.IP()}"], log=log
        ) as bulk,
        Sampler(receiver.pid, roles.far_end) as far_end,
    ):
        bulk.expect("connected")
        time.sleep(MEASURED_S)  # the measurement itself
        bulk.finish()
        assert sum(bulk.expect("done")["bytes"]["bytes"]) > 0
    seen = far_end.as_record()
    return busiest(seen["time_ns"], seen["bytes"])


@pytest.mark.timing
def test_the_bottleneck_carries_its_rate(prefix: Path, tmp_path: Path) -> None:
    with bed(prefix) as standing:
        standing.require_forwarding()
        carried, stolen = least_disturbed(lambda: carried_bps(standing, tmp_path / "bulk.log"))
    assert carried == pytest.approx(RATE_BPS, rel=RATE_TOLERANCE), f"{stolen:.1%} stolen"


def test_a_queue_that_somebody_changed_is_noticed(prefix: Path) -> None:
    with bed(prefix) as standing:
        switch, host = standing.bottleneck_switch, standing.host("h1")
        (port,) = (i for i in switch.links if i.name == standing.roles.bottleneck)
        (device,) = (intf for intf in host.intfList() if intf.name != "lo")
        assert switch.queue_faults() == []
        shaping.verify(device.name, device.egress, pid=host.pid)

        run(["tc", "qdisc", "del", "dev", port.name, "root"])
        assert any(port.name in fault for fault in switch.queue_faults())

        deeper = Egress(RATE_BPS, device.egress.limit_bytes * 2)
        shaping.install(device.name, deeper, pid=host.pid)
        with pytest.raises(ShapingError, match=r"h1-eth0: buffer is \d+ bytes, asked for"):
            shaping.verify(device.name, device.egress, pid=host.pid)


def test_the_switch_is_asked_and_kept_apart(prefix: Path) -> None:
    with bed(prefix) as standing:
        ovs = standing.ovs
        assert "qos/show" in ovs.appctl("list-commands")
        with pytest.raises(CommandError, match=r"ovs-appctl qos/show nowhere ended .* no such"):
            ovs.appctl("qos/show", "nowhere")
        mine = os.sched_getaffinity(0)
        try:
            ovs.keep_apart(os.getpid())
            shared = os.sched_getaffinity(ovs.vswitchd_pid) & os.sched_getaffinity(0)
            assert shared == (mine if len(mine) == 1 else set())
        finally:
            os.sched_setaffinity(0, mine)


def test_what_tc_refuses_is_an_error() -> None:
    with pytest.raises(CommandError, match="nowhere"):
        shaping.install("nowhere", Egress(RATE_BPS, 65536))
    run(["ip", "link", "add", "left", "type", "veth", "peer", "name", "right"])
    with pytest.raises(CommandError, match=r"tc qdisc add .* ended with status"):
        run(["tc", "qdisc", "add", "dev", "left", "root", "no-such-qdisc"])


def test_hosts_are_set_as_asked_and_a_change_is_noticed(stock_prefix: Path) -> None:
    asked = {"rto_min_ms": 10, "initcwnd": 2, "quickack": True, "rmem_max_bytes": 6_291_456}
    with bed(stock_prefix, **asked) as standing:
        host = standing.host("h1")
        assert host.settings_faults() == []
        assert host.tcp_settings()["tcp_congestion_control"] == "reno"
        run(["sysctl", "-q", "-w", "net.ipv4.tcp_rmem=4096 65536 65536"], pid=host.pid)
        run(
            ["ip", "route", "change", "10.0.0.0/8", "dev", "h1-eth0", "initcwnd", "4"], pid=host.pid
        )
        faults = " ".join(host.settings_faults())
        for part in ("tcp_rmem is 4096 65536 65536, asked for", "initcwnd is 4", "rto_min"):
            assert part in faults


def test_hosts_can_be_set_anew(stock_prefix: Path) -> None:
    with bed(stock_prefix) as standing:
        host = standing.host("h1")
        odd = HostSettings(
            # Restricted on most machines, so that no namespace may default to it.
            congestion_control="cubic",
            initcwnd=2,
            sack=False,
            timestamps=False,
            window_scaling=False,
            mtu_bytes=576,
        )
        host.apply(odd)
        assert host.settings_faults() == []
        shown = host.tcp_settings()
        assert shown["mtu"] == "576"
        assert [shown[f"tcp_{name}"] for name in ("sack", "timestamps", "window_scaling")] == [
            *("0", "0", "0")
        ]
        assert "cubic" in (shown["route"] + shown["tcp_congestion_control"])

        host.apply(HostSettings(congestion_control="reno", sack=True))
        assert host.settings_faults() == []
        shown = host.tcp_settings()
        assert "congctl" not in shown["route"]
        assert (shown["tcp_congestion_control"], shown["tcp_sack"]) == ("reno", "1")
        assert shown["mtu"] == "576", "what is left untouched stays"

        run(["ip", "link", "set", "dev", "h1-eth0", "mtu", "1400"], pid=host.pid)
        host.settings = odd
        assert "h1-eth0: MTU is 1400, asked for 576" in host.settings_faults()


def test_a_congestion_control_that_is_not_there(stock_prefix: Path) -> None:
    with bed(stock_prefix) as standing, pytest.raises(HostError, match="nonsense"):
        standing.host("h1").apply(HostSettings(congestion_control="nonsense"))
