"""What is recorded on request: windows, round trips, packets."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import runner
from experiments.measure import captures
from experiments.report import connections
from testbed import sandbox

# Of ss of iproute2 6.1: one that has sent, with a threshold and without, and one that has not.
SHOWN = (
    "0      28960    10.0.0.1:5000 10.0.0.9:41786 reno wscale:7,7 rto:204 rtt:3.25/0.5 mss:1448 "
    "pmtu:1500 rcvmss:536 advmss:1448 cwnd:14 ssthresh:7 bytes_sent:90000 bytes_acked:63713 "
    "segs_out:64 segs_in:23 send 49.9Mbps lastsnd:4 unacked:6 retrans:0/2 minrtt:0.2\n"
    "0      0        10.0.0.1:5000 10.0.0.9:41788 reno rto:201.5 rtt:0.5/0.25 cwnd:10 "
    "bytes_sent:12 bytes_acked:12 segs_out:2\n"
    "0      0        10.0.0.1:5000 10.0.0.9:41790 reno rto:200 rtt:1/0.5 cwnd:10 segs_out:1\n"
)


def test_the_state_of_connections_is_read() -> None:
    sends, has_sent = captures.parse(SHOWN, "h1", 7)
    assert sends == captures.Sample(
        "h1", "10.0.0.1:5000", "10.0.0.9:41786", 7, 14, 7, 6, 3.25, 204.0
    )
    assert (has_sent.ssthresh, has_sent.unacked, has_sent.rto_ms) == (None, 0, 201.5)


def test_samples_are_kept_and_drawn(tmp_path: Path) -> None:
    followed = captures.Connections([])
    followed.samples = captures.parse(SHOWN, "h1", 7) + captures.parse(SHOWN, "h1", 20_000_000)
    file = tmp_path / captures.CONNECTIONS
    followed.save(file)
    assert captures.read(file) == followed.samples
    connections.draw(captures.read(file), tmp_path / "c.png", 0)
    assert (tmp_path / "c.png").stat().st_size > 1000
    connections.draw([], tmp_path / "none.png", 0)


@pytest.mark.netns
@pytest.mark.switch
def test_a_run_records_what_is_asked_for(tmp_path: Path) -> None:
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    words = "run --scheme reno --senders 3 --rounds 5 --topology star --no-background"
    argv = [sys.executable, "-m", "experiments.cli", *words.split(), "--follow", "2", "--pcap"]
    done = subprocess.run(
        [*argv, "--json", "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, runner.VOID), done.stderr
    assert json.loads(done.stdout)["goodput_mbps"] > 0
    samples = captures.read(tmp_path / captures.CONNECTIONS)
    assert {one.host for one in samples} == {"h1", "h2"}
    assert all(one.cwnd >= 1 and one.rtt_ms > 0 for one in samples)
    size = (tmp_path / captures.PACKETS).stat().st_size
    # 5 MB in full-size frames, of each of which the beginning is kept.
    assert size > 5_000_000 / 1514 * 100
