"""What is recorded on request: windows, round trips, packets."""

import json
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import runner
from experiments.measure import captures
from experiments.measure.sock_diag import Connection, Established, parse
from experiments.report import connections
from testbed import sandbox
from testbed.command import wait_until

SENDS = Connection("10.0.0.1:5000", "10.0.0.9:41786", 14, 7, 6, 3.25, 204.0, 63_713)
HAS_SENT = Connection("10.0.0.1:5000", "10.0.0.9:41788", 10, None, 0, 0.5, 201.5, 12)


def test_samples_are_kept_and_drawn(tmp_path: Path) -> None:
    followed = captures.Connections([])
    followed.samples = [
        captures.sample(one, "h1", at_ns) for at_ns in (7, 20_000_000) for one in (SENDS, HAS_SENT)
    ]
    assert followed.samples[0] == captures.Sample(
        "h1", "10.0.0.1:5000", "10.0.0.9:41786", 7, 14, 7, 6, 3.25, 204.0
    )
    file = tmp_path / captures.CONNECTIONS
    followed.save(file)
    assert captures.read(file) == followed.samples
    connections.draw(captures.read(file), tmp_path / "c.png", 0)
    assert (tmp_path / "c.png").stat().st_size > 1000
    connections.draw([], tmp_path / "none.png", 0)


def info(end: socket.socket) -> tuple[int, int]:
    """A connection's congestion window and smoothed round trip in us (struct tcp_info)."""
    told = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return struct.unpack_from("I", told, 80)[0], struct.unpack_from("I", told, 68)[0]


def test_the_state_of_connections_is_what_they_say_themselves() -> None:
    """It comes from the kernel: no process is started for it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as sender,
        listening.accept()[0] as receiver,
    ):
        sender.sendall(bytes(10_000))
        missing = 10_000
        while missing:
            missing -= len(receiver.recv(missing))
        local, peer = (
            f"{host}:{port}" for host, port in (sender.getsockname(), listening.getsockname())
        )
        established = Established()

        def found() -> Connection:
            (one,) = (one for one in established.read() if (one.local, one.peer) == (local, peer))
            return one

        # Its SYN counts as a byte.
        wait_until(lambda: found().acked_bytes == 10_001, timeout_s=10, what="all is acknowledged")
        one = found()
        assert (one.cwnd, round(one.rtt_ms * 1000)) == info(sender)
        assert one.unacked == 0
        assert one.rto_ms >= 200
        established.close()
    with pytest.raises(OSError, match="Bad file"):
        established.read()


def test_what_lacks_the_state_of_tcp_is_left_out() -> None:
    assert parse(bytes(72)) is None
    assert parse(bytes(72) + struct.pack("=HH", 8, 2) + bytes(4)) is None
    assert parse(bytes(72) + struct.pack("=HH4x", 0, 0)) is None


def test_an_error_of_the_kernel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    established = Established()
    established.close()
    refused = struct.pack("=IHHIIi16x", 36, 2, 0, 1, 0, -2)

    class Answering:
        def sendto(self, *_args: object) -> None: ...

        def recv(self, _size: int) -> bytes:
            return refused

    monkeypatch.setattr(established, "_socket", Answering())
    with pytest.raises(FileNotFoundError, match="sock_diag: No such file"):
        established.read()


@pytest.mark.netns
@pytest.mark.switch
def test_a_run_records_what_is_asked_for(tmp_path: Path) -> None:
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    words = "run --scheme reno --senders 3 --rounds 2 --topology star --no-background"
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
    # 2 MB in full-size frames, of each of which the beginning is kept, also of the last ones.
    assert size > 2_000_000 / 1448 * captures.KEPT_BYTES
