"""The commands around figures: what they teach, what they refuse, what they write."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

import figure_made
import recorded
from experiments import cli, runner
from experiments.bench import measuring
from experiments.figures import catalogue, sweep
from experiments.figures.spec import parse
from experiments.measure.record import QUEUE, RECORD
from experiments.runner import RunSpec


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[RunSpec]:
    """Replaces runs by a recorded one, in an empty folder; which were asked for."""
    specs: list[RunSpec] = []

    def run(spec: RunSpec, out: Path, *, log: Path | None = None) -> int:
        del log
        specs.append(spec)
        out.mkdir(parents=True, exist_ok=True)
        written = recorded.data(spec.scheme, spec=spec.as_record())
        (out / RECORD).write_text(json.dumps(written))
        recorded.queue().save(out / QUEUE)
        return 0

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(sweep, "find_prefix", lambda _: Path("/x/built"))
    monkeypatch.setattr(sweep, "available", lambda _name, *, say: bool(say))
    monkeypatch.chdir(tmp_path)
    return specs


@pytest.mark.parametrize(
    ("argv", "taught"),
    [
        (["list", "--help"], ["claims", "WEIR_FIGURES"]),
        (["run", "--help"], ["sdtcp-fig9 --quick", "--minutes", "--sweep", "axes", "buffer_kib"]),
        (["report", "--help"], ["index.html", "Without DIR", "record"]),
        (["compare", "--help"], ["A less B", "bootstrap"]),
        (["export", "--help"], ["data.parquet", "stolen time", "provenance.json"]),
        (["plot", "--help"], ["SVG, PNG, PDF", ".json"]),
        (["keep", "--help"], ["results.csv"]),
    ],
)
def test_help(argv: list[str], taught: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert [part for part in taught if part not in text] == []


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ("run", "run what? name a figure"),
        ("run --quick --scheme weir", "--quick is of figures"),
        ("run --scheme wier", "no scheme 'wier': did you mean weir? There are"),
        ("run sdtcp-fig99", "no figure 'sdtcp-fig99': there are dfcp-fig9"),
        ("run sdtcp-fig9 --rate 50", "--rate is set by the figure: copy its figure.toml"),
        ("run sdtcp-fig9 --no-background", "--no-background is set by the figure"),
        ("run sdtcp-fig9 --scheme wier", "no line and no scheme 'wier': the figure's lines are"),
        ("run --scheme reno,lttp", "TCP carries nothing under lttp"),
        ("run sdtcp-fig9 --scheme reno,lttp", "TCP carries nothing under lttp"),
        ("run sdtcp-fig9 --sweep buffer_kib=1", "the figure varies connections"),
        ("run weir-buffers --senders 3", "the figure varies buffer_kib; use --sweep"),
        ("run sdtcp-fig16 --senders 3", "this figure's values are a benchmark's"),
        ("run sdtcp-fig9 --repeat 0", "--repeat must be at least 1, not 0"),
        ("run none.toml", "none.toml: No such file"),
        ("run --scheme weir --sweep colour=1", "no axis 'colour': there are connections"),
        ("run --scheme weir --sweep buffer_kib", "is not AXIS=VALUE"),
        (
            "run --scheme weir --sweep connections=many",
            "--sweep connections=many: 'many' is neither a number nor true or false",
        ),
        ("run sdtcp-fig9 --sweep connections=4,many", "'many' is neither a number nor true or"),
        ("compare a b", "a: is not there"),
        ("export nowhere", "nowhere: is not there"),
        ("plot nowhere", "nowhere: is not there"),
    ],
)
def test_mistakes_are_told_in_a_line(
    argv: str, complaint: str, asked: list[RunSpec], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(argv.split()) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert not asked


def test_a_figure_is_measured_shown_and_reported(
    asked: list[RunSpec], capsys: pytest.CaptureFixture[str]
) -> None:
    words = "run sdtcp-fig9 --quick --scheme reno,weir --senders 4,8 --repeat 2 --seed 7"
    assert cli.main(words.split()) == 0
    assert len(asked) == 8
    assert {spec.scheme for spec in asked} == {"reno", "weir"}
    assert {spec.workload.seed for spec in asked} == {7, 8}  # type: ignore[attr-defined]
    shown = capsys.readouterr()
    assert "8 of 8 runs are there" in shown.out
    assert "recorded in: build/figures/sdtcp-fig9-quick" in shown.out
    assert "2 + 0" in shown.out
    folder = Path("build/figures/sdtcp-fig9-quick")
    assert (folder / "data.parquet").exists()
    assert cli.main(["report", "build/figures", "--out", "build/r", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = {claim["figure"] for claim in told["claims"]}
    assert names == {"sdtcp-fig9", "sdtcp-fig10"}, "the figure that draws the same runs, too"
    assert (Path("build/r/pictures") / "sdtcp-fig10.pdf").exists()


def test_a_file_is_a_sweep(asked: list[RunSpec], capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text(json.dumps(figure_made.written()))
    assert cli.main(["run", "mine.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == "build/sweeps/mine"
    assert (told["wanted"], told["done"], told["void"], told["failed"]) == (8, 8, 0, [])
    assert {point["line"] for point in told["points"]} == {"reno", "weir"}
    assert len(asked) == 8


def test_options_make_a_sweep(asked: list[RunSpec], capsys: pytest.CaptureFixture[str]) -> None:
    words = "run --scheme reno,weir --senders 2,4 --rounds 3 --rate 50 --quickack --repeat 2"
    assert cli.main([*words.split(), "--no-background", "--out", "here"]) == 0
    assert len(asked) == 8
    assert {(spec.rate_bps, spec.host.quickack, spec.background) for spec in asked} == {
        (50_000_000, True, False)
    }
    assert {spec.workload.senders for spec in asked} == {2, 4}
    words = "run --scheme weir --sweep buffer_kib=16,32 --follow 1 --pcap --out b"
    assert cli.main(words.split()) == 0
    assert {spec.buffer_bytes for spec in asked[8:]} == {16 * 1024, 32 * 1024}
    assert all(spec.followed == 1 and spec.captures for spec in asked[8:])
    capsys.readouterr()
    assert cli.main(["compare", "here", "here", "--metric", "goodput_mbps", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told) == 4
    assert not any(one["differs"] for one in told)


def test_a_sweep_s_runs_are_what_a_single_one_is(asked: list[RunSpec]) -> None:
    """Whatever is set by options is set in each of them."""
    words = "run --workload web-search --set load=0.5 seconds=3 --topology leaf-spine --rate 50"
    words += " --shape leaves=3 --buffer 32 --delay 2 --senders 4 --background --follow 2 --pcap"
    words += " --quickack --least-rto 20 --initial-window 4 --mss 1000 --no-sack --seed 9"
    assert cli.main([*words.split(), "--scheme", "reno", "--out", "one"]) == 0
    assert cli.main([*words.split(), "--scheme", "reno,weir", "--out", "two"]) == 0
    one, *swept = asked
    assert (one.followed, one.captures) == (2, True)
    one = replace(one, ovs_prefix="/x/built")
    assert swept == [one, replace(one, scheme="weir")], "and all of a sweep have the same switch"


def test_one_scheme_is_a_run_as_before(
    asked: list[RunSpec], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--scheme", "weir", "--senders", "2", "--rounds", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["goodput_mbps"] == pytest.approx(16e3 / 300, abs=0.001)
    assert len(asked) == 1
    assert not Path("build/run/sweep.json").exists()


def test_data_and_pictures_of_plain_runs(asked: list[RunSpec]) -> None:
    assert cli.main(["run", "--scheme", "weir", "--senders", "2", "--rounds", "2"]) == 0
    assert len(asked) == 1
    assert cli.main(["export", "build/run", "--out", "out"]) == 0
    with Path("out/summary.csv").open() as lines:
        rows = {row["metric"]: row for row in csv.DictReader(lines)}
    assert float(rows["goodput_mbps"]["median"]) == pytest.approx(16e3 / 300, rel=1e-3)
    assert cli.main(["plot", "build/run", "--out", "out"]) == 0
    assert Path("out/run.png").stat().st_size > 1000
    assert cli.main(["report", "build/run", "--out", "out"]) == 0, "as before"
    assert Path("out/report.png").exists()


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a figure of one's own, mine-fig1."""
    folder = tmp_path / "mine" / "fig1"
    folder.mkdir(parents=True)
    lines = ['title = "T"', 'lines = ["reno"]', "repeats = 2", "[sweep]", 'axis = "senders"']
    lines += ["values = [2]", "[[panels]]", 'metric = "goodput_mbps"']
    (folder / "figure.toml").write_text("\n".join(lines))
    monkeypatch.setenv(catalogue.EXTRA, str(tmp_path))
    return folder


def test_what_is_kept_is_whole_and_of_one_state(
    asked: list[RunSpec], mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Path("build/figures/mine-fig1")
    assert cli.main(["run", "mine-fig1", "--repeat", "1"]) == 0
    assert len(asked) == 1
    assert cli.main(["keep", str(out)]) == 2
    assert "1 of its runs are not there (reno, 2, repeat 2)" in capsys.readouterr().err
    assert cli.main(["run", "mine-fig1"]) == 0
    first, second = sorted(out.rglob(RECORD))

    def measured_by(file: Path, commit: str, code: str) -> None:
        record = json.loads(file.read_text())
        record["environment"] |= {"commit": commit, "code": code}
        file.write_text(json.dumps(record))

    measured_by(first, "c0ffee", "a")
    for commit, code, complaint in (
        ("c0ffee-dirty", "a", "with changes that are in no commit (c0ffee-dirty)"),
        ("decade", "b", "by 2 states of the code (commits c0ffee, decade)"),
    ):
        measured_by(second, commit, code)
        assert cli.main(["keep", str(out)]) == 2
        assert complaint in capsys.readouterr().err
    assert not (mine / catalogue.RESULTS).exists()
    # Of another commit, but by the same code.
    measured_by(second, "decade", "a")
    assert cli.main(["keep", str(out)]) == 0
    assert json.loads((mine / catalogue.PROVENANCE).read_text())["commit"] == ["c0ffee", "decade"]


def test_what_is_kept_lies_beside_the_figure(asked: list[RunSpec], mine: Path) -> None:
    assert cli.main(["run", "mine-fig1"]) == 0
    assert len(asked) == 2
    assert cli.main(["keep", "build/figures/mine-fig1"]) == 0
    kept = (mine / catalogue.RESULTS).read_text().splitlines()
    assert kept == [
        "line,x,t,metric,median,low,high,runs,void",
        "reno,2,,goodput_mbps,53.333,53.333,53.333,2,0",
    ]
    assert (mine / catalogue.PAIRS).read_text().startswith("line,than,x,metric,difference,")
    assert json.loads((mine / catalogue.PROVENANCE).read_text())["runs"] == 2
    assert cli.main(["run", "mine-fig1", "--quick"]) == 0
    assert cli.main(["keep", "build/figures/mine-fig1-quick"]) == 2, "the quick variant is not kept"


def test_a_benchmark_s_figures_are_drawn(tmp_path: Path) -> None:
    flat = {f"{who}_goodput_mbps_n{n}": n for who in ("a", "b") for n in (1, 2, 4)}
    file = tmp_path / "some.json"
    file.write_text(json.dumps({**flat, "delay_us": 5.0, "failed": "", "machine.processors": 2}))
    assert cli.main(["plot", str(file)]) == 0
    assert (tmp_path / "some.png").stat().st_size > 1000
    file.write_text(json.dumps({"failed": ""}))
    assert cli.main(["plot", str(file)]) == 2


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Replaces benchmarks by a figure of one."""

    def run(
        suite: str, only: list[str], out: Path, comparison: measuring.Comparison, *, quick: bool
    ) -> int:
        flat = measuring.asked(suite, only, comparison, quick=quick)
        out.write_text(json.dumps({**flat, "lttp_goodput_mbps_n40_64k": 80.0, "failed": ""}))
        return 0

    monkeypatch.setattr(measuring, "run", run)
    monkeypatch.setattr(measuring, "state", lambda _: {})
    monkeypatch.chdir(tmp_path)


OF_BENCHMARK = r"""
title = "Goodput"
repeats = 1
panels = [{ metric = "mbps" }]
[bench]
suite = "lttp"
groups = ["n40"]
line = "lttp"
patterns = { mbps = 'lttp_goodput_mbps_(?P<x>n\d+)_64k' }
"""


@pytest.mark.usefixtures("benchmark")
def test_a_file_can_be_of_a_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(OF_BENCHMARK + "names = { n40 = 40 }\n")
    assert cli.main(["run", "mine.toml", "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert (point["line"], point["x"], point["median"]) == ("lttp", 40, 80)
    Path("other.toml").write_text(OF_BENCHMARK + "names = { n50 = 50 }\n")
    assert cli.main(["run", "other.toml"]) != 0
    assert (
        "patterns.mbps finds x = 'n40' in lttp_goodput_mbps_n40_64k, which is neither a number nor "
        "among bench.names: n50"
    ) in capsys.readouterr().err


@pytest.mark.usefixtures("benchmark")
def test_it_is_said_where_quickly_nothing_of_a_figure_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = "nothing is measured of what is drawn; without --quick it is"
    assert cli.main(["run", "lttp-fig7", "--quick"]) == 0
    assert told in capsys.readouterr().err
    assert cli.main(["run", "lttp-fig6", "--quick"]) == 0
    assert told not in capsys.readouterr().err


def test_a_figure_from_outside_needs_no_place_in_the_tree() -> None:
    made = parse(figure_made.written(), "x.toml")
    assert sweep.estimate_s(made) == 2 * 2 * 2 * made.run_s
