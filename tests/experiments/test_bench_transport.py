"""``bench transport``: what figures are made of, and what they should show."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.bench.sandboxed import Incomplete
from experiments.bench.suites import SUITES
from experiments.bench.transport.speed import conclusion, contenders, requests, transfers
from experiments.bench.transport.speed.contenders import CONTENDERS, moved_bytes
from experiments.traffic.program import ProgramError

SIZE = 1000


@pytest.mark.parametrize(
    ("said", "moved", "seconds"),
    [
        ({"event": "done", "rounds": [{"bytes": 700, "seconds": 2}]}, 700, 2.0),
        ({"event": "done", "bytes": 5, "seconds": 3}, SIZE, 3.0),
        ({"end": {"sum": {"bytes": 900, "seconds": 2.0, "lost_percent": 50.0}}}, 450, 2.0),
    ],
)
def test_what_has_arrived_is_read_from_what_each_program_says(
    said: dict[str, Any], moved: int, seconds: float
) -> None:
    assert moved_bytes([{"event": "progress"}, said], SIZE) == (moved, seconds)


@pytest.mark.parametrize("said", [[], [{"event": "progress"}], [{"error": "no", "end": {}}]])
def test_a_transfer_that_did_not_end_well_is_none(said: list[dict[str, Any]]) -> None:
    with pytest.raises(ProgramError, match="not the end"):
        moved_bytes(said, SIZE)


def test_medians_count_and_turns_that_failed_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = iter([1.0, 9.0, None, 2.0])

    def transfer(*_: object) -> dict[str, float]:
        if (gbps := next(found)) is None:
            raise ProgramError("it does not")
        return dict(zip(transfers._FIGURES, (gbps, 2.0, 4.0), strict=True))

    monkeypatch.setattr(transfers, "_transfer", transfer)
    monkeypatch.setattr(transfers, "RUN_DIR", tmp_path)
    with pytest.raises(Incomplete) as incomplete:
        transfers.run(print, over="loopback", size_mib=1, turns=4, contenders=["dfcp"])
    assert incomplete.value.what == ["dfcp, turn 3"]
    figures = incomplete.value.figures
    assert figures["loopback_dfcp_goodput_gbps"] == 2.0
    assert figures["loopback_dfcp_goodput_gbps_least"] == 1.0
    assert figures["loopback_dfcp_send_gbps_per_core"] == 4.0
    assert figures["loopback_dfcp_receive_gbps_per_core"] == 2.0


def test_bounds_that_do_not_hold_are_named_and_the_picture_is_drawn(tmp_path: Path) -> None:
    figures: dict[str, Any] = {"idle_share": 0.02}
    for name in CONTENDERS:
        for figure in (
            *("goodput_gbps", "goodput_gbps_least", "goodput_gbps_most", "send_cpu_s_per_gb"),
            *("receive_cpu_s_per_gb", "send_gbps_per_core", "receive_gbps_per_core"),
        ):
            figures[f"veth_{name}_{figure}"] = 7.0
    figures |= conclusion.conclude(figures)
    assert figures["checks_missed"].split() == [
        *(f"veth_{name}" for name in (
            "lttp_1_send_gbps_per_core", "dfcp_send_gbps_per_core", "atp_send_gbps_per_core",
            "dfcp_100m_send_cpu_s_per_gb",
        )),
        "idle_share",
    ]  # fmt: skip
    console = Console(width=120, record=True)
    conclusion.show(figures, tmp_path / "transport.json", console)
    assert "quinn, large window" in console.export_text()
    (picture,) = conclusion.draw(figures, tmp_path / "transport.json")
    assert picture.stat().st_size > 0


def test_the_median_turn_of_requests_counts_and_the_slowest_request() -> None:
    turns = [
        {"per_second": per_second, "slowest_ms": slowest_ms, "requests": 8, "packets": 2}
        for per_second, slowest_ms in ((100.0, 3.0), (300.0, 9.0), (200.0, 1.0))
    ]
    assert requests.of_turns(turns) == {
        "requests_per_s": 200.0, "requests_slowest_ms": 9.0, "requests_per_packet": 4.0,
    }  # fmt: skip


def test_programs_of_the_benchmark_have_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(contenders.PREFIX_VARIABLE, raising=False)
    with pytest.raises(ProgramError, match="make bench-transport"):
        contenders.program("bench-quinn")


def test_the_suite_is_known() -> None:
    assert set(SUITES["transport"].groups) == {"loopback", "veth", "idle", "requests"}
