"""What programs say is read rightly, failures are never figures, and ratios are what they say.

``apps/`` has what the programs of Debian 12 printed, their lists of requests shortened.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.bench.apps import conclusion, figures, report
from experiments.bench.apps import turn as turns
from experiments.bench.apps.matrix import BASELINE, KEY, SETTINGS, Setting, Workload, scheme_of
from experiments.bench.apps.play import Stage
from experiments.bench.suites import SUITES
from experiments.traffic.programs import app as apps
from experiments.traffic.programs.app import App, AppError, Result
from experiments.traffic.programs.dns import Dns
from experiments.traffic.programs.http import ConnectionEach, Http2, KeepAlive, Shuffle
from experiments.traffic.programs.iperf import Iperf
from experiments.traffic.programs.memcached import Memcached
from experiments.traffic.programs.postgres import Pgbench
from experiments.traffic.programs.redis import Redis
from experiments.traffic.programs.rsync import Rsync

RECORDED = Path(__file__).parent / "apps"
EVERY_PROGRAM = ("redis", "memcached", "http", "pgbench", "iperf3", "rsync", "dns", "shuffle")


def said(name: str) -> str:
    return (RECORDED / name).read_text()


@pytest.mark.parametrize(
    ("app", "file", "result"),
    [
        (Redis("get", 50, 3, 20_000), "redis-benchmark.txt", Result(66225.17, 0.487, 0.943, 3.463)),
        (Memcached(8, 1000), "memcaslap.txt", Result(79936)),
        (KeepAlive(16, 64), "wrk.txt", Result(95469 / 2.003595, 0.261, 5.058, 7.999)),
        (ConnectionEach(16, 64), "ab.txt", Result(12890.65, 1.135, 3.872, 1.0)),
        (Http2(8, 16, 64), "h2load.txt", Result(43251.5, 2.522, 3.569, 3.58)),
        (Pgbench(8), "pgbench.txt", Result(35275.164726, 0.201, 5.862, 10.629)),
        (Dns(8, 64), "dnsperf.txt", Result(63376.545981, 0.745, 4.223, 4.401)),
        (Shuffle(1_000_000), "curl.txt", Result(24 / 0.001325, 1.301, 1.325, 1.325)),
        (Iperf("down", 8), "iperf3-down.json", Result(21222.99588)),
    ],
    ids=lambda value: value.name if isinstance(value, App) else "",
)
def test_what_programs_say(app: App, file: str, result: Result, tmp_path: Path) -> None:
    for name in ("percentiles.csv", "requests.tsv", "requests", "transactions.1"):
        shutil.copy(RECORDED / name, tmp_path)
    found = app.parse(said(file), tmp_path, 1.0)
    for value in ("throughput", "p50_ms", "p99_ms", "p999_ms"):
        assert getattr(found, value) == pytest.approx(getattr(result, value)), value


def test_both_ways_are_told_apart() -> None:
    end = json.loads(said("iperf3-both.json"))["end"]
    result = Iperf("both").parse(said("iperf3-both.json"), Path(), 2.0)
    down = end["sum_received_bidir_reverse"]["bits_per_second"] / 1e6
    assert result.parts["down"] == pytest.approx(down)
    assert result.throughput == pytest.approx(sum(result.parts.values()))
    one_way = Iperf("down", 8).parse(said("iperf3-down.json"), Path(), 1.0)
    assert one_way.throughput == one_way.parts["down"] > 0


def test_rsync_has_fetched_all() -> None:
    text = said("rsync.txt").replace("5,000,000", "10,000,000")
    assert Rsync("large").parse(text, Path(), 1.0).throughput == pytest.approx(80)
    with pytest.raises(AppError, match="has fetched 1 files"):
        Rsync("small").parse(text, Path(), 1.0)


@pytest.mark.parametrize(
    ("app", "text", "complaint"),
    [
        (KeepAlive(16, 64), said("wrk-404.txt"), "101746 of 101746 requests failed"),
        (Http2(8, 16, 64), said("h2load-refused.txt"), "0 requests succeeded"),
        (Dns(8, 64), said("dnsperf-lost.txt"), "0 queries were answered, 1 were lost"),
        (Iperf("up"), said("iperf3-refused.json"), "Connection refused"),
        (Iperf("up"), "no such option", "reports no JSON: no such option"),
        (Shuffle(1_000_000), "200 999999 0.1\n", "got 999999 bytes"),
        (ConnectionEach(16, 64), said("ab.txt").replace("requests:        0", "requests:        3"),
         "3 of 25784 requests failed"),
        (ConnectionEach(16, 64), "", "no complete request"),
        (Redis("get", 1, 3, 1), "Could not connect", "reports no summary: Could not connect"),
        (Memcached(1, 64), said("memcaslap.txt").replace("misses: 0", "misses: 7"), "missed 7"),
        (Pgbench(8), said("pgbench.txt").replace("transactions: 0 ", "transactions: 2 "),
         "2 transactions failed"),
    ],
)  # fmt: skip
def test_what_is_not_done_is_no_figure(app: App, text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AppError, match=complaint):
        app.parse(text, tmp_path, 1.0)


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "_SEARCHED", ("/nowhere",))
    with pytest.raises(AppError, match=r"no wrk here: run 'tools/prepare apps'.*package wrk"):
        apps.program("wrk", "wrk")


def test_clients_together() -> None:
    result = [Result(10, 1, 5, 9), Result(20, 3, 4, 8), Result(30, 2, 6, 7)]
    assert KeepAlive(1, 64).together(result) == Result(60, 2, 6, 9)
    assert Redis("get", 1, 3, 1).together(result) == Result(30, 2, 6, 9), "as slow as the slowest"
    assert Shuffle(1).together(result).throughput == 30
    assert Memcached(1, 1).together([Result(1), Result(2)]) == Result(3)


def test_the_matrix_has_every_value_with_the_key_programs() -> None:
    compared = [s for s in SETTINGS.values() if not s.ratios_only]
    assert {s.topology for s in compared} == {"star", "leaf-spine", "fat-tree"}
    assert {s.congestion_control for s in compared} == {"cubic", "bbr", "weir-dctcp"}
    assert {s.rate_mbps for s in compared} == {100, 500}
    assert {s.ipv6 for s in compared} == {False, True}
    key = {workload.name for workload in KEY}
    for name, setting in SETTINGS.items():
        names = [workload.name for workload in setting.workloads]
        assert len(names) == len(set(names)), name
        assert key <= set(names), name
        assert set(setting.quick) <= set(names), name
        assert not any("." in workload for workload in names)
    every = SETTINGS["star"].workloads
    assert {w.clients for w in every} == {1, 16, 40}
    assert {w.beside for w in every} == {None, "incast", "elephants"}
    assert all(any(w.name.startswith(p) for w in every) for p in EVERY_PROGRAM)
    assert list(SUITES["apps"].groups) == list(SETTINGS)


def test_turns_rotate() -> None:
    assert [figures.order("abc", turn) for turn in range(4)] == [
        ["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"],
    ]  # fmt: skip


def played(throughput: float, p99_ms: float | None = None, timeouts: int = 0) -> dict[str, Any]:
    result = {"throughput": throughput, "p50_ms": p99_ms, "p99_ms": p99_ms, "p999_ms": None}
    return {
        "unit": "requests_per_s", "result": result | {"parts": {}}, "timeouts": timeouts,
        "drops": {"s1-eth1": 2, "s1-eth2": 1}, "idle_share": 0.5,
    }  # fmt: skip


def turn(**workloads: Mapping[str, Any]) -> dict[str, Any]:
    return {"played": workloads, "checks": []}


def star(turns: Mapping[str, Sequence[Any]]) -> figures.Figures:
    return figures.of_setting("star", turns)


def test_ratios_are_of_medians_and_their_range_is_of_turns() -> None:
    found = star({
        BASELINE: [turn(a=played(100, 1.0)), turn(a=played(200, 2.0)), turn(a=played(300, 4.0))],
        "weir": [turn(a=played(50, 2.0)), turn(a=played(100, 2.0)), turn(a=played(450, 2.0))],
    })  # fmt: skip
    assert found["star.a.none.requests_per_s"] == 200
    assert (found["star.a.weir.requests_per_s_least"], found["star.a.none.p99_ms_most"]) == (50, 4)
    assert found["star.a.weir.throughput_ratio"] == 0.5
    assert found["star.a.weir.throughput_ratio_least"] == 0.5
    assert found["star.a.weir.throughput_ratio_most"] == 1.5
    assert found["star.a.weir.p99_ratio"] == 1
    assert found["star.a.weir.drops"] == 3
    assert "star.a.none.throughput_ratio" not in found


def test_a_failed_program_is_missing_and_named() -> None:
    turns = {
        BASELINE: [turn(a=played(100)), turn(a={"error": "ab: refused"})],
        "weir": [turn(a=played(80)), turn(a=played(10))],
    }
    found = star(turns)
    assert found["star.a.none.turns"] == 1
    assert found["star.a.weir.throughput_ratio"] == 0.8, "of the turn that both have done"
    assert figures.failures(turns) == ["a/none x1"]


def test_where_the_baseline_suffers_is_no_harm_but_told() -> None:
    found = star({
        BASELINE: [turn(fine=played(100, 1.0), slow=played(10, 1.0), bad=played(10, 9.0, 3))],
        "weir": [turn(fine=played(90, 1.1), slow=played(9.5, 2.0), bad=played(20, 1.0))],
        "sdtcp": [turn(fine=played(50, 1.0), slow=played(10, 1.0), bad=played(5, 1.0))],
    })  # fmt: skip
    overall = conclusion.conclude(found)
    assert overall["min_throughput_ratio"] == pytest.approx(0.9)
    assert overall["min_throughput_ratio_of"] == "star.fine"
    assert (overall["max_p99_ratio"], overall["max_p99_ratio_of"]) == (2.0, "star.slow")
    assert overall["sdtcp.min_throughput_ratio"] == 0.5
    (suffering,) = overall["with_timeouts"]
    assert suffering["workload"] == "star.bad"
    assert (suffering["none_timeouts"], suffering["weir_timeouts"]) == (3, 0)
    assert suffering["weir_ahead"]


def test_queues_are_judged_by_throughput_alone() -> None:
    found = figures.of_setting(
        "queue", {BASELINE: [turn(a=played(100, 1.0))], "drr": [turn(a=played(50, 9.0))]}
    )
    assert found["queue.a.drr.throughput_ratio"] == 0.5
    assert "queue.a.drr.p99_ratio" not in found
    assert "min_throughput_ratio" not in conclusion.conclude(found)


def test_tables_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = dict(star({
        BASELINE: [turn(a=played(100, 1.0), b=played(5), c=played(1, 1.0, 4))],
        "weir": [turn(a=played(90, 1.1), b={"error": "it"}, c=played(2, 0.5))],
    }))  # fmt: skip
    found |= conclusion.conclude(found)
    conclusion.show(found, tmp_path / "apps.json", Console(width=160))
    result = capsys.readouterr().out
    assert "0.90 (0.90-0.90)" in result
    assert "min_throughput_ratio" in result
    (picture,) = conclusion.draw(found, tmp_path / "apps.json")
    assert picture.stat().st_size > 10_000


def test_too_few_hosts_are_told() -> None:
    class Roles:
        receiver = "r1"
        senders = ("h1",)

    class FakeBed:
        roles = Roles()
        run_dir = Path("/nowhere")

        def host(self, name: str) -> str:
            return name

    stage = Stage(FakeBed(), ipv6=False)  # type: ignore[arg-type]
    with pytest.raises(AppError, match="needs more hosts than there are: 1"):
        stage.play(Workload(KEY[0].app, clients=40))


def test_settings_mark_where_hosts_want_marks() -> None:
    marking = SETTINGS["dctcp"]
    assert "ecn-threshold" in marking.queue(scheme_of("none"))
    assert "ecn-threshold" not in Setting(()).queue(scheme_of("weir"))


def test_every_contender_has_its_own_form() -> None:
    contenders = {name for setting in SETTINGS.values() for name in setting.contenders}
    assert contenders - {BASELINE} == set(report._FORMS)


def test_ports_may_drop_and_nothing_else() -> None:
    in_place = {
        "other egress queues": {"s1-eth3": 4}, "kernel qdiscs": {"h1/h1-eth0": 9}, "devices": {},
    }  # fmt: skip
    assert turns._nothing_lost(in_place).holds
    for kind, place in (("kernel qdiscs", "switches/s1-eth1"), ("hosts", "h1 Ip.InDiscards")):
        check = turns._nothing_lost(in_place | {kind: {place: 1}})
        assert not check.holds
        assert place in check.measured
