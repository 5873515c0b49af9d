"""Specifications of figures: what is read, what is refused and how that is said; the tree's own."""

import re
from pathlib import Path
from typing import Any

import pytest

import figure_made
from experiments.bench.suites import SUITES
from experiments.figures import axes, catalogue, sweep
from experiments.figures.spec import SpecError, parse, read
from experiments.runner import RunSpec, incast
from experiments.workloads.reads import Reads

TOML = """
title = "Goodput"
lines = ["reno", { name = "mine", scheme = "weir", hosts = { quickack = true } }]
panels = [{ metric = "goodput_mbps" }]
[sweep]
axis = "buffer_kib"
values = [16, 64]
"""

YAML = """
title: Goodput
lines: [reno, {name: mine, scheme: weir, hosts: {quickack: true}}]
panels: [{metric: goodput_mbps}]
sweep: {axis: buffer_kib, values: [16, 64]}
"""


def test_toml_and_yaml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(TOML)
    (tmp_path / "a.yaml").write_text(YAML)
    figure = read(tmp_path / "a.toml")
    assert figure == read(tmp_path / "a.yaml")
    assert [line.scheme_name for line in figure.lines] == ["reno", "weir"]
    jobs = sweep.plan(figure)
    assert {job.spec.buffer_bytes for job in jobs} == {16 * 1024, 64 * 1024}
    assert {job.line.name for job in jobs if job.spec.host.quickack} == {"mine"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"titel": "x"}, "made.toml: titel: there is no such key"),
        ({"title": None}, "title: "),
        ({"lines": []}, "needs sweep and lines, or bench, or runs_of"),
        ({"lines": ["reno", "reno"]}, "two of them have the same name: reno, reno"),
        ({"sweep": {"axis": "colour", "values": [1]}}, "no axis 'colour': there are connections,"),
        ({"sweep": {"axis": "senders", "values": []}}, "sweep.values: list should have at least 1"),
        ({"sweep": {"axis": "senders", "values": ["many"]}}, "sweep.values.0.int: input should be"),
        ({"panels": [{"metric": "beauty"}]}, "no metric 'beauty': there are goodput_mbps,"),
        ({"panels": [{"metric": "queue_packets"}]}, "is over time: at which value of the sweep?"),
        ({"setting": {"rate_mbps": 0}}, "setting.rate_mbps: input should be greater than 0 (it"),
        ({"quick": {"lines": ["wier"]}}, "quick.lines: no line 'wier': there are reno, weir"),
        ({"repeats": 0}, "repeats: input should be greater than or equal to 1 (it is 0)"),
        ({"claims": [{"text": "t", "source": "s", "kind": "level"}]}, "of the kind level needs"),
        (
            {
                "claims": [
                    {"text": "t", "source": "s", "kind": "level", "metric": "m", "line": "reno"}
                ]
            },
            "needs least, most or both",
        ),
        (
            {
                "claims": [
                    {
                        "text": "t", "source": "s", "kind": "order", "metric": "goodput_mbps",
                        "line": "reno", "than": ["x"],
                    }
                ]
            },
            "claims: no line 'x': there are reno, weir",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_key(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)):
        figure_made.figure(**changes)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="holds no table"):
        parse([1], "x.yaml")
    with pytest.raises(SpecError, match=r"none\.toml: No such file"):
        read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("title = ")
    with pytest.raises(SpecError, match=r"bad\.toml: Invalid value"):
        read(tmp_path / "bad.toml")


def test_hosts_have_names_and_lines_differ_from_them() -> None:
    lines = ["reno", {"name": "other", "scheme": "reno", "hosts": {"initcwnd": 4}}]
    made = figure_made.figure(hosts="paper", lines=lines, quick={})
    found = {job.line.name: job.spec.host for job in sweep.plan(made)}
    assert (found["reno"].quickack, found["reno"].initcwnd) == (True, 1)
    assert (found["other"].quickack, found["other"].initcwnd) == (True, 4)


def test_the_quick_variant_has_less_of_all() -> None:
    quick = figure_made.figure().quickly()
    (job,) = sweep.plan(quick)
    assert (job.line.name, job.x, job.spec.workload.rounds) == ("weir", 2.0, 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workload": {"name": "reads", "sizes": 3}}, "workload reads has no sizes"),
        ({"hosts": {"colour": 1}}, "hosts have no colour: they have congestion_control"),
        ({"hosts": "odd"}, "no hosts 'odd': there are as-they-come"),
        ({"sweep": {"axis": "connections", "values": [97]}}, "97 connections cannot be spread"),
        ({"sweep": {"axis": "hosts.colour", "values": [1]}}, "no axis 'hosts.colour'"),
    ],
)
def test_a_run_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        sweep.plan(figure_made.figure(**changes))


def test_repeats_have_seeds_of_their_own_and_lines_take_turns() -> None:
    jobs = sweep.plan(figure_made.figure(seed=5))
    assert [job.line.name for job in jobs[:2]] == ["reno", "weir"]
    assert {(job.repeat, job.spec.workload.seed) for job in jobs} == {(1, 5), (2, 6)}  # type: ignore[attr-defined]
    assert len({job.folder for job in jobs}) == len(jobs) == 8


def test_connections_are_spread_as_those_of_benchmarks_are() -> None:
    spec = RunSpec("reno", Reads(rounds=3))
    for count in (1, 2, 40, 60, 120, 1000):
        assert axes.axis("connections").change(spec, count).workload == incast(count, 3)


def test_blocks_grow_with_connections_where_each_has_its_own_bytes() -> None:
    made = figure_made.figure(
        workload={"name": "shares", "rounds": 1, "share_bytes": 1000},
        sweep={"axis": "connections", "values": [8, 80]},
        repeats=1,
    )
    specs = [job.spec.workload for job in sweep.plan(made)[::2]]
    assert [(w.connections, w.reads().block_bytes) for w in specs] == [(8, 8000), (80, 80_000)]  # type: ignore[attr-defined]


def test_a_scheme_of_a_family_is_a_line() -> None:
    made = figure_made.figure(lines=["dctcp_k4_g0.15", "dctcp_k4"], quick={})
    assert catalogue.missing(made) == {"dctcp_k4": "there is no scheme 'dctcp_k4'"}


NAMES = catalogue.names()


def test_there_are_figures_in_the_papers_order() -> None:
    assert NAMES.index("sdtcp-fig9") + 1 == NAMES.index("sdtcp-fig10")
    assert {name.partition("-")[0] for name in NAMES} == {"dfcp", "lttp", "sdtcp", "weir"}


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_of_the_tree_can_be_run(name: str) -> None:
    entry = catalogue.entry(name)
    points = entry.points()
    assert all(point.source for point in points)
    figure = entry.figure
    assert sweep.estimate_s(figure.quickly()) <= 180, "the quick variant takes too long"
    if figure.bench is not None:
        suite = SUITES[figure.bench.suite]
        assert set(figure.bench.groups) <= set(suite.groups)
        for pattern in figure.bench.patterns.values():
            re.compile(pattern)
        return
    lacks = catalogue.missing(figure)
    if "" in lacks:
        pytest.skip(lacks[""])
    lines = [line for line in figure.lines if line.name not in lacks]
    possible = figure.model_copy(update={"lines": lines})
    assert sweep.plan(possible)
    values = {float(value) for value in figure.sweep.values}  # type: ignore[union-attr]
    for claim in figure.claims:
        assert set(claim.at) <= values, f"{claim.text}: at values that are not measured"
    for variant in (possible, possible.quickly()):
        swept = {float(v) for v in variant.sweep.values}  # type: ignore[union-attr]
        for panel in figure.panels:
            assert panel.at is None or panel.at in values
        assert swept <= values


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("TCP,10,goodput_mbps,5,guessed,text", "kind is quoted, digitised, derived, not 'guessed'"),
        ("TCP,10,goodput_mbps,5,quoted,", "a point needs its source"),
        ("TCP,ten,goodput_mbps,5,quoted,text", "x and value are numbers"),
    ],
)
def test_a_wrong_point_is_told_with_its_line(row: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "paper.csv"
    file.write_text(f"line,x,metric,value,kind,source\n{row}\n")
    with pytest.raises(SpecError, match=re.escape(f"{file}, line 2: {said}")):
        catalogue.read_points(file)


def test_figures_from_outside_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine" / "fig1"
    folder.mkdir(parents=True)
    (folder / "figure.toml").write_text(TOML)
    monkeypatch.setenv(catalogue.EXTRA, str(tmp_path))
    assert catalogue.entry("mine-fig1").folder == folder
    with pytest.raises(SpecError, match="no figure 'mine-fig2': there are dfcp-fig11,"):
        catalogue.entry("mine-fig2")


def test_what_the_tree_lacks_for_a_figure_is_named() -> None:
    made = figure_made.figure(lines=["reno", "teleport"], quick={})
    assert catalogue.missing(made) == {"teleport": "there is no scheme 'teleport'"}
    made = figure_made.figure(workload={"name": "miracle"})
    assert catalogue.missing(made) == {"": "there is no workload 'miracle'"}
