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

pytestmark = [
    pytest.mark.netns,
    pytest.mark.switch,
    pytest.mark.long,
    pytest.mark.timing,
    pytest.mark.timeout(900),
]


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


# Reads, whether over new connections, immediate acknowledgments: by the buffer in KiB.
CASES: dict[int, dict[str, tuple[IncastSpec, bool, bool | None]]] = {
    64: {
        "immediate acknowledgments": (OPEN, False, True),
        "new connections, 25 kB": (NEW_SHORT, True, None),
        "new connections, 100 kB": (NEW_LONG, True, None),
    },
    32: {"a smaller buffer": (OPEN, False, None)},
}


@pytest.mark.parametrize("buffer_kib", CASES)
def test_scaled_windows_are_as_good_as_exact_ones(buffer_kib: int, tmp_path: Path) -> None:
    config = BedConfig(topology="star", senders=SENDERS, bottleneck_limit_bytes=buffer_kib * 1024)
    with Bed(config) as bed:
        bed.require_forwarding()
        found = {
            case: best(bed, spec, fresh, quickack, tmp_path / "log")
            for case, (spec, fresh, quickack) in CASES[buffer_kib].items()
        }
    print(found)
    for case, carried in found.items():
        assert carried["exact"], f"{case}: there were timeouts with exact windows"
        assert min(carried.values()) >= LEAST_SHARE * carried["exact"], f"{case}: {carried}"


def best(
    bed: Bed, spec: IncastSpec, fresh: bool, quickack: bool | None, log: Path
) -> dict[str, float]:
    """The best of some reads by each kind of window, in turns: what else runs on the machine only
    ever makes it worse."""
    kinds = {"exact": EXACT, **{f"scale {scale}": host for scale, host in SCALED.items()}}
    found = dict.fromkeys(kinds, 0.0)
    for _ in range(ATTEMPTS):
        for name, host in kinds.items():
            mbps = read(bed, replace(host, quickack=quickack), spec, fresh, log)
            found[name] = max(found[name], mbps)
        if found["exact"] and min(found.values()) >= LEAST_SHARE * found["exact"]:
            break
    return found
