"""What benchmarks of DFCP make of what was measured."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.bench.sandboxed import Incomplete
from experiments.bench.transport import dfcp, dfcp_parameters, dfcp_sharing, dfcp_updates
from experiments.network.long_link import LongLink


def test_shares_are_of_what_loss_and_headers_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [
        {
            "loss_pct": 10.0,
            "rtt_ms": 50,
            "mbps": {"dfcp": 80.0, "cubic": 1.5},
            "void": {"dfcp": 1, "cubic": 0},
            "sent_in_vain_pct": 0.5,
        }
    ]
    monkeypatch.setattr(dfcp.sandboxed, "result", lambda *_: trials)
    told: list[str] = []
    figures = dfcp.run(told.append)
    limit_mbps = 90 * 1408 / 1492
    assert figures == {
        "dfcp_goodput_mbps_loss10_rtt50": 80.0,
        "cubic_goodput_mbps_loss10_rtt50": 1.5,
        "goodput_share_loss10_rtt50": pytest.approx(80 / limit_mbps),
        "sent_in_vain_pct_loss10_rtt50": 0.5,
        "dfcp_void_runs_loss10_rtt50": 1,
        "cubic_void_runs_loss10_rtt50": 0,
    }
    assert "share 0.942" in told[0]


def test_links_lose_other_packets_with_another_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def trial(_bed: Any, link: LongLink, *_: Any) -> dict[str, Any]:
        drawn.append(link.seed)
        return {}

    monkeypatch.setattr(dfcp, "dumbbell", lambda: nullcontext(SimpleNamespace(run_dir=Path("/"))))
    monkeypatch.setattr(dfcp, "_trial", trial)
    for seed in (1, 2):
        dfcp.measure([0.1, 1.0], [10, 50], [], seed)
    assert drawn == list(range(1, 11))


def test_a_link_without_a_valid_run_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = {"loss_pct": 1.0, "rtt_ms": 0, "mbps": {"bbr": 90.0}, "void": {"dfcp": 3, "bbr": 0}}
    monkeypatch.setattr(dfcp.sandboxed, "result", lambda *_: [trial])
    with pytest.raises(Incomplete) as incomplete:
        dfcp.run(lambda _: None)
    assert incomplete.value.what == ["dfcp_loss1_rtt0"]
    assert incomplete.value.figures == {
        "bbr_goodput_mbps_loss1_rtt0": 90.0,
        "dfcp_void_runs_loss1_rtt0": 3,
        "bbr_void_runs_loss1_rtt0": 0,
    }


def test_parameters_are_compared_with_the_flow_without_redundancy() -> None:
    trials = [
        {"name": "redundancy0", "mbps": 90.0, "void_runs": 0},
        {"name": "redundancy50", "mbps": 60.0, "void_runs": 1},
        {"name": "window1", "mbps": 9.0, "void_runs": 0},
    ]
    assert dfcp_parameters.of_trials(trials, lambda _: None) == pytest.approx(
        {
            "redundancy0_void_runs": 0,
            "redundancy0_goodput_mbps": 90.0,
            "redundancy0_share": 1.0,
            "redundancy50_void_runs": 1,
            "redundancy50_goodput_mbps": 60.0,
            "redundancy50_share": 2 / 3,
            "window1_void_runs": 0,
            "window1_goodput_mbps": 9.0,
        }
    )
    lost = {"name": "window2", "mbps": None, "void_runs": 3}
    with pytest.raises(Incomplete) as incomplete:
        dfcp_parameters.of_trials([*trials, lost], lambda _: None)
    assert incomplete.value.what == ["window2"]


def test_updates_are_told_by_quantiles_and_missed_ones_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: dict[str, Any] = {
        "took_ms": [1.0, 2.0, 3.0],
        "dropped": 5,
        "arrived": 1000,
        "rates_bps": {"flow1": 2e7},
        "void": [],
    }
    results = iter([found | {"void": ["processors: 3% idle"]}, found])
    monkeypatch.setattr(dfcp_updates.sandboxed, "result", lambda *_: next(results))
    figures = dfcp_updates.run(lambda _: None, joins=4)
    assert figures["drop_rate_pct"] == pytest.approx(0.5)
    assert figures["rate_update_p50_ms"] == 2.0
    assert figures["rate_updates_missed"] == 1
    assert figures["rate_update_void_runs"] == 1
    assert figures["rate_mbps_flow1"] == 20.0


def test_parts_are_of_what_is_reserved_and_of_the_rest() -> None:
    mix = dfcp_sharing.Mix(dfcp=2, tcp=1)
    measured = {"shares": [0.1, 0.2, 0.63], "dropped": 1, "arrived": 200}
    figures = dfcp_sharing.of_mix(mix, measured)
    assert figures == pytest.approx(
        {
            "jain": 0.9,
            "min": 2 / 3,
            "max": 4 / 3,
            "utilisation": 0.93,
            "drop_rate_pct": 0.5,
            "dfcp_part": 1.0,
            "tcp_part": 0.9,
        }
    )
    alone = dfcp_sharing.of_mix(dfcp_sharing.Mix(2), measured | {"shares": [0.5, 0.5]})
    assert alone["jain"] == 1.0
    assert "dfcp_part" not in alone
