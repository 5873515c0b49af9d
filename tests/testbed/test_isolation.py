"""However it ends, nothing of a world stays on the machine."""

import os
import pty
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import isolation
from testbed.command import wait_until

GONE_TIMEOUT_S = 20

# Leaves behind what a test bed would: a device with a qdisc, and a daemon in a session of its own.
INSIDE = """
import subprocess, sys, time, os
from testbed import isolation
isolation.become_first_process()
(isolation.RUN_DIR / "left.sock").touch()
for command in ("ip link add weir-a type veth", "tc qdisc add dev weir-a root htb"):
    subprocess.run(command.split(), check=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", sys.argv[1]],
                 start_new_session=True)
print(os.readlink("/proc/self/ns/net"), flush=True)
try:
    if sys.argv[2] == "stay":
        time.sleep(1000)
    sys.exit(int(sys.argv[2]))
except KeyboardInterrupt:
    sys.exit(130)
"""
OUTSIDE = """
import sys
from testbed import isolation
sys.exit(isolation.run([sys.executable, *sys.argv[1:]]))
"""


@pytest.fixture(autouse=True)
def needs_namespaces() -> None:
    try:
        isolation.require()
    except isolation.IsolationError as lacking:
        pytest.skip(str(lacking))


def network_of(process: Path) -> str:
    """The network namespace of a process of /proc, by its name."""
    return str((process / "ns/net").readlink())


class World:
    """A world that was started, what it calls its network, and the mark of its daemon."""

    def __init__(self, inside: str) -> None:
        self.mark = f"weir-test-{uuid.uuid4()}"
        self.network = ""
        self.argv = [sys.executable, "-c", OUTSIDE, "-c", INSIDE, self.mark, inside]

    def left(self) -> list[str]:
        """Processes of it, or in its network namespace, that are still there."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command, network = (process / "cmdline").read_bytes(), network_of(process)
            except OSError:
                continue
            if self.mark.encode() in command or network == self.network:
                found.append(process.name)
        return found

    def require_gone(self) -> None:
        wait_until(lambda: not self.left(), timeout_s=GONE_TIMEOUT_S, what="the world is gone")
        assert not list(isolation.RUN_DIR.iterdir())
        assert not Path("/sys/class/net/weir-a").exists()


@pytest.fixture
def world() -> Iterator[World]:
    yield World("stay")


def start(world: World) -> subprocess.Popen[str]:
    outer = subprocess.Popen(world.argv, stdout=subprocess.PIPE, text=True)
    assert outer.stdout is not None
    world.network = outer.stdout.readline().strip()
    assert world.network.startswith("net:["), "the inner process did not come up"
    assert world.network != network_of(Path("/proc/self"))
    assert len(world.left()) >= 3, "outer and inner process and the daemon"
    return outer


@pytest.mark.netns
def test_killed(world: World) -> None:
    outer = start(world)
    outer.kill()
    assert outer.wait() == -signal.SIGKILL
    world.require_gone()


@pytest.mark.netns
@pytest.mark.parametrize(
    ("signo", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_signalled(world: World, signo: signal.Signals, status: int) -> None:
    outer = start(world)
    outer.send_signal(signo)
    assert outer.wait(GONE_TIMEOUT_S) == status
    world.require_gone()


@pytest.mark.netns
def test_interrupted_at_a_terminal(world: World) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(world.argv[0], world.argv)
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        shown = b""
        while b"net:[" not in shown or not shown.endswith(b"\n"):
            shown += screen.read(1024)
        world.network = shown.decode().strip()
        screen.write(b"\x03")
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    world.require_gone()


@pytest.mark.netns
@pytest.mark.parametrize("status", [0, 7])
def test_ended_by_itself(status: int) -> None:
    world = World(str(status))
    outer = subprocess.run(world.argv, capture_output=True, text=True, check=False)
    world.network = outer.stdout.strip()
    assert outer.returncode == status
    world.require_gone()


def test_the_inner_program_refuses_to_run_outside() -> None:
    with pytest.raises(isolation.IsolationError, match="a world of its own"):
        isolation.become_first_process()


def test_what_is_missing_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(isolation.IsolationError, match=r"missing commands .*: apt-get install"):
        isolation.require()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(isolation.IsolationError, match="needs root"):
        isolation.require()
