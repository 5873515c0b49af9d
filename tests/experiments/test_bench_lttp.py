"""The benchmarks of LTTP: what figures are called and made of, and which runs count."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments.bench import measuring, sandboxed
from experiments.bench.sandboxed import Incomplete
from experiments.bench.transport import fairness, fetches, lttp
from experiments.measure import received
from experiments.measure.validity import all_carried
from experiments.report.goodputs import goodputs
from experiments.statistics import jain
from experiments.traffic.reader import IncastSpec

ARGUMENTS: dict[str, Any] = {
    "servers": 6,
    "schemes": ["lttp", "lttp_mtu", "reno", "dctcp"],
    "repeats": 2,
    "records": "/nowhere",
    "sizes_kb": [64],
}


def recorded(contender: str, mbps: float, size_kb: int = 64, **changes: Any) -> dict[str, Any]:
    """A run of two rounds, the second twice as fast."""
    size = 6 * size_kb * 1024
    second_s = size * 8e-6 / mbps * 2 / 3
    record = {
        "contender": contender, "size": size_kb * 1024, "round_bytes": [size, size],
        "round_s": [2 * second_s, second_s], "dropped": 3, "timeouts": 0, "void": [],
    }  # fmt: skip
    if contender in lttp.over_lttp():
        record |= {"overhead": 0.02, "symbols_lost": 5}
    return record | changes


@pytest.fixture
def sandboxes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each sandbox finds, by TCP; which were asked for is added as ``asked``."""
    found: dict[str, Any] = {"asked": []}

    def result(module: str, spec: str) -> Any:
        assert module == fetches.__name__
        asked = fetches.RunsSpec(**json.loads(spec))
        found["asked"].append((asked.tcp, list(asked.contenders)))
        found["seed"] = asked.seed
        answer = found[asked.tcp]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(sandboxed, "result", result)
    monkeypatch.setattr(lttp, "available", lambda *_, **__: True)
    return found


def test_the_figures_and_their_names(sandboxes: dict[str, Any]) -> None:
    sandboxes["reno"] = [
        recorded(name, mbps)
        for name, mbps in (("lttp", 88), ("lttp", 90), ("lttp_mtu", 93), ("lttp_mtu", 94))
    ]
    sandboxes["reno"] += [recorded("reno", 80, timeouts=n) for n in (1, 4)]
    sandboxes["dctcp"] = [recorded("dctcp", 94)] * 2
    figures = lttp.run(lambda _: None, **ARGUMENTS)
    assert sandboxes["asked"] == [("reno", ["lttp", "lttp_mtu", "reno"]), ("dctcp", ["dctcp"])]
    expected = {
        "lttp_goodput_mbps_n6_64k": 89,
        "lttp_worst_goodput_mbps_n6_64k": 88,
        "lttp_first_round_mbps_n6_64k": 89 * 3 / 4,
        "lttp_overhead_pct_n6_64k": 2,
        "lttp_void_runs_n6_64k": 0,
        "lttp_mtu_goodput_mbps_n6_64k": 93.5,
        "reno_goodput_mbps_n6_64k": 80,
        "reno_timeouts_n6_64k": 4,
        "reno_drops_n6_64k": 3,
        "dctcp_goodput_mbps_n6_64k": 94,
    }
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    assert "reno_overhead_pct_n6_64k" not in figures


def test_each_run_has_a_seed_of_its_own(
    sandboxes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sandboxes["reno"] = [recorded("reno", 80)] * 2
    lttp.run(lambda _: None, **ARGUMENTS | {"schemes": ["reno"], "seed": 5})
    assert sandboxes["seed"] == 5
    asked: list[IncastSpec] = []
    done = {"rounds": [{"start_ns": 0, "end_ns": 5}, {"start_ns": 6, "end_ns": 9}]}

    def reader(_bed: Any, spec: IncastSpec, _log: Any) -> Any:
        asked.append(spec)
        return nullcontext(SimpleNamespace(messages=lambda: [done]))

    monkeypatch.setattr(fetches.reads, "responders", lambda *_: nullcontext())
    monkeypatch.setattr(fetches.reads, "reader", reader)
    network = object.__new__(fetches.Network)
    network.bed = SimpleNamespace(roles=SimpleNamespace(senders=["h1"]))  # type: ignore[assignment]
    network.spec = fetches.RunsSpec(6, [1000], ["reno"], "reno", 2, "/nowhere", seed=5)
    network.log = Path("/nowhere")
    assert network._read(1000, 2, 6)["seed"] == 6
    assert asked[0].seed == 6


def test_figures_of_another_rate_say_so(sandboxes: dict[str, Any]) -> None:
    sandboxes["reno"] = [recorded("lttp", 900)] * 2
    figures = lttp.run(lambda _: None, **ARGUMENTS | {"schemes": ["lttp"], "rate_mbps": 1000})
    assert figures["lttp_goodput_mbps_n6_64k_1000mbps"] == pytest.approx(900)
    assert all(name.endswith("_n6_64k_1000mbps") for name in figures)


def test_a_void_run_is_counted_and_never_used(sandboxes: dict[str, Any]) -> None:
    sandboxes["reno"] = [
        recorded("lttp", 10, void=["processors: 0 % idle"]), recorded("lttp", 88),
        recorded("lttp", 90),
    ]  # fmt: skip
    figures = lttp.run(lambda _: None, **ARGUMENTS | {"schemes": ["lttp"]})
    assert figures["lttp_worst_goodput_mbps_n6_64k"] == pytest.approx(88)
    assert figures["lttp_void_runs_n6_64k"] == 1


def test_too_few_valid_runs_are_told(sandboxes: dict[str, Any]) -> None:
    failed = {
        "contender": "lttp",
        "size": 65536,
        "void": ["fountain fetch failed: it said nothing"],
    }
    sandboxes["reno"] = [recorded("lttp", 88), failed, failed, failed, *[recorded("reno", 80)] * 2]
    with pytest.raises(Incomplete) as incomplete:
        lttp.run(lambda _: None, **ARGUMENTS | {"schemes": ["lttp", "reno"]})
    assert incomplete.value.what == ["lttp_64k"]
    assert incomplete.value.figures["lttp_goodput_mbps_n6_64k"] == pytest.approx(88)
    assert incomplete.value.figures["lttp_void_runs_n6_64k"] == 3


def test_a_sandbox_that_fails_costs_its_own_figures_only(sandboxes: dict[str, Any]) -> None:
    sandboxes["reno"] = sandboxed.EndedError("fetches", 1)
    sandboxes["dctcp"] = [recorded("dctcp", 94)] * 2
    with pytest.raises(Incomplete) as incomplete:
        lttp.run(lambda _: None, **ARGUMENTS)
    assert incomplete.value.what == ["lttp", "lttp_mtu", "reno"]
    assert "dctcp_goodput_mbps_n6_64k" in incomplete.value.figures


def test_a_scheme_that_it_does_not_compare_is_refused() -> None:
    with pytest.raises(ValueError, match="not weir"):
        lttp.run(lambda _: None, **ARGUMENTS | {"schemes": ["weir"]})


@pytest.mark.parametrize(("servers", "size_kb"), [(1, 64), (6, 64), (40, 256), (120, 256)])
def test_a_run_is_neither_short_nor_endless(servers: int, size_kb: int) -> None:
    count = fetches.rounds(servers, size_kb * 1024)
    assert 3 <= count <= 100
    assert count in (3, 100) or 25e6 <= count * servers * size_kb * 1024 < 32e6


def test_a_run_lasts_as_long_over_faster_links() -> None:
    assert fetches.rounds(6, 1024 * 1024) == 4
    assert fetches.rounds(6, 1024 * 1024, rate_mbps=500) == 20
    assert fetches.bed_config("reno", 6, rate_mbps=500).rate_bps == 500_000_000


@pytest.mark.parametrize(("servers", "hosts"), [(1, 1), (6, 6), (40, 40), (120, 40)])
def test_hosts_are_forty_at_most(servers: int, hosts: int) -> None:
    config = fetches.bed_config("reno", servers)
    assert config.senders == hosts
    assert (config.scheme, config.bottleneck_limit_bytes) == (None, 65536)


def test_queues_mark_for_dctcp_alone() -> None:
    plain, marking = (fetches.bed_config(tcp, 6) for tcp in ("reno", "dctcp"))
    assert "ecn-threshold" not in plain.queue
    assert "ecn-threshold" in marking.queue
    assert {k: v for k, v in marking.queue.items() if k != "ecn-threshold"} == plain.queue


@pytest.mark.parametrize(
    ("came", "told_s", "holds"),
    [(800_000, 0.05, True), (700_000, 0.05, False), (800_000, 0.04, False)],
)
def test_what_a_client_claims_is_held_against_the_link(
    came: int, told_s: float, holds: bool
) -> None:
    record = {
        "round_bytes": [250_000] * 3, "round_s": [told_s, 0.005, 0.006],
        "receiver": "r1", "tcp": {"r1": {"IpExt.InOctets": came}},
    }  # fmt: skip
    assert all_carried(record, 100_000_000).holds == holds


def test_the_table_has_a_row_for_each_scheme_and_size() -> None:
    figures = {
        "lttp_goodput_mbps_n6_64k": 88.04, "lttp_goodput_mbps_n120_64k": 87,
        "lttp_worst_goodput_mbps_n6_64k": 1, "lttp_mtu_goodput_mbps_n6_64k": 91,
        "lttp_goodput_mbps_n6_256k": 89, "reno_timeouts_n6_64k": 4,
    }  # fmt: skip
    table = goodputs(figures)
    assert table is not None
    columns = [[*column.cells] for column in table.columns]
    assert [str(column.header) for column in table.columns] == ["goodput, Mb/s", "6", "120"]
    assert columns[0] == ["64 KiB lttp", "64 KiB lttp_mtu", "256 KiB lttp"]
    assert columns[1:] == [["88.0", "91.0", "89.0"], ["87.0", "-", "-"]]
    assert goodputs({"send_gbps": 3.0}) is None


def mix(shares: list[float], lttp_flows: int) -> dict[str, Any]:
    """Ten seconds in which flows have these shares of what is fair, all the time."""
    times = np.arange(51) * 200_000_000
    fair = 100e6 / 8 / len(shares)
    counts = [(times / 1e9 * fair * share).tolist() for share in shares]
    return {"time_ns": times.tolist(), "bytes": counts, "lttp": lttp_flows, "rate_bps": 100_000_000}


def test_fair_shares() -> None:
    figures = fairness.of_mix(mix([1.0] * 10, 10))
    assert figures["min"] == pytest.approx(1)
    assert figures["jain"] == figures["within_200ms"] == pytest.approx(1)
    assert figures["utilisation"] == pytest.approx(1)
    assert "lttp_mean" not in figures


def test_unfair_shares() -> None:
    figures = fairness.of_mix(mix([1.5] * 5 + [0.4] * 5, 5))
    assert (figures["min"], figures["max"]) == pytest.approx((0.4, 1.5))
    assert (figures["lttp_mean"], figures["tcp_mean"]) == pytest.approx((1.5, 0.4))
    assert figures["utilisation"] == pytest.approx(0.95)
    assert figures["within_200ms"] == 0
    assert figures["jain"] == pytest.approx(9.5**2 / (10 * (5 * 2.25 + 5 * 0.16)))


def test_jains_index_has_its_bounds() -> None:
    assert jain(np.array([1.0, 0, 0, 0])) == pytest.approx(0.25)
    assert jain(np.zeros(4)) == 1


def test_counters_of_the_packet_filter() -> None:
    shown = (
        "*raw\n:PREROUTING ACCEPT [9:999]\n:OUTPUT ACCEPT [0:0]\n"
        "[10:15000] -A PREROUTING -s 10.0.0.1/32\n[0:0] -A PREROUTING -s 10.0.0.11/32\nCOMMIT\n"
    )
    assert received.parse(shown) == {"10.0.0.1": 15140, "10.0.0.11": 0}


def test_a_quick_benchmark_is_a_part_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin/ovs-vswitchd").touch()
    monkeypatch.setenv("WEIR_OVS_PREFIX", str(tmp_path))
    asked: dict[str, Any] = {}

    def result(_module: str, group: str, _measurer: str, arguments: str) -> Any:
        asked[group] = json.loads(arguments)
        return {"figures": {}, "failed": []}

    monkeypatch.setattr(measuring.sandboxed, "result", result)
    comparison = measuring.Comparison(seed=7)
    assert measuring.run("lttp", [], tmp_path / "lttp.json", comparison, quick=True) == 0
    assert list(asked) == ["n1", "n6", "n40", "fairness", "loopback"]
    assert asked["n6"]["seed"] == 7
    assert "seed" not in asked["fairness"], "nothing is drawn there"
    assert asked["n6"]["sizes_kb"] == [64, 256]
    assert asked["n6"]["schemes"] == [*lttp.over_lttp(), "reno", "dctcp"]
    assert asked["n6"]["repeats"] == 3
    assert asked["fairness"]["mixes"] == ["5l5t"]
