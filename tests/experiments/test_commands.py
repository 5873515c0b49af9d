"""The command teaches, and a wrong word is told in one line."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorded
from experiments import cli, demo, runner
from experiments.bench import measuring
from experiments.measure.record import QUEUE, RECORD
from experiments.workloads import Workload
from experiments.workloads.long_flows import LongFlows
from experiments.workloads.reads import FreshReads, Reads
from experiments.workloads.requests import Requests
from testbed import dctcp, lab, sandbox
from testbed.config import HostSettings


@pytest.mark.parametrize(
    ("program", "argv", "taught"),
    [
        (cli.main, ["--help"], ["examples:", "weir-experiment demo", "Needs root"]),
        (
            cli.main,
            ["demo", "--help"],
            ["--senders", "--rounds", "--seed", "--json", "n120", "exit status"],
        ),
        (cli.main, ["bench", "--help"], ["incast", "apps", "'bench SUITE --help'"]),
        (cli.main, ["bench", "incast", "--help"], ["--group", "--schemes", "--repeats", "n120"]),
        (
            cli.main,
            ["bench", "apps", "--help"],
            ["examples:", "min_throughput_ratio", "leaf_spine", "exit status"],
        ),
        (
            cli.main,
            ["run", "--help"],
            ["regulation scheme", "sdtcp_letter", "--workload", "long-flows", "--shape k=4"],
        ),
        (cli.main, ["report", "--help"], ["DIR", "report.png", "exit status"]),
        (
            cli.main,
            ["soak", "--help"],
            ["examples:", "soak atp", "soak acc", "Ctrl-C", "exit status"],
        ),
        (lab.main, ["--help"], ["--topology", "h1 ping -c 3 r1", "fig8", "star"]),
    ],
)
def test_help(program, argv, taught, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program(argv)
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(part in text for part in taught)


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["demo", "--senders", "0"], "senders must be at least 1, not 0"),
        (["demo", "--block", "5"], "at least one per connection: 32, not 5"),
        (["bench", "incast", "--schemes", "wier"], "cannot compare 'wier'; it can compare weir,"),
        (["bench", "incast", "--schemes", "lttp"], "bench incast cannot compare 'lttp'"),
        (["bench", "switch", "--schemes", "weir"], "it can compare nothing"),
        (["bench", "incast", "--repeats", "0"], "repeats must be at least 1, not 0"),
        (["bench", "incast", "--group", "n3"], "--group n3: incast has n1, n2,"),
        (["run", "--scheme", "weir", "--mss", "0"], "--mss must be 1 to 65535, not 0"),
        (["run", "--scheme", "weir", "--window-scale", "15"], "must be 0 to 14, not 15"),
        (["bench", "incast", "--initial-window", "-1"], "must be 1 to 65535, not -1"),
        (["demo", "--receive-buffer", "-1"], "must be 0 or more bytes, not -1"),
    ],
)
def test_wrong_values(argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_without_root(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(dctcp, "require", lambda: None)
    for program, argv in ((cli.main, ["demo"]), (lab.main, [])):
        assert program(argv) == 1
        said = capsys.readouterr().err
        assert "needs root" in said
        assert said.count("\n") == 1


def noting(calls: list[Any], status: int) -> Callable[..., int]:
    """Stands in for what a command calls."""

    def called(*words: object, **_: object) -> int:
        calls.append(words)
        return status

    return called


def test_options_reach_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(dctcp, "require", lambda: None)
    monkeypatch.setattr(runner, "run", noting(asked, 1))
    argv = "demo --senders 8 --rounds 3 --seed 7 --topology star --block 1000 --ovs /x --out"
    assert cli.main([*argv.split(), str(tmp_path)]) == 1
    ((spec, out),) = asked
    assert out == tmp_path / "n8" / demo.SCHEMES[0]
    assert spec.scheme == demo.SCHEMES[0]
    assert (spec.topology, spec.ovs_prefix) == ("star", "/x")
    assert vars(spec.workload) == {
        "senders": 8, "rounds": 3, "seed": 7, "block_bytes": 1000, "connections_per_sender": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("", {}),
        ("--hosts as-they-come", {}),
        ("--hosts immediate-acks", {"quickack": True}),
        ("--hosts paper", {"quickack": True, "initcwnd": 1, "rto_min_ms": 30}),
        ("--hosts paper --least-rto 5", {"quickack": True, "initcwnd": 1, "rto_min_ms": 5}),
    ],
)
@pytest.mark.parametrize(
    "command", ["run --scheme reno", "bench incast", "bench lttp", "bench apps"]
)
def test_hosts_have_a_name(
    command: str,
    argv: str,
    expected: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(runner, "run", noting(asked, 1))
    monkeypatch.setattr(measuring, "run", noting(asked, 1))
    assert cli.main([*command.split(), *argv.split(), "--out", str(tmp_path / "out")]) == 1
    (words,) = asked
    host = words[0].host if command.startswith("run") else HostSettings(**words[3].host)
    changed = {name: value for name, value in vars(host).items() if value is not None}
    changed.pop("rmem_max_bytes", None)
    assert changed == expected


OPTIONS = (
    "--quickack --initial-window 4 --least-rto 20 --mss 536 --no-timestamps --no-sack "
    "--window-scale 10"
)
ASKED: dict[str, Any] = {
    "quickack": True, "initcwnd": 4, "rto_min_ms": 20, "mss_bytes": 536, "timestamps": False,
    "sack": False, "rmem_max_bytes": 65_536 << 10, "window_clamp_bytes": 65_535 << 10,
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[runner.RunSpec]:
    """Replaces runs by a recorded one; which were asked for."""
    specs: list[runner.RunSpec] = []

    def record(spec: runner.RunSpec, out: Path) -> int:
        specs.append(spec)
        written = recorded.data(spec.scheme, spec=spec.as_record())
        (out / RECORD).write_text(json.dumps(written))
        recorded.queue().save(out / QUEUE)
        return 0

    monkeypatch.setattr(runner, "run", record)
    return specs


def test_hosts_are_set_by_options(asked: list[runner.RunSpec], tmp_path: Path) -> None:
    argv = f"run --scheme weir {OPTIONS} --out {tmp_path}"
    assert cli.main(argv.split()) == 0
    assert cli.main(f"run --scheme weir --no-window-scaling --out {tmp_path}".split()) == 0
    hosts = [spec.host for spec in asked]
    assert hosts == [HostSettings(**ASKED), runner.usual_host(window_scaling=False)]


@pytest.mark.parametrize(
    ("argv", "made"),
    [
        ("", Reads(32, 30)),
        ("--topology parking-lot", Reads(1, 30)),
        ("--topology fat-tree --rounds 3", Reads(14, 3)),
        ("--workload fresh --block 64000 --senders 2", FreshReads(2, 30, 64_000)),
        ("--set rounds=3 block_bytes=5000 --seed 4", Reads(32, 3, 5000, seed=4)),
        ("--workload long-flows --set seconds=2.5", LongFlows(2, 2.5)),
        ("--workload requests --set pattern=jump", Requests(32, pattern="jump")),
    ],
)
def test_a_workload_is_set_by_options(
    argv: str, made: Workload, asked: list[runner.RunSpec], tmp_path: Path
) -> None:
    assert cli.main(["run", "--scheme", "weir", *argv.split(), "--out", str(tmp_path)]) == 0
    (spec,) = asked
    assert spec.workload == made
    assert runner.RunSpec.from_record(json.loads(json.dumps(spec.as_record()))) == spec


def test_a_network_is_set_by_options(asked: list[runner.RunSpec], tmp_path: Path) -> None:
    argv = "run --scheme weir --topology leaf-spine --shape spines=1 hosts=9 --senders 20"
    links = "--rate 12.5 --buffer 32 --delay 0.5 --no-background"
    assert cli.main([*argv.split(), *links.split(), "--out", str(tmp_path)]) == 0
    (spec,) = asked
    config = runner.bed_config(spec)
    assert (config.topology, config.shape, config.senders) == (
        "leaf-spine", {"spines": 1, "hosts": 9}, 20,
    )  # fmt: skip
    assert (config.rate_bps, config.bottleneck_limit_bytes) == (12_500_000, 32 * 1024)
    assert config.queue == {"release": "thread", "delay-us": "500"}
    assert not spec.background


def test_a_run_prints_its_result(
    asked: list[runner.RunSpec], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--scheme", "weir", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for part in (
        "goodput, Mb/s", "53.3", "block time, median, ms", "block time, 99th %, ms",
        "retransmission timeouts", "drops at the bottleneck", "during the workload",
        "valid: all", f"recorded in: {tmp_path}",
    ):  # fmt: skip
        assert part in said
    assert cli.main(["run", "--scheme", "weir", "--json", "--out", str(tmp_path)]) == 0
    flat = json.loads(capsys.readouterr().out)
    assert (flat["valid"], flat["scheme"], flat["workload"]) == (True, "weir", "reads")
    assert (flat["block_time_p50_ms"], flat["block_time_p99_ms"]) == (100, 150)
    assert (flat["timeouts"], flat["cn_events_during_workload"]) == (3, 1)
    assert flat["folder"] == str(tmp_path)
    assert len(asked) == 2


def test_hosts_of_a_benchmark_are_set_by_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(measuring, "run", noting(asked, 0))
    assert cli.main(f"bench incast --group n8 {OPTIONS}".split()) == 0
    ((suite, groups, _out, comparison),) = asked
    assert (suite, groups, comparison.host) == ("incast", ["n8"], ASKED)


def test_the_demo_has_two_sizes_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(demo, "demo", noting(shown, 0))
    assert cli.main(["demo", "--out", str(tmp_path)]) == 0
    ((specs, _out),) = shown
    assert {name: spec.workload.connections for name, spec in specs.items()} == {
        "n32": 32,
        "n120": 120,
    }
    assert [spec.background for spec in specs.values()] == [True, False]


def test_the_page_stays_up_after_the_demo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order: list[str] = []

    def play(*_: Any, **__: Any) -> int:
        order.append("demo")
        return 3

    def serve(argv: list[str], **_: Any) -> int:
        order.append(argv[-1])
        return 130

    monkeypatch.setattr(demo, "demo", play)
    monkeypatch.setattr(sandbox, "run", serve)
    (tmp_path / "index.html").touch()
    monkeypatch.setenv("WEIR_PAGE_PREFIX", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        stay = ["demo", "--out", str(tmp_path), "--stay", "--address", address]
        assert cli.main(stay) == 1
        assert f"cannot serve the dashboard at {address}" in capsys.readouterr().err
        assert order == []
    # What it has found is what it ends with, not that the page was interrupted.
    assert cli.main(stay) == 3
    assert (order[0], json.loads(order[1])["address"]) == ("demo", address)
    assert cli.main(["demo", "--out", str(tmp_path)]) == 3
    assert "make demo STAY=1" in capsys.readouterr().out


def test_an_interrupted_run_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dctcp, "require", lambda: None)
    monkeypatch.setattr(runner, "run", lambda *_: 130)
    assert cli.main(["demo"]) == 130
    assert "nothing is left behind" in capsys.readouterr().err


def test_what_has_not_been_built_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def require() -> None:
        raise dctcp.DctcpError("DCTCP has not been built: run 'tools/prepare bpf'")

    monkeypatch.setattr(dctcp, "require", require)
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.netns
def test_a_switch_that_is_not_there(tmp_path: Path) -> None:
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    argv = ["run", "--scheme", "weir", "--ovs", "/nowhere", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no sbin/ovs-vswitchd under /nowhere: run 'make switch'" in done.stderr
    assert "Traceback" not in done.stderr
