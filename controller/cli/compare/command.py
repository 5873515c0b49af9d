"""The command `weir-controller compare`: its arguments, its progress, and what it prints."""

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from math import ceil
from statistics import median
from typing import Any

from rich.table import Table

from controller.cli import switching, words
from controller.cli.client import AskError, Client
from controller.cli.compare.readings import Turn
from controller.cli.compare.turns import Place, Turns
from controller.cli.compare.verdict import (
    Finding,
    Judgement,
    Pair,
    Verdict,
    clearly_worse,
    findings,
    percent,
    verdict,
)

# All pairs are judged anew after each, and the judgement takes the square of their number.
_MOST_PAIRS = 1000
HURTS, UNDECIDED = 3, 4
_STATUS = {
    Verdict.HELPS: 0,
    Verdict.NO_DIFFERENCE: 0,
    Verdict.HURTS: HURTS,
    Verdict.MIXED: UNDECIDED,
    Verdict.UNDECIDED: UNDECIDED,
    Verdict.NO_TRAFFIC: UNDECIDED,
}
_SAID = {
    Verdict.HELPS: "regulation helps",
    Verdict.HURTS: "regulation hurts",
    Verdict.MIXED: "regulation helps some and hurts some",
    Verdict.NO_DIFFERENCE: "regulation makes no difference",
    Verdict.UNDECIDED: "undecided: differences are smaller than what changes by itself; "
    "compare for longer, or while there is more traffic",
    Verdict.NO_TRAFFIC: "there was no traffic to compare",
}


def compare(options: argparse.Namespace, print_table: Callable[[Table], None]) -> int:
    """Returns the exit status."""
    number = max(1, round(options.minutes * 60 / (2 * options.turn)))
    if number > _MOST_PAIRS:
        longer_s = ceil(options.minutes * 60 / (2 * _MOST_PAIRS))
        raise AskError(f"that is {number} pairs of turns; make turns longer: --turn {longer_s}")
    turns = Turns(
        Client(options.socket),
        Place(**switching.place(options)),
        options.turn,
        switching.user(),
        time.monotonic,
        time.sleep,
        random.Random(),
    )
    turns.check()
    say = _sayer(options.json)
    say(
        f"{number} pairs of turns of {options.turn:g} s, one with regulation and one without, in "
        f"{words.duration(number * 2 * options.turn)}; Ctrl-C ends it with what there is"
    )
    _end_well()
    pairs: list[Pair] = []
    stopped: Finding | None = None
    interrupted = False
    try:
        for at, pair in enumerate(turns.pairs(number), 1):
            if pair is None:
                say(f"pair {at} of {number}: not used: {turns.lost[-1]}")
                continue
            pairs.append(pair)
            say(f"pair {at} of {number}: with {_short(pair.on)}; without {_short(pair.off)}")
            if stopped := clearly_worse(findings(pairs)):
                say(f"stopped: {stopped.measure.text} got clearly worse with regulation")
                break
    except KeyboardInterrupt:
        interrupted = True
        say("ended early; regulation is on")
    except AskError as error:
        interrupted = True
        say(f"ended early: {error}; regulation is on again within {turns.off_s} s")
    found = findings(pairs)
    if stopped:
        found = [finding if finding.measure != stopped.measure else stopped for finding in found]
    said = Verdict.HURTS if stopped else verdict(found)
    if options.json:
        print(json.dumps(_document(said, found, pairs, turns.lost, stopped, interrupted)))
    else:
        if pairs:
            print_table(_table(found, pairs))
        print(f"{_SAID[said]}{_because(found, stopped)}")
    return _STATUS[said]


def _end_well() -> None:
    """Whatever ends the command, regulation is on afterwards."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _sayer(as_json: bool) -> Callable[[str], None]:
    """Progress, which for programs is not in the way of the answer."""
    stream = sys.stderr if as_json else sys.stdout
    return lambda text: print(text, file=stream, flush=True)


def _short(turn: Turn) -> str:
    mean_s = turn.mean_answer_s
    answers = "no answers" if mean_s is None else f"answers {words.duration(mean_s)}"
    return (
        f"{words.rate(8 * turn.bytes_per_s)}, {answers}, {turn.timeouts_per_s:.3g} timeouts/s, "
        f"{turn.drops_per_s:.3g} drops/s"
    )


def _because(found: Sequence[Finding], stopped: Finding | None) -> str:
    told = [
        f"{finding.measure.text} {percent(finding.change.centre):+.0f} % "
        f"({100 * finding.confidence:.1f} % sure)"
        for finding in found
        if finding.judgement in (Judgement.BETTER, Judgement.WORSE) or finding == stopped
    ]
    return f": {'; '.join(told)}" if told else ""


_Cell = tuple[str, Callable[[Turn], float | None], Callable[[float], str]]


def _mean_s(at: int) -> Callable[[Turn], float | None]:
    return lambda turn: turn.answers[at].mean_s


def _p99_s(at: int) -> Callable[[Turn], float | None]:
    return lambda turn: turn.answers[at].quantile_s(0.99, turn.bounds_s)


def _shown(turns: Sequence[Turn]) -> list[_Cell]:
    """What is shown of turns: name, value, how it is written."""
    cells: list[_Cell] = [
        ("carried, bit/s", lambda turn: 8 * turn.bytes_per_s, words.rate),
        ("timeouts/s", lambda turn: turn.timeouts_per_s, "{:.3g}".format),
        (
            "retransmitted",
            lambda turn: _share(turn.retransmitted_per_s, turn.segments_per_s),
            _of_all,
        ),
        ("drops/s", lambda turn: turn.drops_per_s, "{:.3g}".format),
        ("queued, bytes", lambda turn: turn.queue_bytes, words.size),
        ("requests held", lambda turn: _share(turn.held_per_s, turn.requests_per_s), _of_all),
        (
            "held for, mean",
            lambda turn: _share(turn.held_s_per_s, turn.held_per_s),
            words.duration,
        ),
    ]
    for at, answers in enumerate(turns[0].answers):
        below = answers.below_bytes
        name = "larger answers" if below is None else f"answers < {words.rate(below)}B"
        cells += [
            (f"{name}, mean", _mean_s(at), words.duration),
            (f"{name}, p99", _p99_s(at), words.duration),
        ]
    return cells


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _of_all(share: float) -> str:
    return words.percent(share, 1)


def _typical(turns: Sequence[Turn], value: Callable[[Turn], float | None]) -> float | None:
    known = [number for turn in turns if (number := value(turn)) is not None]
    return median(known) if known else None


def _table(found: Sequence[Finding], pairs: Sequence[Pair]) -> Table:
    made = Table(box=None, pad_edge=False)
    made.add_column("median of turns")
    for name in ("without", "with"):
        made.add_column(name, justify="right")
    on, off = [pair.on for pair in pairs], [pair.off for pair in pairs]
    for name, value, written in _shown(on):
        cells = [_typical(turns, value) for turns in (off, on)]
        if any(cells):
            shown = [words.NOTHING if cell is None else written(cell) for cell in cells]
            made.add_row(name, *shown)
    made.add_section()
    for finding in found:
        change = finding.change
        bounds = f"{percent(change.low):+.0f} to {percent(change.high):+.0f} %"
        if change.low == float("-inf"):
            bounds = "too few pairs for an interval"
        made.add_row(
            f"{finding.measure.text}: {finding.judgement}",
            f"{percent(change.centre):+.1f} %",
            f"({bounds})",
        )
    return made


def _document(
    said: Verdict,
    found: Sequence[Finding],
    pairs: Sequence[Pair],
    lost: Sequence[str],
    stopped: Finding | None,
    interrupted: bool,
) -> dict[str, Any]:
    """Changes are in per cent of what is without regulation; None: unbounded."""
    return {
        "verdict": said,
        "stopped_for": stopped.measure.name if stopped else None,
        "interrupted": interrupted,
        "lost": list(lost),
        "measures": {
            finding.measure.name: {
                "judgement": finding.judgement,
                "change_pct": percent(finding.change.centre),
                "low_pct": _bounded(finding.change.low),
                "high_pct": _bounded(finding.change.high),
                "confidence": finding.confidence,
                "pairs": finding.change.number,
            }
            for finding in found
        },
        "pairs": [{"on": _turn(pair.on), "off": _turn(pair.off)} for pair in pairs],
    }


def _bounded(change: float) -> float | None:
    return percent(change) if abs(change) != float("inf") else None


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        **turn._asdict(),
        "answers": [
            {
                **answers._asdict(),
                "mean_s": answers.mean_s,
                "p99_s": answers.quantile_s(0.99, turn.bounds_s),
            }
            for answers in turn.answers
        ],
    }
