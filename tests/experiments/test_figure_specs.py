"""Specifications of figures: what is read, what is refused and how that is said; the tree's own."""

import re
from pathlib import Path
from typing import Any

import pytest

import figure_made
from experiments.bench.suites import SUITES
from experiments.bench.transport import dfcp, lttp
from experiments.figures import axes, catalogue, results, sweep
from experiments.figures.spec import Claim, SpecError, parse, read
from experiments.report.flows import SHORT_BYTES
from experiments.runner import RunSpec, incast
from experiments.workloads.arrivals import Arrivals
from experiments.workloads.planned import Ground
from experiments.workloads.reads import Reads
from experiments.workloads.shares import Shares

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
            {"bench": {"suite": "dfcp", "patterns": {"drops": "drops"}}},
            "bench: patterns.drops has no group (?P<line>...): of which line is it?",
        ),
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
    blocks = []
    for job in sweep.plan(made)[::2]:
        workload = job.spec.workload
        assert isinstance(workload, Shares)
        ground = Ground([f"h{n + 1}" for n in range(workload.senders)], "r1", 100_000_000)
        flows = workload.plan(ground).flows
        blocks.append((workload.connections, sum(flow.size_bytes for flow in flows)))
    assert blocks == [(8, 8000), (80, 80_000)]


def test_a_scheme_of_a_family_is_a_line() -> None:
    made = figure_made.figure(lines=["dctcp_k4_g0.15", "dctcp_k4"], quick={})
    assert catalogue.missing(made) == {"dctcp_k4": "there is no scheme 'dctcp_k4'"}


def test_rivals_are_one_list() -> None:
    claim = {"text": "t", "source": "s", "kind": "order", "metric": "goodput_mbps", "line": "weir"}
    made = figure_made.figure(
        lines=["rivals", "weir"], claims=[claim | {"than": ["rivals"]}], quick={}
    )
    names = [line.name for line in made.lines]
    assert {"reno", "reno_rto10", "cubic", "bbr", "dctcp", "fair", "sdtcp"} < set(names)
    assert names[-1] == "weir"
    assert made.claims[0].than == names[:-1]
    assert not catalogue.missing(made)
    assert parse(made.model_dump(), "again") == made
    with pytest.raises(SpecError, match="claims: no line 'reno_rto10'"):
        figure_made.figure(claims=[claim | {"than": ["rivals"]}])


@pytest.mark.parametrize(
    "name", ["background", "buffers", "data-mining", "deadlines", "incast", "web-search"]
)
def test_weir_stands_beside_all_rivals(name: str) -> None:
    """No claim that it is the best leaves one out that was measured."""
    figure = catalogue.entry(f"weir-{name}").figure
    rivals = {line.name for line in figure_made.figure(lines=["rivals", "weir"], quick={}).lines}
    assert rivals <= {line.name for line in figure.lines}
    order = [claim for claim in figure.claims if claim.kind in ("order", "factor")]
    for metric in {claim.metric for claim in order}:
        than = {name for claim in order if claim.metric == metric for name in claim.than}
        assert than - {"acc"} == rivals - {"weir"}, metric


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
        for claim in figure.claims:
            pattern = figure.bench.patterns.get(claim.metric, "")
            if "(?P<x>" in pattern and not figure.bench.names:
                assert claim.at, f"{claim.text}: at which values?"
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
    ("name", "measured", "line"),
    [
        ("lttp-fig10", "fairness_10t_jain", "ten flows"),
        ("dfcp-table4", "sharing_10_utilisation", "dfcp"),
        ("dfcp-table5", "drop_rate_pct", "dfcp"),
    ],
)
def test_what_others_send_is_not_called_weir(name: str, measured: str, line: str) -> None:
    figure = catalogue.entry(name).figure
    assert figure.bench is not None
    (row,) = results.matched({measured: 0.9}, figure.bench, 1, results.Origin())
    assert row.line == line
    assert {claim.line for claim in figure.claims if claim.line} == {line}


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("lttp-fig6", "goodput_64k_mbps"),
        ("lttp-fig6", "goodput_256k_mbps"),
        ("lttp-fig7", "goodput_128k_mbps"),
    ],
)
def test_a_curve_of_lttp_is_of_one_contender(name: str, metric: str) -> None:
    # Figures as the benchmark calls them: of each contender the median, the worst and more.
    contenders = ("lttp", "lttp_mtu", "lttp_tfrc", "reno", "dctcp")
    runs: list[dict[str, Any]] = [
        {
            "contender": who, "size": size_kb * 1024, "round_bytes": [10**6], "round_s": [0.1],
            "dropped": 0, "timeouts": 0, "void": [],
        }
        | ({"overhead": 0.02} if who.startswith("lttp") else {})
        for who in contenders
        for size_kb in lttp.SIZES_KB
    ]  # fmt: skip
    bench = catalogue.entry(name).figure.bench
    assert bench is not None
    rows = results.matched(lttp.figures(runs, 6), bench, 1, results.Origin())
    found = [(row.line, row.x) for row in rows if row.metric == metric]
    assert sorted(found) == sorted((who, 6.0) for who in contenders)


@pytest.mark.parametrize("name", ["weir-web-search", "weir-data-mining"])
def test_a_99th_percentile_is_of_enough_flows(name: str) -> None:
    figure = catalogue.entry(name).figure
    ground = Ground([f"h{n}" for n in range(1, 17)], "r1", 100_000_000)
    short: dict[float, int] = {}
    for job in sweep.plan(figure.model_copy(update={"repeats": 1, "lines": figure.lines[:1]})):
        workload = job.spec.workload
        assert isinstance(workload, Arrivals)
        assert workload.seconds >= 60
        assert workload.warm_up_s > 0
        flows = workload.plan(ground).flows
        short[job.x] = sum(flow.counted and flow.size_bytes < SHORT_BYTES for flow in flows)
    assert short[0.5] > 1000
    assert min(short.values()) > 400


def _claims() -> list[tuple[str, Claim]]:
    return [
        (entry.name, claim)
        for entry in catalogue.entries()
        for claim in entry.figure.claims
        if claim.kind in ("factor", "level", "knee")
    ]


@pytest.mark.parametrize(
    ("name", "line", "xs"),
    [
        # Where a paper gives a range of values, or one for a range of x, no point is made of it.
        ("lttp-table1", "LTTP", [None, None]),
        ("lttp-fig7", "LTTP", [None]),
        ("sdtcp-fig9", "SDTCP", [70]),
    ],
)
def test_points_are_no_more_than_the_paper_says(
    name: str, line: str, xs: list[float | None]
) -> None:
    assert [point.x for point in catalogue.entry(name).points() if point.line == line] == xs


@pytest.mark.parametrize("name", ["dfcp-table3", "dfcp-fig11", "dfcp-fig12"])
def test_the_quick_variant_measures_what_is_drawn(name: str) -> None:
    figure = catalogue.entry(name).figure.quickly()
    bench = figure.bench
    assert bench is not None
    assert bench.suites_quick
    quick = SUITES["dfcp"].groups["links"].quick
    assert quick is not None
    # As dfcp.run calls what it has measured.
    flat = {
        f"{who}_goodput_mbps_loss{loss:g}_rtt{rtt:g}": 5.0
        for who in ("dfcp", *quick["tcps"])
        for loss in quick["losses_pct"]
        for rtt in quick["rtts_ms"]
    }
    rows = results.matched(flat, bench, 1, results.Origin())
    for panel in figure.panels:
        drawn = [row for row in rows if row.metric == panel.metric]
        assert len({row.x for row in drawn}) > 1, panel.metric
        assert {row.line for row in drawn} == {"dfcp", "cubic"}


def test_texts_say_what_is_drawn_and_checked() -> None:
    figure = catalogue.entry("sdtcp-fig12").figure
    assert f"every {1000 * figure.bin_s:g} ms" in figure.about
    for claim in catalogue.entry("weir-buffers").figure.claims:
        named = {float(size) for size in re.findall(r"(\d+) KiB", claim.text)}
        assert named <= set(claim.at), claim.text


@pytest.mark.parametrize("number", [9, 10, 11, 12, 13, 14, 15])
def test_claims_about_sdtcp_are_about_the_printed_one(number: int) -> None:
    figure = catalogue.entry(f"sdtcp-fig{number}").figure
    schemes = {line.paper: line.scheme_name for line in figure.lines if line.paper}
    assert schemes["SDTCP"] == "sdtcp_letter"
    assert "sdtcp" in {line.scheme_name for line in figure.lines}, "and the other one beside it"
    assert "SDTCP" in figure.differs
    assert "Figure 9" in figure.differs or "Algorithm 1" in figure.differs


def test_what_is_not_over_plain_tcp_is_in_a_figure_beside_weir() -> None:
    def lines(name: str) -> set[str]:
        return {line.scheme_name for line in catalogue.entry(name).figure.lines}

    assert {"acc", "lttp", "atp", "weir"} <= lines("weir-fan-in")
    assert "acc" in lines("weir-incast")
    assert "sdtcp_paper" in lines("weir-hosts")


@pytest.mark.parametrize("name", ["dfcp-table3", "dfcp-fig11", "dfcp-fig12"])
def test_what_favours_dfcp_is_said(name: str) -> None:
    differs = catalogue.entry(name).figure.differs
    assert f"{dfcp._BUFFER_BYTES // 1024} KiB" in differs
    assert f"{100 * dfcp._TOLD_PART:.0f} %" in differs
    assert "1,000" in differs


def test_what_is_normalised_otherwise_is_no_point() -> None:
    """The paper's Table 4 has goodput over a single flow's, Weir's the share of the link."""
    assert catalogue.entry("dfcp-table4").points() == []


def test_no_source_says_what_its_table_does_not() -> None:
    sources = {point.source for point in catalogue.entry("dfcp-fig12").points()}
    assert sources == {"Table 3, testbed"}


@pytest.mark.parametrize("words", ["about", "almost", "fair", "close to", "easily", "several"])
def test_a_vague_word_has_its_bound_beside_it(words: str) -> None:
    for name, claim in _claims():
        if re.search(rf"\b{words}", claim.text):
            after = claim.text.rpartition(": ")[2]
            assert re.search(r"\d|two", after), f"{name}: {claim.text}"


@pytest.mark.parametrize(
    ("name", "text", "least", "most"),
    [
        ("lttp-fig6", "eight times as much", 8, None),
        ("lttp-fig10", "above 99 %", 0.99, None),
        ("lttp-table1", "between 6 and 8 %", 6, 8),
        ("dfcp-table3", "almost 8 times", 7, None),
        ("dfcp-table3", "more than 250 times", 250, None),
        ("sdtcp-fig9", "at 37 flows", 30, 40),
    ],
)
def test_a_bound_is_what_the_claim_says(
    name: str, text: str, least: float, most: float | None
) -> None:
    (claim,) = [claim for of, claim in _claims() if of == name and text in claim.text]
    assert (claim.least, claim.most) == (least, most)


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
    with pytest.raises(SpecError, match="no figure 'mine-fig2': there are dfcp-fig9,"):
        catalogue.entry("mine-fig2")


def test_what_the_tree_lacks_for_a_figure_is_named() -> None:
    made = figure_made.figure(lines=["reno", "teleport"], quick={})
    assert catalogue.missing(made) == {"teleport": "there is no scheme 'teleport'"}
    made = figure_made.figure(workload={"name": "miracle"})
    assert catalogue.missing(made) == {"": "there is no workload 'miracle'"}
