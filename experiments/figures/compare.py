"""Two results side by side: what differs, and by how much, with bands."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.figures.results import Results, Row
from experiments.statistics import Band, difference_band, median_band

LEAST_RUNS = 3
"""Of fewer runs a band is no wider than their values happen to be."""


@dataclass(frozen=True)
class Difference:
    """``of`` less ``to`` at a point: the medians, their difference with its band of 95 %, and of
    how many runs each is. ``differs`` says whether the band, of LEAST_RUNS of both or more, leaves
    0 out."""

    line: str
    x: float
    metric: str
    of: float
    to: float
    difference: Band
    runs: tuple[int, int]

    @property
    def differs(self) -> bool:
        leaves_out = not self.difference.low <= 0 <= self.difference.high
        return leaves_out and min(self.runs) >= LEAST_RUNS

    @property
    def relative(self) -> float | None:
        """The difference over what it is to."""
        return self.difference.median / abs(self.to) if self.to else None


def compare(of: Results, to: Results, only: Sequence[str] = ()) -> list[Difference]:
    """Return the differences of the points that both have, of the metrics ``only`` or all.

    Valid runs count. Raises ValueError where they have nothing in common.
    """
    own, other = _values(of.rows, only), _values(to.rows, only)
    found = []
    for key, values in own.items():
        if key not in other:
            continue
        line, x, metric = key
        medians = (median_band(values).median, median_band(other[key]).median)
        band = difference_band(values, other[key])
        runs = (len(values), len(other[key]))
        found.append(Difference(line, x, metric, *medians, band, runs))
    if not found:
        raise ValueError(
            f"{of.name} and {to.name} have no valid runs of the same line, value and metric"
        )
    return found


def _values(rows: Iterable[Row], only: Sequence[str]) -> dict[tuple[str, float, str], list[float]]:
    found: dict[tuple[str, float, str], list[float]] = {}
    for row in rows:
        if row.t is None and row.origin.valid and (not only or row.metric in only):
            found.setdefault((row.line, row.x, row.metric), []).append(row.value)
    return found
