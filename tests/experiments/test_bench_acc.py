"""``bench acc``: what figures are made of, and what is concluded from them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.bench.acc import (
    conclusion,
    following,
    incast,
    loss,
    risks,
    speed,
    timeouts,
    windows,
)
from experiments.bench.acc.layer import LINES, TCPS
from experiments.bench.acc.windows import Said, Window
from experiments.bench.suites import SUITES
from experiments.network import acc
from experiments.statistics import wilson
from experiments.traffic.program import ProgramError
from testbed.bottleneck import Loss
from testbed.dataloss import Connection


def turn(values_us: list[int], **changes: Any) -> dict[str, Any]:
    counts = {
        "failures": 0, "timeouts": 2, "retransmissions": 5, "wire_bytes": 240_000, "tail_drops": 0,
        "frames": 200, "frames_lost": 2, "layer_coded": 7.0, "layer_sent": 180.0,
    }  # fmt: skip
    sample = {"whole_us": values_us, "counts": counts, "void": []}
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


def test_no_figure_is_made_of_void_turns() -> None:
    busy = turn([90_000], void=["processors: 1 % idle"], idle_pct=1.0)
    found = loss.of_cell([busy, turn([10_000])], 100_000)
    assert (found["mean_ms"], found["valid_turns"], found["void_turns"]) == (10, 1, 1)
    assert loss.of_cell([busy], 100_000) == {"valid_turns": 0, "void_turns": 1}


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

    monkeypatch.setattr(acc, "run", run)
    acc.set_control(1, "cubic", "4881")
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
    found = acc.summed([{"peers": [peer(), peer()]}, {"peers": [peer()]}, {"peers": []}])
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
    assert incast.of_runs(runs[2:]) == {"valid_runs": 0, "void_runs": 1}


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
    asked = "redis_get_c1_100b"
    figures |= {f"edges_weir_0_raw_{asked}_requests_per_s": 1000}
    figures |= {f"edges_weir_0_protected_{asked}_requests_per_s": 940}
    figures |= {f"edges_none_0_raw_{asked}_requests_per_s": 1000}
    figures |= {f"edges_none_0_protected_{asked}_requests_per_s": 950}
    assert checks(figures) == {
        "linux_random1_100k: less time than off, %": True,
        "linux_random1_100k: more throughput than off, %": True,
        "newreno_random2_100k: less time than off, %": False,
        "newreno_random2_100k: more throughput than off, %": False,
        "linux_random0_100k: more time than off, %": True,
        "linux_random0_100k: more time than plain, %": False,
        "edges, weir: time of one sender's blocks at 0 %, % of one link's": True,
        "edges, none: time of one sender's blocks at 1 %, % of one link's": False,
        f"edges, none: {asked} at 0 %, % of one link's": True,
        f"edges, weir: {asked} at 0 %, % of one link's": False,
        "sender's speed, Gb/s a core": True,
        "receiver's speed, Gb/s a core": False,
    }


def test_nothing_is_claimed_of_what_is_void() -> None:
    figures = cell("linux_random1_100k_off", 40_000)
    figures |= cell("linux_random1_100k_acc", 20_000, void=["processors: 1 % idle"])
    assert checks(figures) == {"linux_random1_100k": False}
    assert conclusion.conclude(figures)["void"] == "linux_random1_100k_acc"


def test_where_coding_does_harm_is_told() -> None:
    figures = cell("linux_bursts5_1000k_off", 100) | cell("linux_bursts5_1000k_acc", 150)
    found = conclusion.conclude(figures)
    assert found["acc_worse"] == "linux_bursts5_1000k"
    assert found["acc_mean_cut_pct_linux_bursts5_1000k"] == pytest.approx(-50)
    assert found["checks"] == []


def of_every_outcome(window: int, loss: float, ends: Callable[[int, int], float]) -> float:
    """The probability of what ``ends`` says of which packets are lost, outcome by outcome."""
    total = 0.0
    for lost in range(1 << window):
        count = lost.bit_count()
        total += ends(lost, window) * loss**count * (1 - loss) ** (window - count)
    return total


@pytest.mark.parametrize("loss_share", [0.0, 0.005, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("window", range(1, 11))
def test_models_of_timeouts_are_the_sums_of_their_outcomes(window: int, loss_share: float) -> None:
    def repaired(lost: int) -> float:
        return (1 - loss_share) ** lost.bit_count()

    outcomes: dict[str, Callable[[int, int], float]] = {
        "eq1": risks.few_arrive,
        "eq2": lambda lost, _: 1 - repaired(lost),
        "either": lambda lost, n: 1 if risks.few_arrive(lost, n) else 1 - repaired(lost),
        "weir": risks.tail_lost,
        "last": lambda lost, n: lost >> n - 1,
        "rules": lambda lost, n: 1 if risks.few_follow(lost, n) else 1 - repaired(lost),
    }
    assert outcomes.keys() == risks.MODELS.keys()
    for name, ends in outcomes.items():
        expected = of_every_outcome(window, loss_share, ends)
        assert risks.MODELS[name].of(window, loss_share) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    # The first packet is the rightmost.
    ("lost", "window", "arrive", "tail", "follow"),
    [
        (0b00, 2, False, False, False),
        (0b01, 2, True, True, True),
        (0b0001, 4, False, False, False),
        (0b0010, 4, False, True, True),
        (0b1000, 4, False, True, True),
        (0b100001, 6, False, True, False),
        (0b1000111, 7, False, True, False),
        (0b0001111, 6, True, True, True),
    ],
)
def test_outcomes_are_told_apart(
    lost: int, window: int, arrive: bool, tail: bool, follow: bool
) -> None:
    found = [one(lost, window) for one in (risks.few_arrive, risks.tail_lost, risks.few_follow)]
    assert found == [arrive, tail, follow]


def test_eq1_as_printed_counts_small_windows_of_which_nothing_is_lost() -> None:
    assert risks.eq1_printed(2, 0.01) == pytest.approx(1)
    assert risks.eq1(2, 0.01) == pytest.approx(1 - 0.99**2)
    assert risks.eq1_printed(5, 0.1) == risks.eq1(5, 0.1)


# As in transport/crates/proto/src/acc/redundancy.rs: the_probabilities_are_those_of_the_benchmark.
SHARED = [
    (1, 0.01, 0, 0.01, 0.01, 0.01),
    (2, 0.01, 0, 0.0199, 0.0199, 0.0199),
    (2, 0.1, 3, 0.00856, 0.00046, 0.00046),
    (3, 0.02, 1, 0.00233648, 0.00233648, 0.00233648),
    (4, 0.05, 0, 0.01401875, 0.18549375, 0.142625),
    (6, 0.1, 1, 0.0001765, 0.1496944, 0.1115677),
    (8, 0.05, 3, 9.79736328125e-11, 0.0015522509099609376, 0.0012335205815185548),
    (10, 0.1, 0, 3.736e-07, 0.6513215599, 0.271),
    (16, 0.005, 1, 4.111572265625e-33, 0.0032343861078248447, 0.0010811581403864562),
    (32, 0.1, 5, 5.428e-33, 0.15978031612147842, 0.07337226751277227),
]


@pytest.mark.parametrize(("packets", "loss_share", "coded", "eq1", "eq2", "tail"), SHARED)
def test_the_layer_reckons_with_the_same_probabilities(
    packets: int, loss_share: float, coded: int, eq1: float, eq2: float, tail: float
) -> None:
    assert risks.eq1(packets, loss_share, coded) == pytest.approx(eq1, rel=1e-9)
    assert risks.eq2(packets, loss_share, coded) == pytest.approx(eq2, rel=1e-9)
    assert risks.tail_is_lost(packets, loss_share, coded) == pytest.approx(tail, rel=1e-9)


def test_an_interval_is_wilsons() -> None:
    # Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I.
    for successes, trials, low, high in (
        (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):  # fmt: skip
        assert wilson(successes, trials) == pytest.approx((low, high), abs=1e-4)
    assert wilson(29, 29)[1] == 1
    for successes, trials in ((0, 0), (2, 1), (-1, 3)):
        with pytest.raises(ValueError, match="no share"):
            wilson(successes, trials)


def test_a_window_is_what_its_sender_says_and_what_came_on_the_wire() -> None:
    # One packet more opens the connection.
    said = {10: Said(0, 5, 1448, 0.01), 11: Said(1, 7, 1448, 0.21)}
    # The fourth packet of 11 was lost, and so was what was sent again for it at first.
    wire = {10: Connection(0, 5, 1448), 11: Connection(0b11000, 7, 1448)}
    found = windows.joined(said, wire, packets=4)
    assert found == [Window(0, 0, 0, 0.01), Window(0b1000, 2, 1, 0.21)]
    for other in (Connection(0, 6, 1448), Connection(0, 5, 2896)):
        with pytest.raises(ProgramError, match="on the wire"):
            windows.joined(said, wire | {10: other}, packets=4)


def timeouts_cell(
    tcp: str, ends: list[Window], packets: int = 4, pct: float = 10
) -> dict[str, Any]:
    names = {"tcp": tcp, "loss_pct": pct, "window": packets}
    return names | timeouts.of_cell(ends, packets, pct / 100)


def test_windows_that_end_in_a_timeout_are_counted_by_what_was_lost() -> None:
    ended = [
        *[Window(0, 0, 0, 0.01)] * 93,
        Window(0, 1, 1, 0.3),
        # The last one alone: a loss probe, as late as a timeout.
        Window(0b1000, 1, 0, 0.21),
        Window(0b1000, 1, 1, 0.21),
        # One of the first, which is sent again at once, and lost again.
        Window(0b0001, 1, 0, 0.01),
        Window(0b0001, 2, 1, 0.25),
        Window(0b0011, 2, 2, 0.7),
        Window(0b1111, 4, 1, 0.3),
    ]
    found = timeouts_cell("linux", ended)
    expected = {
        "windows": 100, "lossy": 6, "lost": 10, "stray_timeouts": 1, "timeouts": 5, "waits": 6,
        "timeout_pct": 5, "few_arrive": 2, "few_arrive_timeouts": 2, "tail_lost": 4,
        "tail_lost_timeouts": 3, "few_follow": 4, "few_follow_timeouts": 3, "enough_follow": 2,
        "enough_follow_timeouts": 1, "weir_pct": pytest.approx(27.1),
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["enough_follow_eq2"] == pytest.approx(0.2)
    low, high = (found[f"timeout_{end}_pct"] for end in ("low", "high"))
    assert (low, high) == pytest.approx((2.15, 11.18), abs=0.01)


def test_models_are_held_against_what_was_measured() -> None:
    none, one = Window(0, 0, 0, 0.01), Window(0b1000, 1, 1, 0.21)
    cells = [
        timeouts_cell("newreno", [one] * seen + [none] * (1000 - seen)) for seen in (0, 270, 540)
    ]
    found = timeouts.held_against([*cells, timeouts_cell("linux", [none])])
    assert (found["timeouts_newreno_cells"], found["timeouts_linux_cells"]) == (3, 1)
    assert found["timeouts_newreno_timeout_weir_within"] == 1
    # Twice too many seen, and just as many.
    assert found["timeouts_newreno_timeout_weir_factor"] == pytest.approx(0.75, abs=0.01)
    assert "timeouts_linux_timeout_weir_factor" not in found


def test_tables_and_pictures_are_made_of_whatever_was_measured(tmp_path: Path) -> None:
    console = Console(width=160, record=True)
    conclusion.show({}, tmp_path / "acc.json", console)
    assert conclusion.draw({}, tmp_path / "acc.json") == []
    figures = cell("linux_random1_100k_off", 40_000) | cell("linux_random0_100k_plain", 9000)
    figures |= cell("newreno_bursts5_1000k_acc", 9000) | series([0, 1], [0, 10])
    of_incast = incast.of_runs([incast_run([0.1], [])])
    figures |= {f"incast_newreno_gip_{name}": value for name, value in of_incast.items()}
    figures |= {"speed_plain_gbps": 30.0, "speed_acc_gbps": 5.0}
    figures |= {"edges_weir_0.5_protected_single_mean_ms": 9.4}
    figures |= {"edges_weir_0.5_protected_redis_get_c1_100b_requests_per_s": 1234}
    ends = [Window(0, 0, 0, 0.01), Window(0b1000, 1, 1, 0.21)]
    figures[timeouts.CELLS] = [timeouts_cell("newreno", ends), timeouts_cell("linux", ends[:1])]
    figures |= conclusion.conclude(figures)
    conclusion.show(figures, tmp_path / "acc.json", console)
    shown = console.export_text()
    assert "gip" in shown
    assert "with a protected link" in shown
    assert "1,234" in shown
    _, weir = (line for line in shown.splitlines() if "one of the last three is lost" in line)
    assert weir.split()[-4:] == ["1", "of", "1", "0.54"]
    assert "not held" not in shown
    pictures = conclusion.draw(figures, tmp_path / "acc.json")
    assert {file.name for file in pictures} == {"acc.png", "acc_following.png", "acc_timeouts.png"}
    assert all(file.stat().st_size > 1000 for file in pictures)


def test_the_suite_is_known() -> None:
    groups = SUITES["acc"].groups
    assert list(groups) == [
        "loss", "incast_linux", "incast_newreno", "following", "edges_none", "edges_weir", "speed",
        "timeouts",
    ]  # fmt: skip
    assert all(group.quick is not None for group in groups.values())
    assert list(LINES) == ["plain", "tun", "off", "acc", "paper", "gip", "ccr"]
    assert all(tcp.sysctls.keys() == TCPS["linux"].sysctls.keys() for tcp in TCPS.values())
