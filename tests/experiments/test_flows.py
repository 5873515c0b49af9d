"""The generator does what its plan says, over real sockets too, and its figures are right."""

import io
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.measure import validity
from experiments.report import figure, summary, table
from experiments.report import flows as report
from experiments.statistics import jain, percentile
from experiments.traffic.flows import Generator, Host
from experiments.traffic.keeping import Keeping
from experiments.traffic.plan import Flow, Plan
from experiments.traffic.wire import Wire
from recorded import MS, START_NS, data, run

HOSTS = {name: f"127.0.0.{number}" for number, name in enumerate(("h1", "h2", "r1"), 1)}
GENERATOR = {
    "planned": 3, "unfinished": 0, "opened": 0, "moments": 3, "late_moments": 0,
    "late_p50_ms": 0.1, "late_p99_ms": 0.2, "late_max_ms": 0.2, "turn_p99_ms": 0.1,
    "turn_max_ms": 0.2, "ran_share": 0.1, "waited_share": 0.0, "round_trips": 1.0,
}  # fmt: skip


def generated(plan: Plan) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run the generator's process: this namespace stands for all hosts, which have addresses of
    their own."""
    hosts = [f"--host={name},{os.getpid()},{address}" for name, address in HOSTS.items()]
    ran = subprocess.run(
        [sys.executable, "-m", "experiments.traffic.flows", *hosts],
        input=json.dumps(asdict(plan)) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said = [json.loads(line) for line in ran.stdout.splitlines()]
    assert said[0]["event"] == "connected"
    assert said[-1]["event"] == "done"
    return said[-1]["flows"], said[-1]


@pytest.mark.netns
@pytest.mark.parametrize(("asked", "fresh"), list(itertools.product((True, False), repeat=2)))
def test_flows_over_real_sockets(asked: bool, fresh: bool) -> None:
    """Sizes from a byte to more than a socket's buffer; six at once, so that connections are too
    few; and a group that follows another."""
    sizes = (1, 1448, 300_001, 5_000_000)
    planned = [
        Flow(n * 20 * MS, src, "r1", size, group=n)
        for n, size in enumerate(sizes)
        for src in ("h1", "h2")
    ]
    planned += [Flow(150 * MS, "h1", "h2", 70_000, "rpc", group=9) for _ in range(6)]
    planned += [Flow(30 * MS, "r1", "h1", 10, group=10, after=9)]
    ended, done = generated(Plan(planned, asked, fresh, connections=2))
    assert len(ended) == len(planned)
    assert sorted((f["src"], f["dst"], f["bytes"], f["kind"], f["group"]) for f in ended) == sorted(
        (f.src, f.dst, f.size_bytes, f.kind, f.group) for f in planned
    )
    assert sum(done["bytes"]["bytes"]) == sum(flow.size_bytes for flow in planned)
    first_ns = min(flow["start_ns"] for flow in ended)
    for flow in ended:
        assert flow["begun_ns"] < flow["end_ns"]
        assert flow["timeouts"] == 0
        # A busy machine has segments probed for again, and the loopback device drops what finds the
        # receiver's buffer full: what is counted is compared with the hosts' counters in test_run.
        assert flow["retransmitted"] >= 0
        # How late it may be is for the generator's own check to say.
        assert flow["begun_ns"] >= flow["start_ns"]
        if flow["group"] <= 9:
            at_ns = next(f.at_ns for f in planned if f.group == flow["group"])
            assert flow["start_ns"] - first_ns == at_ns
    started = sorted(ended, key=lambda flow: flow["begun_ns"])
    assert [flow["group"] for flow in started] == sorted(flow.group for flow in planned)
    before_ns = max(flow["end_ns"] for flow in ended if flow["group"] == 9)
    (following,) = (flow for flow in ended if flow["group"] == 10)
    assert following["start_ns"] == before_ns + 30 * MS
    generator = done["generator"]
    assert generator["unfinished"] == 0
    assert generator["planned"] == len(planned)
    assert generator["moments"] == 6
    # Two connections are there for six at once.
    assert generator["opened"] == (len(planned) if fresh else 4)


@pytest.mark.netns
def test_flows_that_last_for_a_time() -> None:
    planned = [
        Flow(n * 200 * MS, f"h{n + 1}", "r1", 0, "long", n, lasts_ns=600 * MS) for n in (0, 1)
    ]
    ended, done = generated(Plan(planned, connections=1))
    for flow in ended:
        assert flow["end_ns"] - flow["begun_ns"] >= 600 * MS
        assert flow["bytes"] == sum(flow["received"]["bytes"]) > 1_000_000
    assert ended[1]["start_ns"] - ended[0]["start_ns"] == 200 * MS
    assert sum(done["bytes"]["bytes"]) == sum(flow["bytes"] for flow in ended)


@pytest.mark.netns
def test_what_does_not_end_is_given_up() -> None:
    """A flow after one that never ends is never begun; both are counted."""
    hosts = {name: Host(os.getpid(), address) for name, address in HOSTS.items()}
    endless = Flow(0, "h1", "r1", 1 << 50)
    plan = Plan([endless, Flow(0, "h1", "r1", 1, group=1, after=0)], drain_s=0.2)
    generator = Generator(hosts, plan)
    generator.connect()
    done = generator.run()
    generator.close()
    assert done["flows"] == []
    assert done["generator"]["unfinished"] == 2
    assert not validity.all_ended(done["generator"]).holds


def test_what_is_late_is_counted() -> None:
    keeping = Keeping()
    keeping.late_ns.extend([*range(0, 98 * 10_000, 10_000), 5 * MS, 5 * MS + 1])
    keeping.turn_ns.extend([MS] * 99 + [7 * MS])
    found = keeping.as_record()
    assert (found["moments"], found["late_moments"]) == (100, 1)
    assert (found["late_p50_ms"], found["late_p99_ms"]) == (0.49, 5)
    assert (found["turn_p99_ms"], found["turn_max_ms"]) == (1, 7)
    assert min(found["ran_share"], found["waited_share"]) >= 0


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({}, []),
        ({"late_moments": 1}, []),
        ({"late_moments": 2}, ["generator kept up"]),
        ({"moments": 300, "late_moments": 3}, []),
        ({"moments": 300, "late_moments": 4}, ["generator kept up"]),
        ({"turn_p99_ms": 2.1}, ["generator kept up"]),
        ({"unfinished": 1}, ["all flows ended"]),
    ],
)
def test_a_generator_that_could_not_keep_up(changes: dict[str, float], fails: list[str]) -> None:
    checks = validity.generator_checks(GENERATOR | changes)
    assert [check.name for check in checks if not check.holds] == fails


def test_a_run_is_void_where_the_generator_could_not_keep_up() -> None:
    names = [check.name for check in validity.checks(data(generator=GENERATOR))]
    assert names[-2:] == ["generator kept up", "all flows ended"]
    assert "generator kept up" not in [check.name for check in validity.checks(data())]


def flow(start_ms: float, end_ms: float, size: int, **more: Any) -> dict[str, Any]:
    times = {"start_ns": START_NS + int(start_ms * MS), "end_ns": START_NS + int(end_ms * MS)}
    usual = {
        "src": "h1",
        "dst": "r1",
        "kind": "flow",
        "group": 0,
        "retransmitted": 0,
        "timeouts": 0,
    }
    return times | {"bytes": size} | usual | more


def of(operations: Sequence[dict[str, Any]], **changes: Any) -> Any:
    workload = {"name": "web-search", "senders": 2, "load": 0.5, "seconds": 10}
    record = data(
        operations=operations, generator=GENERATOR, flows=[],
        idle_rtt_ms=data()["idle_rtt_ms"] | {"delay": 0.4},
        spec=data()["spec"] | {"workload": workload},
    )  # fmt: skip
    return run(**(record | changes))


def test_figures_by_size() -> None:
    """A hundred short flows of 1 to 100 ms, a medium one at the edge, a long one, an RPC."""
    short = [flow(0, ms, 99_999, timeouts=ms == 100) for ms in range(1, 101)]
    others = [flow(0, 200, 1_000_000), flow(0, 400, 5_000_000), flow(0, 1, 64, kind="rpc")]
    found = {one.name: one.value for one in report.figures(of([*short, *others]))}
    assert found["flows"] == 103
    frames = 100 * Wire().frames_bytes(99_999) + sum(map(Wire().frames_bytes, (1e6, 5e6)))
    assert found["offered_load"] == pytest.approx(frames * 8 / 1e8 / 10)
    assert found["short_flows"] == 100
    assert found["short_fct_mean_ms"] == pytest.approx(50.5)
    assert (found["short_fct_p95_ms"], found["short_fct_p99_ms"]) == (95, 99)
    ideal_ms = Wire().ideal_ns(99_999, 100_000_000, 400_000, 1) / 1e6
    assert found["short_slowdown_mean"] == pytest.approx(50.5 / ideal_ms)
    assert found["short_slowdown_p99"] == pytest.approx(99 / ideal_ms)
    assert (found["short_timeouts"], found["flows_with_timeout"]) == (1, 1)
    assert (found["medium_flows"], found["medium_fct_mean_ms"]) == (1, 200)
    assert (found["long_flows"], found["long_throughput_mbps"]) == (1, 100)
    assert (found["rpc_flows"], found["rpc_fct_mean_ms"]) == (1, 1)


def test_percentiles_against_brute_force() -> None:
    """The least time that so many flows do not exceed, by counting."""
    times = [float(k * k % 137) for k in range(1, 200)]
    for percent in (50, 95, 99):
        found = percentile(times, percent)
        enough = [t for t in times if sum(one <= t for one in times) * 100 >= percent * len(times)]
        assert found == min(enough)


def test_the_ideal_time_is_that_of_the_hosts_as_read_back() -> None:
    """Without timestamps a segment carries 12 bytes more, and 1,460 bytes are one frame."""
    some = [flow(0, 10, 1460)]
    host = data()["hosts"]["r1"]
    bare = of(some, hosts={"r1": host | {"tcp_timestamps": "0", "mtu": "1500"}})
    assert report.slowdowns(bare) == [pytest.approx(10e6 / (400_000 + 1514 * 80))]
    assert report.slowdowns(of(some)) == [pytest.approx(10e6 / (400_000 + (1460 + 132) * 80))]


def test_figures_are_in_summary_and_table() -> None:
    one = of([flow(0, 10, 1000), flow(0, 20, 2_000_000)])
    flat = summary.of_run(one)
    assert flat["short_fct_mean_ms"] == 10
    assert flat["long_throughput_mbps"] == 800
    assert flat["generator.late_p99_ms"] == 0.2
    out = io.StringIO()
    Console(file=out, width=200).print(table.comparison([one, run()]))
    text = out.getvalue()
    assert "short: flows" in text
    assert "long flows, mean, Mb/s" in text
    # A run whose flows are not recorded has none of these.
    (line,) = (line for line in text.splitlines() if "long flows" in line)
    assert line.split("│")[-2].strip() == "-"
    assert report.figures(run()) == []


def test_deadlines() -> None:
    done = [
        {"start_ns": START_NS, "end_ns": START_NS + MS, "bytes": 2, "answers": 4, "in_time": n,
         "met": n == 4}
        for n in (4, 4, 4, 1)
    ]  # fmt: skip
    found = {one.name: one.value for one in report.figures(of(done, flows=[flow(0, 1, 1)] * 16))}
    assert (found["queries"], found["deadlines_missed"]) == (4, 1)
    assert found["deadlines_met_pct"] == 75
    assert found["answers_in_time_pct"] == pytest.approx(100 * 13 / 16)


def lasting(start_s: float, end_s: float, rates_mbps: Sequence[float]) -> dict[str, Any]:
    """A flow with a rate for each second from its start on."""
    per_bin = [int(rate * 125_000 / 20) for rate in rates_mbps for _ in range(20)]
    series = {"start_ns": START_NS + int(start_s * 1e9), "bin_ns": 50 * MS, "bytes": per_bin}
    return flow(start_s * 1e3, end_s * 1e3, sum(per_bin), received=series, kind="long")


def test_fairness_over_time(tmp_path: Path) -> None:
    """Alone with 100, then 75 and 25 Mb/s together, then the other one alone."""
    flows = [lasting(0, 4, [100, 100, 75, 75]), lasting(2, 6, [25, 25, 100, 100])]
    found = report.phases(flows)
    assert [(begin - START_NS, end - START_NS) for begin, end, _ in found] == [
        (1_000_000_000, 2_000_000_000),
        (3_000_000_000, 4_000_000_000),
        (5_000_000_000, 6_000_000_000),
    ]
    assert [[round(rate) for rate in rates] for _, _, rates in found] == [[100], [75, 25], [100]]
    figures = {one.name: one.value for one in report.figures(of(flows))}
    assert figures["jain_min"] == figures["jain_mean"] == pytest.approx(jain([75, 25]), abs=1e-3)
    assert figures["share_min_mbps"] == pytest.approx(25)
    figure.draw([[of(flows)]], tmp_path / "staggered.png")
    assert (tmp_path / "staggered.png").stat().st_size > 0
    assert "long_flows" not in figures, "a flow that ends by the clock has no time of its own"
