"""Claims: every kind, held and not held, and what cannot be said."""

from typing import Any

import pytest

import figure_made
from experiments.figures.claims import (
    HELD,
    NOT_COMPARABLE,
    NOT_HELD,
    NOT_MEASURED,
    judge,
)
from experiments.figures.results import Cell
from figure_made import cell

CELLS = [
    cell("reno", 2, 90, spread=5),
    cell("reno", 4, 80, spread=5),
    cell("reno", 8, 30, spread=5),
    cell("weir", 2, 92, spread=1),
    cell("weir", 4, 91, spread=1),
    cell("weir", 8, 93, spread=1),
]


def verdict(cells: list[Cell] | None = None, **claim: Any) -> tuple[str, str]:
    written = {"text": "t", "source": "s", "metric": "goodput_mbps", "line": "weir", **claim}
    figure = figure_made.figure(claims=[written], sweep={"axis": "senders", "values": [2, 4, 8]})
    (found,) = judge(figure, CELLS if cells is None else cells)
    return found.verdict, found.why


@pytest.mark.parametrize(
    ("claim", "wanted", "said"),
    [
        ({"kind": "order", "than": ["reno"]}, HELD, "the nearest: reno at 2, 92 against 90"),
        ({"kind": "order", "than": ["reno"]}, HELD, "bands overlap with reno at 2"),
        ({"kind": "order", "line": "TCP", "than": ["weir"]}, NOT_HELD, "behind weir at 2: 90"),
        ({"kind": "order", "than": ["reno"], "higher": False}, NOT_HELD, "behind reno at 2"),
        ({"kind": "factor", "than": ["reno"], "at": [8], "least": 3}, HELD, "factor 3.1;"),
        ({"kind": "factor", "than": ["reno"], "at": [8], "least": 4}, NOT_HELD, "3.1 to reno at 8"),
        ({"kind": "factor", "than": ["reno"], "most": 2}, NOT_HELD, "should be 2 or less"),
        ({"kind": "level", "least": 91}, HELD, "91 to 93; should be 91 or more"),
        ({"kind": "level", "least": 92}, NOT_HELD, "91 at 4; should be 92 or more"),
        ({"kind": "level", "most": 92, "least": 1}, NOT_HELD, "93 at 8; should be 1 to 92"),
        ({"kind": "knee", "line": "TCP", "least": 2, "most": 8}, HELD, "between 4 and 8"),
        ({"kind": "knee", "line": "TCP", "least": 8}, NOT_HELD, "between 4 and 8"),
        ({"kind": "knee", "line": "TCP", "most": 4}, NOT_HELD, "between 4 and 8"),
        ({"kind": "knee", "least": 2}, HELD, "no fall below 50% of its best up to 8"),
        ({"kind": "knee", "most": 8}, NOT_HELD, "no fall below"),
        ({"kind": "knee", "most": 60}, NOT_MEASURED, "up to 8"),
        ({"kind": "knee", "line": "TCP", "at": [2, 4], "least": 4}, HELD, "no fall"),
        ({"kind": "none", "why": "no such buffer"}, NOT_COMPARABLE, "no such buffer"),
        ({"kind": "level", "least": 91, "at": [4, 16]}, NOT_MEASURED, "nothing at 16; so far held"),
        ({"kind": "level", "least": 1, "metric": "drops"}, NOT_MEASURED, "no drops of weir"),
    ],
)
def test_a_claim(claim: dict[str, Any], wanted: str, said: str) -> None:
    found, why = verdict(**claim)
    assert found == wanted, why
    assert said in why


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"kind": "level", "least": 91}, "nothing at 4, 8; so far held: 92"),
        ({"kind": "order", "than": ["reno"]}, "nothing at 4, 8; so far held: the nearest"),
        ({"kind": "knee", "least": 2}, "nothing at 4, 8; so far held: no fall"),
        ({"kind": "order", "line": "TCP", "than": ["weir"]}, "nothing of weir at 4, 8"),
    ],
)
def test_a_claim_is_about_all_values_of_the_figure(claim: dict[str, Any], said: str) -> None:
    """Some of them alone, as while it is being measured, decide nothing."""
    found, why = verdict([*CELLS[:3], CELLS[3]], **claim)
    assert found == NOT_MEASURED
    assert said in why


def test_a_line_with_values_of_its_own_is_judged_at_these() -> None:
    lines = [{"name": "reno", "values": [2]}, "weir"]
    written = {"text": "t", "source": "s", "metric": "goodput_mbps", "kind": "order"}
    both = [
        written | {"line": "weir", "than": ["reno"]},
        written | {"line": "reno", "than": ["weir"]},
    ]
    figure = figure_made.figure(lines=lines, claims=both)
    found = judge(figure, [CELLS[0], *CELLS[3:5]])
    assert [one.verdict for one in found] == [HELD, NOT_HELD]


def test_a_benchmark_s_claim_is_about_all_that_has_a_name() -> None:
    patterns = {"ratio": "(?P<x>.*)"}
    bench = {"suite": "apps", "line": "weir", "patterns": patterns, "names": {"redis": 1, "dns": 2}}
    written = {"text": "t", "source": "s", "kind": "level", "metric": "ratio", "line": "weir"}
    figure = figure_made.figure(
        sweep=None, bench=bench, panels=[{"metric": "ratio"}], quick={},
        claims=[written | {"least": 0.9}],
    )  # fmt: skip
    (found,) = judge(figure, [cell("weir", 1, 0.95, metric="ratio")])
    assert (found.verdict, found.why.partition(";")[0]) == (NOT_MEASURED, "nothing at 2")


def test_void_runs_alone_decide_nothing() -> None:
    cells = [cell("weir", 2, 92, runs=0, void=2), *CELLS[:3]]
    found, why = verdict(cells, kind="order", than=["reno"], at=[2])
    assert found == NOT_COMPARABLE
    assert why.startswith("no valid run at 2; by void ones: the nearest")


def test_nothing_is_comparable_to_nothing() -> None:
    cells = [cell("weir", 2, 5), cell("reno", 2, 0)]
    assert verdict(cells, kind="factor", than=["reno"], least=2, at=[2]) == (
        NOT_COMPARABLE,
        "reno has 0 at 2",
    )


def test_without_results_nothing_is_measured() -> None:
    assert verdict([], kind="level", least=1) == (NOT_MEASURED, "no goodput_mbps of weir")
