"""Regulation of hosts that are not like others: what their peers see of it, and what it costs.

Every case reads from 16 senders over one link, with hosts set otherwise than the case before, on
one test bed. Seen from a sender, no segment may promise more than the receiver has, and a sender
without room for a segment must soon have it (`promises`). Nothing may be corrupted, lost to a
timeout, or much slower than the link.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from experiments.measure import netstat
from experiments.measure.sampling import Stolen
from experiments.traffic.reader import PORT, IncastSpec
from experiments.workloads import goodput_mbps, reads
from pcap import ACK, FIN, RST, SYN, read_segments
from promises import Connection, connections, faults, parts
from testbed.bed import Bed
from testbed.command import run
from testbed.config import BedConfig, HostSettings
from traffic import account, capture

SENDERS = 16
SPEC = IncastSpec(senders=SENDERS, rounds=10)
# Of the link, headers included.
LEAST_SHARE = 0.88
# The share of the requests that the switch takes for such, at least: that its account is at work. A
# request during an answer is none to it, and an answer goes on for it while it does not believe in
# its end. Linux's send buffer begins with room for the initial window: if that is 1, a program's
# first answers come in pieces, each with a short segment at its end (68 to 100 of 160 requests in
# ten runs, 104 to 160 with other hosts).
REQUEST_SHARE = 0.5
REQUEST_SHARES = {"initial window 1": 0.25}
# One good run will do; after a bad one it takes the majority of three. A bad run does not count if
# a hypervisor has taken more of the processors than this.
MAJORITY = 2
LITTLE_STOLEN, MOST_RUNS = 0.02, 8

USUAL = HostSettings(
    congestion_control="reno",
    rmem_max_bytes=49_152 << 7,
    sack=True,
    timestamps=True,
    window_scaling=True,
    mtu_bytes=1500,
)
# The bound of the receive buffer is what Linux chooses a window scale for.
ODD = {
    "window scale 0": replace(USUAL, window_clamp_bytes=65_535),
    "no window scale": replace(USUAL, window_scaling=False),
    "window scale 10": replace(USUAL, rmem_max_bytes=49_152 << 10),
    "window scale 14": replace(USUAL, rmem_max_bytes=49_152 << 14),
    "MSS 536": replace(USUAL, mtu_bytes=576),
    "no timestamps": replace(USUAL, timestamps=False),
    "no SACK": replace(USUAL, sack=False),
    "CUBIC": replace(USUAL, congestion_control="cubic"),
    "immediate ACKs": replace(USUAL, quickack=True),
    "initial window 1": replace(USUAL, initcwnd=1),
    "initial window 32": replace(USUAL, initcwnd=32),
}
SCALES = {
    "window scale 0": 0,
    "no window scale": None,
    "window scale 10": 10,
    "window scale 14": 14,
}

# Segments of data for one acknowledgment, at least and at most: receivers of their own delay
# acknowledgments until they have had two segments, or more.
USUAL_DELAY = 1.3, 6.0
DELAYS = {"immediate ACKs": (0.9, 1.1)}

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.timing]


@dataclass(frozen=True)
class Case:
    """What a case has shown; `requests` are those that the bottleneck's account has counted."""

    goodput_mbps: float
    timeouts: int
    corrupted: int
    requests: int
    connection: Connection

    @property
    def segments_per_ack(self) -> float:
        acks = [
            s
            for s in self.connection.sent
            if s.flags & ACK and not s.flags & (SYN | FIN | RST) and not s.payload_bytes
        ]
        return sum(s.payload_bytes > 0 for s in self.connection.data) / len(acks)


@contextmanager
def standing(config: BedConfig) -> Iterator[Bed]:
    with Bed(config) as bed:
        bed.require_forwarding()
        yield bed


def read(bed: Bed, settings: HostSettings, directory: Path) -> Case:
    """Set all hosts, read the blocks over new connections, and return what was seen."""
    for host in bed.hosts:
        host.apply(settings)
    assert [fault for host in bed.hosts for fault in host.settings_faults()] == []
    sender, receiver = bed.host(bed.roles.senders[0]), bed.host(bed.roles.receiver)
    sent, seen, log = (directory / name for name in ("sent.pcap", "seen.pcap", "log"))
    what = f"host {receiver.IP()} and host {sender.IP()} and tcp port {PORT}"
    pids = [host.pid for host in bed.hosts]
    before, requests = netstat.total(pids), account(bed)["requests.all"]
    with (
        reads.responders(bed, log),
        capture(f"{receiver.name}-eth0", what, sent, host=receiver),
        capture(f"{sender.name}-eth0", what, seen, host=sender),
        reads.reader(bed, SPEC, log) as reader,
    ):
        *_rounds, done = reader.messages()
    grown = netstat.grown(before, netstat.total(pids))
    return Case(
        goodput_mbps=goodput_mbps(done["rounds"]),
        timeouts=grown.get(netstat.TIMEOUTS, 0),
        corrupted=grown.get("Tcp.InErrs", 0) + grown.get("Tcp.InCsumErrors", 0),
        requests=account(bed)["requests.all"] - requests,
        connection=connections(read_segments(sent), read_segments(seen), receiver.IP())[0],
    )


def wrong(case: Case, name: str, settings: HostSettings) -> list[str]:
    """What is wrong with a case, however busy the machine is."""
    connection = case.connection
    found = faults(connection)
    assert settings.mtu_bytes is not None
    if connection.syn.mss != settings.mtu_bytes - 40:
        found.append(f"MSS is {connection.syn.mss}")
    if connection.syn.window_scale != SCALES.get(name, 7):
        found.append(f"scale is {connection.syn.window_scale}")
    least, most = DELAYS.get(name, USUAL_DELAY)
    if not least <= case.segments_per_ack <= most:
        found.append(f"{case.segments_per_ack:.2f} segments for an acknowledgment")
    if case.requests < REQUEST_SHARES.get(name, REQUEST_SHARE) * SENDERS * SPEC.rounds:
        found.append(f"only {case.requests} requests were in the account")
    if not any(b.window < a.window for a, b in connection.own()):
        found.append("no window was lowered")
    if connection.scale == 0:
        found += [f"no whole segments: {step}" for step in parts(connection)[1]]
    if case.corrupted:
        found.append(f"{case.corrupted} segments were corrupted")
    return found


def link_share(case: Case, settings: HostSettings) -> float:
    """The part of the link that the reads took, headers included."""
    assert settings.mtu_bytes is not None
    headers_bytes = 40 + (12 if settings.timestamps else 0)
    payload_bytes = settings.mtu_bytes - headers_bytes
    return case.goodput_mbps / 100 * (settings.mtu_bytes + 14) / payload_bytes


def judge(bed: Bed, name: str, settings: HostSettings, directory: Path) -> list[str]:
    """Read under ``settings``, again if a run was bad; say what is wrong."""
    directory.mkdir()
    told = []
    good = bad = 0
    for _ in range(MOST_RUNS):
        stolen = Stolen()
        case = read(bed, settings, directory)
        if found := wrong(case, name, settings):
            return [f"{name}: {fault}" for fault in found]
        share = link_share(case, settings)
        if share >= LEAST_SHARE and not case.timeouts:
            good += 1
        else:
            bad += stolen.share() < LITTLE_STOLEN
            told.append(f"{share:.2f} of the link, {case.timeouts} timeouts")
        if good == MAJORITY or (good and not told):
            return []
        if bad == MAJORITY:
            break
    return [f"{name}: {'; '.join(told)}"]


def congestion_controls() -> str:
    return run(["sysctl", "-n", "net.ipv4.tcp_available_congestion_control"])


@pytest.mark.long
def test_hosts_of_all_kinds(tmp_path: Path) -> None:
    config = BedConfig(topology="star", senders=SENDERS, scheme="weir", host=USUAL)
    with standing(config) as bed:
        told = judge(bed, "usual", USUAL, tmp_path / "usual")
        for name, settings in ODD.items():
            told += judge(bed, name, settings, tmp_path / name)
    assert not told, "\n".join(told)


def test_bbr(tmp_path: Path) -> None:
    if "bbr" not in congestion_controls():
        pytest.skip("this kernel has no BBR")
    config = BedConfig(topology="star", senders=SENDERS, scheme="weir", host=USUAL)
    with standing(config) as bed:
        bbr = replace(USUAL, congestion_control="bbr")
        told = judge(bed, "BBR", bbr, tmp_path / "bbr")
    assert not told, "\n".join(told)


def test_jumbo_frames(tmp_path: Path) -> None:
    """A buffer of as many frames as usual, each of 9000 bytes: MSS 8,948 with timestamps."""
    jumbo = replace(USUAL, mtu_bytes=9000)
    config = BedConfig(
        topology="star",
        senders=SENDERS,
        scheme="weir",
        host=jumbo,
        bottleneck_limit_bytes=6 * 64 * 1024,
        limit_bytes=6 * 1024 * 1024,
    )
    with standing(config) as bed:
        told = judge(bed, "jumbo frames", jumbo, tmp_path / "jumbo")
    assert not told, "\n".join(told)
