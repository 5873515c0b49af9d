"""Judges claims against medians and bands: held, not held, not comparable, not measured.

Kinds of claims, all about ``metric``, ``at`` the values of the sweep that are named, or at all that
the figure sweeps (of a benchmark without ``names``: that it has measured). Where one of these was
not measured, nor is the claim:

    order   ``line`` is ahead of every line of ``than``; more is ahead, or less if not ``higher``
    factor  ``line`` over each line of ``than`` is at least ``least``, at most ``most``
    level   ``line`` itself is at least ``least``, at most ``most``
    knee    ``line`` falls below ``share`` of its best for the first time beyond ``least``, and at
            ``most`` or before; only ``least``: not before; only ``most``: by then at the latest
    none    cannot be compared, and ``why``

Medians decide: of ``order`` and ``factor`` those of the differences and factors seed by seed
(``pairs``), where both lines have valid runs of the same seeds. Where bands overlap, or that of the
differences has 0 in it, or a run was void, the reason says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from experiments.figures.pairs import Pair
from experiments.figures.results import Cell
from experiments.figures.spec import Claim, Figure, Line

HELD, NOT_HELD = "held", "not held"
NOT_COMPARABLE, NOT_MEASURED = "not comparable", "not measured"
VERDICTS = (HELD, NOT_HELD, NOT_COMPARABLE, NOT_MEASURED)


@dataclass(frozen=True)
class Verdict:
    """A claim, what became of it, and why."""

    claim: Claim
    verdict: str
    why: str


def judge(figure: Figure, found: Sequence[Cell], pairs: Sequence[Pair] = ()) -> list[Verdict]:
    """Return a verdict for each claim of ``figure``."""
    own_names = {line.paper: line.name for line in figure.lines if line.paper}
    curves: dict[tuple[str, str], dict[float, Cell]] = {}
    for cell in found:
        if cell.t is None:
            curves.setdefault((cell.line, cell.metric), {})[cell.x] = cell
    planned = {line.name: _planned(figure, line) for line in figure.lines}
    of_pairs = {(pair.line, pair.than, pair.metric, pair.x): pair for pair in pairs}
    of = _Curves(curves, own_names, planned, of_pairs)
    return [_judged(claim, of) for claim in figure.claims]


def _planned(figure: Figure, line: Line) -> list[float]:
    """Return the values of what is swept that ``line`` is to be measured at; none where the figure
    does not say."""
    if figure.sweep is None:
        return sorted(figure.bench.names.values()) if figure.bench else []
    values = [float(value) for value in figure.sweep.values]
    return sorted(x for x in values if line.values is None or x in line.values)


class _Curves:
    """The curves of lines, which may be called as the paper calls them, and the values that each
    is ``planned`` to have."""

    def __init__(
        self,
        curves: Mapping[tuple[str, str], Mapping[float, Cell]],
        own_names: Mapping[str, str],
        planned: Mapping[str, Sequence[float]],
        pairs: Mapping[tuple[str, str, str, float], Pair],
    ) -> None:
        self._curves = curves
        self._own_names = own_names
        self._planned = planned
        self._pairs = pairs

    def of(self, line: str, metric: str) -> Mapping[float, Cell]:
        found = self._curves.get((line, metric))
        return found or self._curves.get((self._own_names.get(line, line), metric), {})

    def planned(self, line: str) -> Sequence[float]:
        """Return the values that a claim about ``line`` is about unless it names them."""
        return self._planned.get(line) or self._planned.get(self._own_names.get(line, line), ())

    def pair(self, line: str, than: str, metric: str, x: float) -> Pair | None:
        """Return two lines' values side by side, seed by seed."""
        own, other = (self._own_names.get(name, name) for name in (line, than))
        return self._pairs.get((own, other, metric, x))


def _judged(claim: Claim, curves: _Curves) -> Verdict:
    if claim.kind == "none":
        return Verdict(claim, NOT_COMPARABLE, claim.why)
    own = curves.of(claim.line, claim.metric)
    if not own:
        return Verdict(claim, NOT_MEASURED, f"no {claim.metric} of {claim.line}")
    at = claim.at or curves.planned(claim.line) or sorted(own)
    lacking = [x for x in at if x not in own]
    if lacking:
        there = [x for x in at if x in own]
        so_far = _judged(claim.model_copy(update={"at": there}), curves) if there else None
        said = f"; so far {so_far.verdict}: {so_far.why}" if so_far else ""
        return Verdict(claim, NOT_MEASURED, f"nothing at {_list(lacking)}{said}")
    if claim.kind == "knee":
        return _knee(claim, {x: own[x] for x in at})
    if claim.kind == "level":
        return _level(claim, [own[x] for x in at])
    others = {name: curves.of(name, claim.metric) for name in claim.than}
    for name, other in others.items():
        if not other:
            return Verdict(claim, NOT_MEASURED, f"no {claim.metric} of {name}")
        wanted = claim.at or curves.planned(name)
        lacking = [x for x in at if x in wanted and x not in other]
        if lacking:
            return Verdict(claim, NOT_MEASURED, f"nothing of {name} at {_list(lacking)}")
    pairs = [
        _Pair(name, x, own[x], other[x], curves.pair(claim.line, name, claim.metric, x))
        for name, other in others.items()
        for x in at
        if x in other
    ]
    if not pairs:
        return Verdict(claim, NOT_MEASURED, "nothing measured at the same values")
    return _order(claim, pairs) if claim.kind == "order" else _factor(claim, pairs)


@dataclass(frozen=True)
class _Pair:
    """A claim's line beside the line ``name`` at ``x``, if possible also ``seed_by_seed``."""

    name: str
    x: float
    own: Cell
    other: Cell
    seed_by_seed: Pair | None = None

    def lead(self, *, higher: bool) -> float:
        """Return how far the claim's line is ahead; less than 0 if it is behind."""
        ahead = self.own.band.median - self.other.band.median
        if self.seed_by_seed is not None:
            ahead = self.seed_by_seed.difference.median
        return ahead if higher else -ahead

    @property
    def is_close(self) -> bool:
        """Whether another set of repeats could say the contrary."""
        if self.seed_by_seed is None:
            return self.own.band.overlaps(self.other.band)
        return self.seed_by_seed.difference.low <= 0 <= self.seed_by_seed.difference.high

    @property
    def factor(self) -> float | None:
        """How many times as much the claim's line has; None where the other one has nothing."""
        if self.seed_by_seed is not None and self.seed_by_seed.factor is not None:
            return self.seed_by_seed.factor.median
        theirs = self.other.band.median
        return self.own.band.median / theirs if theirs else None

    def in_words(self) -> str:
        said = f"{self.own.band.median:.4g} against {self.other.band.median:.4g}"
        if self.seed_by_seed is not None:
            said += f" ({self.seed_by_seed.difference.median:+.3g} seed by seed)"
        return said


def _order(claim: Claim, pairs: Sequence[_Pair]) -> Verdict:
    behind = [
        f"{pair.name} at {pair.x:g}: {pair.in_words()}"
        for pair in pairs
        if pair.lead(higher=claim.higher) < 0
    ]
    if behind:
        return _with_voids(claim, NOT_HELD, "behind " + "; ".join(behind), pairs)
    close = [f"{pair.name} at {pair.x:g}" for pair in pairs if pair.is_close]
    nearest = min(
        pairs,
        key=lambda pair: pair.lead(higher=claim.higher) / (abs(pair.other.band.median) or 1.0),
    )
    why = f"the nearest: {nearest.name} at {nearest.x:g}, {nearest.in_words()}"
    if close:
        why += f"; bands overlap with {', '.join(close)}"
    return _with_voids(claim, HELD, why, pairs)


def _factor(claim: Claim, pairs: Sequence[_Pair]) -> Verdict:
    factors = {}
    for pair in pairs:
        factor = pair.factor
        if factor is None:
            return Verdict(claim, NOT_COMPARABLE, f"{pair.name} has 0 at {pair.x:g}")
        factors[pair.name, pair.x] = factor
    wrong = [f"{v:.3g} to {n} at {x:g}" for (n, x), v in factors.items() if not _within(v, claim)]
    if wrong:
        return _with_voids(claim, NOT_HELD, f"factor {'; '.join(wrong)}; {_bounds(claim)}", pairs)
    low, high = min(factors.values()), max(factors.values())
    return _with_voids(claim, HELD, f"factor {_range(low, high)}; {_bounds(claim)}", pairs)


def _level(claim: Claim, own: Sequence[Cell]) -> Verdict:
    wrong = [f"{c.band.median:.4g} at {c.x:g}" for c in own if not _within(c.band.median, claim)]
    pairs = [_Pair(claim.line, cell.x, cell, cell) for cell in own]
    if wrong:
        return _with_voids(claim, NOT_HELD, f"{'; '.join(wrong)}; {_bounds(claim)}", pairs)
    values = [cell.band.median for cell in own]
    said = f"{_range(min(values), max(values))}; {_bounds(claim)}"
    return _with_voids(claim, HELD, said, pairs)


def _knee(claim: Claim, own: Mapping[float, Cell]) -> Verdict:
    """The knee lies between the last value before the fall and the first one after it."""
    xs = sorted(own)
    best = max(own[x].band.median for x in xs)
    pairs = [_Pair(claim.line, x, own[x], own[x]) for x in xs]
    fallen = [
        x
        for x in xs
        if own[x].band.median < claim.share * best
        and any(own[y].band.median >= claim.share * best for y in xs if y < x)
    ]
    if not fallen:
        said = f"no fall below {claim.share:.0%} of its best up to {xs[-1]:g}"
        if claim.most is not None and xs[-1] < claim.most:
            return Verdict(claim, NOT_MEASURED, said)
        return _with_voids(claim, HELD if claim.most is None else NOT_HELD, said, pairs)
    after = fallen[0]
    before = max(x for x in xs if x < after)
    said = f"falls below {claim.share:.0%} of its best between {before:g} and {after:g}"
    early = claim.least is not None and after <= claim.least
    late = claim.most is not None and before >= claim.most
    return _with_voids(claim, NOT_HELD if early or late else HELD, said, pairs)


def _with_voids(claim: Claim, verdict: str, why: str, pairs: Iterable[_Pair]) -> Verdict:
    """A verdict that rests on void runs alone is none."""
    at = sorted({pair.x for pair in pairs if not (pair.own.runs and pair.other.runs)})
    if not at:
        return Verdict(claim, verdict, why)
    return Verdict(claim, NOT_COMPARABLE, f"no valid run at {_list(at)}; by void ones: {why}")


def _within(value: float, claim: Claim) -> bool:
    if claim.least is not None and value < claim.least:
        return False
    return claim.most is None or value <= claim.most


def _bounds(claim: Claim) -> str:
    if claim.least is None:
        return f"should be {claim.most:g} or less"
    if claim.most is None:
        return f"should be {claim.least:g} or more"
    return f"should be {claim.least:g} to {claim.most:g}"


def _range(low: float, high: float) -> str:
    return f"{low:.4g}" if f"{low:.4g}" == f"{high:.4g}" else f"{low:.4g} to {high:.4g}"


def _list(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
