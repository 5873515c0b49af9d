"""Random loss and RED at the egress of a device, by BPF, since few kernels have netem and RED.

A filter before the device's queue (``bpf/bottleneck.bpf.c``) decides what becomes of each IPv4
frame. Which frames are lost follows from a seed and their numbers. It goes with the device.
"""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from testbed.command import run

OBJECT = Path(__file__).parents[2] / "build" / "bpf" / "bottleneck.bpf.o"
_LAYOUT = struct.Struct("<5Q8I6Q")
# The kernel's lock, and its alignment.
_LOCK_BYTES = 8
_ONE_LOSS, _ONE_RED = 1 << 32, 1 << 16
_KEY = ("key", "0", "0", "0", "0")


class BottleneckError(RuntimeError):
    """There can be no such bottleneck; the text, one line, says what is missing."""


@dataclass(frozen=True)
class Loss:
    """A ``share`` of all frames, in bursts of ``burst`` on average.

    A chain of two states (Gilbert 1960): netem's ``loss gemodel`` with nothing lost in the good
    state and everything in the bad one. Without ``burst`` frames are lost independently.
    """

    share: float = 0.0
    burst: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share must be from 0 to 1, not {self.share}")
        if self.burst is not None and self.burst < 1:
            raise ValueError(f"burst must be at least 1, not {self.burst}")
        if self.after_kept > 1:
            raise ValueError(f"bursts of {self.burst} cannot be as rare as {self.share} asks for")

    @property
    def after_lost(self) -> float:
        """The share lost of the frames that follow a lost one."""
        return self.share if self.burst is None else 1 - 1 / self.burst

    @property
    def after_kept(self) -> float:
        """The share lost of the others. The chain is in the bad state ``share`` of the time."""
        return self.share * (1 - self.after_lost) / (1 - self.share)


@dataclass(frozen=True)
class Red:
    """RED (Floyd and Jacobson 1993): no drops while the queue's average is below ``min_bytes``, a
    share up to ``max_p`` below ``max_bytes``, and all above. The weight of the queue's length in
    its average is 2 to the power of -``weight_shift``."""

    min_bytes: int
    max_bytes: int
    max_p: float
    weight_shift: int


@dataclass(frozen=True)
class Counts:
    """Frames to the first receiver, 10.0.0.2, or to all others: ``seen``, ``lost`` at random and
    ``red`` dropped by RED."""

    seen: int
    lost: int
    red: int


@dataclass(frozen=True)
class Seen:
    """What became of frames to ``first`` and to the ``others``, and the length of the longest."""

    first: Counts
    others: Counts
    longest_bytes: int


def packed(loss: Loss, red: Red | None, seed: int, rate_bps: int) -> bytes:
    """Return ``struct bottleneck`` at its beginning, for a link of ``rate_bps``."""
    frame_ns = round(1000 * 8e9 / rate_bps)
    thresholds = (
        (red.min_bytes, red.max_bytes, round(red.max_p * _ONE_RED), red.weight_shift)
        if red
        else (0, 0, 0, 0)
    )
    shares = (round(loss.after_kept * _ONE_LOSS), round(loss.after_lost * _ONE_LOSS))
    return _LAYOUT.pack(*shares, seed, 0, frame_ns, *thresholds, 0, 0, 0, 0, *(0,) * 6)


def unpacked(value: bytes) -> Seen:
    """Return what ``struct bottleneck`` has counted."""
    fields = _LAYOUT.unpack_from(value)
    first, others = (Counts(*fields[which::2]) for which in (-6, -5))
    return Seen(first, others, fields[12])


class Bottleneck:
    """The filter at the egress of ``device``, whose queue is set, in the network namespace of
    ``pid`` (None: this one).

    Raises BottleneckError if it has not been built, CommandError if the kernel refuses it.
    """

    def __init__(self, device: str, rate_bps: int, pid: int | None = None) -> None:
        if not OBJECT.exists():
            raise BottleneckError(f"{OBJECT} has not been built: run 'tools/prepare bpf'")
        self._rate_bps = rate_bps
        run(["tc", "qdisc", "add", "dev", device, "clsact"], pid=pid)
        bpf = ("bpf", "direct-action", "obj", str(OBJECT), "sec", "tc")
        run(["tc", "filter", "add", "dev", device, "egress", *bpf], pid=pid)
        shown = json.loads(run(["tc", "-j", "filter", "show", "dev", device, "egress"], pid=pid))
        (number,) = (f["options"]["prog"]["id"] for f in shown if "options" in f)
        program = json.loads(run(["bpftool", "-j", "prog", "show", "id", str(number)]))
        (self._map,) = (str(one) for one in program["map_ids"])

    def set(self, loss: Loss, red: Red | None, seed: int = 1) -> None:
        """Have it decide so from now on, and count from zero."""
        value = packed(loss, red, seed, self._rate_bps) + bytes(_LOCK_BYTES)
        words = [str(byte) for byte in value]
        run(["bpftool", "map", "update", "id", self._map, *_KEY, "value", *words])

    def seen(self) -> Seen:
        """Return what it has counted."""
        shown = json.loads(run(["bpftool", "-j", "map", "lookup", "id", self._map, *_KEY]))
        return unpacked(bytes(int(byte, 16) for byte in shown["value"]))
