"""``bench short-flows``: what figures are made of, and what becomes of frames at its bottleneck."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.bench.sandboxed import Incomplete
from experiments.bench.short_flows import conclusion, fairness, fan_in, flows, lines, programs
from experiments.bench.short_flows.lines import LINES, Line
from experiments.bench.suites import SUITES
from experiments.bench.transport import fetches, lttp
from experiments.bench.transport.fetches import RunsSpec
from experiments.traffic.programs.app import Result
from testbed import bottleneck
from testbed.bottleneck import Counts, Loss, Red, Seen

RATE_BPS = 100_000_000


def said(values_us: list[int], failures: int = 0) -> dict[str, Any]:
    return {
        "whole_us": values_us,
        "transfer_us": [value // 2 for value in values_us],
        "retransmissions": [1] * len(values_us),
        "failures": [{"flow": n, "why": "late"} for n in range(failures)],
    }


def test_quantiles_are_times_of_flows_in_milliseconds() -> None:
    figures = flows.summary(said([1000 * n for n in range(1, 1001)], failures=2))
    assert (figures["flows"], figures["failures"], figures["retransmissions"]) == (1000, 2, 1000)
    assert [figures[f"whole_{name}_ms"] for name in flows.PERCENTILES] == [500, 950, 990, 999, 1000]
    assert figures["transfer_p99_ms"] == 495


def test_losses_are_counted_apart_for_the_flows_and_what_is_beside_them() -> None:
    seen = Seen(Counts(200, 1, 3), Counts(0, 0, 0), 1514)
    figures = flows.losses(seen, tail_drops=7)
    assert figures == {
        "tail_drops": 7, "longest_bytes": 1514, "lost_pct": 2.0, "background_lost_pct": 0.0,
        "frames": 200,
    }  # fmt: skip


def test_a_sweep_has_the_same_losses_at_random_and_in_bursts() -> None:
    at_random, bursts = flows.sweep("random", [0.1, 5]), flows.sweep("bursts", [0.1, 5])
    assert list(at_random) == ["random0.1", "random5"]
    assert list(bursts) == ["bursts0.1", "bursts5"]
    assert at_random["random5"].loss == Loss(0.05)
    assert bursts["bursts5"].loss == Loss(0.05, 2.5)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("burst", [None, 1, 2.5])
def test_the_chain_loses_its_share_in_bursts_of_their_length(
    share: float, burst: float | None
) -> None:
    loss = Loss(share, burst)
    # What is entered is left as often.
    assert (1 - share) * loss.after_kept == pytest.approx(share * (1 - loss.after_lost))
    if burst is None:
        assert loss.after_kept == pytest.approx(share)
    else:
        assert 1 / (1 - loss.after_lost) == pytest.approx(burst)


@pytest.mark.parametrize(("share", "burst"), [(1.0, None), (-0.1, None), (0.1, 0.5), (0.9, 1.0)])
def test_losses_that_cannot_be_are_refused(share: float, burst: float | None) -> None:
    with pytest.raises(ValueError, match=r"share|burst"):
        Loss(share, burst)


def test_a_bottleneck_is_written_as_the_kernel_reads_it() -> None:
    written = bottleneck.packed(Loss(0.25), Red(1000, 3000, 0.5, 4), seed=9, rate_bps=RATE_BPS)
    fields = bottleneck._LAYOUT.unpack(written)
    assert fields[:5] == (1 << 30, 1 << 30, 9, 0, 80_000)
    assert fields[5:9] == (1000, 3000, 1 << 15, 4)
    assert not any(fields[9:])


def test_what_it_has_counted_is_read_back() -> None:
    fields = [0] * 19
    fields[12] = 1514
    fields[13:] = [10, 20, 1, 2, 3, 4]
    found = bottleneck.unpacked(bottleneck._LAYOUT.pack(*fields) + bytes(8))
    assert found == Seen(Counts(10, 1, 3), Counts(20, 2, 4), 1514)


def test_medians_of_turns_count() -> None:
    figures = fairness.of_turns("quic", [(2.0, 1.0), (3.0, 3.0), (9.0, 3.0)])
    assert figures == {"fairness_quic_s": 3.0, "fairness_quic_tcp_s": 3.0, "fairness_quic_ratio": 2}


def fan_in_run(contender: str, round_s: list[float], **changes: Any) -> dict[str, Any]:
    run = {
        "contender": contender, "size": 8500, "round_s": round_s, "dropped": 3, "timeouts": 2,
        "round_bytes": [32 * 8500] * len(round_s), "void": [],
    }  # fmt: skip
    if contender == "atp":
        counted = {"packet_bytes": 1000, "parity_bytes": 250, "requested": 7, "repaired": 0}
        run["atp"] = {"servers": counted, "client": counted | {"repaired": 5}}
    return run | changes


def test_rounds_of_all_valid_runs_make_the_quantiles_of_a_fan_in() -> None:
    first = [0.001 * n for n in range(1, 101)]
    runs = [fan_in_run("atp", first), fan_in_run("atp", [0.2] * 100)]
    runs.append(fan_in_run("atp", [9.0], void=["processors: 0 % idle"]))
    figures = fan_in.figures([*runs, fan_in_run("weir", [0.0272])])
    expected = {
        "fanin_atp_8500b_rounds": 200, "fanin_atp_8500b_void_runs": 1,
        "fanin_atp_8500b_round_p50_ms": 100, "fanin_atp_8500b_round_p99_ms": 200,
        "fanin_atp_8500b_timeouts": 2, "fanin_atp_8500b_drops": 3,
        "fanin_atp_8500b_parity_pct": 25, "fanin_atp_8500b_requested": 7,
        "fanin_atp_8500b_repaired": 5, "fanin_weir_8500b_goodput_mbps": 80,
        "fanin_weir_8500b_timeouts": 2,
    }  # fmt: skip
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    assert "fanin_weir_8500b_parity_pct" not in figures
    table = conclusion.of_fan_in(figures)
    assert table is not None
    assert [*table.columns[1].cells] == ["ATP", "Weir"]
    assert conclusion.of_fan_in({}) is None


def test_a_fan_in_has_each_tcp_in_a_network_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def result(module: str, given: str) -> list[dict[str, Any]]:
        assert module == fetches.__name__
        spec = RunsSpec(**json.loads(given))
        assert (spec.servers, spec.sizes, spec.fixed_rounds) == (32, [8500, 65536], 20)
        asked.append((spec.tcp, spec.contenders))
        return [fan_in_run(name, [0.1]) for name in spec.contenders]

    monkeypatch.setattr(lttp.sandboxed, "result", result)
    monkeypatch.setattr(lttp, "available", lambda *_, **__: True)
    schemes = SUITES["short-flows"].groups["fanin"].schemes
    with pytest.raises(Incomplete) as incomplete:
        fan_in.run(lambda _: None, rounds=20, schemes=schemes, repeats=1, records="/nowhere")
    assert asked == [("reno", ["reno", "lttp", "atp"]), ("dctcp", ["dctcp"]), ("weir", ["weir"])]
    assert incomplete.value.what == [
        "reno_64k", "lttp_64k", "atp_64k", "dctcp_64k", "weir_64k"
    ]  # fmt: skip
    assert incomplete.value.figures["fanin_dctcp_8500b_goodput_mbps"] == pytest.approx(21.76)


def test_only_a_network_that_is_regulated_has_a_controller() -> None:
    configs = {tcp: fetches.bed_config(tcp, 32) for tcp in ("reno", "dctcp", "weir")}
    assert [config.scheme for config in configs.values()] == [None, None, "weir"]
    assert {config.bottleneck_limit_bytes for config in configs.values()} == {65536}


def test_counters_of_servers_are_summed() -> None:
    end = {"event": "stopped", "atp": {"requested": 2, "timeouts": 1}}
    counted = fetches.atp_counters({"atp": {"requested": 1, "timeouts": 0}}, [end, end])
    assert counted["servers"] == {"requested": 4, "timeouts": 2}
    assert counted["client"] == {"requested": 1, "timeouts": 0}
    with pytest.raises(fetches.FountainError, match="without its counters"):
        fetches.atp_counters({"atp": {}}, [end, {}])


def test_the_shares_of_flows_that_take_as_long_begin_with_all() -> None:
    ordered, shares = conclusion.ccdf([3, 1, 2, 4])
    assert list(ordered) == [1, 2, 3, 4]
    assert list(shares) == [1, 0.75, 0.5, 0.25]


def cell(name: str, values_us: list[int]) -> dict[str, Any]:
    found = flows.summary(said(values_us)) | flows.losses(
        Seen(Counts(9, 1, 0), Counts(9, 0, 0), 1514), 0
    )
    found |= {f"{time}_us": said(values_us)[f"{time}_us"] for time in flows.TIMES}
    return {f"{name}_{key}": value for key, value in found.items()}


def test_without_atp_there_are_tables_and_a_picture_and_no_ratios(tmp_path: Path) -> None:
    figures = cell("loss1_tcp", [1000, 2000]) | cell("none_quic_cold", [3000])
    figures |= cell("random0.1_tcp_old", [250_000]) | fairness.of_turns("tcp", [(2.0, 1.6)])
    assert conclusion.conclude(figures) == {"disturbed": ""}
    console = Console(width=80, record=True)
    conclusion.show(figures, tmp_path / "short_flows.json", console)
    shown = console.export_text()
    assert "1 % random loss" in shown
    assert "random0.1" in shown
    assert "1.250" in shown
    (picture,) = conclusion.draw(figures, tmp_path / "short_flows.json")
    assert picture.stat().st_size > 0


def test_with_atp_its_tails_and_medians_are_compared_with_tcps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(lines.LINES, "atp", Line("ATP", "atp", "k"))
    figures = cell("loss1_tcp", [8000]) | cell("loss1_atp", [2000]) | cell("none_atp", [1000])
    figures |= cell("none_tcp", [2000]) | cell("none_tls", [4000])
    assert conclusion.conclude(figures) == {
        "disturbed": "",
        "atp_p99_ratio_loss1_transfer": 4,
        "atp_p99_ratio_loss1_whole": 4,
        "atp_median_ratio_none_transfer": 0.5,
        "atp_median_ratio_none_whole": 0.5,
        "atp_median_ratio_none_transfer_tls": 0.25,
        "atp_median_ratio_none_whole_tls": 0.25,
    }


def test_where_others_used_the_processors_is_told() -> None:
    figures = {"none_tcp_processors_idle_pct": 94.0, "loss1_tcp_old_processors_idle_pct": 1.0}
    assert conclusion.conclude(figures)["disturbed"] == "loss1_tcp_old"


def test_the_suite_is_known() -> None:
    suite = SUITES["short-flows"]
    assert list(suite.groups) == [
        "settings",
        "random",
        "bursts",
        "fairness",
        "fanin",
        "programs",
        "undisturbed",
    ]
    assert [name for name, group in suite.groups.items() if group.quick is None] == [
        "random",
        "bursts",
    ]
    assert set(LINES) >= {"atp", "tcp", "tcp_old", "tls", "quic"}


def test_a_program_is_compared_by_the_tail_that_it_reports() -> None:
    figures = programs.of_result("programs_redis_get_tcp", Result(100.0, 1.0, 200.0))
    assert figures == {
        "programs_redis_get_tcp_requests_per_s": 100.0,
        "programs_redis_get_tcp_p50_ms": 1.0,
        "programs_redis_get_tcp_p99_ms": 200.0,
    }
    assert programs.ratio("programs_redis_get", figures) == {}
    figures |= programs.of_result("programs_redis_get_atp", Result(300.0, 1.0, 4.0, 5.0))
    assert programs.ratio("programs_redis_get", figures) == {"programs_redis_get_p99_ratio": 50.0}
    console = Console(record=True, width=100)
    console.print(conclusion.of_programs("programs", figures))
    assert "200.00" in console.export_text()
