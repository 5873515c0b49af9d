"""A Debian machine in namespaces of its own: systemd as its first process, an isolated network.

Its root is an overlay on a bootstrapped tree that is made once and kept in Weir's cache; what the
machine writes is in memory and gone with it. When the process that started it ends, however it
ends, the kernel ends the machine.
"""

import hashlib
import inspect
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.command import run, wait_until

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = (f"PATH={_PATH}", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
_INCLUDED = "systemd,systemd-sysv,dbus,iproute2,iputils-ping,procps,python3"
_BOOT_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 10.0

# $1 the tree, $2 an empty folder to put the machine's root on, $3 a folder that it sees as /mnt.
# Sysctls outside of the network's belong to the whole kernel, so they are read-only.
_BOOT = """
mount --make-rprivate /
mount -t tmpfs -o mode=0755 written "$2"
mkdir "$2/upper" "$2/work" "$2/root"
r=$2/root
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" machine "$r"
mount -t proc proc "$r/proc"
mount --bind "$r/proc/sys" "$r/proc/sys"
mount --bind "$r/proc/sys/net" "$r/proc/sys/net"
mount -o remount,bind,ro "$r/proc/sys"
mount -t sysfs -o ro sysfs "$r/sys"
mount -t cgroup2 cgroup2 "$r/sys/fs/cgroup"
mount -t tmpfs -o mode=0755 run "$r/run"
mount -t tmpfs -o mode=0755 dev "$r/dev"
mkdir -p "$r/dev/net" "$r/dev/pts" "$r/dev/shm"
for device in null zero full random urandom tty net/tun; do
    touch "$r/dev/$device"
    mount --bind "/dev/$device" "$r/dev/$device"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$r/dev/pts"
ln -s pts/ptmx "$r/dev/ptmx"
mount --bind "$3" "$r/mnt"
ip link set lo up
cd "$r"
mkdir -p .outside
pivot_root . .outside
cd /
umount -l /.outside
rmdir /.outside
exec env -i container=weir "PATH=$PATH" /lib/systemd/systemd --show-status=no
"""


class MachineError(RuntimeError):
    """The machine cannot be made or does not start; the text says why."""


def bootstrapped(cache: Path, packages: Sequence[str], debs: Sequence[Path]) -> Path:
    """Return a Debian 12 tree with ``packages``; what ``debs`` depend on has been downloaded there.

    It is made at the first call, with the mirrors that this machine's apt uses.
    """
    sources = _sources()
    depends = [run(["dpkg-deb", "--field", str(deb), "Depends", "Recommends"]) for deb in debs]
    recipe = "\n".join([inspect.getsource(bootstrapped), *packages, *sources, *depends])
    tree = cache / f"debian-12-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    if (tree / ".complete").exists():
        return tree
    shutil.rmtree(tree, ignore_errors=True)
    tree.parent.mkdir(parents=True, exist_ok=True)
    mirror = next(line.split()[1] for line in sources if line.split()[2] == "bookworm")
    run(
        [
            "debootstrap",
            "--variant=minbase",
            f"--include={_INCLUDED}",
            "bookworm",
            str(tree),
            mirror,
        ],
        timeout_s=1800,
    )
    (tree / "etc/apt/sources.list").write_text("\n".join(sources) + "\n")
    (tree / "etc/apt/apt.conf.d/90outside").write_text(run(["apt-config", "dump", "Acquire"]))
    shutil.copy("/etc/resolv.conf", tree / "etc/resolv.conf")
    # Nothing is started while the tree is being made: there is no systemd yet.
    policy = tree / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    staged = tree / "root/debs"
    staged.mkdir()
    for deb in debs:
        shutil.copy(deb, staged)
    script = f"""
        mount -t proc proc /proc
        apt-get update -q
        apt-get install -q -y --no-install-recommends {shlex.join(packages)}
        apt-get install -q -y --download-only /root/debs/*.deb
    """
    run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", str(tree),
         "env", "-i", *_ENVIRONMENT, "sh", "-ec", script],
        timeout_s=1800,
    )  # fmt: skip
    shutil.rmtree(staged)
    policy.unlink()
    (tree / ".complete").touch()
    return tree


def _sources() -> list[str]:
    """The mirrors of Debian 12 that apt uses here, as lines of a sources.list."""
    targets = run(
        ["apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
         "Created-By: Packages"]
    )  # fmt: skip
    lines = {line for line in targets.splitlines() if line.split()[2].startswith("bookworm")}
    if not any(line.split()[2] == "bookworm" for line in lines):
        raise MachineError("apt knows no mirror of Debian 12 (bookworm) here: run 'apt-get update'")
    return sorted(lines)


class Machine:
    """A running machine; ``shared`` is its /mnt. To be used in a with statement."""

    def __init__(self, tree: Path, shared: Path) -> None:
        self._tree = tree
        self._shared = shared
        self._work = Path(tempfile.mkdtemp(prefix="weir-machine-"))
        self._cgroup = _cgroup_root() / self._work.name
        self._log = self._work / "console.log"
        self._outer: subprocess.Popen[bytes] | None = None
        self._first = 0

    def __enter__(self) -> Self:
        self._cgroup.mkdir()
        root = self._work / "root"
        root.mkdir()
        with self._log.open("wb") as log:
            self._outer = subprocess.Popen(
                ["sh", "-ec", 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"', "sh", self._cgroup,
                 "setpriv", "--pdeathsig", "KILL", "--",
                 "unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork",
                 "--kill-child", "--", "sh", "-ec", _BOOT, "sh", self._tree, root, self._shared],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            wait_until(self._is_up, timeout_s=_BOOT_TIMEOUT_S, what="systemd starts")
        except BaseException as error:
            console = self._log.read_text(errors="replace")
            self.stop()
            if isinstance(error, TimeoutError):
                raise MachineError(f"{error}; its console:\n{console}") from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the machine at once, as a power cut would, and leave nothing of it."""
        if self._outer is not None:
            self._outer.kill()
            self._outer.wait()
            self._outer = None
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while (groups := list(self._cgroup.rglob("*/"))) or self._cgroup.exists():
            for group in [*sorted(groups, reverse=True), self._cgroup]:
                try:
                    group.rmdir()
                except OSError:
                    if time.monotonic() > deadline:
                        raise
            time.sleep(0.01)
        shutil.rmtree(self._work)

    def run(self, *argv: str, timeout_s: float = 180.0) -> str:
        """Run ``argv`` in the machine, as root; return what it says. Raises CommandError."""
        return run(
            ["nsenter", "--target", str(self._first), "--all", "--",
             "env", "-i", *_ENVIRONMENT, *argv],
            timeout_s=timeout_s,
        )  # fmt: skip

    def shell(self, script: str, timeout_s: float = 180.0) -> str:
        """The same for a shell's script, of which no command may fail."""
        return self.run("sh", "-ec", script, timeout_s=timeout_s)

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start ``argv`` in the machine; its output can be read from the returned process."""
        return subprocess.Popen(
            ["nsenter", "--target", str(self._first), "--all", "--",
             "env", "-i", *_ENVIRONMENT, *argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def _is_up(self) -> bool:
        assert self._outer is not None
        if self._outer.poll() is not None:
            raise MachineError(f"it ended; its console:\n{self._log.read_text(errors='replace')}")
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text()
        if not children.split():
            return False
        self._first = int(children.split()[0])
        if Path(f"/proc/{self._first}/comm").read_text().strip() != "systemd":
            return False
        state = subprocess.run(
            ["nsenter", "--target", str(self._first), "--all", "--",
             "systemctl", "is-system-running"],
            capture_output=True, text=True, check=False, timeout=20,
        )  # fmt: skip
        return state.stdout.strip() in ("running", "degraded")


def _cgroup_root() -> Path:
    """Where the second version of control groups is mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    raise MachineError("systemd needs control groups, version 2: mount -t cgroup2 cgroup2 DIR")


def end_on_signals() -> None:
    """Have SIGTERM and SIGHUP end this program as an interrupt does: machines are stopped."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(os.getpid(), signal.SIGINT))
