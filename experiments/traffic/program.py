"""A process of the workload, which speaks lines of JSON."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from testbed.command import in_network

_END_TIMEOUT_S = 10.0


class ProgramError(RuntimeError):
    """A process of the workload ended too early or said something unexpected."""


class Command:
    """Context manager around the command ``argv``, in the namespace of ``pid`` if given.

    What it writes on stderr goes to ``log``. On leaving, it is killed if it has not ended.
    """

    def __init__(
        self, argv: Sequence[str], *, name: str, log: Path, pid: int | None = None
    ) -> None:
        self._name = name
        self._log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                argv if pid is None else in_network(pid, argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self._drain: threading.Thread | None = None
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._drain is not None:
            self._drain.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    @property
    def pid(self) -> int:
        """The process id, until it is left."""
        return self._process.pid

    def running(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    def messages(self, timeout_s: float | None = None) -> Iterator[dict[str, Any]]:
        """Yield its messages, until it ends.

        Raises ProgramError if it does not end well, or is still there after ``timeout_s``.
        """
        assert self._process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(timeout_s or 0, end)
        if timeout_s is not None:
            timer.start()
        try:
            for line in self._process.stdout:
                yield json.loads(line)
            status = self._process.wait(_END_TIMEOUT_S)
        finally:
            timer.cancel()
        if late.is_set():
            raise ProgramError(f"{self._name} has not ended after {timeout_s:g} s")
        if status != 0:
            raise ProgramError(f"{self._name} failed: {self._last_words()}")

    def expect(self, event: str) -> dict[str, Any]:
        """Return its next message. Raises ProgramError unless that is ``event``."""
        message = next(self.messages(), None)
        if message is None or message["event"] != event:
            raise ProgramError(f"{self._name} did not say {event!r}: {self._last_words()}")
        return message

    def ignore(self) -> None:
        """Discard its output from now on but for ``last_message``, so that it never waits for a
        reader."""
        self._drain = threading.Thread(target=self._read_to_end, daemon=True)
        self._drain.start()

    def tell(self, line: str) -> None:
        """Send it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def finish(self) -> None:
        """Ask it to end, by closing its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def terminate(self) -> int:
        """End it by SIGTERM; return its exit status.

        Raises ProgramError if it does not end in time.
        """
        self._process.terminate()
        return self.await_end()

    def await_end(self) -> int:
        """Return its exit status, that of a signal being negative, when it has ended.

        Raises ProgramError if it does not end in time.
        """
        try:
            return self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired as late:
            raise ProgramError(f"{self._name} does not end when it is told to") from late

    def last_message(self) -> dict[str, Any]:
        """Return the last message of a process that has ended, and was ignored: {} if none came."""
        assert self._drain is not None
        self._drain.join()
        message: dict[str, Any] = json.loads(self._last or "{}")
        return message

    def _read_to_end(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._last = line

    def _last_words(self) -> str:
        lines = self._log.read_text().splitlines()
        return lines[-1] if lines else "it said nothing"


class Program(Command):
    """``python -m MODULE ARGS...``, one of ours: it ends when its stdin is closed."""

    def __init__(
        self, module: str, args: Sequence[str], *, log: Path, pid: int | None = None
    ) -> None:
        name = module.rpartition(".")[2]
        super().__init__([sys.executable, "-m", module, *args], name=name, log=log, pid=pid)
