"""Sweeps: what is measured, what is not measured again, and what becomes of it as data."""

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import figure_made
import recorded
from experiments import runner
from experiments.bench import measuring
from experiments.figures import metrics, results, sweep
from experiments.figures.compare import compare
from experiments.figures.results import Row
from experiments.figures.spec import Bench, Figure
from experiments.measure.record import QUEUE, RECORD
from experiments.runner import RunSpec

VOID_CHECK = {"name": "processors", "measured": "1 % idle", "bound": "20 %", "holds": False}


class Machine:
    """Stands in for the runs: what was asked for, and which of them are to be void or fail."""

    def __init__(self) -> None:
        self.asked: list[RunSpec] = []
        self.statuses: Callable[[int], int] = lambda _: 0
        self.code = "as it is"

    def run(self, spec: RunSpec, out: Path, *, log: Path | None = None) -> int:
        assert log is not None
        self.asked.append(spec)
        status = self.statuses(len(self.asked))
        out.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        if status not in (0, runner.VOID):
            return status
        # The second of both blocks takes as long as the seed says.
        written = recorded.data(spec.scheme, spec=spec.as_record())
        seed = spec.as_record()["workload"]["seed"]
        written["operations"][1]["end_ns"] += seed * recorded.MS
        environment = {"commit": "c0ffee", "switch_build": "built", "code": self.code}
        written["environment"] |= environment
        if status == runner.VOID:
            written["checks"].append(VOID_CHECK)
        (out / RECORD).write_text(json.dumps(written))
        recorded.queue().save(out / QUEUE)
        return status


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(runner, "run", made.run)
    monkeypatch.setattr(sweep, "find_prefix", lambda _: Path("/x/built"))
    monkeypatch.setattr(sweep, "code", lambda: made.code)
    return made


def measure(figure: Figure, out: Path, **options: Any) -> tuple[sweep.Outcome, list[str]]:
    said: list[str] = []
    return sweep.measure(figure, out, said.append, name="made", **options), said


def test_what_is_there_and_valid_is_not_measured_again(machine: Machine, tmp_path: Path) -> None:
    outcome, said = measure(figure_made.figure(), tmp_path)
    assert (outcome.wanted, outcome.done, outcome.there) == (8, 8, 0)
    assert said[0] == "[1/8] reno, 2, repeat 1: begins; 1 min left"
    assert said[1].startswith("[1/8] reno, 2, repeat 1: 53.")
    outcome, said = measure(figure_made.figure(), tmp_path)
    assert (outcome.there, outcome.done) == (8, 0)
    assert len(machine.asked) == 8
    assert said == ["8 of 8 runs are there already"]
    # One more repeat and one more value: only these.
    more = figure_made.figure(repeats=3, sweep={"axis": "senders", "values": [2, 4, 8]})
    outcome, _ = measure(more, tmp_path)
    assert (outcome.there, outcome.done) == (8, 10)


def test_another_setting_is_another_run(tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    outcome, _ = measure(figure_made.figure(hosts={"quickack": True}), tmp_path)
    assert (outcome.there, outcome.done) == (0, 8)
    outcome, _ = measure(figure_made.figure(title="Another", hosts={"quickack": True}), tmp_path)
    assert outcome.there == 8, "a title decides no run"


def test_runs_of_another_setting_are_not_shown(tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    changed = figure_made.figure(hosts={"quickack": True})
    measure(changed, tmp_path, minutes=0.0)
    with pytest.raises(ValueError, match=r"nothing has been measured yet as sweep\.json says"):
        results.load(tmp_path)
    # Of one line alone: the other's runs are still what the figure wants.
    lines = [{"name": "reno", "paper": "TCP", "hosts": {"quickack": True}}, "weir"]
    measure(figure_made.figure(lines=lines), tmp_path, minutes=0.0)
    assert {row.line for row in results.load(tmp_path).rows} == {"weir"}


def test_a_key_of_another_version_is_named(tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    described = tmp_path / sweep.SWEEP
    told = json.loads(described.read_text())
    told["figure"]["setting"]["colour"] = "red"
    described.write_text(json.dumps(told))
    wrong = r"another version \(setting\.colour: there is no such key\)"
    with pytest.raises(ValueError, match=wrong):
        results.load(tmp_path)


def test_another_switch_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure(figure_made.figure(), tmp_path)
    monkeypatch.setattr(sweep, "find_prefix", lambda _: Path("/x/built-since"))
    outcome, _ = measure(figure_made.figure(), tmp_path)
    assert outcome.there == 0


def test_other_code_is_another_run(machine: Machine, tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    machine.code = "changed"
    outcome, _ = measure(figure_made.figure(), tmp_path)
    assert (outcome.there, outcome.done) == (0, 8)
    told = results.provenance(results.load(tmp_path))
    assert (told["commit"], told["code"]) == ("c0ffee", "changed")


def test_a_half_written_record_is_measured_again(tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    broken = next((tmp_path / sweep.RUNS).rglob(RECORD))
    broken.write_text(broken.read_text()[:100])
    assert measure(figure_made.figure(), tmp_path)[0].done == 1


def test_a_void_run_is_done_again_and_kept(machine: Machine, tmp_path: Path) -> None:
    machine.statuses = lambda number: runner.VOID if number == 1 else 0
    outcome, said = measure(figure_made.figure(), tmp_path)
    assert (outcome.done, outcome.again, outcome.void) == (8, 1, 0)
    assert len(machine.asked) == 9
    void = tmp_path / sweep.RUNS / "reno" / "senders=2" / "1-void1"
    assert (void / RECORD).exists()
    assert said[1].endswith("valid")
    found = results.load(tmp_path)
    counted = {(c.line, c.x): (c.runs, c.void) for c in found.cells if c.metric == "goodput_mbps"}
    assert counted == {
        ("reno", 2): (2, 1), ("reno", 4): (2, 0), ("weir", 2): (2, 0), ("weir", 4): (2, 0),
    }  # fmt: skip
    told = results.provenance(found)
    assert (told["runs"], told["void_runs"]) == (9, 1)
    assert {row.origin.folder for row in found.rows if not row.origin.valid} == {
        str(void.relative_to(tmp_path))
    }


@pytest.mark.usefixtures("machine")
def test_what_is_claimed_is_read_although_nobody_draws_it(tmp_path: Path) -> None:
    claim = {
        "kind": "level", "text": "A link's worth", "source": "a test", "metric": "total_mbps",
        "line": "weir", "least": 1,
    }  # fmt: skip
    figure = figure_made.figure(claims=[claim])
    assert "total_mbps" not in [*metrics.USUAL, *(panel.metric for panel in figure.panels)]
    measure(figure, tmp_path)
    assert {c.x for c in results.load(tmp_path).cells if c.metric == "total_mbps"} == {2, 4}


def test_a_run_that_stays_void_is_counted_and_left_out(machine: Machine, tmp_path: Path) -> None:
    figure = figure_made.figure(lines=["reno"], quick={}, sweep={"axis": "senders", "values": [2]})
    # Of the first repeat all three, the last of which stays; then one that is valid.
    machine.statuses = lambda number: runner.VOID if number <= 3 else 0
    outcome, said = measure(figure, tmp_path)
    assert (outcome.done, outcome.again, outcome.void) == (2, 2, 1)
    assert "void: processors" in said[1]
    (cell,) = [c for c in results.load(tmp_path).cells if c.metric == "goodput_mbps"]
    assert (cell.runs, cell.void) == (1, 3)
    assert cell.band.low == cell.band.high, "the void ones do not count"
    # It is not tried for ever.
    assert measure(figure, tmp_path)[0].there == 2
    told = results.provenance(results.load(tmp_path))
    assert (told["void_runs"], told["void_because"]) == (3, {"processors": 3})


def test_void_runs_of_other_code_or_settings_count_for_nothing(
    machine: Machine, tmp_path: Path
) -> None:
    def one(**changes: Any) -> Figure:
        swept = {"axis": "senders", "values": [2]}
        return figure_made.figure(lines=["reno"], quick={}, sweep=swept, repeats=1, **changes)

    machine.statuses = lambda number: runner.VOID if number <= 3 else 0
    assert measure(one(), tmp_path)[0].void == 1
    machine.code = "changed"
    # Two more may be void, beside those there are; what is void for the third time stays.
    machine.statuses = lambda number: runner.VOID if number <= 5 else 0
    outcome, _ = measure(one(), tmp_path)
    assert (outcome.again, outcome.void, outcome.done) == (2, 0, 1)
    (cell,) = [c for c in results.load(tmp_path).cells if c.metric == "goodput_mbps"]
    assert (cell.runs, cell.void) == (1, 2)
    machine.statuses = lambda number: runner.VOID if number == 7 else 0
    outcome, _ = measure(one(hosts={"quickack": True}), tmp_path)
    assert (outcome.again, outcome.done) == (1, 1)
    (cell,) = [c for c in results.load(tmp_path).cells if c.metric == "goodput_mbps"]
    assert (cell.runs, cell.void) == (1, 1)


def test_a_failure_is_named_and_the_others_are_done(machine: Machine, tmp_path: Path) -> None:
    machine.statuses = lambda number: int(number == 2)
    outcome, said = measure(figure_made.figure(), tmp_path)
    assert outcome.failed == ["weir, 2, repeat 1"]
    assert outcome.done == 7
    assert any("FAILED" in line and "progress.log" in line for line in said)
    assert measure(figure_made.figure(), tmp_path)[0].done == 1, "it is tried again"


def test_an_interrupt_ends_it_at_once(machine: Machine, tmp_path: Path) -> None:
    machine.statuses = lambda number: 130 if number == 3 else 0
    outcome, _ = measure(figure_made.figure(), tmp_path)
    assert (outcome.status, outcome.done) == (130, 2)
    assert outcome.there + outcome.done < outcome.wanted


def test_it_stops_when_the_time_is_over(tmp_path: Path) -> None:
    outcome, said = measure(figure_made.figure(), tmp_path, minutes=0.0)
    assert outcome.done == 0
    assert said == ["the time is over; the same command goes on with the others"]


def test_a_line_that_cannot_be_is_left_out(tmp_path: Path) -> None:
    figure = figure_made.figure(lines=["reno", "teleport"], quick={})
    outcome, said = measure(figure, tmp_path)
    assert outcome.missing == {"teleport": "there is no scheme 'teleport'"}
    assert (outcome.wanted, outcome.done) == (4, 4)
    assert said[0] == "teleport: left out: there is no scheme 'teleport'"
    nowhere = figure_made.figure(workload={"name": "miracle"})
    assert measure(nowhere, tmp_path / "none")[0].wanted == 0


def test_a_part_of_a_figure_does_not_hide_the_rest(tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    part = figure_made.figure(lines=["weir"], quick={}, repeats=1)
    measure(part, tmp_path)
    found = results.load(tmp_path)
    assert {cell.line for cell in found.cells} == {"reno", "weir"}
    assert {row.repeat for row in found.rows} == {1, 2}


def test_the_time_left_follows_what_runs_took() -> None:
    pace = sweep.Pace(10)
    assert pace.left_s([("reno", 2), ("weir", 2)]) == 20
    pace.took(("reno", 2), 4)
    assert pace.left_s([("reno", 2), ("weir", 2)]) == 8
    pace.took(("weir", 2), 8)
    assert pace.left_s([("reno", 2), ("weir", 2), ("sdtcp", 2)]) == 4 + 8 + 6
    assert [sweep.in_words(s) for s in (42, 130, 4500)] == ["42 s", "2 min", "1 h 15 min"]


def test_values_are_tidy_and_tell_where_they_come_from(tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    found = results.load(tmp_path)
    results.write(found, tmp_path)
    with (tmp_path / results.DATA).open() as lines:
        rows = list(csv.DictReader(lines))
    table = pq.read_table(tmp_path / results.PARQUET)
    assert table.num_rows == len(rows) == len(found.rows)
    assert tuple(rows[0]) == tuple(table.column_names) == results.COLUMNS
    (one,) = [
        row
        for row in rows
        if (row["line"], row["x"], row["repeat"], row["metric"])
        == ("weir", "2.0", "2", "goodput_mbps")
    ]
    # 2 MB in 300 ms and, of seed 2, 2 ms.
    assert float(one["value"]) == pytest.approx(16e3 / 302)
    assert (one["seed"], one["valid"], one["commit"]) == ("2", "True", "c0ffee")
    assert one["hosts"].startswith("reno, initial window 10")
    assert one["folder"] == "runs/weir/senders=2/2"
    assert len(one["configuration"]) == 12
    values = table.filter(table["metric"].to_numpy() == "goodput_mbps")["value"].to_pylist()
    assert sorted(values) == sorted(
        float(r["value"]) for r in rows if r["metric"] == "goodput_mbps"
    )
    assert json.loads(table.schema.metadata[b"weir.figure"])["title"] == found.figure.title  # type: ignore[union-attr]


def test_a_summary_can_be_read_again(tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    found = results.load(tmp_path)
    results.write_summary(found.cells, tmp_path / "s.csv", {"goodput_mbps"})
    again = results.read_summary(tmp_path / "s.csv")
    assert [(c.line, c.x, c.runs) for c in again] == [
        (line, x, 2) for line in ("reno", "weir") for x in (2.0, 4.0)
    ]
    assert again[0].band.median == pytest.approx(16e3 / 301.5, rel=1e-3)
    with pytest.raises(ValueError, match="its columns are not"):
        results.read_summary(tmp_path / sweep.SWEEP)


def test_what_has_ended_counts_as_nothing_in_medians_over_time() -> None:
    def series(metric: str, folder: str, values: Sequence[float], **origin: Any) -> list[Row]:
        of = results.Origin(folder=folder, **origin)
        return [Row("reno", 8, k / 10, metric, v, 1, of) for k, v in enumerate(values)]

    def medians(metric: str) -> list[float]:
        runs = [series(metric, n, v) for n, v in (("1", [90, 90]), ("2", [80, 80]), ("3", [7] * 4))]
        rows = [row for run in runs for row in run]
        return [cell.band.median for cell in results.cells(rows)]

    # Of three runs two have ended after 0.2 s: half of the time nothing was sent any more.
    assert medians("workload_rate_mbps") == [80, 80, 0, 0]
    assert medians("queue_packets") == [80, 80, 0, 0]
    assert medians("cwnd_segments") == [80, 80, 7, 7], "a window that is no more has no size"


def test_runs_of_any_kind_are_data(tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    plain = results.load(tmp_path / sweep.RUNS)
    assert plain.figure is None
    assert {(cell.line, cell.x) for cell in plain.cells} == {("reno", 2.0), ("reno", 4.0),
        ("weir", 2.0), ("weir", 4.0)}  # fmt: skip
    with pytest.raises(ValueError, match=r"it has no record\.json"):
        results.load(tmp_path / sweep.RUNS / "reno" / "senders=2" / "1" / "none")


def test_differences_have_bands(tmp_path: Path) -> None:
    measure(figure_made.figure(repeats=3), tmp_path / "a")
    measure(figure_made.figure(repeats=3, seed=101), tmp_path / "b")
    a, b = results.load(tmp_path / "a"), results.load(tmp_path / "b")
    found = compare(a, b, ["goodput_mbps"])
    assert len(found) == 4
    one = found[0]
    assert (one.of, one.to) == (
        pytest.approx(16e3 / 302, 1e-3),
        pytest.approx(16e3 / 402, 1e-3),
    )
    assert one.difference.low <= one.difference.median <= one.difference.high
    assert one.differs
    assert one.runs == (3, 3)
    assert not compare(a, a, ["goodput_mbps"])[0].differs
    with pytest.raises(ValueError, match="have no valid runs of the same line"):
        compare(a, b, ["beauty"])


class Benchmark:
    """Stands in for the measuring of a benchmark: with what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[measuring.Comparison] = []
        self.state: dict[str, Any] = {"code": "as it is"}

    def run(
        self, suite: str, only: Any, out: Path, comparison: measuring.Comparison, *, quick: bool
    ) -> int:
        self.asked.append(comparison)
        flat = {"lttp_goodput_mbps_n6_64k": 80.0 + len(self.asked), "failed": "", **self.state}
        flat |= measuring.asked(suite, only, comparison, quick=quick)
        out.write_text(json.dumps(flat))
        return 0


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    made = Benchmark()
    monkeypatch.setattr(measuring, "run", made.run)
    monkeypatch.setattr(measuring, "state", lambda _: made.state)
    return made


def of_benchmark(seed: int = 1, **changes: Any) -> Figure:
    bench = {"suite": "lttp", "groups": ["n6"], "patterns": {"mbps": r"(?P<line>lttp)_.*_64k"}}
    return figure_made.figure(
        lines=["lttp"], sweep=None, panels=[{"metric": "mbps"}], quick={}, seed=seed,
        bench=bench | changes,
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [{"groups": ["n1", "n6"]}, {"schemes": ["lttp"]}, {"suites_quick": True}],
)
def test_a_benchmark_is_measured_again_where_more_than_its_name_differs(
    changes: dict[str, Any], benchmark: Benchmark, tmp_path: Path
) -> None:
    measure(of_benchmark(), tmp_path)
    assert len(benchmark.asked) == 2
    assert measure(of_benchmark(), tmp_path)[0].there == 2
    assert len(results.load(tmp_path).rows) == 2
    other = of_benchmark(**changes)
    measure(other, tmp_path, minutes=0.0)
    with pytest.raises(ValueError, match="nothing has been measured yet"):
        results.load(tmp_path)
    assert measure(other, tmp_path)[0].done == 2


def test_repeats_of_a_benchmark_have_seeds_of_their_own(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    measure(of_benchmark(seed=5), tmp_path)
    assert [one.seed for one in benchmark.asked] == [5, 6]
    assert {row.origin.seed for row in results.load(tmp_path).rows} == {5, 6}


def test_a_benchmark_is_measured_again_by_other_code(benchmark: Benchmark, tmp_path: Path) -> None:
    measure(of_benchmark(), tmp_path)
    benchmark.state = {"code": "changed"}
    assert measure(of_benchmark(), tmp_path)[0].done == 2
    assert {row.origin.code for row in results.load(tmp_path).rows} == {"changed"}


def test_void_runs_of_a_benchmark_are_counted(benchmark: Benchmark, tmp_path: Path) -> None:
    benchmark.state |= {"lttp_void_runs_n6_64k": 2.0, "lttp_void_runs_n6_256k": 1.0}
    measure(of_benchmark(patterns={"mbps": r"(?P<line>lttp)_good.*_64k"}), tmp_path)
    found = results.load(tmp_path)
    (cell,) = found.cells
    assert (cell.runs, cell.void) == (2, 4)
    assert results.provenance(found)["void_runs"] == 6, "those of other figures, too"


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("lttp_goodput_mbps_n36_64k", 1),
        ("lttp_mtu_goodput_mbps_n36_64k", 2),
        ("lttp_overhead_pct_n36_128k", 0),
        ("dfcp_goodput_mbps_loss0.1_rtt10", 3),
        ("fairness_5l5t_jain", 4),
        ("fairness_5l5t_tfrc_jain", 5),
        ("cost_cpu_pct_n600", 0),
    ],
)
def test_void_runs_are_counted_under_a_name_like_the_figure_s(name: str, counted: int) -> None:
    flat = {
        name: 1.0, "lttp_void_runs_n36_64k": 1, "lttp_mtu_void_runs_n36_64k": 2,
        "dfcp_void_runs_loss0.1_rtt10": 3, "dfcp_void_runs_loss1_rtt10": 9,
        "fairness_5l5t_void_runs": 4, "fairness_5l5t_tfrc_void_runs": 5,
    }  # fmt: skip
    patterns = {"mine": re.escape(name)}
    bench = Bench(suite="lttp", patterns=patterns, line="weir")
    (row,) = results.matched(flat, bench, 1, results.Origin())
    assert row.void_before == counted


def test_the_quick_variant_goes_elsewhere(tmp_path: Path) -> None:
    measure(figure_made.figure(), tmp_path)
    with pytest.raises(ValueError, match=r"has results of made: choose another --out"):
        measure(figure_made.figure().quickly(), tmp_path, quick=True)


@pytest.mark.parametrize(("repeats", "differs"), [(1, False), (2, False), (3, True)])
def test_a_few_runs_tell_no_difference(repeats: int, *, differs: bool, tmp_path: Path) -> None:
    measure(figure_made.figure(repeats=3), tmp_path / "a")
    measure(figure_made.figure(repeats=repeats, seed=101), tmp_path / "b")
    a, b = results.load(tmp_path / "a"), results.load(tmp_path / "b")
    (one, *_) = compare(a, b, ["goodput_mbps"])
    assert one.difference.low > 0
    assert one.differs is differs


def test_a_benchmark_s_figures_become_rows() -> None:
    figure = figure_made.figure(
        lines=["reno", "weir"], sweep=None, quick={},
        panels=[{"metric": "mbps"}],
        bench={
            "suite": "lttp",
            "patterns": {"mbps": r"(?P<line>\w+?)_mbps_n(?P<x>\w+)", "all_ms": "all_ms"},
            "names": {"many": 99},
            "line": "all",
        },
    )  # fmt: skip
    flat = {
        "reno_mbps_n4": 5, "weir_mbps_n4": 7.5, "weir_mbps_nmany": 1, "all_ms": 3.0, "failed": "",
        "other": 1,
    }  # fmt: skip
    assert figure.bench is not None
    rows = results.matched(flat, figure.bench, 2, results.Origin())
    assert [(r.line, r.x, r.metric, r.value, r.repeat) for r in rows] == [
        ("reno", 4.0, "mbps", 5.0, 2), ("weir", 4.0, "mbps", 7.5, 2), ("weir", 99, "mbps", 1.0, 2),
        ("all", 0.0, "all_ms", 3.0, 2),
    ]  # fmt: skip
