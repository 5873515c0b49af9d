"""Figures are what they are called, and a group that fails costs nobody else's."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments.bench import measuring
from experiments.bench.suites import SUITES
from experiments.bench.switch import shaping
from experiments.network import frames
from experiments.report import bench_picture

PACKET_NS = 121_120


def recorded(count: int, gap_ns: int, sources: Sequence[int] = (2,)) -> dict[str, list[int]]:
    return {
        "times_ns": [n * gap_ns for n in range(count)],
        "lengths": [1514] * count,
        "sources": [sources[n % len(sources)] for n in range(count)],
    }


def test_packets_back_to_back_at_the_ports_rate_are_no_error() -> None:
    errors = shaping._gap_errors_us(recorded(1_000, PACKET_NS))
    assert len(errors) > 700
    assert max(errors) < 1e-6
    late = shaping._gap_errors_us(recorded(1_000, PACKET_NS + 5_000))
    assert late == pytest.approx([5.0] * len(late))


def test_fairness_is_one_for_equal_shares_and_a_share_for_one_alone() -> None:
    everybody = range(2, 10)
    assert shaping._jain(recorded(8_200, PACKET_NS, everybody)) == pytest.approx(1)
    assert shaping._jain(recorded(8_200, PACKET_NS, [5])) == pytest.approx(1 / 8)


def test_frames_have_checksums_that_a_host_accepts() -> None:
    frame = frames.ack_frame(2)
    pseudo = frame[26:34] + b"\0\6" + (len(frame) - 34).to_bytes(2, "big")
    assert frames.checksum(frame[14:34]) == 0
    assert frames.checksum(pseudo + frame[34:]) == 0
    assert int.from_bytes(frame[48:50], "big") == frames.WINDOW


def test_a_group_that_fails_costs_its_own_figures_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin/ovs-vswitchd").touch()
    monkeypatch.setenv("WEIR_OVS_PREFIX", str(tmp_path))

    def run(argv: Sequence[str]) -> int:
        group, *_, result = argv[-4:]
        if group == "shaping":
            return 1
        failed = ["some"] if group == "credit" else []
        measured = {
            "figures": {f"{group}_p50_us": 12.5, f"{group}_void_runs_n2": 1.0, "void_runs": 0},
            "failed": failed,
        }
        Path(result).write_text(json.dumps(measured))
        return 0

    monkeypatch.setattr(measuring.sandboxed.sandbox, "run", run)
    out = tmp_path / "bench/switch.json"
    assert measuring.run("switch", ["latency", "shaping", "credit"], out) == 1
    figures = json.loads(out.read_text())
    assert figures["latency_p50_us"] == figures["credit_p50_us"] == 12.5
    assert figures["void_runs"] == "latency_void_runs_n2=1 credit_void_runs_n2=1"
    assert figures["failed"] == "shaping credit:some"
    assert figures["machine.processors"] >= 1
    told = capsys.readouterr().out
    assert "make no figure: latency_void_runs_n2=1, credit_void_runs_n2=1\n" in told
    assert "shaping failed" in told
    assert "credit:some failed" in told
    assert out.with_suffix(".png").stat().st_size > 1000, "a picture beside the figures"
    assert f"picture: {out.with_suffix('.png')}" in told.replace("\n", "")


def test_every_benchmark_leaves_a_picture_whichever_groups_were_measured(tmp_path: Path) -> None:
    for name in SUITES:
        out = tmp_path / f"{name}.json"
        found = {"asked.suite": name, "measured_mbps": 12.5}
        assert measuring.draw(found, out) == [out.with_suffix(".png")]
        assert out.with_suffix(".png").stat().st_size > 1000
    assert measuring.draw({"asked.suite": "acc"}, tmp_path / "none.json") == []


def test_a_picture_of_the_benchmarks_own_is_drawn_again_from_its_figures(tmp_path: Path) -> None:
    found = {"asked.suite": "transport", "veth_lttp_1_goodput_gbps": 7.0}
    drawn, generic = tmp_path / "own.json", tmp_path / "generic.json"
    assert measuring.draw(found, drawn) == [tmp_path / "own.png"]
    assert measuring.draw({**found, "asked.suite": "none"}, generic) == [tmp_path / "generic.png"]
    assert drawn.with_suffix(".png").read_bytes() != generic.with_suffix(".png").read_bytes()


def test_figures_by_n_are_curves_and_others_bars() -> None:
    flat: dict[str, Any] = {
        f"{who}_goodput_mbps_n{n}": n for who in ("weir", "sdtcp_letter") for n in (1, 2, 4)
    }
    flat |= {"weir_goodput_mbps_n1_odd": 3, "delay_p50_us": 5.5, "delay_samples_us": [1, 2]}
    flat |= {"machine.processors": 2, "measured_at": "now", "failed": "", "is_valid": True}
    bars, curves = bench_picture.panels(flat)
    points = {1.0: 1.0, 2.0: 2.0, 4.0: 4.0}
    assert curves == {"goodput_mbps": {"weir": points, "sdtcp_letter": points}}
    assert bars == {"mbps": {"weir_goodput_mbps_n1_odd": 3.0}, "us": {"delay_p50_us": 5.5}}
