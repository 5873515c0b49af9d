"""What the workers of the soak share: counts and faults of all threads, and how a client runs."""

import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

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


class Worker(threading.Thread):
    """Calls ``step`` until ``stopped`` is set. What it raises is a fault, and it goes on."""

    def __init__(
        self, name: str, step: Callable[[], None], tally: Tally, stopped: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._step, self._tally, self._stopped = step, tally, stopped

    def run(self) -> None:
        """See threading.Thread."""
        while not self._stopped.is_set():
            try:
                self._step()
            except Exception as wrong:
                kind = "" if isinstance(wrong, CheckError) else f"{type(wrong).__name__}: "
                self._tally.fault(f"{self.name}: {kind}{wrong}")
                self._stopped.wait(_PAUSE_S)


class Client:
    """A client program on the host of ``pid``, with ``folder`` as its working directory."""

    def __init__(self, argv: Sequence[str], pid: int, folder: Path) -> None:
        self._name = Path(argv[0]).name
        self._process = subprocess.Popen(
            in_network(pid, argv),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
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
        """Wait for its end; return what it wrote to stdout.

        Raises CheckError if it ended with another status than ``expected``, or not in time.
        """
        try:
            said, complained = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, complained = self._process.communicate()
            text = (complained.strip() or said.strip())[-_WORDS:]
            raise CheckError(
                f"{self._name} hangs: not ended after {timeout_s:g} s: {text}"
            ) from None
        status = self._process.returncode
        if status not in expected:
            text = (complained.strip() or said.strip())[-_WORDS:]
            raise CheckError(f"{self._name} ended with status {status}: {text}")
        return said
