"""Random loss of TCP's data at the ingress of a device, by BPF, which remembers what it has lost.

A filter (``bpf/dataloss.bpf.c``) loses frames that carry data, independently of each other;
handshakes, acknowledgements and ends pass. Which are lost follows from a seed, the connection's
source port, and the frame's number in it. It goes with the device.
"""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from testbed.command import run

OBJECT = Path(__file__).parents[2] / "build" / "bpf" / "dataloss.bpf.o"
REMEMBERED = 64
"""Of each connection's frames so many are remembered one by one."""

_LOSS = struct.Struct("<3Q")
_PORT = struct.Struct("<H")
_CONNECTION = struct.Struct("<Q2I")
_ONE = 1 << 32
_KEY = ("key", "0", "0", "0", "0")


class DataLossError(RuntimeError):
    """There can be no such loss; the text, one line, says what is missing."""


@dataclass(frozen=True)
class Connection:
    """What came of a connection: ``frames`` with data, those that were ``lost`` (bit n: the frame
    of this number, of the first REMEMBERED after those spared), and the most data of a frame."""

    lost: int
    frames: int
    longest_bytes: int


class DataLoss:
    """The filter at the ingress of ``device``, in the network namespace of process ``pid``.

    Raises DataLossError if it has not been built, CommandError if the kernel refuses it.
    """

    def __init__(self, device: str, pid: int | None = None) -> None:
        if not OBJECT.exists():
            raise DataLossError(f"{OBJECT} has not been built: run 'tools/prepare bpf'")
        self._device, self._pid = device, pid
        run(["tc", "qdisc", "add", "dev", device, "clsact"], pid=pid)

    def set(self, share: float, seed: int, spared: int = 0) -> None:
        """Lose this share from now on, but not of the first frames of a connection, so many as are
        ``spared``; and forget what was lost before.

        Raises ValueError unless it is from 0 to 1.
        """
        value = packed(share, seed, spared)
        ingress = ("dev", self._device, "ingress")
        bpf = ("pref", "1", "handle", "1", "bpf", "direct-action", "obj", str(OBJECT), "sec", "tc")
        run(["tc", "filter", "replace", *ingress, *bpf], pid=self._pid)
        shown = json.loads(run(["tc", "-j", "filter", "show", *ingress], pid=self._pid))
        (number,) = (f["options"]["prog"]["id"] for f in shown if "options" in f)
        program = json.loads(run(["bpftool", "-j", "prog", "show", "id", str(number)]))
        maps = (_shown(one) for one in program["map_ids"])
        self._maps = {one["name"]: str(one["id"]) for one in maps}
        words = [str(byte) for byte in value]
        run(["bpftool", "map", "update", "id", self._maps["dataloss"], *_KEY, "value", *words])

    def connections(self) -> dict[int, Connection]:
        """Return what came of each connection that has sent data, by its source port."""
        shown = json.loads(run(["bpftool", "-j", "map", "dump", "id", self._maps["connections"]]))
        return dict(unpacked(_bytes(one["key"]), _bytes(one["value"])) for one in shown)


def packed(share: float, seed: int, spared: int = 0) -> bytes:
    """Return ``struct dataloss``. Raises ValueError unless ``share`` is from 0 to 1."""
    if not 0 <= share <= 1:
        raise ValueError(f"share must be from 0 to 1, not {share}")
    return _LOSS.pack(round(share * _ONE), seed, spared)


def unpacked(key: bytes, value: bytes) -> tuple[int, Connection]:
    """Return an entry of the connections: the source port, and what came from it."""
    return _PORT.unpack(key)[0], Connection(*_CONNECTION.unpack(value))


def _shown(number: int) -> dict[str, str]:
    shown: dict[str, str] = json.loads(run(["bpftool", "-j", "map", "show", "id", str(number)]))
    return shown


def _bytes(words: list[str]) -> bytes:
    return bytes(int(word, 16) for word in words)
