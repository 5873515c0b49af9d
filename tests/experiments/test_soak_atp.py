"""The soak of atp-proxy: each of its checks fails where it has to, and a short one passes."""

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
from experiments.soak.atp.verdict import NEEDED, Pair, ProxyEnd, Run, judge
from experiments.soak.trend import Sample
from testbed.bottleneck import Counts

LOST = Counts(seen=100_000, lost=1000, red=10)
COUNTERS = {
    "event": "stopped", "opened": 500, "closed": 500, "failed": 0, "reconnected": 0,
    "to_atp_bytes": 7000, "from_atp_bytes": 9000, "atp": {"packets": 50},
}  # fmt: skip
OTHER_COUNTERS = COUNTERS | {"to_atp_bytes": 9000, "from_atp_bytes": 7000}


def proxy(name: str, counters: dict[str, Any], **changes: Any) -> ProxyEnd:
    samples = [Sample(10.0 * n, 20_000 + 100 * (n % 7), 30, 3) for n in range(361)]
    return replace(ProxyEnd(name, samples, counters, {}, (), 11, 12, 0, None), **changes)


def a_run(near: dict[str, Any] | None = None, **changes: Any) -> Run:
    """A soak that has nothing wrong, but for what is changed, the near proxy among it."""
    pair = Pair("http", proxy("http near", COUNTERS), proxy("http far", OTHER_COUNTERS), 5)
    pair = replace(pair, near=replace(pair.near, **(near or {})))
    link = {"random.there": LOST, "random.back": LOST, "bursts.there": LOST}
    run = Run(dict.fromkeys(NEEDED, 9), link, 0.01, [pair], [])
    return replace(run, **changes)


def test_a_run_without_a_fault_passes_and_says_what_it_has_checked() -> None:
    figures, faults = judge(a_run())
    assert faults == []
    checked = [name for name in NEEDED if name.endswith("_bytes")]
    assert figures["checked_bytes"] == 9 * len(checked)
    assert figures["link.lost"] == 3000
    assert figures["http.near.atp.packets"] == 50


@pytest.mark.parametrize("missing", NEEDED)
def test_a_run_that_has_not_checked_something_fails(missing: str) -> None:
    counts = dict.fromkeys(NEEDED, 9) | {missing: 0}
    assert judge(a_run(counts=counts))[1] == [f"nothing was checked: no {missing}"]


@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ({}, "no packet was seen on the link"),
        (
            {"random.there": LOST, "random.back": Counts(100_000, 0, 7)},
            "no packet was lost, random.back, of 100000: this proves nothing",
        ),
        ({"random.back": Counts(100_000, 100, 0)}, "0.10% were lost, random.back, instead"),
        ({"random.back": Counts(100_000, 3000, 0)}, "3.00% were lost, random.back, instead"),
    ],
)
def test_a_run_in_which_nothing_was_lost_fails(link: dict[str, Counts], complaint: str) -> None:
    (fault,) = judge(a_run(link=link))[1]
    assert fault.startswith(complaint)


def test_what_was_found_on_the_way_fails_the_run() -> None:
    assert judge(a_run(faults=["curl0: 7_300000: there is no file"]))[1] == [
        "curl0: 7_300000: there is no file"
    ]


@pytest.mark.parametrize(
    ("near", "complaint"),
    [
        ({"left_connections": 3}, "http near proxy: 3 connections of 500 are left"),
        ({"counters": COUNTERS | {"closed": 499}}, "http near proxy: 1 connections of 500"),
        ({"left_descriptors": 40}, "http near proxy: 40 descriptors are open after all"),
        ({"lost": ("silence",)}, "http near proxy lost its connection: silence"),
        ({"counters": COUNTERS | {"reconnected": 1}}, "http near proxy connected anew 1 times"),
        ({"counters": COUNTERS | {"failed": 6}}, "http near proxy: 6 connections broke"),
        ({"counters": COUNTERS | {"to_atp_bytes": 7001}}, "http: 7000 bytes of requests came"),
        ({"counters": COUNTERS | {"from_atp_bytes": 9001}}, "http: 9001 bytes of answers came"),
        ({"failure": "ended with status 101"}, "http near proxy: ended with status 101"),
        ({"counters": {}}, "http near proxy: no counters"),
        ({"samples": ()}, "http near proxy: too short to tell"),
    ],
)
def test_what_a_proxy_leaves_fails_the_run(near: dict[str, Any], complaint: str) -> None:
    (fault,) = judge(a_run(near))[1]
    assert fault.startswith(complaint)


@pytest.mark.parametrize(
    ("rss_kb", "descriptors", "complaint"),
    [
        (lambda n: 20_000 + 10 * n, lambda _n: 30, "memory grows by 3600 kB an hour"),
        (lambda _n: 20_000, lambda n: 30 + n // 4, "descriptors grow"),
        (lambda n: min(20_000, 5000 + 200 * n), lambda _n: 30, None),
    ],
)
def test_resources_that_grow_fail_the_run(
    rss_kb: Callable[[int], int], descriptors: Callable[[int], int], complaint: str | None
) -> None:
    samples = [Sample(10.0 * n, rss_kb(n), descriptors(n), 3) for n in range(361)]
    faults = judge(a_run({"samples": samples}))[1]
    assert [complaint in fault for fault in faults] == [True] if complaint else faults == []


def test_a_broken_connection_may_have_carried_less() -> None:
    broken = COUNTERS | {"failed": 1, "to_atp_bytes": 7500}
    assert judge(a_run({"counters": broken}))[1] == []


def test_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["soak", "atp", "--minutes", "0"]) == 2
    assert "--minutes must be more than 0, not 0" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.netns
def test_a_short_soak(tmp_path: Path) -> None:
    """Too short to tell whether memory grows; everything that happens in one, happens."""
    command = [sys.executable, "-m", "experiments.cli", "soak", "atp", "--seed", "1"]
    done = subprocess.run(
        [*command, "--minutes", "0.15", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    summary = json.loads((tmp_path / SUMMARY).read_text())
    faults = [fault for fault in summary["faults"] if "too short to tell" not in fault]
    assert faults == [], done.stderr
    assert summary["link.lost"] > 100
    assert summary["http.near.opened"] == summary["http.far.opened"] > 10
