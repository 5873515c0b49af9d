"""Does regulation help or hurt? From pairs of turns, one with regulation and one without.

Three measures decide: what the ports carry, how long answers take, and how often connections wait
for a retransmission timeout. Everything else is shown beside them.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import exp, log
from typing import NamedTuple

from controller.cli.compare.readings import Turn
from controller.cli.compare.statistics import Difference, difference

_LEAST_ANSWERS_PER_S = 1.0
_LEAST_BYTES_PER_S = 1000.0
_NO_TIMEOUTS_PER_S = 0.1
"""So many more than none are no difference: one in ten seconds."""

CLEAR = log(1.2)
"""An effect that ends the comparison: a fifth worse."""
CLEARLY_P = 0.05


class Judgement(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"


class Verdict(StrEnum):
    HELPS = "helps"
    HURTS = "hurts"
    MIXED = "mixed"
    NO_DIFFERENCE = "no difference"
    UNDECIDED = "undecided"
    NO_TRAFFIC = "no traffic"


class Pair(NamedTuple):
    """One turn with regulation, one without, one right after the other."""

    on: Turn
    off: Turn


class Measure(NamedTuple):
    """`change` is the logarithm of on to off, None if a pair does not tell; more of it is better or
    not. An effect below `small` does not count, and if it cannot be more than `same`, there is
    none."""

    name: str
    text: str
    more_is_better: bool
    change: Callable[[Pair], float | None]
    small: float
    same: float


class Finding(NamedTuple):
    """`change` is of logarithms."""

    measure: Measure
    change: Difference
    judgement: Judgement

    @property
    def confidence(self) -> float:
        """That there is a change in the direction that was seen."""
        return 1 - min(self.change.p_below, self.change.p_above)


def _bytes(pair: Pair) -> float | None:
    if max(pair.on.bytes_per_s, pair.off.bytes_per_s) < _LEAST_BYTES_PER_S:
        return None
    return log(max(pair.on.bytes_per_s, 1.0) / max(pair.off.bytes_per_s, 1.0))


def _answer_time(pair: Pair) -> float | None:
    """Answers of each class of sizes are compared with their like: so it does not matter if in one
    turn there were more of the long ones. Classes count by how many answers they have."""
    total = weights = 0.0
    for on, off in zip(pair.on.answers, pair.off.answers, strict=False):
        weight = min(on.number, off.number)
        if weight >= _LEAST_ANSWERS_PER_S and on.mean_s and off.mean_s:
            total += weight * log(on.mean_s / off.mean_s)
            weights += weight
    return total / weights if weights else None


def _timeouts(pair: Pair) -> float | None:
    if not pair.on.segments_per_s and not pair.off.segments_per_s:
        return None
    more = _NO_TIMEOUTS_PER_S
    return log((pair.on.timeouts_per_s + more) / (pair.off.timeouts_per_s + more))


MEASURES = (
    Measure("bytes", "what ports carry", True, _bytes, log(1.05), log(1.1)),
    Measure(
        *("answers", "time that answers take", False, _answer_time),
        # A client that asks for more as soon as it can waits as long in all, wherever it is: what
        # the switch sees of it may be a tenth more although nobody has to wait longer.
        *(log(1.1), log(1.2)),
    ),
    Measure("timeouts", "timeouts", False, _timeouts, log(1.5), log(2)),
)


def findings(pairs: Sequence[Pair]) -> list[Finding]:
    """Of the measures that pairs tell of."""
    found = []
    for measure in MEASURES:
        changes = [change for pair in pairs if (change := measure.change(pair)) is not None]
        if changes:
            typical = difference(changes)
            found.append(Finding(measure, typical, _judge(measure, typical)))
    return found


def _judge(measure: Measure, change: Difference) -> Judgement:
    is_sure = change.low > 0 or change.high < 0
    if is_sure and abs(change.centre) >= measure.small:
        better = (change.centre > 0) == measure.more_is_better
        return Judgement.BETTER if better else Judgement.WORSE
    if (
        abs(change.centre) < measure.small
        and -measure.same < change.low
        and (change.high < measure.same)
    ):
        return Judgement.SAME
    return Judgement.UNCLEAR


def verdict(found: Sequence[Finding]) -> Verdict:
    judgements = {finding.judgement for finding in found}
    match Judgement.BETTER in judgements, Judgement.WORSE in judgements:
        case True, True:
            return Verdict.MIXED
        case True, False:
            return Verdict.HELPS
        case False, True:
            return Verdict.HURTS
    if not judgements:
        return Verdict.NO_TRAFFIC
    return Verdict.NO_DIFFERENCE if judgements == {Judgement.SAME} else Verdict.UNDECIDED


def clearly_worse(found: Sequence[Finding]) -> Finding | None:
    """What makes regulation clearly worse, while nothing is clearly better for it: enough to end
    the comparison before its time, although there may be no interval for it yet."""
    worse = None
    for finding in found:
        change = finding.change
        is_clear = abs(change.centre) >= max(CLEAR, finding.measure.small)
        if is_clear and min(change.p_below, change.p_above) <= CLEARLY_P:
            if (change.centre > 0) == finding.measure.more_is_better:
                return None
            worse = worse or finding._replace(judgement=Judgement.WORSE)
    return worse


def percent(change: float) -> float:
    """What a logarithm of a ratio is in per cent more."""
    return 100 * (exp(min(change, 700.0)) - 1)
