"""How often a window of TCP ends in a timeout, beside what the paper and Weir reckon with: the
group ``timeouts``.

Each window is all that a connection sends (``windows``), there is no layer, and nothing follows it
that could make duplicate acknowledgements: where the models are to hold. The minimum of the
retransmission timer is Linux's, 200 ms. ``timeouts_cells`` has an entry for each kind of TCP, loss
and size of window. Counts do not depend on how fast the machine is, and which packets of a window
are lost is the same each time.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import median
from typing import Any

from experiments.bench.acc.layer import TCPS
from experiments.bench.acc.risks import MODELS, eq1_printed, eq2, few_arrive, few_follow, tail_lost
from experiments.bench.acc.windows import Path, Window, measure, path
from experiments.bench.sandboxed import Incomplete
from experiments.measure import netstat
from experiments.statistics import wilson
from experiments.traffic.program import ProgramError
from testbed.command import CommandError

PREFIX = "timeouts"
CELLS = f"{PREFIX}_cells"
# What a model is held against: the retransmission timer ended; or the sender waited as long, maybe
# for a loss probe, as late if one packet alone is not acknowledged (RFC 8985, section 7.2).
MEASURED = ("timeout", "wait")
_WAIT_S = 0.19
# Acknowledgements that were made one with the one before, as the sender was at work, are few.
_COUNTERS = {"probes": "TcpExt.TCPLossProbes", "merged": "TcpExt.TCPBacklogCoalesce"}

Cell = dict[str, Any]


def run(
    progress: Callable[[str], None],
    *,
    losses_pct: Sequence[float],
    windows: Sequence[int],
    count: int,
    parallel: int,
) -> dict[str, Any]:
    """Measure ``count`` windows of each size, ``parallel`` of them at a time; see
    ``experiments.bench``."""
    found: list[Cell] = []
    failed = []
    with path() as between:
        cells = enumerate(product(losses_pct, windows), 1)
        # Both kinds of TCP lose the same packets.
        for tcp, (seed, (loss_pct, packets)) in product(TCPS, cells):
            what = f"{tcp}, {loss_pct:g} %, {packets} packets"
            try:
                cell = _cell(between, tcp, loss_pct, packets, (count, parallel), seed)
            except (CommandError, ProgramError, TimeoutError) as error:
                failed.append(what)
                progress(f"{what}: {error}")
                continue
            found.append(cell)
            progress(f"{what}: {_in_words(cell)}")
    figures: dict[str, Any] = {CELLS: found}
    if failed:
        raise Incomplete(figures, failed)
    return figures


def of_cell(windows: Sequence[Window], packets: int, loss: float) -> Cell:
    """Return the figures of ``windows`` of so many packets, of which a share of ``loss`` is lost,
    beside the models' probabilities."""
    lossy = [one for one in windows if one.lost]
    cell: Cell = {
        "windows": len(windows),
        "lossy": len(lossy),
        "lost": sum(one.lost.bit_count() for one in lossy),
        # Nobody lost anything, and yet: a machine that stood still.
        "stray_timeouts": sum(one.timeouts > 0 for one in windows if not one.lost),
    }
    for name, ends in zip(MEASURED, (_timed_out, _waited), strict=True):
        seen = sum(map(ends, windows))
        low, high = wilson(seen, len(windows))
        cell |= {f"{name}s": seen, f"{name}_pct": 100 * seen / len(windows)}
        cell |= {f"{name}_low_pct": 100 * low, f"{name}_high_pct": 100 * high}
    for name, model in MODELS.items():
        cell[f"{name}_pct"] = 100 * model.of(packets, loss)
    cell["eq1_printed_pct"] = 100 * eq1_printed(packets, loss)
    cell["eq2_printed_pct"] = 100 * eq2(packets, loss)
    # How well each outcome that a model is about tells those that time out.
    for name, outcome in (
        ("few_arrive", few_arrive), ("tail_lost", tail_lost), ("few_follow", few_follow)
    ):  # fmt: skip
        of = [one for one in windows if outcome(one.lost, packets)]
        cell |= {name: len(of), f"{name}_timeouts": sum(map(_timed_out, of))}
    # Where three duplicates come, a timeout is left if what is sent again is lost, too (Eq. 2).
    fast = [one for one in lossy if not few_follow(one.lost, packets)]
    cell |= {"enough_follow": len(fast), "enough_follow_timeouts": sum(map(_timed_out, fast))}
    cell["enough_follow_eq2"] = sum(eq2(one.lost.bit_count(), loss) for one in fast)
    return cell


def held_against(cells: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how well each model does in ``cells``, for each kind of TCP: in how many it is within
    the interval of what was measured, and by which factor it is off in the median of those where
    something was (1: not at all, 2: twice as much)."""
    figures: dict[str, float] = {}
    for tcp in dict.fromkeys(cell["tcp"] for cell in cells):
        of = [cell for cell in cells if cell["tcp"] == tcp]
        figures[f"{PREFIX}_{tcp}_cells"] = float(len(of))
        for measured, model in product(MEASURED, MODELS):
            name = f"{PREFIX}_{tcp}_{measured}_{model}"
            figures[f"{name}_within"] = float(sum(is_within(cell, measured, model) for cell in of))
            if some := [cell for cell in of if cell[f"{measured}_pct"]]:
                ratios = (cell[f"{model}_pct"] / cell[f"{measured}_pct"] for cell in some)
                figures[f"{name}_factor"] = median(ratios)
    return figures


def is_within(cell: Mapping[str, Any], measured: str, model: str) -> bool:
    """Whether a model's probability is in the interval of what was measured."""
    low, high = (cell[f"{measured}_{end}_pct"] for end in ("low", "high"))
    return bool(low <= cell[f"{model}_pct"] <= high)


def _timed_out(one: Window) -> bool:
    return one.timeouts > 0


def _waited(one: Window) -> bool:
    return one.took_s >= _WAIT_S


def _cell(
    between: Path, tcp: str, loss_pct: float, packets: int, how: tuple[int, int], seed: int
) -> Cell:
    before = netstat.counters(os.getpid())
    between.start(TCPS[tcp], packets, loss_pct / 100, seed)
    cell = of_cell(measure(between, packets, *how), packets, loss_pct / 100)
    grown = netstat.grown(before, netstat.counters(os.getpid()))
    names = {"tcp": tcp, "loss_pct": loss_pct, "window": packets}
    return names | cell | {name: grown.get(counter, 0) for name, counter in _COUNTERS.items()}


def _in_words(cell: Mapping[str, Any]) -> str:
    measured = (
        f"{cell[f'{name}s']} {name}s ({cell[f'{name}_low_pct']:.2f} to "
        f"{cell[f'{name}_high_pct']:.2f} %)"
        for name in MEASURED
    )
    models = ", ".join(f"{name} {cell[f'{name}_pct']:.3g}" for name in MODELS)
    return f"{cell['windows']} windows, {', '.join(measured)}; {models} %"
