"""Schemes beside each other, seed by seed."""

from pathlib import Path
from typing import Any

import pytest

import figure_made
from experiments.figures import pairs, results
from experiments.figures.claims import HELD, NOT_HELD, Verdict, judge
from experiments.figures.results import Origin, Row
from experiments.statistics import Band

ORDER = {
    "text": "t", "source": "s", "kind": "order", "metric": "goodput_mbps", "line": "weir",
    "than": ["TCP"], "at": [2],
}  # fmt: skip


def rows(line: str, values: dict[int, float], void: tuple[int, ...] = ()) -> list[Row]:
    return [
        Row(line, 2.0, None, "goodput_mbps", value, n, Origin(valid=n not in void, folder=str(n)))
        for n, value in values.items()
    ]


def judged(found: list[Row], **claim: Any) -> Verdict:
    figure = figure_made.figure(claims=[ORDER | claim])
    (verdict,) = judge(figure, results.cells(found), pairs.pairs(figure, found))
    return verdict


# Seeds differ by more than schemes do, but Weir has 1 less with each that is not the third.
RENO = rows("reno", {1: 10.0, 2: 50.0, 3: 90.0, 4: 52.0, 5: 91.0})
WEIR = rows("weir", {1: 9.0, 2: 49.0, 3: 95.0, 4: 53.0, 5: 90.0})


def test_the_median_of_the_differences_decides() -> None:
    verdict = judged([*RENO, *WEIR])
    # Medians of 52 and 53 would say the contrary.
    assert verdict.verdict == NOT_HELD
    assert verdict.why == "behind TCP at 2: 53 against 52 (-1 seed by seed)"
    ahead = judged([*RENO, *rows("weir", {n: row.value + 2 for n, row in enumerate(RENO, 1)})])
    assert ahead.verdict == HELD
    assert "bands overlap" not in ahead.why, "with every seed it has 2 more"


def test_void_runs_and_single_ones_have_no_pair() -> None:
    figure = figure_made.figure(claims=[ORDER])
    found = [*RENO, *rows("weir", {1: 12.0, 2: 49.0, 9: 7.0}, void=(2,))]
    (pair,) = pairs.pairs(figure, found)
    assert (pair.line, pair.than, pair.x, pair.runs) == ("weir", "reno", 2.0, 1)
    assert pair.difference == Band(2.0, 2.0, 2.0)
    assert pair.factor == Band(1.2, 1.2, 1.2)
    assert pairs.pairs(figure, [*RENO, *rows("weir", {9: 7.0})]) == []


def test_factors_are_medians_seed_by_seed() -> None:
    # Factors of 0.5, 2 and 0.5; that of the medians is 0.75.
    found = [*rows("reno", {1: 90.0, 2: 30.0, 3: 60.0}), *rows("weir", {1: 45.0, 2: 60.0, 3: 30.0})]
    verdict = judged(found, kind="factor", least=0.9)
    assert (verdict.verdict, verdict.why.partition(" to ")[0]) == (NOT_HELD, "factor 0.5")
    assert pairs.pairs(figure_made.figure(claims=[ORDER]), [
        *rows("reno", {1: 0.0}), *rows("weir", {1: 3.0}),
    ])[0].factor is None  # fmt: skip


def test_pairs_can_be_read_again(tmp_path: Path) -> None:
    found = pairs.pairs(figure_made.figure(claims=[ORDER]), [*RENO, *WEIR])
    found += pairs.pairs(
        figure_made.figure(claims=[ORDER]), [*rows("reno", {1: 0.0}), *rows("weir", {1: 3.0})]
    )
    pairs.write(found, tmp_path / "pairs.csv")
    again = pairs.read(tmp_path / "pairs.csv")
    assert [(one.line, one.than, one.x, one.metric, one.runs) for one in again] == [
        (one.line, one.than, one.x, one.metric, one.runs) for one in found
    ]
    assert again[0].difference == found[0].difference
    assert again[0].factor is not None
    assert again[1].factor is None
    (tmp_path / "other.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="its columns are not line,than"):
        pairs.read(tmp_path / "other.csv")
