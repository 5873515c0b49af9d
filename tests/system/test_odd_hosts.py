"""Regulation of hosts that are not like others: what their peers see of it, and what it costs.

Every case reads from 16 senders over one link, with hosts set otherwise than the case before, on
one test bed. Seen from a sender, no segment of the receiver may promise more than the port's
registers allowed (rounded up to the receiver's scale). A segment that leaves less than a segment
room, as the pacer's copies do, must soon be followed by one that leaves more. Nothing may be
corrupted, lost to a timeout, or much slower than with hosts that are not odd.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

import pytest

from experiments import reads
from experiments.sampling import Stolen
from experiments.workloads import netstat
from experiments.workloads.reader import PORT, IncastSpec, goodput_mbps
from pcap import ACK, RST, SYN, Segment, read_segments
from testbed.bed import Bed
from testbed.command import run
from testbed.config import BedConfig, HostSettings
from traffic import capture

SENDERS = 16
SPEC = IncastSpec(senders=SENDERS, rounds=10)
# A register is set a little after the controller has written down that it is.
APPLIED_WITHIN_S = 0.25
# The pacer gives what it holds after 160 ms at the latest, which is less than the least RTO.
PERMITTED_WITHIN_S = 0.2
LEAST_SHARE = 0.9
ATTEMPTS = 3
# Runs do not count as attempts while a hypervisor takes more of the processors than this.
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
}
SCALES = {
    "window scale 0": 0,
    "no window scale": None,
    "window scale 10": 10,
    "window scale 14": 14,
}

pytestmark = [pytest.mark.netns, pytest.mark.switch]


@dataclass(frozen=True)
class Case:
    """What a case has shown.

    ``segments`` are the receiver's, as they came to a sender, ``sent`` the windows that they had
    left with, by their identity.
    """

    goodput_mbps: float
    timeouts: int
    corrupted: int
    segments: list[Segment]
    sent: dict[tuple[object, ...], int]
    windows: list[tuple[float, str, int]]

    @property
    def syn(self) -> Segment:
        return next(s for s in self.segments if s.flags & SYN)

    @property
    def acknowledgements(self) -> list[Segment]:
        """All after the handshake."""
        return [s for s in self.segments if s.flags & ACK and not s.flags & (SYN | RST)][1:]


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
    what = f"src host {receiver.IP()} and dst host {sender.IP()} and tcp port {PORT}"
    pids = [host.pid for host in bed.hosts]
    before = netstat.total(pids)
    with (
        reads.responders(bed, log),
        capture(f"{receiver.name}-eth0", what, sent, host=receiver),
        capture(f"{sender.name}-eth0", what, seen, host=sender),
        reads.reader(bed, SPEC, log) as reader,
    ):
        *_rounds, done = reader.messages()
    grown = netstat.grown(before, netstat.total(pids))
    return Case(
        goodput_mbps=goodput_mbps(done["rounds"], SPEC.block_bytes),
        timeouts=grown.get(netstat.TIMEOUTS, 0),
        corrupted=grown.get("Tcp.InErrs", 0) + grown.get("Tcp.InCsumErrors", 0),
        segments=read_segments(seen),
        sent={s.identity: s.window for s in read_segments(sent)},
        windows=windows_set(bed),
    )


def windows_set(bed: Bed) -> list[tuple[float, str, int]]:
    """When each window of the bottleneck's registers was set, and to what; 0 has released it."""
    events = map(json.loads, bed.events.read_text().splitlines())
    return [
        (event["wall_s"], window["class"], window["window_bytes"])
        for event in events
        if event["event"] == "window_set" and event["switch"] == 1
        for window in event["windows"]
        if window["port"] == bed.roles.bottleneck_port
    ]


def allowed_bytes(case: Case, time_s: float) -> float:
    """The most that either register allowed about then, infinite if one held nothing."""
    most = 0.0
    for cls in {cls for _, cls, _ in case.windows}:
        sets = [(at_s, window) for at_s, of, window in case.windows if of == cls]
        before = [w for at_s, w in sets if at_s <= time_s - APPLIED_WITHIN_S]
        about = [w for at_s, w in sets if abs(at_s - time_s) < APPLIED_WITHIN_S]
        most = max([most, *(w or math.inf for w in [*before[-1:], *about])])
    return most or math.inf


def faults(case: Case, mss_bytes: int) -> list[str]:
    """What is wrong with a case, however busy the machine is."""
    found = []
    if not all(s.checksums_ok for s in case.segments):
        found.append("a checksum is wrong")
    if case.syn.mss != mss_bytes:
        found.append(f"MSS is {case.syn.mss}, not {mss_bytes}")
    scale = case.syn.window_scale or 0
    held = 0
    for segment in case.acknowledgements:
        window_bytes = segment.window << scale
        allowed = allowed_bytes(case, segment.time_s)
        if allowed < math.inf:
            held += 1
            if segment.window > -(-int(allowed) >> scale):
                found.append(f"{window_bytes} bytes where {allowed:g} were allowed")
    found += [
        f"{s.window << scale} of {case.sent[s.identity] << scale} bytes were less than a segment, "
        f"and no more were allowed within {PERMITTED_WITHIN_S} s"
        for s in strangled(case.acknowledgements, case.sent, scale, mss_bytes)
    ]
    if held < len(case.acknowledgements) / 2:
        found.append(f"only {held} of {len(case.acknowledgements)} segments met a set register")
    if case.corrupted:
        found.append(f"{case.corrupted} segments were corrupted")
    return found


def strangled(
    segments: list[Segment], sent: dict[tuple[object, ...], int], scale: int, mss_bytes: int
) -> list[Segment]:
    """Those that the network left less than a segment room, and none soon after it more."""

    def edge(segment: Segment) -> int:
        return segment.ack + (segment.window << scale)

    def is_ahead(later: Segment, edge_bytes: int) -> bool:
        return (edge(later) - edge_bytes) % 2**32 < 2**31  # RFC 9293 section 3.4

    def room_bytes(segment: Segment) -> int:
        return min(sent[segment.identity] << scale, mss_bytes)

    def soon_after(i: int) -> Iterator[Segment]:
        until_s = segments[i].time_s + PERMITTED_WITHIN_S
        later = takewhile(lambda s: s.time_s < until_s, segments[i:])
        return (s for s in later if s.dport == segments[i].dport)

    return [
        segment
        for i, segment in enumerate(segments)
        if segment.window << scale < room_bytes(segment)
        and not any(is_ahead(s, segment.ack + room_bytes(segment)) for s in soon_after(i))
    ]


def link_share(case: Case, settings: HostSettings) -> float:
    """The part of the link that the reads took, headers included."""
    assert settings.mtu_bytes is not None
    headers_bytes = 40 + (12 if settings.timestamps else 0)
    payload_bytes = settings.mtu_bytes - headers_bytes
    return case.goodput_mbps / 100 * (settings.mtu_bytes + 14) / payload_bytes


def judge(bed: Bed, name: str, settings: HostSettings, usual: float, directory: Path) -> list[str]:
    """Read under ``settings``, again if something else may have had the processors; say what is
    wrong."""
    assert settings.mtu_bytes is not None
    directory.mkdir()
    told = []
    undisturbed = 0
    for _ in range(MOST_RUNS):
        stolen = Stolen()
        case = read(bed, settings, directory)
        undisturbed += stolen.share() < LITTLE_STOLEN
        found = faults(case, settings.mtu_bytes - 40)
        if case.syn.window_scale != SCALES.get(name, 7):
            found.append(f"scale is {case.syn.window_scale}")
        if found:
            return [f"{name}: {fault}" for fault in found]
        share = link_share(case, settings)
        if share >= LEAST_SHARE * usual and not case.timeouts:
            return []
        told.append(f"{share:.2f} of the link, {case.timeouts} timeouts")
        if undisturbed == ATTEMPTS:
            break
    return [f"{name}: {'; '.join(told)}; {usual:.2f} with usual hosts"]


def congestion_controls() -> str:
    return run(["sysctl", "-n", "net.ipv4.tcp_available_congestion_control"])


def usual_share(bed: Bed, settings: HostSettings, directory: Path) -> float:
    directory.mkdir()
    return max(link_share(read(bed, settings, directory), settings) for _ in range(2))


def test_hosts_of_all_kinds(tmp_path: Path) -> None:
    config = BedConfig(topology="star", senders=SENDERS, scheme="weir", host=USUAL)
    with standing(config) as bed:
        usual = usual_share(bed, USUAL, tmp_path / "usual")
        wrong = judge(bed, "usual", USUAL, usual, tmp_path / "usual again")
        for name, settings in ODD.items():
            wrong += judge(bed, name, settings, usual, tmp_path / name)
    assert not wrong, "\n".join(wrong)


def test_bbr(tmp_path: Path) -> None:
    if "bbr" not in congestion_controls():
        pytest.skip("this kernel has no BBR")
    config = BedConfig(topology="star", senders=SENDERS, scheme="weir", host=USUAL)
    with standing(config) as bed:
        usual = usual_share(bed, USUAL, tmp_path / "usual")
        bbr = replace(USUAL, congestion_control="bbr")
        wrong = judge(bed, "BBR", bbr, usual, tmp_path / "bbr")
    assert not wrong, "\n".join(wrong)


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
        usual = usual_share(bed, USUAL, tmp_path / "usual")
        wrong = judge(bed, "jumbo frames", jumbo, usual, tmp_path / "jumbo")
    assert not wrong, "\n".join(wrong)
