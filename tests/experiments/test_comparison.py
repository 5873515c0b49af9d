"""What a comparison tells of its runs, and what becomes of a run that fails."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from experiments import runner
from experiments.bench import comparison
from experiments.bench.incast import background
from experiments.bench.incast import reads as incast
from experiments.bench.measuring import Comparison
from experiments.bench.sandboxed import Incomplete
from experiments.bench.suites import SUITES
from experiments.measure.record import QUEUE, RECORD, Run
from experiments.measure.trace import parse
from experiments.workloads.reads import Reads
from recorded import MS, START_NS, data, queue, run
from testbed import dctcp

SPEC = runner.RunSpec(scheme="weir", workload=Reads(senders=2, rounds=2))
FAILED = {"name": "processors", "measured": "0", "bound": "10", "holds": False}


def long_flow(rates_mbps: Mapping[int, float], end_ms: int) -> Run:
    """A run whose background flow has these rates from these times on, since the burst began."""
    begin_ms = min(rates_mbps)
    bins = []
    for at_ms in range(begin_ms, end_ms, 50):
        rate = rates_mbps[max(since for since in rates_mbps if since <= at_ms)]
        bins.append(round(rate * 1e6 / 8 * 0.05))
    series = {"start_ns": START_NS + begin_ms * MS, "bin_ns": 50 * MS, "bytes": bins}
    return Run(data(background_bytes=series), parse(""))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces runs; the second of sdtcp's fails, reno's first is not valid when it is done first,
    and no run of bbr's is. Which were done."""
    ran: list[str] = []

    def record(spec: runner.RunSpec, out: Path) -> int:
        void = spec.scheme == "bbr" or (out.name == "reno-1" and out.name not in ran)
        ran.append(out.name)
        if out.name == "sdtcp-2":
            return 1
        out.mkdir(parents=True)
        checks = {"checks": [FAILED]} if void else {}
        (out / RECORD).write_text(json.dumps(data(spec.scheme, **checks)))
        queue().save(out / QUEUE)
        return runner.VOID if checks else 0

    monkeypatch.setattr(runner, "run", record)
    return ran


def test_schemes_take_turns_and_a_run_that_fails_is_missing(tmp_path: Path, ran: list[str]) -> None:
    said: list[str] = []
    runs = comparison.compare(SPEC, ["sdtcp", "reno"], 2, tmp_path, said.append)
    assert ran == ["sdtcp-1", "reno-1", "reno-1", "sdtcp-2", "reno-2"]
    assert {name: len(done) for name, done in runs.items()} == {"sdtcp": 1, "reno": 2}
    assert "SDTCP, run 2 of 2: FAILED" in said
    with pytest.raises(Incomplete, match="sdtcp") as incomplete:
        comparison.require_all({"kept": 1.0}, runs, 2)
    assert incomplete.value.figures == {"kept": 1.0}


@pytest.mark.usefixtures("ran")
def test_a_void_run_is_kept_counted_and_done_again(tmp_path: Path) -> None:
    said: list[str] = []
    runs = comparison.compare(SPEC, ["reno"], 1, tmp_path, said.append)
    assert [run.is_valid for run in runs["reno"]] == [True]
    assert runs.void == {"reno": 1}
    assert not Run.load(tmp_path / "reno-1-void1").is_valid
    assert "not valid: processors: 0; should be: 10" in said


def test_what_is_never_valid_is_given_up(tmp_path: Path, ran: list[str]) -> None:
    runs = comparison.compare(SPEC, ["bbr"], 2, tmp_path, print)
    # Two are done again, of all runs of the same thing.
    assert ran == ["bbr-1", "bbr-1", "bbr-1", "bbr-2"]
    assert (runs["bbr"], runs.void["bbr"]) == ([], 4)
    assert comparison.common(runs["bbr"], runs.void["bbr"]) == {"void_runs": 4}
    with pytest.raises(Incomplete, match="bbr"):
        comparison.require_all({}, runs, 2)


def test_each_repeat_has_another_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def run(spec: runner.RunSpec, _out: Path) -> int:
        assert isinstance(spec.workload, Reads)
        seeds.append(spec.workload.seed)
        return 1

    monkeypatch.setattr(runner, "run", run)
    comparison.compare(SPEC, ["reno", "weir"], 3, tmp_path, print)
    # The same for all schemes in a turn.
    assert seeds == [1, 1, 2, 2, 3, 3]


@pytest.mark.usefixtures("ran")
def test_a_group_keeps_the_figures_of_the_runs_that_were_done(tmp_path: Path) -> None:
    with pytest.raises(Incomplete) as incomplete:
        incast.run(
            lambda _line: None, connections=2, schemes=["sdtcp", "reno"], repeats=2,
            records=str(tmp_path),
        )  # fmt: skip
    assert incomplete.value.what == ["sdtcp"]
    figures = incomplete.value.figures
    assert figures["sdtcp_goodput_mbps_n2"] == pytest.approx(53.3, abs=0.1)
    assert figures["reno_timeouts_n2"] == 3
    assert (figures["sdtcp_void_runs_n2"], figures["reno_void_runs_n2"]) == (0, 1)
    assert "weir_vs_reno_n2" not in figures


def test_an_interrupt_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runner, "run", lambda *_: 130)
    with pytest.raises(SystemExit) as ended:
        comparison.compare(SPEC, ["reno"], 1, tmp_path, print)
    assert ended.value.code == 130


@pytest.mark.usefixtures("ran")
def test_a_scheme_that_the_kernel_lacks_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require() -> None:
        raise dctcp.KernelLacksError("this kernel has no BTF")

    monkeypatch.setattr(dctcp, "require", require)
    said: list[str] = []
    runs = comparison.compare(SPEC, ["dctcp", "reno"], 1, tmp_path, said.append)
    assert list(runs) == ["reno"]
    assert said[0] == "going on without DCTCP: this kernel has no BTF"


def test_goodput_is_the_median_and_timeouts_the_most() -> None:
    slow = data()
    slow["operations"][-1]["end_ns"] += 100 * MS
    slow["tcp"] = {"h1": {"TcpExt.TCPTimeouts": 40}}
    figures = comparison.common([run(), Run(slow, queue()), run()])
    assert figures["goodput_mbps"] == pytest.approx(53.3, abs=0.1)
    assert figures["worst_goodput_mbps"] == pytest.approx(40)
    assert (figures["timeouts"], figures["drops"], figures["void_runs"]) == (40, 1, 0)


def test_ratios_are_of_what_was_measured() -> None:
    figures = {"weir_goodput_mbps_n1": 90.0, "reno_goodput_mbps_n1": 45.0}
    found = comparison.ratios(figures, "weir", ["reno", "dctcp"], "goodput_mbps", "_n1")
    assert found == {"weir_vs_reno_n1": 2}


@pytest.mark.parametrize(
    ("connections", "hosts", "each"), [(1, 1, 1), (32, 32, 1), (40, 40, 1), (120, 40, 3)]
)
def test_connections_are_spread_over_hosts(connections: int, hosts: int, each: int) -> None:
    spec = incast.incast(connections, 15)
    assert (spec.senders, spec.connections_per_sender) == (hosts, each)


def test_connections_that_cannot_be_spread() -> None:
    with pytest.raises(ValueError, match="53 connections cannot be spread evenly over 40 hosts"):
        incast.incast(53, 15)


def test_the_flow_alone_is_measured_once_it_has_settled() -> None:
    flow = long_flow({-4000: 20, -2000: 94, 0: 10}, end_ms=1300)
    assert background.alone_mbps(flow) == pytest.approx(94, rel=1e-3)


def test_recovery_is_the_end_of_the_first_window_with_its_former_rate() -> None:
    # The burst ends at 300 ms; from 600 ms on the flow has the link again, which a window of
    # 250 ms that begins there shows first.
    late = long_flow({-4000: 90, 0: 10, 600: 90}, end_ms=3000)
    assert background.recovery_s(late) == pytest.approx(0.55, abs=0.051)
    at_once = long_flow({-4000: 90, 0: 10, 300: 90}, end_ms=3000)
    assert background.recovery_s(at_once) == pytest.approx(0.25)


def test_without_recovery_it_is_all_the_time_that_was_watched() -> None:
    never = long_flow({-4000: 90, 0: 10}, end_ms=3000)
    assert background.recovery_s(never) == pytest.approx(2.7)


def test_wrong_comparisons() -> None:
    with pytest.raises(ValueError, match="repeats must be at least 1"):
        Comparison(repeats=0)
    paper = ["paper"]
    with pytest.raises(ValueError, match="bench incast cannot compare 'wier'; it can compare"):
        Comparison(["weir", "wier"]).require_known(SUITES["incast"], paper)


def test_a_group_compares_what_it_can_of_what_is_asked_for() -> None:
    groups = SUITES["incast"].groups
    asked = Comparison(["sdtcp_letter", "reno"])
    asked.require_known(SUITES["incast"], list(groups))
    assert asked.within(groups["n8"]) == ["sdtcp_letter", "reno"]
    assert asked.within(groups["fresh"]) == ["reno"]
    assert asked.within(groups["idle"]) == []
    assert Comparison().within(groups["fresh"]) == ["weir", "reno"]
