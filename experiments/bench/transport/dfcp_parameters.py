"""What DFCP's own parameters cost: redundancy and the window (the paper's section 6.2).

One flow at 99 % of a link of 100 Mb/s that loses nothing, in blocks of 48 symbols, 68 kB, which is
about the paper's 64 KiB. ``redundancyP`` sends P % more symbols of each block than are needed, over
a round trip of 10 ms: at any of these values an acknowledgement comes too late to save one.
``windowN`` has N blocks under way at most, over a round trip of 50 ms, which holds nine of them,
with a redundancy of 5 % as in the paper. Goodput is counted from the first block that was delivered
to the last.
"""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments.bench import sandboxed
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.transport import dfcp
from experiments.bench.valid import VoidRuns
from experiments.bench.watched import until_valid, watched
from experiments.network.long_link import LongLink, long_link
from experiments.traffic import fountain
from testbed import sandbox

REDUNDANCIES_PCT = (0, 1, 2, 5, 10, 20, 50, 100)
WINDOWS = (1, 2, 4, 8, 16, 32)
_BLOCK_SYMBOLS = 48
_RTT_MS = {"redundancy": 10, "window": 50}
_OPTIONS = {"redundancy": ["--redundancy={}"], "window": ["--window={}", "--redundancy=5"]}
_OBJECT_BYTES = 25_000_000


def run(
    progress: Callable[[str], None],
    *,
    redundancies_pct: Sequence[float] = REDUNDANCIES_PCT,
    windows: Sequence[int] = WINDOWS,
) -> Figures:
    """Measure; see ``experiments.bench``."""
    asked = {"redundancy": list(redundancies_pct), "window": list(windows)}
    words = ("experiments.bench.transport.dfcp_parameters", json.dumps(asked))
    return of_trials(sandboxed.result(*words), progress)


def of_trials(trials: Sequence[dict[str, Any]], progress: Callable[[str], None]) -> Figures:
    """Return the figures; ``..._share`` is of what the same flow has without redundancy. Raises
    Incomplete if a trial has no valid run."""
    figures: Figures = {}
    missing = []
    for trial in trials:
        figures[f"{trial['name']}_void_runs"] = trial["void_runs"]
        if (mbps := trial["mbps"]) is None:
            missing.append(trial["name"])
            continue
        figures[f"{trial['name']}_goodput_mbps"] = mbps
        if trial["name"].startswith("redundancy") and "redundancy0_goodput_mbps" in figures:
            figures[f"{trial['name']}_share"] = mbps / figures["redundancy0_goodput_mbps"]
        progress(f"{trial['name']}: {mbps:.1f} Mb/s")
    if missing:
        raise Incomplete(figures, missing)
    return figures


def measure(asked: dict[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Send with each value of each parameter in turn."""
    trials = []
    void = VoidRuns(dfcp.say)
    with dfcp.dumbbell() as bed:
        file, log = bed.run_dir / "object", bed.run_dir / "workload.log"
        fountain.make_hollow(file, _OBJECT_BYTES)
        for parameter, values in asked.items():
            rtt_ms = _RTT_MS[parameter]
            with long_link(bed.host(bed.roles.receiver), LongLink(rtt_ms), log):
                for value in values:
                    name = f"{parameter}{value:g}"
                    options = [f"--block-symbols={_BLOCK_SYMBOLS}"]
                    options += [option.format(value) for option in _OPTIONS[parameter]]
                    send = partial(dfcp.send, bed, file, log, options=options)
                    one = until_valid(void, name, partial(watched, bed, send, more_rtt_ms=rtt_ms))
                    said = one.found.said
                    mbps = said["span_bytes"] * 8e-6 / said["span_seconds"]
                    trials.append({
                        "name": name,
                        "mbps": None if one.void else mbps,
                        "void_runs": void.counts[name],
                    })  # fmt: skip
    return trials


def main() -> None:
    """Entry point of the first process in a sandbox."""
    sandbox.become_first_process()
    asked, file = json.loads(sys.argv[1]), Path(sys.argv[2])
    file.write_text(json.dumps(measure(asked)))


if __name__ == "__main__":
    main()
