"""Sandboxes: each test bed has network, process and mount namespaces of its own.

The process that a user starts runs the test bed as the first process of a new sandbox. When that
first process ends, however it ends, the kernel kills every other process of the sandbox; with the
last of them go the namespaces, the devices and their qdiscs. So an interrupt, a crash or even
SIGKILL leaves nothing on the machine, and nothing has to clean up.

A sandbox has a private tmpfs at ``RUN_DIR``; the rest of the file system is the machine's.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from testbed.forward import Forward

RUN_DIR = Path("/run/weir")

_TOOLS = ("unshare", "setpriv", "nsenter", "ip", "tc", "ethtool", "ss", "mnexec")
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SI_KERNEL = 0x80
_GRACE_S = 10.0
# What /proc says of what has ended: before its file was opened, or before that was read.
_ENDED = (FileNotFoundError, ProcessLookupError)

# unshare ends the sandbox with itself (--kill-child), setpriv ends unshare with this process.
_ENTER = (
    "setpriv", "--pdeathsig", "KILL", "--",
    "unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "--",
    "sh", "-ec", f'mount -t tmpfs -o mode=0755 weir {RUN_DIR}; ip link set lo up; exec "$@"', "sh",
)  # fmt: skip


class SandboxError(RuntimeError):
    """This machine or this user cannot have namespaces; the text says what is missing."""


def require() -> None:
    """Raise SandboxError, in one line, unless namespaces can be made here."""
    if os.geteuid() != 0:
        raise SandboxError("needs root, to make network namespaces (try: sudo)")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise SandboxError(
            f"missing command{'s' * (len(missing) > 1)} {', '.join(missing)}: "
            "apt-get install util-linux iproute2 ethtool mininet"
        )
    if not Path("/dev/net/tun").exists():
        raise SandboxError("/dev/net/tun is missing: the switch needs it for its own port")
    probe = subprocess.run(
        ["unshare", "--net", "--pid", "--mount", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode != 0:
        raise SandboxError(
            f"cannot make namespaces here ({probe.stderr.strip()}): "
            "run on a machine or in a container with CAP_SYS_ADMIN"
        )


def run(
    argv: Sequence[str],
    *,
    stdout: int | None = None,
    stderr: int | None = None,
    forwards: Sequence[Forward] = (),
) -> int:
    """Run ``argv`` as the first process of a new sandbox; return its exit status. What ``forwards``
    say is reached from outside meanwhile.

    Signals that reach this process are handed on; the first process has ten seconds to end, then it
    is killed. The status of a process that a signal ended is 128 + the signal's number, as in
    a shell. Must be called from the main thread: the kernel ties the sandbox's life to it.
    """
    require()
    RUN_DIR.mkdir(parents=True, exist_ok=True)
    watched = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        inner = subprocess.Popen(
            [*_ENTER, *argv],
            stdout=stdout,
            stderr=stderr,
            # A mask outlives exec: without this the first process would never see a signal.
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509
        )
        for forward in forwards:
            forward.start(inner.pid)
        try:
            return _supervise(inner, watched)
        finally:
            if inner.poll() is None:
                inner.kill()
                inner.wait()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call ``function`` in the first process of a new sandbox, which ends with it, and return what
    it returns.

    It is a module's own function, of a script too, whose part for being the program
    (``if __name__ == "__main__"``) is not executed again. Arguments and result are values of JSON.
    Raises SandboxError if it does not return; its traceback goes to stderr. To be called from the
    main thread.
    """
    module = sys.modules[function.__module__]
    where = function.__module__
    if where == "__main__":
        where = str(Path(str(module.__file__)).resolve())
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "returned.json"
        words = [where, function.__qualname__, json.dumps(arguments), str(file)]
        status = run([sys.executable, "-m", "testbed.called", *words])
        if status != 0:
            raise SandboxError(f"{function.__qualname__} ended with status {status}")
        return json.loads(file.read_text())


def _supervise(inner: subprocess.Popen[bytes], watched: set[signal.Signals]) -> int:
    deadline = None
    while (status := inner.poll()) is None:
        patience = 3600.0 if deadline is None else max(0.0, deadline - time.monotonic())
        got = signal.sigtimedwait(watched, patience)
        if got is None:
            if deadline is not None:
                inner.kill()
                inner.wait()
            continue
        if got.si_signo == signal.SIGCHLD:
            continue
        # A terminal's own signal goes to every process in its foreground group, so it is there
        # already.
        if got.si_code != _SI_KERNEL:
            _signal_children(inner.pid, got.si_signo)
        if got.si_signo != signal.SIGINT and deadline is None:
            deadline = time.monotonic() + _GRACE_S
    return 128 - status if status < 0 else status


def _signal_children(pid: int, signo: int) -> None:
    """Signal the children of ``pid``: unshare blocks signals and hands none on."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            os.kill(int(child), signo)
        except ProcessLookupError:
            continue


def is_first_process() -> bool:
    """Whether this is the first process of a sandbox."""
    return os.getpid() == 1 and RUN_DIR.is_mount()


def require_inside() -> None:
    """Raise SandboxError unless this process is in a sandbox."""
    if not RUN_DIR.is_mount():
        raise SandboxError(
            "this would change the machine's own network: start it in a sandbox, as weir-lab, "
            "weir-experiment and testbed.sandbox.run do"
        )


def become_first_process() -> None:
    """To be called by the first process of a sandbox, before anything else.

    The kernel delivers to the first process of a namespace only those signals it has a handler for.
    Termination ends it here like an interrupt does; what it leaves undone the kernel ends.
    """
    if not is_first_process():
        raise SandboxError("this program runs in a sandbox only: start weir-lab or weir-experiment")
    for signo in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signo, _leave)


def reap_orphans() -> int:
    """Let go of processes that have ended, and whose parent had ended before: they are children of
    the first process then. Return how many there were.

    Children of its own are left to whoever has started them. They are of its session, or begin one;
    orphans do neither if their parent began one.
    """
    own, reaped = os.getsid(0), 0
    for pid in _children():
        with suppress(*_ENDED):
            state, _, _, session = _stat(pid)[:4]
            if state == "Z" and int(session) not in (own, pid):
                reaped += os.waitpid(pid, os.WNOHANG)[0] == pid
    return reaped


def _children() -> Iterator[int]:
    """The children of this process, by the thread that started them; threads may end meanwhile."""
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(*_ENDED):
            yield from map(int, children.read_text().split())


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process, from its state on: its name may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _leave(signo: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signo)
