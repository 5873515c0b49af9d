"""What becomes of runs that are not valid: one rule for every benchmark.

A run that is not valid is void. It is reported, kept where runs are kept, counted (``void_runs``),
and no figure is made of it. It is done again, unless more than MOST_VOID runs of the same thing are
void already. Figures are of the valid runs, and what has fewer of them than asked for is named in
``failed``.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from experiments.measure.validity import Check

MOST_VOID = 2


def reasons(checks: Iterable[Check]) -> list[str]:
    """Return those checks that do not hold, in words: why a run is void."""
    return [
        f"{check.name}: {check.measured}; should be: {check.bound}"
        for check in checks
        if not check.holds
    ]


class VoidRuns:
    """Counts them, by what was run."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.counts: Counter[Hashable] = Counter()
        self._say = say

    def again(self, what: Hashable, why: Sequence[str]) -> bool:
        """Whether to run ``what`` again, after a run that is void if there are reasons ``why``."""
        if not why:
            return False
        self.counts[what] += 1
        for reason in why:
            self._say(f"not valid: {reason}")
        return self.counts[what] <= MOST_VOID


def valid(runs: Iterable[Any]) -> list[Any]:
    """Return those of ``runs``, each with its reasons in ``void``, that are valid."""
    return [run for run in runs if not run["void"]]
