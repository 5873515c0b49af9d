"""ssh: files both ways, compared, and sessions in which what is written comes back, timed."""

import os
import random
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from experiments.soak.programs.http import File, difference
from experiments.soak.programs.work import CheckError, Client, Tally, Times
from experiments.traffic.programs.postgres import USER
from experiments.traffic.programs.rsync import login
from testbed.command import in_network

STALL_S = 2.0
"""An answer of a few bytes that takes longer is a fault."""

WAYS = ("down", "up", "both")
_PATIENCE_S = 120.0
_MOST_FILE_BYTES = 5_000_000
_MOST_ANSWER_BYTES = 200
_MOST_TYPED, _MOST_PAUSE_S = 60, 0.3
_HEARTBEAT_S = 0.25
_WORDS = 400


@dataclass(frozen=True)
class Account:
    """How a host is logged in to: ``login`` are the words before what is to be run there."""

    login: Sequence[str]
    stored: Path

    @classmethod
    def of(cls, server: str, server_folder: Path) -> Self:
        """That of ``server``, whose sshd has ``server_folder``. What is stored goes to a folder
        there."""
        stored = server_folder / "stored"
        stored.mkdir()
        shutil.chown(stored, USER)
        return cls([*login(server_folder), f"{USER}@{server}"], stored)


class Copier:
    """Copies ``files``, which the server can read: from there, to there, and through it."""

    def __init__(
        self,
        account: Account,
        files: Sequence[File],
        pid: int,
        folder: Path,
        tally: Tally,
        seed: str,
    ) -> None:
        self._account, self._pid, self._folder, self._tally = account, pid, folder, tally
        self._files = [file for file in files if file.size_bytes <= _MOST_FILE_BYTES]
        self._rng = random.Random(seed)
        self._ways: list[str] = []
        folder.mkdir()

    def step(self) -> None:
        """Copy one. Raises CheckError if it comes wrong."""
        if not self._ways:
            self._ways = self._rng.sample(WAYS, len(WAYS))
        way, file = self._ways.pop(), self._rng.choice(self._files)
        copy = self._folder / "copy" if way != "up" else self._account.stored / "copy"
        copy.unlink(missing_ok=True)
        match way:
            case "down":
                self._ssh(f"cat {file.path}", stdout=copy)
            case "up":
                self._ssh(f"cat > {copy}", stdin=file.path)
            case _:
                self._ssh("cat", stdin=file.path, stdout=copy)
        if wrong := difference(copy, file):
            raise CheckError(f"{way}: {wrong}")
        self._tally.count("ssh.files")
        self._tally.count("ssh.copied_bytes", file.size_bytes * (2 if way == "both" else 1))

    def _ssh(
        self, command: str, *, stdin: Path = Path(os.devnull), stdout: Path | None = None
    ) -> None:
        argv = [*self._account.login, command]
        client = Client(argv, self._pid, self._folder, stdin=stdin, stdout=stdout)
        client.result(_PATIENCE_S)


class Session:
    """Context manager around a command that writes what it reads."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as complained:
            self._process = subprocess.Popen(
                argv,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complained,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _exc: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def ask(self, content: bytes, patience_s: float = _PATIENCE_S) -> float:
        """Write a few bytes, and wait for them; return how many seconds it took.

        Raises CheckError if others come, or none in time.
        """
        assert self._process.stdin is not None
        begun_s = time.monotonic()
        try:
            self._process.stdin.write(content)
        except BrokenPipeError:
            raise CheckError(f"the session has ended: {self._last_words()}") from None
        came = b""
        while len(came) < len(content):
            came += self._read(begun_s + patience_s, f"no answer after {patience_s:g} s")
        if came != content:
            raise CheckError(f"{content!r} came back as {came!r}")
        return time.monotonic() - begun_s

    def end(self) -> None:
        """End it in order. Raises CheckError if it does not, or says more than it was asked."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise CheckError(f"the session does not end within {_PATIENCE_S:g} s") from None
        assert self._process.stdout is not None
        if rest := self._process.stdout.read():
            raise CheckError(f"{rest!r} came at the end, which was not asked for")
        if status:
            raise CheckError(f"the session ended with status {status}: {self._last_words()}")

    def _read(self, deadline_s: float, late: str) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        if not select.select([pipe], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
            raise CheckError(late)
        part = os.read(pipe, 65536)
        if not part:
            raise CheckError(f"the session has ended: {self._last_words()}")
        return part

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace").strip()[-_WORDS:] or "it said nothing"


@dataclass
class Typist:
    """Sessions of ``argv`` in which somebody types; answers are compared and timed. One that takes
    longer than STALL_S is a fault. ``name`` begins the counts."""

    name: str
    argv: Sequence[str]
    log: Path
    tally: Tally
    stopped: threading.Event
    seed: str
    answers: Times = field(default_factory=Times)
    logins: Times = field(default_factory=Times)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def type(self) -> None:
        """Have one session, of some seconds."""
        self._session(
            lambda _n: self._rng.uniform(0.02, _MOST_PAUSE_S),
            self._rng.randint(_MOST_TYPED // 3, _MOST_TYPED),
        )

    def stay(self) -> None:
        """Have one that goes on until all is stopped, with something to say all the time."""
        self._session(lambda _n: _HEARTBEAT_S, None)

    def _session(self, pause_s: Callable[[int], float], most: int | None) -> None:
        with Session(self.argv, self.log) as session:
            self.logins.add(session.ask(b"\n"))
            self.tally.count(f"{self.name}.sessions")
            asked = 0
            while not self.stopped.is_set() and asked != most:
                self._ask(session)
                asked += 1
                self.stopped.wait(pause_s(asked))
            session.end()
            self.tally.count(f"{self.name}.ended")

    def _ask(self, session: Session) -> None:
        content = self._rng.randbytes(self._rng.randint(1, _MOST_ANSWER_BYTES))
        took_s = session.ask(content)
        self.answers.add(took_s)
        self.tally.count(f"{self.name}.answers")
        self.tally.count(f"{self.name}.echoed_bytes", len(content))
        if took_s > STALL_S:
            self.tally.fault(f"{self.name}: an answer took {took_s:.2f} s")


def typist(
    name: str, account: Account, pid: int, log: Path, tally: Tally,
    stopped: threading.Event, seed: int,
) -> Typist:  # fmt: skip
    """Return one who types at the host of ``pid``, into a session at ``account``."""
    argv = in_network(pid, [*account.login, "cat"])
    return Typist(name, argv, log, tally, stopped, f"{seed} {name}")
