"""The soak of TCP-ACC's layer at hosts: each of its checks fails where it has to, and a short one
passes."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments import cli
from experiments.soak import SUMMARY
from experiments.soak.acc.layers import Totals, flat
from experiments.soak.acc.restarts import plan
from experiments.soak.acc.stalls import STALL_S, Stalls
from experiments.soak.acc.verdict import (
    NEEDED,
    NEVER,
    ONLY_AT_RESTARTS,
    WORKED,
    LayerEnd,
    Run,
    judge,
)
from experiments.soak.trend import Sample
from testbed.bottleneck import Counts

LOST = Counts(seen=100_000, lost=1000, red=10)
COUNTERS = {
    "sent": 140_000, "came": 139_000, "coded_at_ends": 9000, "coded_on_losses": 1000,
    "coded_came": 9900, "lost": 1400, "recovered": 1200, "unknown": 7, "unsent": 2,
}  # fmt: skip
STAYED = {"stay.sessions": 1, "stay.ended": 1}
TIMES = {"count": 9, "p50_ms": 1.0, "longest_ms": 99.0}


def samples(
    rss_kb: Callable[[int], int] = lambda n: 9000 + n % 7,
    descriptors: Callable[[int], int] = lambda _n: 12,
) -> tuple[Sample, ...]:
    return tuple(Sample(400 + 10.0 * n, rss_kb(n), descriptors(n), 3) for n in range(200))


def layer(name: str, **changes: Any) -> LayerEnd:
    processes = (samples()[:9], samples(), samples()[:5])
    excused = {"unknown": 7, "unsent": 2}
    ends = {"kills": 1, "stops": 2}
    gone = {"at_restarts: it has ended": 3, "when_idle: it does not answer": 1}
    end = LayerEnd(name, processes, COUNTERS, excused, ends, gone, 900_000, 0, None)
    return replace(end, **changes)


def a_run(near: dict[str, Any] | None = None, **changes: Any) -> Run:
    """A soak that has nothing wrong, but for what is changed, the near layer among it."""
    link = {"random.there": LOST, "random.back": LOST, "bursts.there": LOST}
    counts = dict.fromkeys(NEEDED, 9) | STAYED
    layers = [layer("near", **(near or {})), layer("far")]
    run = Run(counts, link, 0.01, layers, {"typed": TIMES}, [])
    return replace(run, **changes)


def test_a_run_without_a_fault_passes_and_says_what_it_has_checked() -> None:
    figures, faults = judge(a_run())
    assert faults == []
    checked = [name for name in NEEDED if name.endswith("_bytes")]
    assert figures["checked_bytes"] == 9 * len(checked)
    assert figures["link.lost"] == 3000
    assert figures["near.recovered"] == 1200
    assert figures["near.coded"] == 10_000
    assert figures["typed.longest_ms"] == 99.0
    assert figures["carried"] == 1.0
    assert figures["near.at_restarts.unknown"] == 7


@pytest.mark.parametrize("missing", NEEDED)
def test_a_run_that_has_not_checked_something_fails(missing: str) -> None:
    counts = dict.fromkeys(NEEDED, 9) | STAYED | {missing: 0}
    assert judge(a_run(counts=counts))[1] == [f"nothing was checked: no {missing}"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"link": {}}, "no packet was seen on the link"),
        ({"link": {"random.back": Counts(250_000, 0, 7)}}, "no packet was lost, random.back"),
        ({"link": {"random.back": Counts(250_000, 9000, 0)}}, "3.60% were lost, random.back"),
        ({"link": {"random.back": Counts(400_000, 4000, 0)}}, "the layers have sent 300000 of"),
        ({"times": {"typed": {}}}, "nothing was timed: no typed"),
        ({"faults": ["near: a to b (ESTAB) has stood still"]}, "near: a to b (ESTAB) has stood"),
        ({"counts": dict.fromkeys(NEEDED, 9) | STAYED | {"stay.sessions": 2}}, "the session that"),
        ({"counts": dict.fromkeys(NEEDED, 9) | {"stay.sessions": 1}}, "the session that was to"),
        ({"layers": []}, "the layers have sent 0 of"),
    ],
)
def test_a_run_that_proves_nothing_or_stood_still_fails(
    changes: dict[str, Any], complaint: str
) -> None:
    assert judge(a_run(**changes))[1][0].startswith(complaint)


@pytest.mark.parametrize("what", WORKED)
def test_a_layer_that_has_done_nothing_fails_the_run(what: str) -> None:
    counters = dict(COUNTERS)
    for name in ("coded_at_ends", "coded_on_losses") if what == "coded" else (what,):
        counters[name] = 0
    faults = judge(a_run({"counters": counters}))[1]
    assert f"near layer: nothing was {what}" in faults


@pytest.mark.parametrize("what", NEVER)
def test_a_packet_that_nobody_can_have_sent_fails_the_run(what: str) -> None:
    excused = {"unknown": 7, "unsent": 2, what: 3}
    faults = judge(a_run({"counters": COUNTERS | {what: 3}, "excused": excused}))[1]
    assert faults == [f"near layer: 3 packets were {what}"]


@pytest.mark.parametrize("what", ONLY_AT_RESTARTS)
def test_what_only_restarts_excuse_fails_the_run(what: str) -> None:
    counters = COUNTERS | {what: COUNTERS.get(what, 0) + 3}
    (fault,) = judge(a_run({"counters": counters}))[1]
    assert fault == f"near layer: 3 packets were {what}, while no layer began or ended"


@pytest.mark.parametrize(
    ("near", "complaint"),
    [
        ({"failure": "ended with status 101"}, "near layer: ended with status 101"),
        ({"gone": {"by_itself: it does not answer": 1}}, "near layer: its peer was gone 1 times"),
        ({"held_most_bytes": 99_000_000}, "near layer: it has held 99000000 bytes"),
        ({"held_left_bytes": 1400}, "near layer: it holds 1400 bytes after all"),
        ({"processes": ()}, "near layer: too short to tell"),
        ({"processes": (samples()[:4],)}, "near layer: too short to tell"),
        ({"processes": (samples(lambda n: 9000 + 30 * n),)}, "near layer: memory grows by 10800"),
        ({"processes": (samples(descriptors=lambda n: 9 + n // 4),)}, "near layer: descriptors"),
    ],
)
def test_what_a_layer_leaves_fails_the_run(near: dict[str, Any], complaint: str) -> None:
    (fault,) = judge(a_run(near))[1]
    assert fault.startswith(complaint)


def test_counters_of_all_processes_are_added_up() -> None:
    totals = Totals()
    totals.take({"lost": 3.0}, is_excused=False)
    totals.take({"lost": 5.0}, is_excused=True)
    # The peer has begun again.
    totals.take({"lost": 1.0}, is_excused=False)
    totals.begin()
    totals.take({"lost": 4.0}, is_excused=True)
    assert (totals.all["lost"], totals.excused["lost"]) == (10, 6)


def test_restarts_leave_time_between_them_and_happen_in_both_ways_to_both() -> None:
    assert plan(3600, 2, 1) == plan(3600, 2, 1) != plan(3600, 2, 2)
    for seconds in (30, 3600):
        drawn = plan(seconds, 2, 7)
        times = [one.at_s for one in drawn]
        assert times == sorted(times)
        assert not [at_s for at_s in times if 0.4 < at_s / seconds < 0.92 or at_s > 0.97 * seconds]
        for part in (drawn[:-2], drawn[-2:]):
            assert {one.how for one in part} == {"kill", "stop"}
            assert {one.layer for one in part} == {0, 1}
    assert len(plan(3600, 2, 7)) == 9


LINE = (
    "{state}     0      1448       10.0.0.1:41000          10.0.0.2:8080  cubic wscale:10,10 "
    "rto:204 bytes_sent:99999 bytes_acked:{acked} segs_out:7 {unacked}lost:1 lastsnd:80 \n"
)


@pytest.mark.parametrize(
    ("seen", "longest_s", "complains"),
    [
        ([(0, 10, 1), (2, 10, 1), (STALL_S + 0.1, 10, 1), (9, 10, 1)], 9, True),
        ([(0, 10, 1), (2, 10, 1), (STALL_S + 0.1, 11, 1), (5, 11, 1)], 2, False),
        # It had nothing on its way meanwhile, or was gone.
        ([(0, 10, 1), (2, 10, 0), (STALL_S + 0.1, 10, 1)], 0, False),
        ([(0, 10, 1), (2, None, 0), (STALL_S + 0.1, 10, 1)], 0, False),
    ],
)
def test_a_connection_that_stands_still_is_found(
    seen: list[tuple[float, int | None, int]], longest_s: float, complains: bool
) -> None:
    complaints: list[str] = []
    stalls = Stalls("near", complaints.append)
    for at_s, acked, unacked in seen:
        on_its_way = f"unacked:{unacked} " if unacked else ""
        line = LINE.format(state="ESTAB", acked=acked, unacked=on_its_way)
        stalls.see(at_s, "" if acked is None else line)
    assert stalls.longest_s == longest_s
    assert [one.split(" (")[0] for one in complaints] == [
        "near: 10.0.0.1:41000 to 10.0.0.2:8080"
    ] * complains


def test_a_connection_that_is_not_answered_is_found() -> None:
    complaints: list[str] = []
    stalls = Stalls("near", complaints.append)
    line = "SYN-SENT 0 1 10.0.0.1:41000 10.0.0.2:8080 cubic rto:1000 unacked:1 \n"
    for at_s in (0, STALL_S + 1):
        stalls.see(at_s, line)
    assert stalls.seen == 2
    assert len(complaints) == 1


def test_counters_of_peers_are_summed() -> None:
    peer = dict.fromkeys(
        ("sent", "came", "coded_at_ends", "coded_on_losses", "coded_came", "lost", "recovered",
         "useless", "impatient", "timeouts_avoided"), 2,
    )  # fmt: skip
    layer = dict.fromkeys((*NEVER, *ONLY_AT_RESTARTS), 1)
    found = flat(layer | {"peers": [peer, peer]})
    assert found["recovered"] == 4
    assert found["forged"] == 1


def test_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["soak", "acc", "--minutes", "0"]) == 2
    assert "--minutes must be more than 0, not 0" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.timeout(120)
def test_a_short_soak(tmp_path: Path) -> None:
    """Too short to tell whether memory grows; everything that happens in one, happens."""
    command = [sys.executable, "-m", "experiments.cli", "soak", "acc", "--seed", "1"]
    done = subprocess.run(
        [*command, "--minutes", "0.4", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    summary = json.loads((tmp_path / SUMMARY).read_text())
    faults = [fault for fault in summary["faults"] if "too short to tell" not in fault]
    assert faults == [], done.stderr
    assert summary["link.lost"] > 100
    assert summary["near.recovered"] > 0 < summary["far.recovered"]
    assert summary["restarts.kills"] == summary["restarts.stops"] == 2
