"""The sweep of DCTCP's parameters: what is best, and that the scheme has it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.bench import sandboxed
from experiments.bench.dctcp import sweep
from experiments.bench.dctcp.sweep import Row
from experiments.bench.sandboxed import Incomplete
from experiments.schemes import dctcp

ROW = Row(4, 0.15, 16, 1, 80.0, 2, 30, 500, 9000, 0.4)


def rows(*goodputs: float, **changes: Any) -> list[Row]:
    """A run with 8 and one with 16 senders, of each K and g."""
    return [
        replace(ROW, senders=n, goodput_mbps=mbps, **changes)
        for n, mbps in zip((8, 16), goodputs, strict=True)
    ]


def test_the_best_is_best_over_all_numbers_of_senders() -> None:
    found = [*rows(95, 60, frames=20), *rows(90, 80, frames=4), *rows(10, 90, frames=8)]
    assert sweep.best(found) == (4, 0.15)
    assert sweep.means(found)[20, 0.15] == pytest.approx(77.5)


def test_what_lacks_a_number_of_senders_is_not_compared() -> None:
    found = [*rows(95, 60), replace(ROW, frames=2, senders=8, goodput_mbps=99)]
    assert sweep.best(found) == (4, 0.15)


def test_void_runs_are_counted_and_not_used() -> None:
    spoilt = replace(ROW, goodput_mbps=10, void="processors")
    figures = sweep.of([ROW, spoilt])
    assert figures["dctcp_k4_g0.15_goodput_mbps_n16"] == 80
    assert figures["dctcp_k4_g0.15_void_runs_n16"] == 1
    assert sweep.means([spoilt]) == {}
    assert sweep.conclude({"dctcp_rows_g0.15": [vars(spoilt)]}) == {}


def test_runs_are_read_back(tmp_path: Path) -> None:
    written = [ROW, replace(ROW, void="processors; spacing of departures")]
    sweep.write(written, tmp_path / "sweep.csv")
    assert sweep.read(tmp_path / "sweep.csv") == written


def test_a_group_has_its_figures_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def result(_module: str, asked: str) -> list[dict[str, Any]]:
        told = json.loads(asked)
        kept = {k: v for k, v in vars(ROW).items() if k not in ("frames", "gain")}
        return [
            kept | {"senders": n, "void": "processors" * (told["name"] == "dctcp_k4_g0.15")}
            for n in told["senders"]
        ]

    monkeypatch.setattr(sandboxed, "result", result)
    monkeypatch.setattr(sweep, "available", lambda *_, **__: True)
    arguments: dict[str, Any] = {"senders": (8, 16), "rounds": 1, "repeats": 1}
    figures = sweep.run(print, gain=0.3, frames=(2,), **arguments)
    assert figures["dctcp_k2_g0.3_goodput_mbps_n8"] == 80
    assert sweep.conclude(figures)["dctcp_best_k_frames"] == 2
    with pytest.raises(Incomplete) as incomplete:
        sweep.run(print, gain=0.15, frames=(4,), **arguments)
    assert incomplete.value.what == ["k4_n8", "k4_n16"]


def test_the_tuned_scheme_has_what_was_best_in_the_sweep_that_is_kept() -> None:
    kept = sweep.read(Path(sweep.__file__).with_name("sweep.csv"))
    assert sweep.best(kept) == (dctcp.TUNED_FRAMES, dctcp.TUNED_GAIN)
    assert len(sweep.means(kept)) == 18
