"""Every scheme, on a network that stands, is what it says: read back from kernel and switch."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from experiments.hosts import HOSTS
from experiments.measure import netstat, observation
from experiments.network.acc import beneath, summed
from experiments.runner import RunSpec, bed_config, usual_host
from experiments.schemes import over_tcp, scheme
from experiments.traffic.reader import IncastSpec
from experiments.workloads import reads
from experiments.workloads.long_flows import long_flows
from experiments.workloads.reads import Reads
from testbed import dctcp
from testbed.bed import Bed
from testbed.command import run, wait_until
from testbed.config import BedConfig, route_attributes
from testbed.host import Host

pytestmark = [pytest.mark.netns, pytest.mark.switch]

_TIMEOUT_S = 30

# What each sets of hosts, as `ip route` and `ss` name it; those of ports stand in Scheme.queue.
ROUTES = {
    "reno_rto10": {"rto_min": "10ms", "quickack": "1"},
    "sdtcp_paper": {"rto_min": "30ms", "quickack": "1", "initcwnd": "1"},
}
CONTROLS = {
    "cubic": "cubic", "bbr": "bbr", "dctcp": "dctcp_", "dctcp_tuned": "dctcp_",
    "dctcp_k4_g0.15": "dctcp_",
}  # fmt: skip
# One is of a family: its name says its parameters.
NAMES = [*(name for name in over_tcp() if not scheme(name).acc), "dctcp_k4_g0.15"]
HOST_ROUTES = {
    "as-they-come": {},
    "immediate-acks": {"quickack": "1"},
    "paper": {"rto_min": "30ms", "quickack": "1", "initcwnd": "1"},
}


@contextmanager
def under(name: str) -> Iterator[Bed]:
    config = BedConfig(topology="star", senders=2, host=usual_host())
    with Bed(scheme(name).on(config)) as bed:
        bed.require_forwarding()
        yield bed


def require_kernel(name: str) -> None:
    if scheme(name).host.congestion_control == dctcp.NAME:
        try:
            dctcp.require()
        except dctcp.KernelLacksError as lacking:
            pytest.skip(str(lacking))


def attributes(host: Host) -> dict[str, str]:
    """What the route says of TCP, but for the congestion control."""
    route = route_attributes(host.tcp_settings()["route"])
    return {name: route[name] for name in ("rto_min", "quickack", "initcwnd") if name in route}


def grown(hosts: Sequence[Host], before: Sequence[dict[str, int]], counter: str) -> list[int]:
    """How much a counter of each host has grown."""
    return [
        netstat.grown(was, netstat.counters(host.pid)).get(counter, 0)
        for was, host in zip(before, hosts, strict=True)
    ]


def dropped(bed: Bed) -> int:
    return int(bed.bottleneck_switch.queues()[bed.roles.bottleneck]["dropped_packets"])


def used(bed: Bed, log: Path, *, has_marks: bool) -> tuple[str, str]:
    """What a connection that sends uses, by `ss`: its congestion control and all that it says.

    With ``has_marks`` what queues mark comes, and all that send hear of it.
    """
    senders = [bed.host(name) for name in bed.roles.senders]
    receiver = bed.host(bed.roles.receiver)
    before = [netstat.counters(host.pid) for host in senders]

    def shown() -> str:
        return run(["ss", "-tinH", "dst", receiver.IP()], pid=senders[0].pid)

    def hear_of_marks() -> bool:
        marked = bed.bottleneck_switch.queues()[bed.roles.bottleneck]["marked_packets"]
        heard = grown(senders, before, "TcpExt.TCPDeliveredCE")
        return int(marked) > 0 and min(heard) > 0

    with long_flows(senders if has_marks else senders[:1], receiver, log):
        wait_until(
            lambda: "bytes_acked:" in shown(), timeout_s=_TIMEOUT_S, what="data is acknowledged"
        )
        if has_marks:
            wait_until(hear_of_marks, timeout_s=_TIMEOUT_S, what="all senders hear of marks")
        said = shown()
    found = re.search(r"\b(reno|cubic|bbr|dctcp_\w+)\b", said)
    assert found is not None, said
    return found[1], said


@pytest.mark.parametrize("name", NAMES)
def test_a_scheme_is_what_it_says(name: str, tmp_path: Path) -> None:
    require_kernel(name)
    chosen = scheme(name)
    is_dctcp = CONTROLS.get(name) == "dctcp_"
    with under(name) as bed:
        control, shown = used(bed, tmp_path / "log", has_marks=is_dctcp)
        assert control.startswith(CONTROLS.get(name, "reno"))
        assert all(attributes(host) == ROUTES.get(name, {}) for host in bed.hosts)
        if "rto_min" in ROUTES.get(name, {}):
            rto_ms = float(re.findall(r"\brto:([\d.]+)", shown)[0])
            assert rto_ms < 200
        found = observation.settings(bed)
        assert found["settings_faults"] == found["qdisc_faults"] == found["offload_faults"] == []
        for switch in bed.switches:
            for intf in switch.links:
                in_force = bed.ovs.appctl("qos/show", intf.name)
                assert all(f"{key}: {value}" in in_force for key, value in chosen.queue.items())
        assert (bed.controller is None) == (chosen.regulation is None)
        if bed.controller is not None:
            settings = (bed.run_dir / "controller.yaml").read_text()
            assert f"scheme: {chosen.regulation}" in settings
            letter = chosen.controller.get("regulation", {}).get("repeat_notices") is False
            assert ("repeat_notices: false" in settings) == letter
            has_accounts = chosen.regulation == "weir" and "accounts: false" not in settings
            accounts = [each for switch in bed.switches for each in switch.accounts().values()]
            assert any(account["active"] for account in accounts) == has_accounts
            assert has_accounts == (name in {"weir", "weir_fair"})
        wanted = chosen.host.dctcp_gain
        if wanted is not None:
            assert bed.dctcp_gain == pytest.approx(wanted, abs=1 / 65536)


def test_a_fair_queue_drops_from_the_longest(tmp_path: Path) -> None:
    """Of two connections one sends as much as it can, and the other little: of that nothing is
    lost, though the first has filled the buffer."""
    with under("fair") as bed:
        receiver = bed.host(bed.roles.receiver)
        few, many = senders = [bed.host("h1"), bed.host("h2")]
        small = IncastSpec(senders=1, rounds=40, block_bytes=20_000)
        before = [netstat.counters(host.pid) for host in senders]
        with (
            long_flows([many], receiver, tmp_path / "log"),
            reads.responders(bed, tmp_path / "log"),
        ):
            wait_until(lambda: dropped(bed) > 0, timeout_s=_TIMEOUT_S, what="the buffer is full")
            so_far = dropped(bed)
            with reads.reader(bed, small, tmp_path / "log") as reader:
                list(reader.messages())
            wait_until(lambda: dropped(bed) > so_far, timeout_s=_TIMEOUT_S, what="it is full again")
        resent = grown(senders, before, "Tcp.RetransSegs")
    assert resent[senders.index(many)] > 0
    assert resent[senders.index(few)] == 0


def test_tcp_acc_is_beneath_all_hosts() -> None:
    reading = Reads(senders=2, rounds=5, block_bytes=200_000)
    host = HOSTS["paper"].settings.over(usual_host())
    spec = RunSpec("acc", reading, topology="star", background=False, host=host)
    with ExitStack() as stack:
        bed = stack.enter_context(Bed(bed_config(spec)))
        bed.require_forwarding()
        layers = stack.enter_context(beneath(scheme("acc"), bed, bed.run_dir / "log"))
        table = [run(["ip", "route", "show", "table", "4881"], pid=h.pid) for h in bed.hosts]
        log = bed.run_dir / "log"
        with reads.responders(bed, log), reads.reader(bed, reading, log) as reader:
            list(reader.messages())
        counted = summed(one.statistics() for one in layers)
        faults = observation.settings(bed)["settings_faults"]
    # Of each of the five rounds both senders' halves, in segments of 1,448 bytes or less.
    assert counted["sent"] > 5 * 200_000 / 1448
    assert len(layers) == len(bed.hosts)
    assert all("quickack 1" in shown and "rto_min lock 30ms" in shown for shown in table), table
    assert faults == []


def test_hosts_are_what_they_are_called() -> None:
    """One kind after the other, and the first one again: nothing of the others stays."""
    with under("reno") as bed:
        for name in [*HOSTS, next(iter(HOSTS))]:
            kind = HOSTS[name].settings.over(usual_host())
            for host in bed.hosts:
                host.apply(scheme("reno").host.over(kind))
            assert all(attributes(host) == HOST_ROUTES[name] for host in bed.hosts), name
            assert observation.settings(bed)["settings_faults"] == [], name
