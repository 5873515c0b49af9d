"""Windows come in units of up to 16 KiB, by the receiver's scale (RFC 7323, section 2.3), and are
yet to let out what they are meant to: a port carries with scaled windows what it carries with exact
ones, whatever its senders do.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.measure import netstat
from experiments.traffic.reader import IncastSpec
from experiments.workloads import goodput_mbps, reads
from testbed.bed import Bed
from testbed.config import BedConfig, HostSettings

SENDERS = 40
# One read of new connections is off by 1.5 % on a quiet machine. Drawn again and again from twelve
# reads of each kind, the best of up to four fail in 3 % of runs with nothing wrong, the best of up
# to ten in 0.1 %. Either finds a scale that carries 3 % less in 84 % of runs, 4 % less in 98 %.
ATTEMPTS = 10
LEAST_SHARE = 0.98

# The scale follows from the bound of the receive buffer.
EXACT = HostSettings(congestion_control="cubic", window_scaling=False)
SCALED = {
    scale: replace(EXACT, window_scaling=True, rmem_max_bytes=49_152 << scale) for scale in (7, 10)
}

OPEN = IncastSpec(senders=SENDERS, rounds=15, connections_per_sender=2)
NEW_SHORT = IncastSpec(senders=SENDERS, rounds=15, block_bytes=SENDERS * 25_000)
NEW_LONG = IncastSpec(senders=SENDERS, rounds=5, block_bytes=SENDERS * 100_000)

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.long, pytest.mark.timing]


def read(bed: Bed, host: HostSettings, spec: IncastSpec, fresh: bool, log: Path) -> float:
    """The goodput in Mb/s; 0 if there was a timeout."""
    for each in bed.hosts:
        each.apply(host)
    assert [fault for each in bed.hosts for fault in each.settings_faults()] == []
    pids = [each.pid for each in bed.hosts]
    before = netstat.total(pids)
    with reads.responders(bed, log), reads.reader(bed, spec, log, fresh=fresh) as reader:
        *_rounds, done = reader.messages()
    timeouts = netstat.grown(before, netstat.total(pids)).get(netstat.TIMEOUTS, 0)
    return 0.0 if timeouts else goodput_mbps(done["rounds"])


@pytest.mark.parametrize(
    ("spec", "fresh", "quickack", "buffer_bytes"),
    [
        pytest.param(OPEN, False, True, 64 * 1024, id="immediate acknowledgments"),
        pytest.param(OPEN, False, None, 32 * 1024, id="a buffer of 32 KiB"),
        pytest.param(NEW_SHORT, True, None, 64 * 1024, id="new connections, 25 kB"),
        pytest.param(NEW_LONG, True, None, 64 * 1024, id="new connections, 100 kB"),
    ],
)
def test_scaled_windows_are_as_good_as_exact_ones(
    spec: IncastSpec, fresh: bool, quickack: bool | None, buffer_bytes: int, tmp_path: Path
) -> None:
    config = BedConfig(topology="star", senders=SENDERS, bottleneck_limit_bytes=buffer_bytes)
    with Bed(config) as bed:
        bed.require_forwarding()
        kinds = {"exact": EXACT, **{f"scale {scale}": host for scale, host in SCALED.items()}}
        best = dict.fromkeys(kinds, 0.0)
        # The best of some, in turns: what else runs on the machine only ever makes it worse.
        for _ in range(ATTEMPTS):
            for name, host in kinds.items():
                settings = replace(host, quickack=quickack)
                mbps = read(bed, settings, spec, fresh, tmp_path / "log")
                best[name] = max(best[name], mbps)
            if best["exact"] and min(best.values()) >= LEAST_SHARE * best["exact"]:
                break
    print(best)
    assert best["exact"], "there were timeouts with exact windows"
    assert min(best.values()) >= LEAST_SHARE * best["exact"], best
