"""What is wrong is said in one line, with what would be right."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments import cli
from testbed import dctcp, lab, sandbox
from testbed.bed import Bed, BedError
from testbed.command import run
from testbed.config import BedConfig, HostSettings
from testbed.host import HostError
from testbed.ovs import OvsError
from testbed.topologies import topology_of

RUN = ["run", "--scheme", "weir"]


@pytest.mark.parametrize(
    ("program", "argv", "complaint"),
    [
        (lab.main, ["--rate", "0"], "--rate must be more than 0 Mb/s, not 0"),
        (lab.main, ["--buffer", "1"], "--buffer must be at least 2 KiB, room for a full-size"),
        (lab.main, ["--senders", "0"], "senders must be at least 1, not 0"),
        (
            lab.main,
            ["--topology", "star", "--shape", "k=4"],
            "topology star has no k to choose: it has no --shape options",
        ),
        (
            lab.main,
            ["--topology", "leaf-spine", "--shape", "k=4"],
            "its --shape options are spines, leaves, hosts",
        ),
        (cli.main, [*RUN, "--rate", "-1"], "--rate must be more than 0 Mb/s, not -1"),
        (cli.main, [*RUN, "--buffer", "0"], "--buffer must be at least 2 KiB"),
        (cli.main, [*RUN, "--delay", "-1"], "--delay must be 0 to 1000 ms, not -1"),
        (cli.main, [*RUN, "--shape", "k=4"], "topology fig8 has no k to choose"),
        (
            cli.main,
            [*RUN, "--topology", "parking-lot", "--senders", "2"],
            "a parking-lot has one sender, not 2",
        ),
        (
            cli.main,
            [*RUN, "--topology", "fat-tree", "--senders", "15"],
            "15 senders, a sender of the background flow and a receiver need more than 16 hosts",
        ),
        (cli.main, [*RUN, "--workload", "requests", "--rounds", "3"], "requests has no rounds"),
        (
            cli.main,
            [*RUN, "--out", "/dev/null/x"],
            "cannot write into --out /dev/null/x: Not a directory",
        ),
        (
            cli.main,
            ["bench", "incast", "--out", "/dev/null/x/incast.json"],
            "cannot write into --out /dev/null/x: Not a directory",
        ),
        (cli.main, ["bench", "incast", "--schemes", "lttp"], "bench incast cannot compare 'lttp'"),
    ],
)
def test_commands(
    program: Callable[[list[str]], int],
    argv: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert program(argv) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            {"rate_bps": 1e8},
            "rate_bps must be a whole number of bits a second, at least 1, not 100000000.0",
        ),
        ({"rate_bps": 0}, "at least 1, not 0"),
        (
            {"bottleneck_limit_bytes": 1000},
            "bottleneck_limit_bytes must be a whole number of bytes, at least 1514, not 1000",
        ),
        (
            {"scheme": "reno"},
            "scheme is the controller's regulation scheme, none, sdtcp, weir or None, not 'reno'; "
            "for a TCP without regulation: scheme='none', "
            "host=HostSettings(congestion_control='reno')",
        ),
        (
            {"host": HostSettings(congestion_control=dctcp.NAME)},
            "add ecn=True to the host and {'release': 'thread', 'ecn-threshold': '30280'} to queue",
        ),
        (
            {"host": HostSettings(congestion_control=dctcp.NAME, ecn=True)},
            "weir-dctcp is DCTCP only where hosts ask for ECN and queues mark",
        ),
        ({"topology": "ring"}, "no topology 'ring': there are fat-tree, fig8, leaf-spine"),
    ],
)
def test_configurations(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        topology_of(BedConfig(**fields))  # type: ignore[arg-type]


def test_a_test_bed_on_the_machine_itself() -> None:
    if sandbox.RUN_DIR.is_mount():
        pytest.skip("this is in a sandbox already")
    with pytest.raises(OvsError, match="no sbin/ovs-vswitchd under /nowhere: run 'make switch'"):
        Bed(BedConfig(ovs_prefix="/nowhere"))
    with pytest.raises(sandbox.SandboxError, match="start it in a sandbox"):
        sandbox.require_inside()


def test_a_reader_without_responders() -> None:
    argv = [sys.executable, "-m", "experiments.traffic.reader", "--server", "127.0.0.1"]
    done = subprocess.run(
        [*argv, "--spec", '{"senders": 1, "rounds": 1}'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    said = "reader: nobody answers at 127.0.0.1, port 5000: start experiments.traffic.responder\n"
    assert done.stderr == said


@pytest.mark.netns
@pytest.mark.switch
def test_on_a_test_bed() -> None:
    with Bed(BedConfig(topology="star", senders=1, scheme=None)) as bed:
        with pytest.raises(ValueError, match="no host h9: there are b1, h1, r1"):
            bed.host("h9")
        with pytest.raises(ValueError, match="no switch s2: there are s1"):
            bed.switch("s2")
        with pytest.raises(HostError, match=r"no TCP congestion control 'nonsense': it has .*reno"):
            bed.host("h1").apply(HostSettings(congestion_control="nonsense"))
    with (
        pytest.raises(BedError, match="there has been a test bed in this sandbox already"),
        Bed(BedConfig()),
    ):
        pass


@pytest.mark.netns
@pytest.mark.switch
@pytest.mark.parametrize(
    ("queue", "complaint"),
    [
        ({"ecn_threshold": 30000}, r's1: it refuses the queue of s1-eth\d: there is no key "ecn_'),
        (
            {"delay-us": 5000},
            r"s1: it refuses the queue of s1-eth\d: delay-us needs release=thread",
        ),
    ],
)
def test_a_queue_that_the_switch_refuses(queue: dict[str, int], complaint: str) -> None:
    config = BedConfig(topology="star", senders=1, scheme=None, queue=queue)
    with pytest.raises(OvsError, match=complaint) as refused, Bed(config):
        pass
    assert "\n" not in str(refused.value)


@pytest.mark.netns
@pytest.mark.switch
def test_a_link_that_was_down_leaves_its_host_as_it_was() -> None:
    settings = HostSettings(congestion_control="cubic", initcwnd=3, rto_min_ms=20)
    config = BedConfig(topology="star", senders=1, scheme=None, ipv6=True, host=settings)
    with Bed(config) as bed:
        host = bed.host("h1")
        before = host.tcp_settings()
        for status in ("down", "up"):
            bed.net.configLinkStatus("h1", "s1", status)
        assert host.settings_faults() == []
        assert host.tcp_settings() == before
        assert host.address6() in run(["ip", "-6", "addr"], pid=host.pid)
        bed.require_forwarding()
