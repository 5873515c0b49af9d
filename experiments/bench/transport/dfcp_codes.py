"""The processor time that codes cost a sender and a receiver of DFCP: ours, LTTP's, and RaptorQ
(RFC 6330).

The dumbbell of ``transport.dfcp`` stands behind a link of 10 ms, without loss and with 5 %. Each
code sends for some seconds at 99 % of the link's rate, in turns; the median turn counts.
``goodput_share`` is as in that bench, ``sender_s_per_gb`` and ``receiver_s_per_gb`` are seconds of
a processor for 10^9 bytes delivered, everything included: reading, coding, encryption, the kernel,
and waking up for each datagram, which is most of a sender's. Receivers ask for as many symbols as
our Raptor code takes, whatever the code. With ``none`` the bytes are sent as they are, and the
receiver finds out which symbols would be enough without restoring anything. Codes by themselves are
compared by ``make bench-codec``.
"""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from experiments.bench import sandboxed
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.transport import dfcp
from experiments.bench.valid import VoidRuns
from experiments.bench.watched import until_valid, watched
from experiments.network.long_link import LongLink, long_link
from testbed import sandbox

CODES = ("raptor", "lt", "raptorq", "none")
_LOSSES_PCT = (0.0, 5.0)
_RTT_MS = 10.0
_TURNS = 3


def run(
    progress: Callable[[str], None],
    *,
    codes: Sequence[str] = CODES,
    losses_pct: Sequence[float] = _LOSSES_PCT,
) -> Figures:
    """Measure; see ``experiments.bench``."""
    figures: Figures = {}
    asked = json.dumps({"codes": codes, "losses": losses_pct})
    trials = sandboxed.result("experiments.bench.transport.dfcp_codes", asked)
    missing = []
    for loss_pct, code in product(losses_pct, codes):
        name = f"code_{code}_loss{loss_pct:g}"
        turns = [turn for turn in trials if (turn["loss_pct"], turn["code"]) == (loss_pct, code)]
        figures[f"{name}_void_runs"] = sum(turn["void_runs"] for turn in turns)
        turns = [turn for turn in turns if "bytes" in turn]
        if len(turns) < _TURNS:
            missing.append(name)
        if not turns:
            continue
        limit_bps = dfcp.limit_bps(loss_pct / 100)
        found = {
            "goodput_share": median(turn["goodput_bps"] / limit_bps for turn in turns),
            "sender_s_per_gb": median(turn["sender_s"] * 1e9 / turn["bytes"] for turn in turns),
            "receiver_s_per_gb": median(turn["receiver_s"] * 1e9 / turn["bytes"] for turn in turns),
        }
        figures |= {f"{name}_{figure}": value for figure, value in found.items()}
        told = ", ".join(f"{figure} {value:.2f}" for figure, value in found.items())
        progress(f"{code}, loss {loss_pct:g} %: {told}")
    if missing:
        raise Incomplete(figures, missing)
    return figures


def measure(codes: Sequence[str], losses_pct: Sequence[float]) -> list[dict[str, Any]]:
    """Send with the codes in turns, over one link after the other."""
    trials: list[dict[str, Any]] = []
    with dfcp.dumbbell() as bed:
        file, log = bed.run_dir / "object", bed.run_dir / "workload.log"
        for loss_pct in losses_pct:
            link = LongLink(_RTT_MS, loss_pct / 100)
            size = dfcp.make(file, link)
            with long_link(bed.host(bed.roles.receiver), link, log):
                void = VoidRuns(dfcp.say)
                for code in list(codes) * _TURNS:
                    before = void.counts[code]
                    one = until_valid(
                        void,
                        code,
                        partial(
                            watched, bed, partial(dfcp.send, bed, file, log, code),
                            more_rtt_ms=_RTT_MS,
                        ),
                    )  # fmt: skip
                    trial: dict[str, Any] = {"code": code, "loss_pct": loss_pct}
                    trial["void_runs"] = void.counts[code] - before
                    if not one.void:
                        said = one.found.said
                        trial |= {
                            "bytes": size,
                            "goodput_bps": said["span_bytes"] * 8 / said["span_seconds"],
                            "sender_s": one.found.sender_s,
                            "receiver_s": one.found.receiver_s,
                        }
                    trials.append(trial)
    return trials


def main() -> None:
    """Entry point of the first process in a sandbox."""
    sandbox.become_first_process()
    asked, file = json.loads(sys.argv[1]), Path(sys.argv[2])
    file.write_text(json.dumps(measure(asked["codes"], asked["losses"])))


if __name__ == "__main__":
    main()
