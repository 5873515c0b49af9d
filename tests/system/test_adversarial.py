"""Services that regulation cannot foresee: what they ask for next is unlike what they asked for
before, on 40 connections at once. No segment may be lost to a timeout.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from experiments.measure import netstat
from experiments.traffic.program import Program
from experiments.traffic.rpc import LARGE_BYTES, MEDIUM_BYTES, MIXED_BYTES, SMALL_BYTES
from experiments.workloads import goodput_mbps, reads
from testbed.bed import Bed
from testbed.config import BedConfig

CONNECTIONS = 40
SECONDS = 4
SEED = int(os.environ.get("WEIR_TEST_SEED", "1"))
SCHEME = os.environ.get("WEIR_TEST_SCHEME", "weir")

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.slow, pytest.mark.timing]


def play(bed: Bed, pattern: str, log: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Ask over one connection to each sender; return what came, and what TCP's counters grew by."""
    pids = [host.pid for host in bed.hosts]
    servers = [f"--server={bed.host(name).IP()}" for name in bed.roles.senders]
    words = [f"--pattern={pattern}", f"--seconds={SECONDS}", f"--seed={SEED}", *servers]
    receiver = bed.host(bed.roles.receiver)
    before = netstat.total(pids)
    with (
        reads.responders(bed, log),
        Program("experiments.traffic.rpc", words, log=log, pid=receiver.pid) as rpc,
    ):
        rpc.expect("connected")
        done = rpc.expect("done")
    return done, netstat.grown(before, netstat.total(pids))


@pytest.mark.parametrize(
    ("pattern", "sizes"),
    [
        pytest.param("jump", (SMALL_BYTES, LARGE_BYTES), id="from 64 B to 1 MB at once"),
        pytest.param("mixed", (SMALL_BYTES, MIXED_BYTES), id="64 B and 256 kB at random"),
        pytest.param("alternate", (SMALL_BYTES, MEDIUM_BYTES), id="by turns 64 B and 100 kB"),
    ],
)
def test_answers_that_nothing_foretells(
    pattern: str, sizes: tuple[int, int], tmp_path: Path
) -> None:
    config = BedConfig(topology="star", senders=CONNECTIONS, scheme=SCHEME)
    with Bed(config) as bed:
        bed.require_forwarding()
        done, grown = play(bed, pattern, tmp_path / "log")
        queue = bed.bottleneck_switch.queues()[bed.roles.bottleneck]
    counts = Counter(answer["bytes"] for answer in done["answers"])
    assert set(counts) == set(sizes)
    assert min(counts.values()) >= CONNECTIONS, f"too few answers to show anything: {counts}"
    timeouts = grown.get(netstat.TIMEOUTS, 0)
    assert not timeouts, (
        f"{timeouts} timeouts and {queue['dropped_packets']} drops with {counts} answers, "
        f"{goodput_mbps(done['answers']):.1f} Mb/s (seed {SEED})"
    )
