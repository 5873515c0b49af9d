"""What lies between the two ends in ``bench transport``."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from testbed.command import run

_NEAR, _FAR = "10.77.0.1", "10.77.0.2"
DEVICES = ("near0", "far0")
_READY_S = 10.0


@dataclass(frozen=True)
class Medium:
    """The ends' addresses, and a process in the far one's network namespace (None: this one's)."""

    far: str
    far_pid: int | None
    near: str = _NEAR

    def wait_for_tcp(self, port: int) -> None:
        """Return once something listens on ``port`` of the far end. Raises TimeoutError."""
        deadline = time.monotonic() + _READY_S
        while f":{port} " not in run(["ss", "-Htln"], pid=self.far_pid) + " ":
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing listens on port {port}")
            time.sleep(0.05)


@contextmanager
def medium(name: str) -> Iterator[Medium]:
    """Context manager: ``loopback``, or ``veth``, a pair of devices between this namespace and
    another one, with the offloads and the MTU that they have by default."""
    if name == "loopback":
        yield Medium("127.0.0.1", None, "127.0.0.1")
        return
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        near, far = DEVICES
        run(["ip", "link", "add", near, "type", "veth", "peer", far, "netns", str(holder.pid)])
        run(["ip", "address", "add", f"{_NEAR}/24", "dev", near])
        run(["ip", "link", "set", near, "up"])
        run(["ip", "address", "add", f"{_FAR}/24", "dev", far], pid=holder.pid)
        run(["ip", "link", "set", far, "up"], pid=holder.pid)
        run(["ip", "link", "set", "lo", "up"], pid=holder.pid)
        yield Medium(_FAR, holder.pid)
    finally:
        holder.terminate()
        holder.communicate()
