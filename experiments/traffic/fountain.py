"""The command ``fountain`` as a workload: servers, each a process of its own, and a client that
fetches from all of them at once; a receiver, and its senders.

Its output counts only if it is complete; the network's own counters stand beside it
(``experiments.measure.observation``).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from experiments.traffic.program import Command, ProgramError
from testbed import builds

PORT = 7000


class FountainError(RuntimeError):
    """The command cannot be found, or said something unexpected."""


@dataclass(frozen=True)
class Mode:
    """How a client fetches over LTTP: who paces the servers ("client": it grants them rates;
    "tfrc": each server for itself) and the payload of a symbol in bytes ("mtu": the largest that
    fits)."""

    serve: ClassVar = "serve"
    pacing: str = "client"
    symbol_bytes: int | str = 1024


@dataclass(frozen=True)
class AtpMode:
    """How a client fetches over ATP: with ``parity`` from the servers, or without."""

    serve: ClassVar = "atp-serve"
    parity: bool = True

    @property
    def options(self) -> list[str]:
        """What both ends are told."""
        return [] if self.parity else ["--no-parity"]


@dataclass(frozen=True)
class Place:
    """Where a server runs: in the network namespace of ``pid``, at ``address`` and ``port``."""

    pid: int | None
    address: str
    port: int


@dataclass(frozen=True)
class Server:
    """A server that listens: ``endpoint`` is ADDRESS:PORT, ``pid`` its process, ``fingerprint``
    that of its certificate, None if it encrypts nothing."""

    endpoint: str
    pid: int
    fingerprint: str | None


@dataclass(frozen=True)
class Rounds:
    """What a fetch reports: seconds and bytes of each round, and ``said``, the message that this
    was taken from."""

    round_s: tuple[float, ...]
    round_bytes: tuple[int, ...]
    said: Mapping[str, Any]

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """Parse the last message of a fetch. Raises FountainError if it is another."""
        try:
            if message["event"] != "done":
                raise ValueError(f"event is {message['event']!r}")
            fetched = cls(**cls._fields(message))
            if min(fetched.round_s, default=0) <= 0:
                raise ValueError("a round without a duration, or no round")
        except (KeyError, TypeError, ValueError) as wrong:
            said = json.dumps(message)[:200]
            raise FountainError(f"not the end of a fetch ({wrong!r}): {said}") from wrong
        return fetched

    @classmethod
    def _fields(cls, message: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "round_s": tuple(float(one["seconds"]) for one in message["rounds"]),
            "round_bytes": tuple(int(one["bytes"]) for one in message["rounds"]),
            "said": message,
        }

    @property
    def goodput_mbps(self) -> float:
        """Bytes of all rounds over the time they took."""
        return sum(self.round_bytes) * 8e-6 / sum(self.round_s)


@dataclass(frozen=True)
class Fetched(Rounds):
    """What ``fountain fetch`` reports: also the symbols of all rounds."""

    symbols_received: int
    symbols_needed: int
    symbols_lost: int

    @classmethod
    def _fields(cls, message: Mapping[str, Any]) -> dict[str, Any]:
        names = ("symbols_received", "symbols_needed", "symbols_lost")
        return super()._fields(message) | {name: int(message[name]) for name in names}

    @property
    def overhead(self) -> float:
        """Symbols that came beyond those that the objects have, as a share of these."""
        return self.symbols_received / self.symbols_needed - 1


def find_fountain() -> Path:
    """Return the command: that of $WEIR_TRANSPORT_PREFIX, else of the build asked for last.

    Raises FountainError if there is none.
    """
    return find("fountain")


def find(name: str) -> Path:
    """Return a command of the transports' build. Raises FountainError if there is none."""
    built = builds.transport()
    if built is None:
        raise FountainError(f"no build of {name} in {builds.cache()}: run 'make transport'")
    command = built / "bin" / name
    if not command.exists():
        raise FountainError(f"no bin/{name} in {built}: run 'make transport'")
    return command


@contextmanager
def servers(
    folder: Path,
    places: Sequence[Place],
    log: Path,
    *,
    serve: str = Mode.serve,
    secure: bool = True,
    prefix: Sequence[str] = (),
    options: Sequence[str] = (),
    ends: list[dict[str, Any]] | None = None,
) -> Iterator[list[Server]]:
    """Context manager: a process at each of ``places`` serves ``folder``, with these ``options``;
    ``serve`` is what fountain calls it.

    ``prefix`` goes before the command, as in ``("taskset", "1")``. ``ends`` gets the last message
    of each. Raises ProgramError if one does not listen, or does not end well when told to.
    """
    command = str(find_fountain())
    with ExitStack() as stack:
        started = []
        for place in places:
            listen = f"--listen={place.address}:{place.port}"
            argv = [*prefix, command, serve, str(folder), listen, "--json", *options]
            argv += [] if secure else ["--insecure"]
            process = Command(argv, name=f"fountain {serve} {listen}", log=log, pid=place.pid)
            started.append(stack.enter_context(process))
        listening = []
        for place, process in zip(places, started, strict=True):
            fingerprint = process.expect("listening")["fingerprint"]
            listening.append(Server(f"{place.address}:{place.port}", process.pid, fingerprint))
            process.ignore()
        yield listening
        for process in started:
            if status := process.terminate():
                raise ProgramError(f"fountain {serve} ended with status {status}")
            if ends is not None:
                ends.append(process.last_message())


@contextmanager
def receiver(inbox: Path, place: Place, log: Path, *, decode: bool = True) -> Iterator[Server]:
    """Context manager: a process at ``place`` receives and keeps nothing; without ``decode`` it
    restores nothing either.

    Raises ProgramError if it does not listen, or does not end well when told to.
    """
    listen = f"{place.address}:{place.port}"
    argv = [str(find_fountain()), "recv", str(inbox), f"--listen={listen}", "--discard", "--json"]
    argv += ["--anyone"] if decode else ["--anyone", "--no-decode"]
    with Command(argv, name="fountain recv", log=log, pid=place.pid) as process:
        fingerprint = process.expect("listening")["fingerprint"]
        process.ignore()
        yield Server(listen, process.pid, fingerprint)
        if status := process.terminate():
            raise ProgramError(f"fountain recv ended with status {status}")


def make_hollow(file: Path, size_bytes: int) -> None:
    """Make a file to be sent, of zeros: nothing of it is stored."""
    with file.open("wb") as written:
        written.truncate(size_bytes)


def send_argv(to: Server, path: Path, rate: Sequence[str]) -> list[str]:
    """Return the command that sends ``path``; ``rate`` are the options that say how fast."""
    return [
        *(str(find_fountain()), "send", to.endpoint, str(path), "--json"),
        *(f"--fingerprint={to.fingerprint}", *rate),
    ]


def fetch_argv(
    servers: Sequence[Server], path: str, mode: Mode | AtpMode, *, rounds: int
) -> list[str]:
    """Return the command that fetches ``path`` from every server, ``rounds`` times in step."""
    if isinstance(mode, AtpMode):
        return [
            str(find_fountain()), "atp-get",
            *(f"atp://{server.endpoint}/{path}" for server in servers),
            "--discard", f"--rounds={rounds}", "--json",
            *(f"--fingerprint={server.fingerprint}" for server in servers), *mode.options,
        ]  # fmt: skip
    known = [f"--fingerprint={server.fingerprint}" for server in servers if server.fingerprint]
    return [
        str(find_fountain()), "fetch", *(f"{server.endpoint}/{path}" for server in servers),
        "--discard", f"--rounds={rounds}", "--barrier", "--json", *(known or ["--insecure"]),
        f"--pacing={mode.pacing}", f"--symbol-bytes={mode.symbol_bytes}",
    ]  # fmt: skip


def fetch(
    argv: Sequence[str], log: Path, *, pid: int | None = None, timeout_s: float = 120.0
) -> Fetched:
    """Run ``fountain fetch``, in the namespace of ``pid``, to its end.

    Raises ProgramError if it does not end well and in time, FountainError if it does not say how it
    ended.
    """
    return Fetched.from_message(_end("fetch", argv, log, pid, timeout_s))


def atp_get(
    argv: Sequence[str], log: Path, *, pid: int | None = None, timeout_s: float = 120.0
) -> Rounds:
    """Run ``fountain atp-get`` as ``fetch`` does the other."""
    return Rounds.from_message(_end("atp-get", argv, log, pid, timeout_s))


def _end(
    what: str, argv: Sequence[str], log: Path, pid: int | None, timeout_s: float
) -> Mapping[str, Any]:
    last: Mapping[str, Any] = {"event": None}
    with Command(argv, name=f"fountain {what}", log=log, pid=pid) as process:
        for message in process.messages(timeout_s):
            last = message
    return last
