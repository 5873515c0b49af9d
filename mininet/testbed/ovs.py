"""Open vSwitch daemons of our own: private run directory, database and log, never the system's."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed import builds
from testbed.command import CommandError, run, wait_until

PREFIX_VARIABLE = "WEIR_OVS_PREFIX"
_START_TIMEOUT_S = 15.0
_STOP_TIMEOUT_S = 5.0
_APPCTL_TIMEOUT_S = 30.0
_NICENESS = -10
_PRIORITY = 1
# What the switch calls the thread that keeps its timers.
_RELEASING = "hrtimer"
# Statistics of every port are read in the thread that forwards, so only when asked for.
_STATS_INTERVAL_MS = 3_600_000


class OvsError(RuntimeError):
    """The switch cannot be found or does not start; the text says why."""


def find_prefix(given: str | os.PathLike[str] | None = None) -> Path:
    """Return where the switch is: ``given``, else $WEIR_OVS_PREFIX, else the build asked for
    last."""
    chosen = given or os.environ.get(PREFIX_VARIABLE)
    if chosen:
        prefix = Path(chosen).resolve()
        if not (prefix / "sbin/ovs-vswitchd").exists():
            raise OvsError(f"no sbin/ovs-vswitchd under {prefix}: run 'make switch'")
        return prefix
    built = builds.latest("ovs")
    if built is None:
        raise OvsError(f"no built switch in {builds.cache()}: run 'make switch'")
    return built


class Ovs:
    """One ovsdb-server and one ovs-vswitchd in ``run_dir`` (which is made and must be empty).

    ``vswitchd_options`` are added to the command line of ovs-vswitchd.
    """

    def __init__(self, prefix: Path, run_dir: Path, vswitchd_options: Sequence[str] = ()) -> None:
        self.prefix = prefix
        self.run_dir = run_dir
        self.env = {
            **os.environ,
            "OVS_RUNDIR": str(run_dir),
            "OVS_LOGDIR": str(run_dir),
            "OVS_DBDIR": str(run_dir),
            "OVS_SYSCONFDIR": str(run_dir),
            # Where it was configured to be installed is not always where it is.
            "OVS_PKGDATADIR": str(prefix / "share/openvswitch"),
            "PATH": f"{prefix}/bin:{prefix}/sbin:{os.environ['PATH']}",
        }
        self.log = run_dir / "ovs-vswitchd.log"
        self._vswitchd_options = vswitchd_options
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._refreshed = 0

    def start(self) -> None:
        """Start both daemons and wait until they answer. Raises OvsError with the log's end."""
        self.run_dir.mkdir(parents=True)
        database, listens = self.run_dir / "conf.db", self.run_dir / "db.sock"
        schema = self.prefix / "share/openvswitch/vswitch.ovsschema"
        self._run("ovsdb-tool", "create", str(database), str(schema))
        self._spawn(
            "ovsdb-server", str(database), f"--remote=punix:{listens}",
            f"--unixctl={self.run_dir}/ovsdb.ctl", f"--log-file={self.run_dir}/ovsdb-server.log",
        )  # fmt: skip
        self._await(
            listens.exists, "ovsdb-server opens its socket", self.run_dir / "ovsdb-server.log"
        )
        self.vsctl("--no-wait", "init", "--", *self._stats_interval())
        self.start_switch()

    def start_switch(self) -> None:
        """Start ovs-vswitchd alone, on the database that is there."""
        self._spawn(
            "ovs-vswitchd", f"unix:{self.run_dir}/db.sock", "--disable-system", "--pidfile",
            f"--log-file={self.log}", *self._vswitchd_options,
        )  # fmt: skip
        _put_first(self.vswitchd_pid)
        self._await(self._answers, "ovs-vswitchd answers", self.log)

    def kill_switch(self) -> None:
        """End ovs-vswitchd at once with SIGKILL, as a crash would."""
        daemon = self._daemons.pop()
        daemon.kill()
        daemon.wait()

    def stop(self) -> None:
        """End both daemons, the switch first; kill what does not end."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def keep_apart(self, pid: int) -> bool:
        """Have the thread that forwards packets stay on one processor, and ``pid`` on the others,
        where there is more than one; return whether there is. That lasts until the switch is
        started again.

        Whoever reads what the switch brings is woken on the processor that the switch is on, and
        would wait there until the switch has nothing to do.
        """
        first, *others = sorted(os.sched_getaffinity(0))
        if not others:
            return False
        os.sched_setaffinity(self.vswitchd_pid, {first})
        os.sched_setaffinity(pid, others)
        return True

    def put_release_first(self) -> bool:
        """Let the thread that sends packets in their time (``release=thread``) have a processor at
        once, too. Return whether it is there: it is once a packet has had to wait."""
        found = False
        for task in Path(f"/proc/{self.vswitchd_pid}/task").iterdir():
            # Others come and go.
            with suppress(FileNotFoundError, ProcessLookupError):
                if (task / "comm").read_text().startswith(_RELEASING):
                    _put_first(int(task.name), _PRIORITY + 1)
                    found = True
        return found

    @property
    def vswitchd_pid(self) -> int:
        """The process that forwards packets."""
        return self._daemons[1].pid

    def vsctl(self, *args: str) -> str:
        """Run ovs-vsctl as one transaction."""
        return self._run("ovs-vsctl", "--timeout=20", *args)

    def ofctl(self, *args: str) -> str:
        """Run ovs-ofctl with OpenFlow 1.3."""
        return self._run("ovs-ofctl", "-O", "OpenFlow13", *args)

    def appctl(self, command: str, *args: str) -> str:
        """Ask the running ovs-vswitchd, as ovs-appctl does (ovs-appctl(8)), in this process: that
        is a tenth of the time.

        Raises CommandError where it refuses, is not there or does not answer in time, as ``run``
        does.
        """
        argv = ["ovs-appctl", command, *args]
        if len(self._daemons) < 2:
            raise CommandError(argv, 1, "ovs-vswitchd is not running")
        question = json.dumps({"id": 0, "method": command, "params": args})
        path = f"{self.run_dir}/ovs-vswitchd.{self.vswitchd_pid}.ctl"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
                asking.settimeout(_APPCTL_TIMEOUT_S)
                asking.connect(path)
                asking.sendall(question.encode())
                answer = _answer(asking)
        except TimeoutError as late:
            raise CommandError(argv, None, f"{path}: {late}") from late
        except (OSError, ValueError) as failed:
            raise CommandError(argv, 1, f"{path}: {failed}") from failed
        if answer["error"] is not None:
            raise CommandError(argv, 2, str(answer["error"]))
        return str(answer["result"])

    def refresh_status(self) -> None:
        """Have the status that stands in the database, such as a controller's, brought up to date.

        The switch does that whenever its statistics are due, and they are due when the interval
        changes.
        """
        self.vsctl(*self._stats_interval())

    def has_egress_queues(self) -> bool:
        """Whether this switch is patched: it knows the QoS type ``weir``."""
        return "netdev-egress/show" in self.appctl("list-commands")

    def version(self) -> str:
        """Return what ovs-vswitchd calls itself."""
        return self._run("ovs-vswitchd", "--version").splitlines()[0]

    def _stats_interval(self) -> tuple[str, ...]:
        self._refreshed += 1
        interval_ms = _STATS_INTERVAL_MS + self._refreshed
        return ("set", "Open_vSwitch", ".", f"other_config:stats-update-interval={interval_ms}")

    def _answers(self) -> bool:
        try:
            self.appctl("version")
        except CommandError:
            return False
        return True

    def _run(self, program: str, *args: str) -> str:
        return run([program_path(self.prefix, program), *args], env=self.env)

    def _spawn(self, program: str, *args: str) -> None:
        argv = [program_path(self.prefix, program), "-vconsole:off", "--no-chdir", *args]
        # In a session of its own, so that a terminal's interrupt does not reach the switch.
        daemon = subprocess.Popen(
            argv, env=self.env, stdin=subprocess.DEVNULL, start_new_session=True
        )
        self._daemons.append(daemon)

    def _await(self, ready: Callable[[], bool], what: str, log: Path) -> None:
        daemon = self._daemons[-1]
        try:
            wait_until(
                lambda: daemon.poll() is not None or ready(), timeout_s=_START_TIMEOUT_S, what=what
            )
        except TimeoutError as late:
            raise OvsError(f"{late}\n{_tail(log)}") from late
        if daemon.poll() is not None:
            raise OvsError(
                f"{what}: not so, it ended with status {daemon.returncode}\n{_tail(log)}"
            )


def _answer(asking: socket.socket) -> dict[str, Any]:
    """Read one message of JSON, whose length is not said anywhere. Raises TimeoutError if it is not
    whole in time, ValueError if it ends before it is."""
    deadline = time.monotonic() + _APPCTL_TIMEOUT_S
    came = b""
    while piece := asking.recv(1 << 20):
        came += piece
        if piece.endswith(b"}"):
            with suppress(ValueError):
                answer: dict[str, Any] = json.loads(came)
                return answer
        asking.settimeout(max(0.001, deadline - time.monotonic()))
    raise ValueError(f"{len(came)} bytes are no whole answer")


def program_path(prefix: Path, program: str) -> str:
    """Return the full name of one of Open vSwitch's programs under ``prefix``."""
    found = shutil.which(program, path=f"{prefix}/bin:{prefix}/sbin")
    if found is None:
        raise OvsError(f"no {program} under {prefix}")
    return found


def _put_first(pid: int, priority: int = _PRIORITY) -> None:
    """Let a thread of a switch have a processor at once: one in hardware does not wait for the
    hosts' either.

    It forwards in its main thread, and releases packets in one more. The others can wait.
    """
    try:
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(pid, policy, os.sched_param(priority))
    except PermissionError:
        # Control groups may have no share of real time.
        prefer(pid)


def prefer(pid: int) -> None:
    """Give a process precedence, as whatever stands for more than has the processors it would have.

    Where the kernel groups processes by session, it is the group's niceness that counts.
    """
    os.setpriority(os.PRIO_PROCESS, pid, _NICENESS)
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(_NICENESS))


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text().splitlines()[-lines:]) if log.exists() else f"(no {log.name})"
