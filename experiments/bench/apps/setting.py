"""Ordinary programs under each scheme, in turns: one setting of ``experiments.bench.apps.matrix``.

In a turn each contender runs in a sandbox of its own. The order rotates from turn to turn, so a
noisy minute, or the first place, does not always fall to the same one. Each turn is recorded.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.bench import sandboxed
from experiments.bench.apps.figures import Figures, Turn, failures, of_setting, order, void, wanted
from experiments.bench.apps.matrix import BASELINE, SETTINGS
from experiments.bench.apps.turn import TurnSpec
from experiments.bench.sandboxed import INTERRUPTED, Incomplete
from experiments.bench.valid import VoidRuns
from testbed import dctcp


def run(
    progress: Callable[[str], None],
    *,
    setting: str,
    schemes: Sequence[str],
    repeats: int,
    records: str,
    quick: bool = False,
    host: Mapping[str, Any] | None = None,
) -> Figures:
    """Measure; see ``experiments.bench``. The baseline is always among the ``schemes``; ``host``
    has fields of HostSettings.
    Workloads that failed in a turn have the figures of the other turns, and are named as
    missing."""
    chosen = SETTINGS[setting]
    names = [name for name in chosen.contenders if name in (BASELINE, *schemes)]
    if names == [BASELINE]:
        progress(f"not measured: it compares {', '.join(chosen.contenders)}")
        return {}
    if chosen.congestion_control == dctcp.NAME:
        try:
            dctcp.require()
        except dctcp.KernelLacksError as lacking:
            progress(f"not measured: {lacking}")
            return {}
    workloads = wanted(chosen, quick=quick)
    folder = Path(records)
    folder.mkdir(parents=True, exist_ok=True)
    turns: dict[str, list[Turn]] = {name: [] for name in names}
    lost: list[str] = []
    spoilt = VoidRuns(progress)
    for number in range(repeats):
        for name in order(names, number):
            label = f"{setting:<10} turn {number + 1} of {repeats}"
            spec = json.dumps(asdict(TurnSpec(setting, name, workloads, label, host or {})))
            while True:
                try:
                    turn = sandboxed.result("experiments.bench.apps.turn", spec)
                except sandboxed.EndedError as ended:
                    if ended.status in INTERRUPTED:
                        raise SystemExit(ended.status) from ended
                    progress(f"turn {number + 1} under {name}: FAILED with status {ended.status}")
                    turn = None
                    break
                progress(f"turn {number + 1} under {name}: done")
                again = spoilt.again(name, void(turn))
                ending = f"-void{spoilt.counts[name]}" if void(turn) else ""
                (folder / f"{name}-{number + 1}{ending}.json").write_text(json.dumps(turn))
                if not again:
                    break
            if turn is None or void(turn):
                lost.append(f"turn{number + 1}/{name}")
                # Ratios are of single turns: what is missing is to leave a gap.
                turn = {"played": {}, "checks": []}
            turns[name].append(turn)
    figures = of_setting(setting, turns)
    figures |= {f"{setting}.{name}.void_turns": spoilt.counts[name] for name in names}
    if missing := [*lost, *failures(turns)]:
        raise Incomplete(figures, missing)
    return figures
