"""A Debian machine in namespaces of its own: systemd as its first process, an isolated network.

Its root is an overlay on a bootstrapped tree that is made once and kept in Weir's cache; what the
machine writes is in memory and gone with it. When the process that started it ends, however it
ends, the kernel ends the machine.
"""

import hashlib
import inspect
import os
import re
import secrets
import select
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
# Sysctls outside of the network's belong to the whole kernel, so they are read-only. Anybody may
# open the device of TUN, as udev has it.
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
for device in null zero full random urandom tty; do
    touch "$r/dev/$device"
    mount --bind "/dev/$device" "$r/dev/$device"
done
mknod -m 0666 "$r/dev/net/tun" c 10 200
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

# Everything there is, with type, mode, owner and content, but for what any machine writes while it
# runs, what dpkg and apt note of their own work, and the users (a package's user stays, locked).
_LISTING = r"""
import hashlib, os, stat
SKIPPED = {
    "/proc", "/sys", "/dev", "/run", "/tmp", "/mnt", "/root", "/var/tmp", "/var/cache",
    "/var/lib/dpkg", "/var/lib/apt", "/var/lib/openvswitch",
    "/var/log/journal", "/var/log/apt", "/var/log/openvswitch",
}
VOLATILE = {
    "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow",
    "/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/etc/.pwd.lock",
    "/etc/ld.so.cache", "/var/log/dpkg.log", "/var/log/alternatives.log",
}
for folder, folders, files in os.walk("/"):
    folders[:] = sorted(
        f for f in folders if f != "__pycache__" and os.path.join(folder, f) not in SKIPPED
    )
    for name in sorted(files + folders):
        path = os.path.join(folder, name)
        if path in VOLATILE or path.startswith("/var/lib/systemd/deb-systemd-helper-"):
            continue
        told = os.lstat(path)
        content = ""
        if stat.S_ISREG(told.st_mode):
            content = hashlib.sha256(open(path, "rb").read()).hexdigest()
        elif stat.S_ISLNK(told.st_mode):
            content = os.readlink(path)
        print(path, oct(told.st_mode), told.st_uid, told.st_gid, content)
"""


class MachineError(RuntimeError):
    """The machine cannot be made or does not start; the text says why."""


def bootstrapped(
    cache: Path, packages: Sequence[str], debs: Sequence[Path], downloads: Sequence[str]
) -> Path:
    """Return a Debian 12 tree with ``packages``; ``downloads`` and what ``debs`` depend on are in
    apt's cache there.

    It is made at the first call, with the mirrors that this machine's apt uses.
    """
    sources = _sources()
    depends = [run(["dpkg-deb", "--field", str(deb), "Depends", "Recommends"]) for deb in debs]
    recipe = "\n".join([inspect.getsource(bootstrapped), *packages, *downloads, *sources, *depends])
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
        apt-get install -q -y --no-install-recommends --download-only {shlex.join(downloads)}
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

    def listing(self) -> set[str]:
        """Every file that a package might have left, with type, mode, owner and content."""
        return set(self.run("python3", "-c", _LISTING).splitlines())

    def start(self, *argv: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start ``argv`` in the machine; its output can be read from the returned process."""
        return subprocess.Popen(
            ["nsenter", "--target", str(self._first), "--all", "--",
             "env", "-i", *_ENVIRONMENT, *argv],
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def connect(self, address: str, peer: "Machine", peer_address: str) -> None:
        """Lay a cable to another machine, which has ``peer_address``."""
        ends = ((self, address, peer_address), (peer, peer_address, address))
        names = [f"to-{there}" for _, _, there in ends]
        run(["ip", "link", "add", names[0], "netns", str(self._first),
             "type", "veth", "peer", "name", names[1], "netns", str(peer._first)])  # fmt: skip
        for name, (machine, here, there) in zip(names, ends, strict=True):
            machine.run("ip", "address", "add", here, "peer", there, "dev", name)
            machine.run("ip", "link", "set", name, "up")

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


class Terminal:
    """A shell in a machine, in which one command is typed after the other."""

    def __init__(self, machine: Machine, folder: str) -> None:
        self._shell = machine.start("bash", stdin=subprocess.PIPE)
        self.type(f"cd {shlex.quote(folder)}", timeout_s=20)

    def type(self, command: str, timeout_s: float) -> tuple[int, str]:
        """Return the status of a command and what it says. Raises TimeoutError."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        end = secrets.token_hex(8)
        self._shell.stdin.write(
            f"eval {shlex.quote(command)} </dev/null\nprintf '\\n{end} %s\\n' $?\n"
        )
        self._shell.stdin.flush()
        output = self._shell.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        said = b""
        while not (ended := re.search(rf"\n{end} (\d+)\n".encode(), said)):
            left_s = deadline - time.monotonic()
            if left_s < 0 or not select.select([output], [], [], left_s)[0]:
                raise TimeoutError(f"not done after {timeout_s:g} s: {said.decode()}")
            read = os.read(output, 65536)
            if not read:
                raise MachineError(f"the shell ended: {said.decode()}")
            said += read
        return int(ended[1]), said[: ended.start()].decode()

    def close(self) -> None:
        """End the shell."""
        self._shell.communicate(timeout=20)


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
