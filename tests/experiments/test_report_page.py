"""The report of all figures: what it shows, and that the same results give the same bytes."""

import csv
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import figure_made
from experiments import cli
from experiments.figures import catalogue, page, results
from experiments.figures.catalogue import Entry
from experiments.figures.page import Shown

CLAIMS = [
    {
        "text": "Weir is <ahead>", "source": "this project", "kind": "order",
        "metric": "goodput_mbps", "line": "weir", "than": ["reno"],
    },
    {"text": "Never seen", "source": "section 1", "kind": "none", "why": "no such buffer"},
]  # fmt: skip
POINTS = "line,x,metric,value,kind,source\nTCP,4,goodput_mbps,300,quoted,section 5\n"


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    (tmp_path / catalogue.PAPER).write_text(POINTS)
    figure = figure_made.figure(
        claims=CLAIMS, scale={"why": "a tenth", "values": {"goodput_mbps": 0.1}}
    )
    cells = [
        figure_made.cell(line, x, value, spread=3)
        for line, x, value in (("reno", 2, 80), ("reno", 4, 30), ("weir", 2, 90), ("weir", 4, 91))
    ]
    entry = Entry("made-fig1", tmp_path, figure, "made-fig1")
    return Shown(entry, cells, {"commit": "c0ffee", "runs": 8, "measured": ["a", "b"]})


def digests(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_the_page_has_figure_claims_points_and_provenance(shown: Shown, tmp_path: Path) -> None:
    text = page.build([shown], tmp_path / "out").read_text()
    for part in (
        "made-fig1: Goodput against senders",
        "Weir is &lt;ahead&gt;",
        "no such buffer",
        "the nearest: reno at 2, 90 against 80",
        "1 held",
        "1 not comparable",
        "data:image/svg+xml;base64,",
        "quoted",
        "section 5",
        "a tenth",
        "c0ffee",
        "weir-experiment run made-fig1",
    ):
        assert part in text, part
    with (tmp_path / "out" / page.CLAIMS).open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["verdict"] for row in rows] == ["held", "not comparable"]


def test_what_was_not_measured_is_said(shown: Shown, tmp_path: Path) -> None:
    text = page.build([Shown(shown.entry, [], {})], tmp_path / "out").read_text()
    assert "Not measured yet: made-fig1." in text
    assert "1 not measured" in text


# Figures of each kind: over what is swept, of others' runs, over time, of flows, of a benchmark.
OF_EACH_KIND = ("sdtcp-fig9", "sdtcp-fig10", "sdtcp-fig12", "sdtcp-fig15", "lttp-fig6")
SOME = """
import sys
from pathlib import Path
from experiments.figures import catalogue, page
names, out = sys.argv[1].split(","), Path(sys.argv[3])
page.build([page.committed(catalogue.entry(name)) for name in names], out)
"""


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["-c", SOME, ",".join(OF_EACH_KIND)], marks=pytest.mark.slow, id="some"),
        pytest.param(["-m", "experiments.cli", "report"], marks=pytest.mark.long, id="all"),
    ],
)
def test_the_same_results_give_the_same_bytes(words: list[str], tmp_path: Path) -> None:
    # In processes of their own, at different times of day and in different folders, as on two days.
    made = []
    for number, zone in enumerate(("UTC", "Asia/Tokyo")):
        out = tmp_path / str(number) / "report"
        environment = os.environ | {"TZ": zone, "PYTHONHASHSEED": str(number + 1)}
        command = [sys.executable, *words, "--out", str(out)]
        subprocess.run(command, check=True, capture_output=True, env=environment)
        made.append(digests(out))
    assert made[0] == made[1]
    assert {Path(name).suffix for name in made[0]} == {".html", ".csv", ".svg", ".png", ".pdf"}
    if "report" in words:
        pictures = [name for name in made[0] if name.startswith(page.PICTURES)]
        assert len(pictures) >= 3 * sum(bool(entry.points()) for entry in catalogue.entries())


def test_other_results_give_other_bytes(shown: Shown, tmp_path: Path) -> None:
    page.build([shown], tmp_path / "a")
    other = Shown(shown.entry, [*shown.cells[:-1], figure_made.cell("weir", 4, 20)], {})
    page.build([other], tmp_path / "b")
    a, b = digests(tmp_path / "a"), digests(tmp_path / "b")
    assert a.keys() == b.keys()
    assert all(a[name] != b[name] for name in a)


def test_what_is_committed_is_small_and_can_be_read() -> None:
    size = 0
    for entry in catalogue.entries():
        kept = page.committed(entry)
        for name in (catalogue.RESULTS, catalogue.PAIRS, catalogue.PROVENANCE):
            file = entry.folder / name
            size += file.stat().st_size if file.exists() else 0
        if kept.cells:
            assert kept.provenance["runs"] > 0
            assert not kept.provenance["quick"]
    assert size < 1_000_000


def test_the_list_tells_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == catalogue.names()
    assert rows["sdtcp-fig9"]["quick_s"] <= 180
    assert cli.main(["list"]) == 0
    assert "weir-experiment run NAME --quick" in capsys.readouterr().out


def test_bands_of_the_summary_reach_the_page(shown: Shown, tmp_path: Path) -> None:
    file = tmp_path / "summary.csv"
    results.write_summary(shown.cells, file)
    again = Shown(shown.entry, results.read_summary(file), shown.provenance)
    page.build([shown], tmp_path / "a")
    page.build([again], tmp_path / "b")
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
