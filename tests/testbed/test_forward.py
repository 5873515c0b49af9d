"""What listens in a sandbox is reached from outside of it."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from testbed.command import wait_until

# Sends back what it gets, in capitals, once its peer has sent everything.
FIRST = """
import socket
from testbed import sandbox
sandbox.become_first_process()
with socket.create_server(("127.0.0.1", 7000)) as listening:
    while True:
        peer, _ = listening.accept()
        with peer:
            peer.sendall(b"".join(iter(lambda: peer.recv(65536), b"")).upper())
"""
OUTER = """
import sys
from testbed import sandbox
from testbed.forward import Forward
forward = Forward(("127.0.0.1", int(sys.argv[1])), ("127.0.0.1", int(sys.argv[2])))
sys.exit(sandbox.run([sys.executable, "-c", sys.argv[3]], forwards=[forward]))
"""
OUTSIDE = 7001


@pytest.fixture
def forwarded(request: pytest.FixtureRequest) -> Iterator[None]:
    inside: int = request.param
    argv = [sys.executable, "-c", OUTER, str(OUTSIDE), str(inside), FIRST]
    with subprocess.Popen(argv) as outer:
        yield
        # The sandbox ends with it, at once. The first process might not have begun to hear signals.
        outer.kill()


def answer(sent: bytes) -> bytes:
    """What comes back; nothing if nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", OUTSIDE)) as peer:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: peer.recv(65536), b""))
    except OSError:
        return b""


@pytest.mark.netns
@pytest.mark.parametrize("forwarded", [7000], indirect=True)
@pytest.mark.usefixtures("forwarded")
def test_all_of_it_comes_through_both_ways() -> None:
    wait_until(lambda: answer(b"hello") == b"HELLO", timeout_s=20, what="it is passed on")
    much = b"weir" * 1_000_000
    assert answer(much) == much.upper()


@pytest.mark.netns
@pytest.mark.parametrize("forwarded", [7002], indirect=True)
@pytest.mark.usefixtures("forwarded")
def test_a_connection_that_nobody_takes_is_closed() -> None:
    def connects() -> bool:
        with socket.socket() as peer:
            return peer.connect_ex(("127.0.0.1", OUTSIDE)) == 0

    wait_until(connects, timeout_s=20, what="the port is taken")
    assert answer(b"hello") == b""
