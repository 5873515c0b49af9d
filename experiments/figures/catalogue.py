"""Which figures there are: those of the tree, and those of folders named from outside."""

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.suites import SUITES
from experiments.figures.axes import axis
from experiments.figures.spec import Figure, SpecError, read
from experiments.schemes import scheme
from experiments.workloads import WORKLOADS

HERE = Path(__file__).parent
SPEC, PAPER = "figure.toml", "paper.csv"
RESULTS, PAIRS, PROVENANCE = "results.csv", "pairs.csv", "provenance.json"
EXTRA = "WEIR_FIGURES"
"""Environment variable: folders, separated by colons, with PAPER/NAME/figure.toml below them."""

KINDS = ("quoted", "digitised", "derived")
_COLUMNS = ("line", "x", "metric", "value", "kind", "source")


@dataclass(frozen=True)
class Point:
    """A point that a paper gives, as it stands there. ``x`` None: it has none, as of a level.

    ``kind`` is quoted (its text has the number), digitised (read off its picture) or derived (from
    others of its numbers).
    """

    line: str
    x: float | None
    metric: str
    value: float
    kind: str
    source: str


@dataclass(frozen=True)
class Entry:
    """A figure of the catalogue."""

    name: str
    folder: Path
    figure: Figure
    runs: str
    """The figure whose runs it draws: its own, unless it has ``runs_of``."""

    def points(self) -> list[Point]:
        """Return the paper's points. Raises SpecError where its file is wrong."""
        file = self.folder / PAPER
        return read_points(file) if file.exists() else []


def read_points(file: Path) -> list[Point]:
    """Read a file of a paper's points. Raises SpecError naming the line."""
    with file.open(newline="", encoding="utf-8") as lines:
        rows = csv.DictReader(lines)
        if tuple(rows.fieldnames or ()) != _COLUMNS:
            raise SpecError(f"{file}: its columns are to be {','.join(_COLUMNS)}")
        points = []
        for row in rows:
            where = f"{file}, line {rows.line_num}"
            if row["kind"] not in KINDS:
                raise SpecError(f"{where}: kind is {', '.join(KINDS)}, not {row['kind']!r}")
            if not row["source"]:
                raise SpecError(f"{where}: a point needs its source")
            try:
                x = float(row["x"]) if row["x"] else None
                value = float(row["value"])
            except ValueError:
                raise SpecError(f"{where}: x and value are numbers") from None
            points.append(Point(row["line"], x, row["metric"], value, row["kind"], row["source"]))
    return points


def folders() -> list[Path]:
    """Return where figures are looked for: in the tree, then in the folders of WEIR_FIGURES."""
    return [HERE, *map(Path, filter(None, os.environ.get(EXTRA, "").split(os.pathsep)))]


def names() -> list[str]:
    """Return the names of all figures, in order."""
    return list(_found())


def entry(name: str) -> Entry:
    """Return the figure called ``name``. Raises SpecError naming those that there are."""
    found = _found()
    if name not in found:
        raise SpecError(f"no figure {name!r}: there are {', '.join(found)}")
    folder = found[name]
    figure = read(folder / SPEC)
    if not figure.runs_of:
        return Entry(name, folder, figure, name)
    if figure.runs_of not in found:
        raise SpecError(f"{folder / SPEC}: runs_of: there is no figure {figure.runs_of!r}")
    other = read(found[figure.runs_of] / SPEC)
    if other.runs_of:
        raise SpecError(f"{folder / SPEC}: runs_of: {figure.runs_of} has no runs of its own")
    return Entry(name, folder, figure.with_runs_of(other), figure.runs_of)


def entries() -> Iterator[Entry]:
    """Yield all figures. Raises SpecError for the first that is wrong."""
    for name in _found():
        yield entry(name)


def missing(figure: Figure) -> dict[str, str]:
    """Return by line, or by "" for the whole figure, what this tree lacks for it."""
    lacks: dict[str, str] = {}
    if figure.bench is not None:
        suite = figure.bench.suite
        if suite not in SUITES:
            return {"": f"there is no benchmark {suite!r}"}
        for group in figure.bench.groups:
            if group not in SUITES[suite].groups:
                lacks[""] = f"benchmark {suite} has no group {group!r}"
        return lacks
    workload = figure.workload.get("name", "reads")
    if workload not in WORKLOADS:
        return {"": f"there is no workload {workload!r}"}
    assert figure.sweep is not None
    try:
        axis(figure.sweep.axis)
    except ValueError as wrong:
        return {"": str(wrong)}
    for line in figure.lines:
        if not is_scheme(line.scheme_name):
            lacks[line.name] = f"there is no scheme {line.scheme_name!r}"
        other = line.workload.get("name", workload)
        if other not in WORKLOADS:
            lacks[line.name] = f"there is no workload {other!r}"
    return lacks


def is_scheme(name: str) -> bool:
    """Whether there is a scheme of that name, or of a family that it names."""
    try:
        scheme(name)
    except ValueError:
        return False
    return True


def _found() -> Mapping[str, Path]:
    found: dict[str, Path] = {}
    for top in folders():
        for file in top.glob(f"*/*/{SPEC}"):
            name = f"{file.parent.parent.name}-{file.parent.name}"
            if name in found:
                raise SpecError(f"two figures are called {name}: {found[name]}, {file.parent}")
            found[name] = file.parent
    return {name: found[name] for name in sorted(found, key=order)}


def order(name: str) -> list[tuple[int, str]]:
    """Return by what names are sorted: Figure 9 comes before Figure 10."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for letter in f"{name} ":
        if letter.isdigit():
            digits += letter
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        parts.append((-1, letter))
    return parts
