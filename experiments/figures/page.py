"""The report: one page with every figure, its claims, and where its values come from.

It is made of data alone: the same results give the same page and pictures, byte by byte.
"""

import base64
import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from experiments.figures import catalogue, claims, pairs, plot, results, sweep
from experiments.figures.catalogue import Entry, Point
from experiments.figures.claims import VERDICTS, Verdict
from experiments.figures.pairs import Pair
from experiments.figures.results import Cell

PAGE, PICTURES, CLAIMS = "index.html", "pictures", "claims.csv"
_TEMPLATE = "page.html.jinja"


@dataclass(frozen=True)
class Shown:
    """A figure with what was measured of it: nothing yet, if there are no ``cells``."""

    entry: Entry
    cells: Sequence[Cell]
    provenance: Mapping[str, Any]
    pairs: Sequence[Pair] = ()

    @property
    def verdicts(self) -> list[Verdict]:
        return claims.judge(self.entry.figure, self.cells, self.pairs)

    @property
    def points(self) -> list[Point]:
        return self.entry.points()


def committed(entry: Entry) -> Shown:
    """Return a figure with the results that lie beside it."""
    kept = (catalogue.RESULTS, catalogue.PAIRS, catalogue.PROVENANCE)
    file, paired, told = (entry.folder / name for name in kept)
    return Shown(
        entry,
        results.read_summary(file) if file.exists() else [],
        json.loads(told.read_text()) if told.exists() else {},
        pairs.read(paired) if paired.exists() else [],
    )


def measured(folder: Path) -> Shown:
    """Return a figure with the results of a folder, and its present claims and points, if it is one
    of the catalogue. Raises ValueError where there are none."""
    return measured_all(folder)[0]


def measured_all(folder: Path) -> list[Shown]:
    """Return the same, and after it the other figures that draw the same runs."""
    found = results.load(folder)
    assert found.figure is not None
    entries = [entry for entry in catalogue.entries() if entry.runs == found.name]
    entries.sort(key=lambda entry: entry.name != found.name)
    shown = entries or [Entry(found.name, folder, found.figure, found.name)]
    cells, provenance = found.cells, results.provenance(found)
    return [
        Shown(entry, cells, provenance, pairs.pairs(entry.figure, found.rows)) for entry in shown
    ]


def sweeps(folders: Iterable[Path]) -> list[Path]:
    """Return the folders of results in and below ``folders``, in the order of their names."""
    found = {
        described.parent.resolve(): None
        for folder in folders
        for described in sorted(folder.rglob(sweep.SWEEP))
    }
    return list(found)


def build(shown: Sequence[Shown], out: Path) -> Path:
    """Write the page, the pictures (SVG, PNG, PDF) and the table of claims; return the page."""
    pictures = out / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    sections = [_section(one, pictures) for one in shown]
    judged = [(one.entry, verdict) for one in shown for verdict in one.verdicts]
    count = Counter(verdict.verdict for _, verdict in judged)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template(_TEMPLATE).render(
        sections=sections,
        judged=[(entry.name, verdict) for entry, verdict in judged],
        counts=[(name, count[name]) for name in VERDICTS],
        unmeasured=[one.entry.name for one in shown if not one.cells],
    )
    (out / PAGE).write_text(page, encoding="utf-8")
    _write_claims(judged, out / CLAIMS)
    return out / PAGE


def _section(shown: Shown, pictures: Path) -> dict[str, Any]:
    entry = shown.entry
    figure = entry.figure
    files: dict[str, Path] = {}
    picture = ""
    if shown.cells or shown.points:
        files = plot.draw(figure, shown.cells, shown.points, pictures / entry.name)
        svg = base64.b64encode(files["svg"].read_bytes()).decode()
        picture = f"data:image/svg+xml;base64,{svg}"
    named = plot.labels(figure, shown.cells)
    drawn = {panel.metric for panel in figure.panels}
    return {
        "name": entry.name,
        "figure": figure,
        "picture": picture,
        "files": {kind: f"{PICTURES}/{path.name}" for kind, path in files.items()},
        "points": shown.points,
        "verdicts": shown.verdicts,
        "provenance": {key: _told(value) for key, value in shown.provenance.items()},
        "measured": bool(shown.cells),
        "missing": catalogue.missing(figure),
        "values": [
            (named[cell.line], cell) for cell in shown.cells if cell.t is None
            and cell.metric in drawn
        ],
        "estimates": (
            sweep.in_words(sweep.estimate_s(figure)),
            sweep.in_words(sweep.estimate_s(figure.quickly())),
        ),
    }  # fmt: skip


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_told(one)}" for key, one in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_told, value)) or "none"
    return str(value)


def _write_claims(judged: Iterable[tuple[Entry, Verdict]], file: Path) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("figure", "claim", "source", "verdict", "why"))
        for entry, verdict in judged:
            claim = verdict.claim
            writer.writerow((entry.name, claim.text, claim.source, verdict.verdict, verdict.why))
