"""The whole way, small: command, sandbox, switch, controller, real TCP, record, report."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from experiments import demo, runner, workloads
from experiments.emulation import Emulation
from experiments.measure import validity
from experiments.measure.record import Run
from experiments.report import summary
from experiments.report.flows import slowdowns
from experiments.schemes import available
from testbed import sandbox
from testbed.bed import Bed

pytestmark = [pytest.mark.netns, pytest.mark.switch]

SENDERS, ROUNDS, BLOCK_BYTES = 4, 5, 200_000
# The command, but that it does not repeat what is void, and that the background flow is alone for
# less time: it fills the link within a second, and is known as one within two.
HURRIED = """
import sys
from dataclasses import replace
from experiments import cli, demo, runner
demo.ATTEMPTS = 1
demo.SCHEMES = sys.argv.pop(1).split(",")
run = runner.run
runner.run = lambda spec, out: run(replace(spec, warm_up_s=3.0, tail_s=1.0), out)
sys.exit(cli.main(sys.argv[1:]))
"""
# How fast the machine is depends on what else it does, so these checks are not for a test.
DEPEND_ON_THE_MACHINE = {
    *("processors", "shaped rate", "spacing of departures", "idle round trip", "generator kept up"),
}


def command(
    *words: object, of_demo: Sequence[str] = demo.SCHEMES
) -> subprocess.CompletedProcess[str]:
    """Run weir-experiment to its end, a demo of these schemes; a run that is not valid is one for
    all that."""
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    argv = [sys.executable, "-c", HURRIED, ",".join(of_demo), *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode in (0, runner.VOID), done.stderr
    return done


def load(folder: Path) -> Run:
    """Load a run, all of whose checks hold but for those that depend on the machine."""
    run = Run.load(folder)
    failed = [check for check in run.checks if not check.holds]
    assert [check for check in failed if check.name not in DEPEND_ON_THE_MACHINE] == []
    assert len(run.data["operations"]) == ROUNDS
    assert sum(run.data["workload_bytes"]["bytes"]) == ROUNDS * BLOCK_BYTES
    assert 0 < run.goodput_mbps < 100
    return run


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("topology", [pytest.param("fig8", marks=pytest.mark.long), "star"])
def test_four_senders(topology: str, tmp_path: Path) -> None:
    # Weir holds its ports from before the run, so no window is set within it. What tells it apart
    # is the loss: none on a quiet machine, a packet or two where a host's ACKs were late, tens
    # where the machine stood still for a while. So two of three runs decide, not one.
    losses: list[dict[str, int]] = []
    while len(losses) < 3:
        # The others have shown what they have to the first time.
        schemes = ("reno", "weir") if losses else demo.SCHEMES
        losses.append(four_senders(topology, tmp_path / str(len(losses)), schemes))
        holds = [lost["reno"] > 10 * lost["weir"] for lost in losses]
        if holds.count(True) == 2:
            return
    raise AssertionError(losses)


def four_senders(topology: str, out: Path, schemes: Sequence[str]) -> dict[str, int]:
    """Check the demo of four senders; returns the packets that each scheme lost."""
    sizes = ("--senders", SENDERS, "--rounds", ROUNDS, "--block", BLOCK_BYTES)
    words = ("demo", "--json", "--topology", topology, *sizes, "--out", out)
    done = command(*words, of_demo=schemes)
    flat = json.loads(done.stdout)
    assert flat == json.loads((out / "summary.json").read_text())
    assert (out / "demo.png").exists()
    assert flat["valid"] == (done.returncode == 0)
    runs = {
        name: load(out / "n4" / name) for name in schemes if available(name, say=lambda _why: None)
    }
    for name, run in runs.items():
        assert flat[f"n4.{name}.goodput_mbps"] == pytest.approx(run.goodput_mbps, abs=0.001)
        assert run.background_mbps > 0
        # The flow alone fills the link, and with it the queue: both must have been seen.
        assert run.queue.count("CN-L") >= 1
        assert run.notices("CN-L")
    assert not runs["reno"].events("window_set")
    assert flat["n4.weir.timeouts"] == 0
    return {name: run.data["dropped"] for name, run in runs.items()}


def test_without_a_background_flow(tmp_path: Path) -> None:
    sizes = ("--senders", SENDERS, "--connections-per-sender", 3, "--rounds", ROUNDS)
    block = ("--block", BLOCK_BYTES)
    command("run", "--scheme", "reno", "--no-background", *sizes, *block, "--out", tmp_path)
    run = load(tmp_path)
    assert run.connections == 3 * SENDERS
    assert run.background_mbps == 0
    # The client's side of every connection, from the first SYN on; its receiver opens no others.
    opened = run.data["tcp"][run.data["roles"]["receiver"]]["Tcp.ActiveOpens"]
    assert opened == run.connections
    require_repairs(run)


def require_repairs(run: Run) -> None:
    """What is counted of each connection in each round is what hosts have counted of all."""
    reads = run.data["operations"]
    assert all(len(one["timeouts"]) == run.connections for one in reads)
    assert sum(sum(one["timeouts"]) for one in reads) <= run.timeouts
    again = sum(sum(one["retransmitted"]) for one in reads)
    assert again <= run.counted("Tcp.RetransSegs") + run.counted("TcpExt.TCPSynRetrans")
    if not run.has_background:
        assert again >= run.data["dropped"] / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "operations"),
    [
        ("--topology parking-lot --workload long-flows --set seconds=2", 1),
        ("--topology leaf-spine --workload fresh --senders 3 --rounds 4 --no-background", 4),
        ("--topology star --workload requests --senders 2 --set seconds=1 --no-background", None),
        ("--topology star --rate 20 --buffer 16 --delay 2 --senders 2 --rounds 2 --block 9000", 2),
        ("--topology star --workload shares --senders 2 --rounds 2 --set fresh=yes", 2),
    ],
)
def test_every_network_and_workload(words: str, operations: int | None, tmp_path: Path) -> None:
    done = command("run", "--scheme", "weir", "--json", *words.split(), "--out", tmp_path)
    flat = json.loads(done.stdout)
    run = Run.load(tmp_path)
    failed = [check.name for check in run.checks if not check.holds]
    assert set(failed) <= DEPEND_ON_THE_MACHINE
    assert flat["valid"] == (done.returncode == 0) == (not failed)
    assert operations in (None, len(run.data["operations"]))
    assert 0 < flat["goodput_mbps"] < run.data["roles"]["bottleneck_bps"] / 1e6
    if "--workload fresh" in words:
        require_repairs(run)
    if run.has_background:
        assert run.background_mbps > 0
        assert run.queue.count("enqueue") > 100, "the background flow crosses the bottleneck"
    if run.data["spec"]["delay_us"]:
        assert flat["idle_rtt_ms"] > 4


# What each is measured with, and what it is to have among its figures.
PLANNED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "web-search": (
        {
            "load": 0.5,
            "seconds": 2,
            "warm_up_s": 0.5,
            "scale": 0.1,
            "rpcs_per_s": 50,
            "rpc_bytes": 200,
        },
        ["short_slowdown_p99", "rpc_fct_p99_ms"],
    ),
    "data-mining": (
        {"load": 0.3, "seconds": 2, "warm_up_s": 0, "scale": 0.1, "fresh": True},
        ["short_slowdown_p99"],
    ),
    "fixed-size": (
        {"load": 0.4, "seconds": 1, "warm_up_s": 0.2, "size_bytes": 20_000, "asked": False},
        ["short_fct_p99_ms"],
    ),
    "staggered": ({"interval_s": 1}, ["jain_mean"]),
}
# These have networks of their own.
OTHER_PLANNED = {
    "partition-aggregate": (
        "--senders 16 --set seconds=2 warm_up_s=0.5 deadline_ms=60",
        ["deadlines_missed", "answers_in_time_pct"],
    ),
    "all-to-all": (
        "--senders 3 --rounds 2 --rate 20 --set share_bytes=100000",
        ["medium_fct_mean_ms"],
    ),
}


def require_planned(run: Run, flat: dict[str, Any], figures: Sequence[str]) -> None:
    """A run of planned flows is what it was planned to be, and so are its figures."""
    failed = [check.name for check in run.checks if not check.holds]
    assert set(failed) <= DEPEND_ON_THE_MACHINE
    assert not run.has_background
    generator = run.data["generator"]
    warm_up = run.data["warm_up_flows"]
    assert flat["flows"] == len(run.flows) == generator["planned"] - len(warm_up) > 0
    assert generator["unfinished"] == 0
    carried = sum(run.data["workload_bytes"]["bytes"])
    assert carried == sum(flow["bytes"] for flow in (*run.flows, *warm_up))
    # What the kernel counts of each connection, and what it counts of each host.
    assert sum(flow["timeouts"] for flow in (*run.flows, *warm_up)) <= run.timeouts
    again = sum(flow["retransmitted"] for flow in (*run.flows, *warm_up))
    assert again <= run.counted("Tcp.RetransSegs") + run.counted("TcpExt.TCPSynRetrans")
    assert again >= run.data["dropped"] / 2, "what is lost is sent again, mostly by the flow itself"
    if run.workload.name != "staggered":
        assert min(slowdowns(run)) > 1, "no flow is faster than the link"
    # Hosts that all receive have buffers like the bottleneck's, and these may overflow.
    edge_bytes = run.data["bed"]["edge_limit_bytes"]
    assert edge_bytes == (65536 if run.workload.name == "all-to-all" else None)
    for figure in figures:
        assert flat[figure] >= 0


@pytest.mark.slow
def test_planned_workloads() -> None:
    """On one test bed, one after the other."""
    specs = {
        name: runner.RunSpec(
            "reno",
            workloads.workload(name, {"senders": 4, **given}),
            topology="star",
            background=False,
            host=runner.usual_host(),
        )
        for name, (given, _) in PLANNED.items()
    }
    first, *others = (runner.bed_config(spec) for spec in specs.values())
    assert all(config == first for config in others)
    with Bed(first) as bed:
        for name, (_, figures) in PLANNED.items():
            record, queue = Emulation(specs[name], bed).measure()
            record["checks"] = [asdict(check) for check in validity.checks(record)]
            run = Run(record, queue)
            require_planned(run, summary.of_run(run), figures)


@pytest.mark.slow
@pytest.mark.parametrize("workload", OTHER_PLANNED)
def test_planned_workloads_with_networks_of_their_own(workload: str, tmp_path: Path) -> None:
    words, figures = OTHER_PLANNED[workload]
    words = f"--topology star --workload {workload} {words}"
    done = command("run", "--scheme", "reno", "--json", *words.split(), "--out", tmp_path)
    require_planned(Run.load(tmp_path), json.loads(done.stdout), figures)


@pytest.mark.slow
@pytest.mark.timing
def test_a_group_of_the_incasts(tmp_path: Path) -> None:
    out = tmp_path / "incast.json"
    schemes = ("--schemes", "weir,reno", "--repeats", 1)
    done = command("bench", "incast", "--only", "n2", *schemes, "--out", out)
    figures = json.loads(out.read_text())
    assert done.returncode == 0
    assert figures["failed"] == ""
    weir, reno = (figures[f"{name}_goodput_mbps_n2"] for name in ("weir", "reno"))
    assert min(weir, reno) > 0
    assert figures["weir_vs_reno_n2"] == pytest.approx(weir / reno)
    assert figures["reno_timeouts_n2"] == Run.load(tmp_path / "incast/n2/reno-1").timeouts
