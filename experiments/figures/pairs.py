"""Two lines of a figure side by side, seed by seed.

Repeats of all lines share their seeds, so the same repeat has the same flows, orders and losses
under each scheme. What differs between seeds affects both of a pair alike, and falls out of their
difference; it does not fall out of the difference of two medians.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.figures.results import Row, digits
from experiments.figures.spec import Figure
from experiments.statistics import Band, median_band


@dataclass(frozen=True)
class Pair:
    """At ``x``, over the seeds that ``runs`` valid runs of both share: what ``line`` has more than
    the line ``than``, and how many times as much (None where that has 0): medians with bands."""

    line: str
    than: str
    x: float
    metric: str
    difference: Band
    factor: Band | None
    runs: int


def pairs(figure: Figure, rows: Iterable[Row]) -> list[Pair]:
    """Return the pairs that the claims of ``figure`` are about, of what was measured."""
    names = {line.paper: line.name for line in figure.lines if line.paper}
    values: dict[tuple[str, str], dict[float, dict[int, float]]] = {}
    for row in rows:
        if row.t is None and row.origin.valid:
            curve = values.setdefault((row.line, row.metric), {})
            curve.setdefault(row.x, {})[row.repeat] = row.value
    wanted: dict[tuple[str, str, str], None] = {}
    for claim in figure.claims:
        for than in claim.than:
            own = names.get(claim.line, claim.line)
            wanted[own, names.get(than, than), claim.metric] = None
    found = []
    for line, than, metric in wanted:
        own_curve, other_curve = values.get((line, metric), {}), values.get((than, metric), {})
        for x in sorted(own_curve.keys() & other_curve.keys()):
            both = _shared(own_curve[x], other_curve[x])
            if both:
                found.append(_pair(line, than, x, metric, both))
    return found


def _shared(own: Mapping[int, float], other: Mapping[int, float]) -> list[tuple[float, float]]:
    return [(own[repeat], other[repeat]) for repeat in sorted(own.keys() & other.keys())]


def _pair(line: str, than: str, x: float, metric: str, both: Sequence[tuple[float, float]]) -> Pair:
    difference = median_band([mine - theirs for mine, theirs in both])
    factor = None
    if all(theirs for _, theirs in both):
        factor = median_band([mine / theirs for mine, theirs in both])
    return Pair(line, than, x, metric, difference, factor, len(both))


_COLUMNS = (
    "line", "than", "x", "metric", "difference", "difference_low", "difference_high", "factor",
    "factor_low", "factor_high", "runs",
)  # fmt: skip


def write(found: Iterable[Pair], file: Path) -> None:
    """Write pairs as CSV. Five digits are kept."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for pair in found:
            factor = ["", "", ""] if pair.factor is None else _written(pair.factor)
            at = (pair.line, pair.than, f"{pair.x:.10g}", pair.metric)
            writer.writerow((*at, *_written(pair.difference), *factor, pair.runs))


def _written(band: Band) -> list[str]:
    return [digits(value) for value in (band.median, band.low, band.high)]


def read(file: Path) -> list[Pair]:
    """Read what ``write`` wrote. Raises ValueError where it is of another form."""
    with file.open(newline="", encoding="utf-8") as lines:
        rows = csv.DictReader(lines)
        if tuple(rows.fieldnames or ()) != _COLUMNS:
            raise ValueError(f"{file}: its columns are not {','.join(_COLUMNS)}")
        return [
            Pair(
                row["line"],
                row["than"],
                float(row["x"]),
                row["metric"],
                _band(row, "difference"),
                _band(row, "factor") if row["factor"] else None,
                int(row["runs"]),
            )
            for row in rows
        ]


def _band(row: Mapping[str, str], name: str) -> Band:
    return Band(float(row[name]), float(row[f"{name}_low"]), float(row[f"{name}_high"]))
