"""Reports say what the records say."""

import io
import json
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
from rich.console import Console

from experiments import cli
from experiments.measure.record import QUEUE, RECORD, Run
from experiments.measure.trace import parse
from experiments.report import figure, summary, table
from recorded import MS, data, host, queue, run

FAILED = {"name": "shaped rate", "measured": "90", "bound": "98 to 102", "holds": False}


def printed(*parts: object) -> str:
    out = io.StringIO()
    console = Console(file=out, width=200)
    for part in parts:
        console.print(part)
    return out.getvalue()


def test_summary_is_flat_and_has_the_figures() -> None:
    flat = summary.summary({"n2": {"reno": run("reno"), "weir": run("weir")}})
    assert not any(isinstance(value, dict | list) for value in flat.values())
    expected = {
        "n2.link_mbps": 100,
        "n2.senders": 2,
        "valid": True,
        "n2.reno.goodput_mbps": pytest.approx(53.333),
        "n2.weir.goodput_mbps": pytest.approx(53.333),
        "n2.weir.timeouts": 3,
        "n2.weir.block_time_mean_ms": 125,
        "n2.weir.block_time_p99_ms": 150,
        "n2.weir.background_mbps": pytest.approx(0.016),
        "n2.weir.bottleneck_drops": 1,
        "n2.weir.cn_events": 1,
        "n2.weir.cr_events": 1,
        "n2.weir.window_sets": 1,
        "n2.weir.host.tcp_congestion_control": "reno",
        "n2.weir.check.shaped rate.holds": True,
    }
    assert {key: flat[key] for key in expected} == expected


def test_one_failed_check_of_one_run_voids_all(tmp_path: Path) -> None:
    runs = [run("reno", checks=[FAILED]), run("weir")]
    flat = summary.write({"n2": {run.scheme.name: run for run in runs}}, tmp_path / "summary.json")
    assert flat["valid"] is False
    assert flat["n2.reno.check.shaped rate"] == "90"
    assert json.loads((tmp_path / "summary.json").read_text()) == flat
    assert "Reno at 2: shaped rate: 90; should be: 98 to 102" in printed(table.verdict(runs))


def test_table() -> None:
    text = printed(table.comparison([run("reno"), run("weir")]))
    assert "2 blocks of 1000 kB from 2 senders, 100 Mb/s, 64 KiB buffer" in table.setting(run())
    for cell in ("Reno", "Weir", "53.3", "125", "150"):
        assert cell in text
    assert "valid: all 2 checks hold" in printed(table.verdict([run("reno"), run("weir")]))


def test_hosts_are_told_as_they_were_read_back() -> None:
    text = table.hosts([run()])
    assert text.count("reno") == 1, "hosts that are alike are told once"
    for part in ("initial window 10 (default)", "RTOmin 200 ms", "up to 6 MiB"):
        assert part in text
    route = host()["route"] + " rto_min lock 10ms initcwnd 2 quickack 1"
    changed = data()["hosts"] | {"h2": host() | {"route": route}}
    text = table.hosts([run(hosts=changed)])
    assert "initial window 2, delayed ACK off, RTOmin 10ms" in text
    assert text.count("reno") == 2


def test_picture(tmp_path: Path) -> None:
    figure.draw([[run("reno"), run("weir")]], tmp_path / "demo.png")
    picture = matplotlib.image.imread(tmp_path / "demo.png")
    height, width, _ = picture.shape
    assert width > height > 500
    assert picture.std() > 0.05, "something is drawn"


def test_picture_of_a_queue_that_nobody_used(tmp_path: Path) -> None:
    figure.draw([[Run(data(), parse(""))]], tmp_path / "demo.png")
    assert (tmp_path / "demo.png").stat().st_size > 0


def alone() -> Run:
    """A run without a background flow, over three connections to each sender."""
    spec = data()["spec"]
    spec["background"] = False
    spec["workload"]["connections_per_sender"] = 3
    nothing = {"start_ns": 0, "bin_ns": 50 * MS, "bytes": []}
    return run(spec=spec, background_bytes=nothing)


def test_a_run_without_background_flow_has_no_figures_of_one(tmp_path: Path) -> None:
    assert "2 senders with 3 connections each" in table.setting(alone())
    assert "no background flow" in table.setting(alone())
    text = printed(table.comparison([run(), alone()]))
    (line,) = (line for line in text.splitlines() if "background flow" in line)
    assert line.split("│")[-2].strip() == "-"
    flat = summary.summary({"n2": {"weir": run()}, "n6": {"weir": alone()}})
    assert flat["n2.background"] is True
    assert flat["n6.background"] is False
    assert "n2.weir.background_mbps" in flat
    assert "n6.weir.background_mbps" not in flat
    figure.draw([[run("reno"), run()], [alone()]], tmp_path / "demo.png")
    height, _width, _ = matplotlib.image.imread(tmp_path / "demo.png").shape
    assert height > 1000, "a setting below the other"


def test_the_table_fits_a_terminal_with_two_settings_of_three_schemes() -> None:
    runs = [run(name) for name in ("reno", "dctcp", "weir")] * 2
    out = io.StringIO()
    Console(file=out, width=80).print(table.comparison(runs))
    assert "…" not in out.getvalue()


def test_a_congestion_control_of_a_route_prevails() -> None:
    route = host()["route"] + " congctl cubic"
    assert table.hosts([run(hosts={"h1": host() | {"route": route}})]).startswith("hosts: cubic,")
    registered = host() | {"tcp_congestion_control": "dctcp_f000019c"}
    text = table.hosts([run(hosts={"h1": host()}), run("dctcp", hosts={"h1": registered})])
    assert text.startswith("hosts: dctcp or reno,")


def record(folder: Path, scheme: str, **changes: Any) -> None:
    folder.mkdir(parents=True)
    (folder / RECORD).write_text(json.dumps(data(scheme, **changes)))
    queue().save(folder / QUEUE)


def reported(capsys: pytest.CaptureFixture[str], out: Path, *folders: Path) -> tuple[int, str]:
    status = cli.main(["report", *map(str, folders), "--out", str(out)])
    return status, capsys.readouterr().out


def test_a_report_of_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that were set alike stand side by side, under the names that the demonstration has."""
    for scheme in ("reno", "weir"):
        record(tmp_path / "demo/n32" / scheme, scheme)
        record(tmp_path / "demo/n120" / scheme, scheme, spec=data(scheme)["spec"] | {"rate_bps": 5})
    status, said = reported(capsys, tmp_path / "out", tmp_path / "demo")
    assert status == 0
    assert said.count("Reno") == 2
    assert "n32: 2 blocks of 1000 kB from 2 senders, 100 Mb/s" in said
    flat = json.loads((tmp_path / "out/summary.json").read_text())
    assert flat["n120.weir.goodput_mbps"] == flat["n32.reno.goodput_mbps"]
    assert (tmp_path / "out/report.png").stat().st_size > 0


def test_a_report_of_runs_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = data()["spec"]
    record(tmp_path / "runs/weir-1", "weir")
    record(tmp_path / "runs/weir-2", "weir", checks=[FAILED])
    record(tmp_path / "runs/deep", "weir", spec=spec | {"buffer_bytes": 1 << 20})
    status, said = reported(capsys, tmp_path / "out", *(tmp_path / "runs").iterdir())
    assert status == 3
    assert "weir-2" in said
    assert "1024 KiB buffer" in said
    assert "shaped rate: 90" in said
    assert len([key for key in summary_of(tmp_path) if key.endswith(".goodput_mbps")]) == 3


def summary_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out/summary.json").read_text())
    return found


def test_a_report_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("weir-experiment: no run has been recorded in ")
