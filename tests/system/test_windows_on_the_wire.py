"""What a sender sees of regulation, read from captures on both sides of the switch."""

from pathlib import Path

import pytest

from experiments.workloads.reader import PORT, IncastSpec
from pcap import ACK, RST, SYN, read_segments
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from traffic import capture, incast, windows_in_force

SENDERS = 16
ROUNDS = 20

pytestmark = [pytest.mark.netns, pytest.mark.switch]


def test_windows_are_lowered_never_raised_and_never_on_a_syn(tmp_path: Path) -> None:
    with Bed(BedConfig(topology="star", senders=SENDERS, scheme="weir")) as bed:
        bed.require_forwarding()
        receiver, sender = bed.host(bed.roles.receiver), bed.host(bed.roles.senders[0])
        reads_of_one = f"host {sender.IP()} and tcp port {PORT}"
        before, after = tmp_path / "receiver.pcap", tmp_path / "sender.pcap"
        with (
            capture(f"{receiver.name}-eth0", reads_of_one, before, host=receiver),
            capture(f"{sender.name}-eth0", reads_of_one, after, host=sender),
            incast(bed, IncastSpec(senders=SENDERS, rounds=10_000)) as reads,
        ):
            wait_until(lambda: reads.rounds >= ROUNDS, timeout_s=60, what="the reads go on")
            window_bytes = min(windows_in_force(bed).values())
        receiver_ip, sender_ip = receiver.IP(), sender.IP()

    sent = {
        s.identity: s for s in read_segments(before) if (s.src, s.dst) == (receiver_ip, sender_ip)
    }
    arrived = [s for s in read_segments(after) if s.src == receiver_ip]
    assert len(arrived) > 100
    assert all(s.checksums_ok for s in arrived)
    pairs = [(sent[s.identity], s) for s in arrived]

    syns = [(a, b) for a, b in pairs if a.flags & SYN]
    assert syns
    assert all(a.window == b.window for a, b in syns)
    assert all(b.window <= a.window for a, b in pairs)

    lowered = [(a, b) for a, b in pairs if b.window < a.window]
    assert lowered
    assert all(a.flags & ACK and not a.flags & (SYN | RST) for a, _ in lowered)
    # What stands in a segment is the window in force, rounded up in units of the receiver's scale.
    scale = syns[0][0].window_scale
    assert scale is not None
    assert -(-window_bytes >> scale) in {b.window for _, b in lowered}
