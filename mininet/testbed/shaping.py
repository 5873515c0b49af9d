"""Link rates and buffers with what every kernel has: HTB for the rate, bfifo for the buffer.

What was asked for is read back from the kernel (``verify``): a shaper that is silently absent turns
an experiment into fiction. netem is not used, since many kernels lack it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.command import run

FULL_FRAME_BYTES = 1514
"""What fills an MTU of 1500 bytes, with its Ethernet header."""

_DELAY_OF_BURST_S = 120e-6
_MIN_BURST_BYTES = 1600
_RATE_TOLERANCE = 0.002
_BURST_TOLERANCE = 0.02

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_SIZES = {"": 1, "K": 2**10, "M": 2**20}
_CLASS = re.compile(
    r"class htb (?P<id>\S+) .*?"
    r"rate (?P<rate>[\d.]+)(?P<rate_unit>[KMG]?)bit .*?"
    r"burst (?P<burst>[\d.]+)(?P<burst_unit>[KM]?)b"
)


class ShapingError(RuntimeError):
    """The kernel has installed something else than what was asked for."""


@dataclass(frozen=True)
class Egress:
    """How a device sends: ``rate_bps`` at most (of frames), out of ``limit_bytes`` of buffer."""

    rate_bps: int
    limit_bytes: int

    @property
    def burst_bytes(self) -> int:
        """Bytes that may leave back to back.

        One full frame is exact up to 200 Mb/s; above, the kernel's timers need 120 us worth.
        """
        return max(_MIN_BURST_BYTES, round(self.rate_bps * _DELAY_OF_BURST_S / 8))


@dataclass(frozen=True)
class Installed:
    """What ``tc`` shows on a device. ``limit_bytes`` is None where no bfifo bounds the queue;
    ``kinds`` are those of the qdiscs that somebody has put there."""

    rate_bps: float | None
    burst_bytes: float | None
    limit_bytes: int | None
    drops: int
    kinds: tuple[str, ...] = ()


def install(device: str, egress: Egress, *, pid: int | None = None) -> None:
    """Shape ``device`` (in the network namespace of ``pid``), and check that it is shaped.

    Takes the place of what is there. Raises CommandError or ShapingError.
    """
    rate, burst = f"{egress.rate_bps}bit", f"{egress.burst_bytes}b"
    qdiscs = json.loads(run(["tc", "-j", "qdisc", "show", "dev", device], pid=pid) or "[]")
    # HTB cannot be changed in place; the kernel's own default (handle 0:) cannot be deleted.
    remove = any(q.get("root") and q["handle"] != "0:" for q in qdiscs)
    batch = (
        (f"qdisc del dev {device} root\n" if remove else "")
        + f"qdisc add dev {device} root handle 1: htb default 1\n"
        f"class add dev {device} parent 1: classid 1:1 htb rate {rate} ceil {rate}"
        f" burst {burst} cburst {burst} quantum {FULL_FRAME_BYTES}\n"
        f"qdisc add dev {device} parent 1:1 handle 10: bfifo limit {egress.limit_bytes}\n"
    )
    run(["tc", "-batch", "-"], pid=pid, stdin=batch)
    verify(device, egress, pid=pid)


def installed(device: str, *, pid: int | None = None) -> Installed:
    """Read back what the kernel does with the traffic that leaves ``device``."""
    qdiscs = run(["tc", "-j", "-s", "qdisc", "show", "dev", device], pid=pid)
    classes = run(["tc", "class", "show", "dev", device], pid=pid)
    return parse(qdiscs, classes)


def kinds_installed(*, pid: int | None = None) -> dict[str, tuple[str, ...]]:
    """Read back the kinds of the qdiscs that somebody has put there, by device, of all devices."""
    qdiscs = json.loads(run(["tc", "-j", "qdisc", "show"], pid=pid) or "[]")
    return {
        device: _kinds([qdisc for qdisc in qdiscs if qdisc["dev"] == device])
        for device in {qdisc["dev"] for qdisc in qdiscs}
    }


def parse(qdiscs_json: str, classes_text: str) -> Installed:
    """Put together ``tc -j -s qdisc show`` and ``tc class show`` (which has no JSON) of one device.

    An HTB drop is counted by the leaf and again by the root, so the device's drops are the largest
    count, not the sum.
    """
    qdiscs = json.loads(qdiscs_json or "[]")
    limits = [q["options"]["limit"] for q in qdiscs if q["kind"] == "bfifo"]
    leaf = next(iter(_CLASS.finditer(classes_text)), None)
    return Installed(
        rate_bps=float(leaf["rate"]) * _UNITS[leaf["rate_unit"]] if leaf else None,
        burst_bytes=float(leaf["burst"]) * _SIZES[leaf["burst_unit"]] if leaf else None,
        limit_bytes=limits[0] if limits else None,
        drops=max((q["drops"] for q in qdiscs), default=0),
        kinds=_kinds(qdiscs),
    )


def _kinds(qdiscs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    # Filters hang on clsact, and the kernel's own default is called 0:.
    return tuple(q["kind"] for q in qdiscs if q["kind"] != "clsact" and q.get("handle") != "0:")


def verify(device: str, egress: Egress, *, pid: int | None = None) -> None:
    """Raise ShapingError unless the kernel shapes ``device`` as ``egress`` says."""
    faults = differences(installed(device, pid=pid), egress)
    if faults:
        raise ShapingError(f"{device}: {'; '.join(faults)}")


def differences(found: Installed, asked: Egress) -> list[str]:
    """Return where ``found`` differs from ``asked``, as text; empty when it does not."""
    faults = []
    if found.rate_bps is None:
        faults.append(f"no HTB class, asked for {asked.rate_bps} bit/s")
    elif abs(found.rate_bps - asked.rate_bps) > _RATE_TOLERANCE * asked.rate_bps:
        faults.append(f"rate is {found.rate_bps:.0f} bit/s, asked for {asked.rate_bps}")
    if (
        found.burst_bytes is not None
        and abs(found.burst_bytes - asked.burst_bytes) > _BURST_TOLERANCE * asked.burst_bytes
    ):
        faults.append(f"burst is {found.burst_bytes:.0f} bytes, asked for {asked.burst_bytes}")
    if found.limit_bytes != asked.limit_bytes:
        faults.append(f"buffer is {found.limit_bytes} bytes, asked for {asked.limit_bytes}")
    return faults
