"""What ``bench incast`` measures, and what it is to show."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments import runner
from experiments.bench.incast import cells as incast_cells
from experiments.bench.incast import checks as incast_checks
from experiments.bench.incast.plan import DEEP_BUFFER_BYTES, GROUPS
from experiments.bench.sandboxed import Incomplete
from experiments.bench.suites import SUITES
from experiments.measure.record import QUEUE, RECORD
from experiments.workloads.reads import FreshReads, Reads
from recorded import data, queue
from testbed.config import HostSettings

CELLS = {cell.suffix: cell for cells in GROUPS.values() for cell in cells()}


def test_cells_have_names_of_their_own() -> None:
    names = Counter(cell.suffix for cells in GROUPS.values() for cell in cells())
    counted = {f"_{name}" for name in SUITES["incast"].groups}
    assert set(names.values()) == {1}
    assert not counted & set(names)
    assert set(GROUPS) <= set(SUITES["incast"].groups)


def test_every_check_is_of_something_that_is_measured() -> None:
    known = {f"_{name}" for name in SUITES["incast"].groups} | set(CELLS)
    for name in [*(name for name, _ in incast_checks.least()), *incast_checks.none()]:
        assert any(name.endswith(suffix) for suffix in known), name
    hosts = incast_checks.host_suffixes()
    assert len(hosts) == 32
    assert set(hosts) <= known


def test_cells_are_what_they_are_called() -> None:
    quick = CELLS["_n48_quickack"].spec
    assert quick.host == runner.usual_host(quickack=True)
    assert (quick.workload.senders, quick.workload.connections, quick.topology) == (24, 48, "star")
    assert CELLS["_n100_iw1"].spec.host.initcwnd == 1
    many = CELLS["_n1000"].spec.workload
    assert isinstance(many, Reads)
    assert (many.senders, many.connections, many.block_bytes) == (40, 1000, 25_000_000)
    fresh = CELLS["_fresh_n120_100kb"]
    assert isinstance(fresh.spec.workload, FreshReads)
    assert fresh.spec.workload.shares() == [100_000] * 120
    assert fresh.contenders["fifo_8mib"] == {"scheme": "fifo", "buffer_bytes": DEEP_BUFFER_BYTES}
    assert CELLS["_n32_16kib"].spec.buffer_bytes == 16 * 1024
    beside = CELLS["_fig8_background_n16_quickack"].spec
    assert (beside.topology, beside.background, beside.host.quickack) == ("fig8", True, True)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[runner.RunSpec]:
    """Replaces runs, all of which are alike."""
    ran: list[runner.RunSpec] = []

    def record(spec: runner.RunSpec, out: Path) -> int:
        ran.append(spec)
        if spec.scheme == "reno" and spec.buffer_bytes == 16 * 1024:
            return 1
        out.mkdir(parents=True)
        (out / RECORD).write_text(json.dumps(data(spec.scheme, checks=[])))
        queue().save(out / QUEUE)
        return 0

    monkeypatch.setattr(runner, "run", record)
    return ran


def test_a_group_has_its_figures_and_names_what_is_missing(
    tmp_path: Path, ran: list[runner.RunSpec]
) -> None:
    with pytest.raises(Incomplete) as incomplete:
        incast_cells.run(
            lambda _line: None, cells="buffers", schemes=["weir", "reno"], repeats=1,
            records=str(tmp_path), host={"quickack": True},
        )  # fmt: skip
    assert incomplete.value.what == ["reno_n32_16kib"]
    figures = incomplete.value.figures
    assert figures["weir_goodput_mbps_n32_32kib"] > 0
    assert figures["weir_total_mbps_n32_32kib"] > figures["weir_goodput_mbps_n32_32kib"]
    assert figures["weir_vs_reno_n32_32kib"] == 1
    assert {spec.host for spec in ran} == {
        HostSettings(rmem_max_bytes=runner.RECEIVE_BUFFER_BYTES, quickack=True)
    }


def test_a_fifo_is_always_compared_with(tmp_path: Path, ran: list[runner.RunSpec]) -> None:
    figures = incast_cells.run(
        lambda _line: None, cells="fresh", schemes=["weir"], repeats=3, records=str(tmp_path)
    )
    assert figures["weir_vs_fifo_8mib_fresh_n16_25kb"] == 1
    assert {spec.scheme for spec in ran} == {"weir", "fifo"}
    assert len(ran) == 2 * 2 * len(GROUPS["fresh"]()), "none more than twice"


def test_checks_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    figures: dict[str, Any] = {
        "weir_goodput_mbps_n48": 87.5, "weir_timeouts_n48": 0.0, "weir_drops_n48": 3.0,
        "weir_vs_fifo_8mib_fresh_n16_25kb": 0.96, "weir_goodput_mbps_n1000": 80.0,
    }  # fmt: skip
    figures |= incast_checks.conclude(figures)
    holds = {check["name"]: check["holds"] for check in figures["checks"]}
    assert holds == {
        "weir_goodput_mbps_n48": False, "weir_timeouts_n48": True, "weir_drops_n48": False,
        "weir_vs_fifo_8mib_fresh_n16_25kb": True, "weir_goodput_mbps_n1000": True,
    }  # fmt: skip
    assert figures["checks_missed"] == 2
    incast_checks.show(figures, Path("out"), Console(width=120))
    told = capsys.readouterr().out
    assert "weir_goodput_mbps_n48: 87.5; should be: at least 88" in told
    assert "3 of 5 checks hold" in told
