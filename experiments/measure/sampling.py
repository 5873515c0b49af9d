"""Samples during a run: the bytes at the far end, the processors' time."""

import threading
import time
from pathlib import Path
from typing import Any

import psutil

PERIOD_S = 0.1
# What a processor's time is spent for. That of guests is in "user" and "nice" as well.
_KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


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
    """The load of the machine, and how long a process waited for a processor, since creation."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._machine = psutil.cpu_times()
        self._scheduled = _schedstat(pid)
        self._since_ns = time.monotonic_ns()

    def as_record(self) -> dict[str, Any]:
        """Return shares between 0 and 1: of all processors' time, and of the process's."""
        elapsed_ns = time.monotonic_ns() - self._since_ns
        ran_ns, waited_ns = (
            now - then for now, then in zip(_schedstat(self._pid), self._scheduled, strict=True)
        )
        return {
            "idle_share": share_of_processors(self._machine, "idle", "iowait"),
            "stolen_share": share_of_processors(self._machine, "steal"),
            "switch_run_share": ran_ns / elapsed_ns,
            "switch_wait_share": waited_ns / elapsed_ns,
        }


class Stolen:
    """The processor time that a hypervisor gave to others, since creation."""

    def __init__(self) -> None:
        self._machine = psutil.cpu_times()

    def share(self) -> float:
        """Return it as a share of all, between 0 and 1."""
        return share_of_processors(self._machine, "steal")


def share_of_processors(since: Any, *kinds: str) -> float:
    """Return the share of all processors' time that went to ``kinds`` (fields of
    psutil.cpu_times) after ``since`` was read."""
    now = psutil.cpu_times()
    spent_s = {kind: getattr(now, kind) - getattr(since, kind) for kind in _KINDS}
    return sum(spent_s[kind] for kind in kinds) / max(1e-3, sum(spent_s.values()))


def _schedstat(pid: int) -> tuple[int, int]:
    """Return how long the main thread of ``pid`` ran and waited to run, in ns."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran), int(waited)
