"""However it ends, nothing of a sandbox stays on the machine."""

import os
import pty
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import sandbox
from testbed.command import wait_until

GONE_TIMEOUT_S = 20

# Leaves behind what a test bed would: a device with a qdisc, and a daemon in a session of its own.
FIRST = """
import subprocess, sys, time, os
from testbed import sandbox
sandbox.become_first_process()
(sandbox.RUN_DIR / "left.sock").touch()
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
OUTER = """
import sys
from testbed import sandbox
sys.exit(sandbox.run([sys.executable, *sys.argv[1:]]))
"""


@pytest.fixture(autouse=True)
def needs_namespaces() -> None:
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))


def network_of(process: Path) -> str:
    """The network namespace of a process of /proc, by its name."""
    return str((process / "ns/net").readlink())


class Started:
    """A sandbox that was started, what it calls its network, and the mark of its daemon."""

    def __init__(self, inside: str) -> None:
        self.mark = f"weir-test-{uuid.uuid4()}"
        self.network = ""
        self.argv = [sys.executable, "-c", OUTER, "-c", FIRST, self.mark, inside]

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
        wait_until(lambda: not self.left(), timeout_s=GONE_TIMEOUT_S, what="the sandbox is gone")
        assert not list(sandbox.RUN_DIR.iterdir())
        assert not Path("/sys/class/net/weir-a").exists()


@pytest.fixture
def started() -> Iterator[Started]:
    yield Started("stay")


def start(started: Started) -> subprocess.Popen[str]:
    outer = subprocess.Popen(started.argv, stdout=subprocess.PIPE, text=True)
    assert outer.stdout is not None
    started.network = outer.stdout.readline().strip()
    assert started.network.startswith("net:["), "the first process did not come up"
    assert started.network != network_of(Path("/proc/self"))
    assert len(started.left()) >= 3, "outer and first process and the daemon"
    return outer


@pytest.mark.netns
def test_killed(started: Started) -> None:
    outer = start(started)
    outer.kill()
    assert outer.wait() == -signal.SIGKILL
    started.require_gone()


@pytest.mark.netns
@pytest.mark.parametrize(
    ("signo", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_signalled(started: Started, signo: signal.Signals, status: int) -> None:
    outer = start(started)
    outer.send_signal(signo)
    assert outer.wait(GONE_TIMEOUT_S) == status
    started.require_gone()


@pytest.mark.netns
def test_interrupted_at_a_terminal(started: Started) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(started.argv[0], started.argv)
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        shown = b""
        while b"net:[" not in shown or not shown.endswith(b"\n"):
            shown += screen.read(1024)
        started.network = shown.decode().strip()
        screen.write(b"\x03")
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    started.require_gone()


@pytest.mark.netns
@pytest.mark.parametrize("status", [0, 7])
def test_ended_by_itself(status: int) -> None:
    started = Started(str(status))
    outer = subprocess.run(started.argv, capture_output=True, text=True, check=False)
    started.network = outer.stdout.strip()
    assert outer.returncode == status
    started.require_gone()


def test_the_inner_program_refuses_to_run_outside() -> None:
    with pytest.raises(sandbox.SandboxError, match="runs in a sandbox only"):
        sandbox.become_first_process()


def test_what_is_missing_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(sandbox.SandboxError, match=r"missing commands .*: apt-get install"):
        sandbox.require()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(sandbox.SandboxError, match="needs root"):
        sandbox.require()


ORPHANAGE = """
import ctypes, os, subprocess
from testbed import sandbox
from testbed.command import wait_until

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
own = subprocess.Popen(["sh", "-c", "exit 3"])
leader = subprocess.Popen(["sh", "-c", "exit 4"], start_new_session=True)
parent = subprocess.Popen(["sh", "-c", "sleep 0.1 & exit 5"], start_new_session=True)
assert parent.wait() == 5
reaped = []
until = lambda: reaped.append(sandbox.reap_orphans()) or any(reaped)
wait_until(until, timeout_s=20, what="it ends")
print(sum(reaped), own.wait(), leader.wait())
"""


def test_orphans_are_reaped_and_nobody_else() -> None:
    said = subprocess.check_output([sys.executable, "-c", ORPHANAGE], text=True)
    assert said.split() == ["1", "3", "4"]


def test_a_process_that_ends_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["sleep", "60"])

    def read_text(path: Path) -> str:
        with path.open() as file:
            if path == Path(f"/proc/{child.pid}/stat"):
                child.kill()
                child.wait()
            return file.read()

    monkeypatch.setattr(Path, "read_text", read_text)
    assert sandbox.reap_orphans() == 0
    assert child.returncode == -signal.SIGKILL
