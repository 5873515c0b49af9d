"""What the workers of a soak share: counts, times and faults of all threads; how a client runs."""

import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from experiments.statistics import percentile
from testbed.command import in_network

_MOST_FAULTS = 100
_PAUSE_S = 1.0
_WORDS = 400


class CheckError(Exception):
    """A check failed, or a client did; the text is the fault."""


class Tally:
    """Counts and faults, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._faults: list[str] = []
        self._closed = False

    def close(self) -> None:
        """Ignore faults from now on: what follows the end of a server is no news."""
        with self._lock:
            self._closed = True

    def count(self, name: str, by: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self._counts[name] += by

    def fault(self, text: str) -> None:
        """Record what is wrong. Beyond a number of faults they are only counted."""
        with self._lock:
            if self._closed:
                return
            self._counts["faults"] += 1
            if len(self._faults) < _MOST_FAULTS:
                self._faults.append(text)

    def counts(self) -> Counter[str]:
        """Return a copy of the counts."""
        with self._lock:
            return Counter(self._counts)

    def faults(self) -> list[str]:
        """Return a copy of the faults."""
        with self._lock:
            return list(self._faults)


class Times:
    """How long something took, each time, for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times_s: list[float] = []

    def add(self, time_s: float) -> None:
        """Add one."""
        with self._lock:
            self._times_s.append(time_s)

    def figures(self) -> dict[str, float]:
        """Return how many there are, and what they are like, in ms: {} if there are none."""
        with self._lock:
            times_s = sorted(self._times_s)
        if not times_s:
            return {}
        values = {f"p{percent:g}_ms": percentile(times_s, percent) for percent in (50, 99, 99.9)}
        values["longest_ms"] = times_s[-1]
        rounded = {name: round(value * 1e3, 1) for name, value in values.items()}
        return {"count": len(times_s)} | rounded


class Worker(threading.Thread):
    """Calls ``step`` until ``stopped`` is set, after each ``pause_s``. What it raises is a fault,
    and it goes on."""

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        tally: Tally,
        stopped: threading.Event,
        pause_s: float = 0.0,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._step, self._tally, self._stopped = step, tally, stopped
        self._pause_s = pause_s

    def run(self) -> None:
        """See threading.Thread."""
        while not self._stopped.is_set():
            try:
                self._step()
                if self._pause_s:
                    self._stopped.wait(self._pause_s)
            except Exception as wrong:
                kind = "" if isinstance(wrong, CheckError) else f"{type(wrong).__name__}: "
                self._tally.fault(f"{self.name}: {kind}{wrong}")
                self._stopped.wait(_PAUSE_S)


class Client:
    """A client program on the host of ``pid``, with ``folder`` as its working directory. It reads
    the file ``stdin`` and writes the file ``stdout``, if given."""

    def __init__(
        self,
        argv: Sequence[str],
        pid: int,
        folder: Path,
        *,
        stdin: Path = Path(os.devnull),
        stdout: Path | None = None,
    ) -> None:
        self._name = Path(argv[0]).name
        with ExitStack() as stack:
            written = stdout and stack.enter_context(stdout.open("wb"))
            self._process = subprocess.Popen(
                in_network(pid, argv),
                cwd=folder,
                stdin=stack.enter_context(stdin.open("rb")),
                stdout=written or subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )

    def signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def result(self, timeout_s: float, *, expected: Sequence[int] = (0,)) -> str:
        """Wait for its end; return what it wrote to stdout, if that is no file.

        Raises CheckError if it ended with another status than ``expected``, or not in time.
        """
        try:
            said, complained = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, complained = self._process.communicate()
            text = (complained.strip() or (said or "").strip())[-_WORDS:]
            raise CheckError(
                f"{self._name} hangs: not ended after {timeout_s:g} s: {text}"
            ) from None
        status = self._process.returncode
        if status not in expected:
            text = (complained.strip() or (said or "").strip())[-_WORDS:]
            raise CheckError(f"{self._name} ended with status {status}: {text}")
        return said or ""
