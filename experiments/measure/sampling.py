"""What is read again and again while a run lasts: the far end's bytes, the processors' time."""

import os
import threading
import time
from pathlib import Path
from typing import Any

PERIOD_S = 0.1
_IDLE = (3, 4)  # idle and iowait, of the fields of /proc/stat's first line
_STEAL = 7


class Sampler:
    """Reads the bytes that come in at a device every ``PERIOD_S``, in a thread of its own.

    ``device`` is a device of the network namespace of process ``pid``.
    """

    def __init__(self, pid: int | str, device: str) -> None:
        self._source = Path(f"/proc/{pid}/net/dev")
        self._device = device
        self._samples: list[tuple[int, int]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._thread.join()

    def as_record(self) -> dict[str, list[int]]:
        """Return the samples: times and bytes received by then."""
        return {"time_ns": [t for t, _ in self._samples], "bytes": [b for _, b in self._samples]}

    def _run(self) -> None:
        while not self._end.wait(PERIOD_S):
            count = parse_received(self._source.read_text(), self._device)
            self._samples.append((time.monotonic_ns(), count))


def parse_received(text: str, device: str) -> int:
    """Parse /proc/net/dev: the bytes that ``device`` has received. Raises KeyError without it."""
    for line in text.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        if name.strip() == device:
            return int(numbers.split()[0])
    raise KeyError(device)


class Processors:
    """How busy the machine was, and how long a process waited for a processor, since creation."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stat = _stat()
        self._scheduled = _schedstat(pid)
        self._since_ns = time.monotonic_ns()

    def as_record(self) -> dict[str, Any]:
        """Return shares between 0 and 1: of all processors' time, and of the process's."""
        elapsed_ns = time.monotonic_ns() - self._since_ns
        spent = [now - then for now, then in zip(_stat(), self._stat, strict=True)]
        ran_ns, waited_ns = (
            now - then for now, then in zip(_schedstat(self._pid), self._scheduled, strict=True)
        )
        return {
            "idle_share": sum(spent[i] for i in _IDLE) / max(1, sum(spent)),
            "switch_run_share": ran_ns / elapsed_ns,
            "switch_wait_share": waited_ns / elapsed_ns,
        }


class Stolen:
    """What a hypervisor has given to others of the processors' time, since creation."""

    def __init__(self) -> None:
        self._stat = _stat()

    def share(self) -> float:
        """Return it as a share of all, between 0 and 1."""
        spent = [now - then for now, then in zip(_stat(), self._stat, strict=True)]
        return spent[_STEAL] / max(1, sum(spent))


def processor_s(pid: int) -> float:
    """Return the processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ended_children_s() -> float:
    """Return the processor time that the children of this process have had which have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _stat() -> list[int]:
    first = Path("/proc/stat").read_text().splitlines()[0]
    return [int(field) for field in first.split()[1:9]]


def _schedstat(pid: int) -> tuple[int, int]:
    """Return for how long the main thread of ``pid`` ran and waited to run, in ns."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran), int(waited)
