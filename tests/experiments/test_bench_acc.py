"""``bench acc``: what figures are made of, and what is concluded from them."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.bench.acc import conclusion, following, incast, layer, loss, speed
from experiments.bench.acc.layer import LINES, TCPS
from experiments.bench.suites import SUITES
from testbed.bottleneck import Loss


def turn(values_us: list[int], **changes: Any) -> dict[str, Any]:
    counts = {
        "failures": 0, "timeouts": 2, "retransmissions": 5, "wire_bytes": 240_000, "tail_drops": 0,
        "frames": 200, "frames_lost": 2, "layer_coded": 7.0, "layer_sent": 180.0,
    }  # fmt: skip
    sample = {"whole_us": values_us, "counts": counts, "void": False}
    return sample | {"idle_pct": 60.0, "steal_pct": 0.0} | changes


def test_a_cell_has_the_times_of_all_its_flows_and_the_sums_of_its_counters() -> None:
    found = loss.of_cell([turn([10_000]), turn([20_000, 30_000])], size_bytes=100_000)
    expected = {
        "flows": 3, "mean_ms": 20, "median_ms": 20, "max_ms": 30, "throughput_mbps": 40,
        "mean_error_ms": pytest.approx(10 / 3**0.5), "timeouts": 4, "timeouts_per_flow": 4 / 3,
        "retransmissions": 10, "layer_coded": 14, "layer_sent": 360, "lost_pct": 1,
        "wire_bytes_per_byte": 1.6, "valid_turns": 2, "void_turns": 0, "processors_idle_pct": 60,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


def test_void_turns_count_only_where_there_are_no_others() -> None:
    busy = turn([90_000], void=True, idle_pct=1.0)
    found = loss.of_cell([busy, turn([10_000])], 100_000)
    assert (found["mean_ms"], found["valid_turns"], found["void_turns"]) == (10, 1, 1)
    found = loss.of_cell([busy], 100_000)
    assert (found["mean_ms"], found["valid_turns"], found["void_turns"]) == (90, 0, 1)


def test_nothing_lost_is_measured_once() -> None:
    settings = loss.cells(("random", "bursts"), (0, 0.5, 2))
    assert list(settings) == ["random0", "random0.5", "random2", "bursts0.5", "bursts2"]
    assert (settings["random0"], settings["bursts2"]) == (Loss(), Loss(0.02, 2.5))


def test_routes_keep_what_else_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    route = (
        '[{"dst":"10.0.0.2","dev":"acc0","scope":"link","prefsrc":"10.0.0.1","flags":[],'
        '"metrics":[{"mtu":1453}]}]'
    )
    asked = []

    def run(argv: list[str], **how: Any) -> str:
        asked.append((argv[:2], how))
        return route

    monkeypatch.setattr(layer, "run", run)
    layer.set_control(1, "cubic", "4881")
    kept = "10.0.0.2 dev acc0 scope link src 10.0.0.1 mtu 1453"
    change = f"route change {kept} table 4881 congctl cubic\n"
    assert asked == [
        (["ip", "-j"], {"pid": 1}),
        (["ip", "-batch"], {"pid": 1, "stdin": change}),
    ]


def peer(**changes: Any) -> dict[str, Any]:
    counters = {
        "coded_at_ends": 3, "coded_on_losses": 4, "sent": 100, "lost": 2, "recovered": 1,
        "timeouts_avoided": 0.5, "loss": 0.02, "flows": [],
    }  # fmt: skip
    return counters | changes


def test_layers_are_added_up_over_all_peers() -> None:
    found = layer.summed([{"peers": [peer(), peer()]}, {"peers": [peer()]}, {"peers": []}])
    assert found == {
        "sent": 300, "coded": 21, "lost": 6, "recovered": 3, "timeouts_avoided": 1.5
    }  # fmt: skip


def test_a_sample_is_of_the_flow_that_sends() -> None:
    flows = [{"to": 22, "c1": 9, "c2": 9}, {"to": 5001, "c1": 1, "c2": 2}]
    told = following.sample({"peers": [peer(flows=flows)]})
    assert told == {"sent": 100, "coded": 7, "loss_pct": 2, "c1": 1, "c2": 2}


def series(losses: list[float], coded_per_s: list[float]) -> dict[str, Any]:
    """Three samples in each step, a second from each other."""
    samples, coded = [], 0.0
    for step, (set_pct, rate) in enumerate(zip(losses, coded_per_s, strict=True)):
        for n in range(3):
            coded += rate
            at = {"s": 3.0 * step + n, "set_pct": set_pct, "loss_pct": set_pct}
            samples.append(at | {"coded": coded, "sent": 0.0, "c1": 1.0, "c2": 0.0})
    return following.series(samples)


def test_counters_become_rates_and_steps_their_means() -> None:
    figures = series([0, 1], [0, 10])
    assert figures["following_coded_per_s"] == [0, 0, 10, 10, 10]
    assert figures["following_s"] == [1, 2, 3, 4, 5]
    steps = figures["following_steps"]
    assert [(step["set_pct"], step["coded_per_s"]) for step in steps] == [(0, 0), (1, 10)]


@pytest.mark.parametrize(
    ("coded_per_s", "follows"),
    [([0, 10, 30, 5, 0], True), ([0, 10, 10, 5, 0], False), ([0, 10, 30, 40, 0], False)],
)
def test_coded_packets_follow_the_loss_or_do_not(coded_per_s: list[float], follows: bool) -> None:
    figures = series([0, 1, 3, 0.5, 0], coded_per_s)
    (check,) = conclusion.conclude(figures)["checks"]
    assert check["holds"] is follows


def incast_run(round_s: list[float], void: list[str]) -> dict[str, Any]:
    return {
        "round_s": round_s, "round_bytes": [1_000_000] * len(round_s), "timeouts": 3, "dropped": 9,
        "layer_coded": 5.0, "processors": {"idle_share": 0.5}, "void": void,
    }  # fmt: skip


def test_rounds_of_all_valid_runs_make_the_quantiles_of_an_incast() -> None:
    runs = [incast_run([0.1, 0.1], []), incast_run([0.3], []), incast_run([9.0], ["busy"])]
    found = incast.of_runs(runs)
    assert found["goodput_mbps"] == pytest.approx((80 + 8 / 0.3) / 2)
    assert (found["round_p50_ms"], found["round_p99_ms"], found["rounds"]) == (100, 300, 3)
    assert (found["valid_runs"], found["void_runs"], found["timeouts"]) == (2, 1, 3)
    assert incast.of_runs(runs[2:])["valid_runs"] == 0


def test_speed_for_each_core_is_the_rate_over_what_each_process_takes() -> None:
    end = {
        "sum_received": {"bits_per_second": 4e9, "seconds": 2.0},
        "sum_sent": {"retransmits": 1},
    }
    found = speed.of_transfer(end, [1.0, 2.0])
    assert found == {
        "gbps": 4, "retransmissions": 1, "sender_share_of_core": 0.5, "sender_gbps_per_core": 8,
        "receiver_share_of_core": 1, "receiver_gbps_per_core": 4,
    }  # fmt: skip
    assert speed.of_turns([found, found | {"gbps": 2.0}])["gbps_least"] == 2


def cell(name: str, mean_us: int, **changes: Any) -> dict[str, Any]:
    found = loss.of_cell([turn([mean_us], **changes)], 100_000)
    return {f"{name}_{figure}": value for figure, value in found.items()}


def checks(figures: dict[str, Any]) -> dict[str, bool]:
    return {check["name"]: check["holds"] for check in conclusion.conclude(figures)["checks"]}


def test_what_is_claimed_is_held_or_not() -> None:
    figures = cell("linux_random1_100k_off", 40_000) | cell("linux_random1_100k_acc", 20_000)
    figures |= cell("newreno_random2_100k_off", 40_000) | cell("newreno_random2_100k_acc", 30_000)
    figures |= cell("linux_random0_100k_plain", 9000) | cell("linux_random0_100k_off", 10_000)
    figures |= cell("linux_random0_100k_acc", 10_100)
    figures |= {"speed_acc_sender_gbps_per_core": 6.0, "speed_acc_receiver_gbps_per_core": 4.0}
    figures |= {"edges_weir_0_raw_single_mean_ms": 9, "edges_weir_0_protected_single_mean_ms": 9.4}
    figures |= {"edges_none_1_raw_single_mean_ms": 20, "edges_none_1_protected_single_mean_ms": 14}
    assert checks(figures) == {
        "linux_random1_100k: less time than off, %": True,
        "linux_random1_100k: more throughput than off, %": True,
        "newreno_random2_100k: less time than off, %": False,
        "newreno_random2_100k: more throughput than off, %": False,
        "linux_random0_100k: more time than off, %": True,
        "linux_random0_100k: more time than plain, %": False,
        "edges, weir: time of one sender's blocks at 0 %, % of one link's": True,
        "edges, none: time of one sender's blocks at 1 %, % of one link's": False,
        "sender's speed, Gb/s a core": True,
        "receiver's speed, Gb/s a core": False,
    }


def test_nothing_is_claimed_of_what_is_void() -> None:
    figures = cell("linux_random1_100k_off", 40_000)
    figures |= cell("linux_random1_100k_acc", 20_000, void=True)
    assert not any(checks(figures).values())
    assert conclusion.conclude(figures)["void"] == "linux_random1_100k_acc"


def test_where_coding_does_harm_is_told() -> None:
    figures = cell("linux_bursts5_1000k_off", 100) | cell("linux_bursts5_1000k_acc", 150)
    found = conclusion.conclude(figures)
    assert found["acc_worse"] == "linux_bursts5_1000k"
    assert found["acc_mean_cut_pct_linux_bursts5_1000k"] == pytest.approx(-50)
    assert found["checks"] == []


def test_tables_and_pictures_are_made_of_whatever_was_measured(tmp_path: Path) -> None:
    console = Console(width=160, record=True)
    conclusion.show({}, tmp_path / "acc.json", console)
    assert not list(tmp_path.iterdir())
    figures = cell("linux_random1_100k_off", 40_000) | cell("linux_random0_100k_plain", 9000)
    figures |= cell("newreno_bursts5_1000k_acc", 9000) | series([0, 1], [0, 10])
    of_incast = incast.of_runs([incast_run([0.1], [])])
    figures |= {f"incast_newreno_gip_{name}": value for name, value in of_incast.items()}
    figures |= {"speed_plain_gbps": 30.0, "speed_acc_gbps": 5.0}
    figures |= {"edges_weir_0.5_protected_single_mean_ms": 9.4}
    figures |= conclusion.conclude(figures)
    conclusion.show(figures, tmp_path / "acc.json", console)
    shown = console.export_text()
    assert "gip" in shown
    assert "with a protected link" in shown
    assert "not held" not in shown
    assert {file.name for file in tmp_path.iterdir()} == {
        conclusion.PICTURE,
        conclusion.FOLLOWING_PICTURE,
    }


def test_the_suite_is_known() -> None:
    groups = SUITES["acc"].groups
    assert list(groups) == [
        "loss", "incast_linux", "incast_newreno", "following", "edges_none", "edges_weir", "speed",
    ]  # fmt: skip
    assert all(group.quick is not None for group in groups.values())
    assert list(LINES) == ["plain", "off", "acc", "paper", "gip", "ccr"]
    assert all(tcp.sysctls.keys() == TCPS["linux"].sysctls.keys() for tcp in TCPS.values())
