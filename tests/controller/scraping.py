"""What Prometheus gathers: real controllers are scraped, and what they say is stretched over time.

A fault lasts for seconds in a test and for minutes in the rules. So the scrapes of a few seconds
stand for a phase of `PHASE_S`: a gauge takes the values that were scraped in turn, a counter goes
on at the rate that was scraped. What happened between two phases comes at once.
"""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import yaml
from prometheus_client.parser import text_string_to_metric_families

import promtool
from promtool import Check

# Longer than all the rules look back, or wait, but those for switches that are gone.
PHASE_S = 900
SCRAPES, EVERY_S = 4, 0.2
_STEPS = PHASE_S // promtool.STEP_S
# Since the second step of a phase.
_PHASE = f"{PHASE_S - 2 * promtool.STEP_S}s"
# What is read in a moment may be late by chance.
_OF_BUSY_MACHINES = frozenset({"WeirMainLoopLate", "WeirControlSlow"})
_COUNTED = re.compile(r"\w+_(total|bucket|count|sum)\{")
_UNTIL = re.compile(r"\w+_timestamp_seconds\{")
# What the rules name.
_NAMES = frozenset(
    name
    for group in yaml.safe_load(promtool.RULES.read_text())["groups"]
    for rule in group["rules"]
    for name in re.findall(r"\bweir_\w+", rule["expr"])
)


class Scrape(NamedTuple):
    """The values by series, and when they were read, by either clock."""

    values: dict[str, float]
    wall_s: float
    at_s: float

    def find(self, name: str, /, **labels: str) -> float | None:
        """The largest value of a metric, of those series that have these labels."""
        wanted = [_label(*label) for label in labels.items()]
        found = [
            value
            for series, value in self.values.items()
            if series.startswith(f"{name}{{") and all(label in series for label in wanted)
        ]
        return max(found, default=None)


Phase = Sequence[Scrape]


class Scraper:
    """Scrapes `targets`, URLs by the name that they have as instances of the job weir."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        self.targets = dict(targets)
        self.timeout_s = 10.0

    def scrape(self) -> Scrape:
        values: dict[str, float] = {}
        wall_s, at_s = time.time(), time.monotonic()
        for instance, url in self.targets.items():
            added = {"instance": instance, "job": "weir"}
            try:
                with urllib.request.urlopen(url, timeout=self.timeout_s) as answer:
                    text = answer.read().decode()
            except OSError:
                values[_series("up", added)] = 0
                continue
            values[_series("up", added)] = 1
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name in _NAMES:
                        values[_series(sample.name, sample.labels | added)] = sample.value
        return Scrape(values, wall_s, at_s)

    def watch(
        self,
        every_s: float = EVERY_S,
        meanwhile: Callable[[], object] = lambda: None,
        scrapes: int = SCRAPES,
    ) -> Phase:
        """Some scrapes, one after the other, and what happens between them."""
        phase = [self.scrape()]
        while len(phase) < scrapes:
            meanwhile()
            time.sleep(every_s)  # the measurement itself
            phase.append(self.scrape())
        return phase


def require_alerts(
    directory: Path,
    before: Phase,
    during: Phase,
    after: Phase,
    alerts: Set[str],
    may: Set[str] = frozenset(),
) -> None:
    """Check that these alerts fire during a fault, and others that `may`; none before it, and none
    a while after it."""
    busy = _OF_BUSY_MACHINES - alerts
    checks = [
        Check(_end(0), frozenset(), _PHASE, busy),
        Check(_end(1), alerts, _PHASE, busy | may),
        Check(_end(2), frozenset(), may=busy),
    ]
    promtool.play(directory, stretch([before, during, after]), checks)


def require_silence(directory: Path, usual: Phase, hours: int = 1) -> None:
    """Check that nothing fires if it goes on like this."""
    phases = hours * 3600 // PHASE_S
    checks = [Check(_end(phase), frozenset(), _PHASE) for phase in range(phases)]
    promtool.play(directory, stretch([usual] * phases), checks)


def stretch(phases: Sequence[Phase]) -> dict[str, str]:
    """The series of all phases, one after the other."""
    names = {name for phase in phases for scrape in phase for name in scrape.values}
    return {name: " ".join(_values(name, phases)) for name in sorted(names)}


def _values(name: str, phases: Sequence[Phase]) -> list[str]:
    texts: list[str] = []
    total = raw = 0.0
    for number, phase in enumerate(phases):
        there = [scrape for scrape in phase if name in scrape.values]
        if len(there) < len(phase):
            texts += _in_turn([scrape.values.get(name) for scrape in phase])
        elif _COUNTED.match(name):
            first, last = there[0], there[-1]
            per_s = (last.values[name] - first.values[name]) / (last.at_s - first.at_s)
            # A counter that begins again is one in Prometheus, too.
            begun = first.values[name]
            total = total + begun - raw if begun >= raw else begun
            texts.append(_line(total, per_s * promtool.STEP_S))
            total += per_s * (_STEPS - 1) * promtool.STEP_S
            raw = last.values[name]
        elif _UNTIL.match(name):
            since_s = there[0].wall_s - number * PHASE_S
            texts.append(_line(there[0].values[name] - since_s, 0))
        else:
            texts += _in_turn([scrape.values[name] for scrape in phase])
    return texts


def _in_turn(values: Sequence[float | None]) -> list[str]:
    """These values over and over, for a phase."""
    if len(set(values)) > 1:
        every = (values[step % len(values)] for step in range(_STEPS))
        return ["stale" if value is None else _number(value) for value in every]
    return ["stale", f"_x{_STEPS - 2}"] if values[0] is None else [_line(values[0], 0)]


def _line(begun: float, more: float) -> str:
    """A value that grows by as much in each step of a phase."""
    return f"{_number(begun)}{'-' if more < 0 else '+'}{_number(abs(more))}x{_STEPS - 1}"


def _number(value: float) -> str:
    # Not 1e+06, which promtool takes for a sum.
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _end(phase: int) -> str:
    return f"{(phase + 1) * PHASE_S - promtool.STEP_S}s"


def _series(name: str, labels: Mapping[str, str]) -> str:
    return f"{name}{{{', '.join(_label(*label) for label in sorted(labels.items()))}}}"


def _label(name: str, value: str) -> str:
    return f"{name}={json.dumps(value, ensure_ascii=False)}"
