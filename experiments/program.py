"""A process of the workload: it speaks lines of JSON, and ends when its stdin is closed."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_END_TIMEOUT_S = 10.0


class ProgramError(RuntimeError):
    """A process of the workload ended too early or said something else; the text tells."""


class Program:
    """Context manager around ``python -m MODULE ARGS...``, in the namespace of ``pid`` if given.

    What it writes on stderr goes to ``log``. On leaving, it is killed if it has not ended.
    """

    def __init__(
        self, module: str, args: Sequence[str], *, log: Path, pid: int | None = None
    ) -> None:
        enter = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]
        self._name = module.rpartition(".")[2]
        self._log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*enter, sys.executable, "-m", module, *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    @property
    def pid(self) -> int:
        """Of the process, for as long as it has not been left."""
        return self._process.pid

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what it says, until it ends. Raises ProgramError if it does not end well."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)
        if self._process.wait(_END_TIMEOUT_S) != 0:
            raise ProgramError(f"{self._name} failed: {self._last_words()}")

    def expect(self, event: str) -> dict[str, Any]:
        """Return its next message, which is to be ``event``. Raises ProgramError otherwise."""
        message = next(self.messages(), None)
        if message is None or message["event"] != event:
            raise ProgramError(f"{self._name} did not say {event!r}: {self._last_words()}")
        return message

    def tell(self, line: str) -> None:
        """Write it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def finish(self) -> None:
        """Ask it to end, by closing its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _last_words(self) -> str:
        lines = self._log.read_text().splitlines()
        return lines[-1] if lines else "it said nothing"
