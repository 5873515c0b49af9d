"""What a sender sees of regulation, read from captures on both sides of the switch."""

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.traffic.reader import PORT, IncastSpec
from pcap import ACK, RST, SYN, read_segments
from promises import connections, faults, parts
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig, HostSettings
from traffic import account, capture, incast, is_regulated

SENDERS = 16
ROUNDS = 20
USUAL = HostSettings(congestion_control="reno", window_scaling=True, timestamps=True)
HOSTS = {"scaled": USUAL, "unscaled": replace(USUAL, window_clamp_bytes=65_535)}

pytestmark = [pytest.mark.netns, pytest.mark.switch]


@pytest.mark.parametrize("hosts", HOSTS)
def test_windows_are_lowered_never_raised_and_never_on_a_syn(hosts: str, tmp_path: Path) -> None:
    config = BedConfig(topology="star", senders=SENDERS, scheme="weir", host=HOSTS[hosts])
    with Bed(config) as bed:
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
            assert is_regulated(bed)
            counted = account(bed)
        receiver_ip = receiver.IP()
    assert counted["window_updates"] > 0, "nobody was starved, so it shows nothing"
    assert counted["requests.held"] > 0, "nothing was held, so it shows nothing"

    (connection,) = connections(read_segments(before), read_segments(after), receiver_ip)
    assert len(connection.arrived) > 100
    assert faults(connection) == []

    own, updates = connection.own(), connection.updates()
    assert len(own) + len(updates) == len(connection.arrived)
    assert updates
    syns = [(a, b) for a, b in own if a.flags & SYN]
    assert syns
    assert all(a.window == b.window for a, b in syns)
    lowered = [(a, b) for a, b in own if b.window < a.window]
    assert lowered
    assert all(a.flags & ACK and not a.flags & (SYN | RST) for a, _ in lowered)

    # What is told moves by whole segments, as far as the receiver's scale allows it.
    if connection.scale == 0:
        moves, broken = parts(connection)
        assert moves > ROUNDS
        assert broken == []
    assert (connection.scale == 0) == (hosts == "unscaled")
