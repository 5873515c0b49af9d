"""A program of the benchmark: how its server starts, how its client runs, what it reports."""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import ClassVar

from experiments.statistics import percentile

# Debian keeps servers out of a user's PATH, and PostgreSQL's programs out of everybody's.
_SEARCHED = (os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin")
_POSTGRES = Path("/usr/lib/postgresql")

REQUESTS, MBPS = "requests_per_s", "mbps"
"""What throughput is counted in; it is the name of the figure as well."""

SECONDS = 2
"""How long a program runs, where it has an option for that."""


class AppError(RuntimeError):
    """A program is missing or has failed; the text says which, and what it said."""


@dataclass(frozen=True)
class Result:
    """What a client reports of its run: throughput in the unit of its app, and times of a request
    in ms, where it reports them. ``parts`` are those of the throughput, by name."""

    throughput: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


class Service(ABC):
    """A server program. Apps that share one share a running server."""

    name: ClassVar[str]
    port: ClassVar[int]

    def prepare(self, folder: Path) -> None:  # noqa: B027  (most need nothing)
        """Write into ``folder``, the server's own, what it needs before it starts."""

    @abstractmethod
    def argv(self, folder: Path) -> list[str]:
        """Return its command line. It stays in the foreground."""


class App(ABC):
    """A client program and its parameters, against ``service``."""

    service: ClassVar[Service]
    unit: ClassVar[str] = REQUESTS
    patience_s: ClassVar[float] = 120
    """After so long a client has failed."""
    same_work: ClassVar[bool] = False
    """Whether a client does so much, rather than what it can in so long a time."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in figures: letters, digits and underscores."""

    def fill(self, folder: Path) -> Sequence[Sequence[str]]:  # noqa: ARG002
        """Return the commands, run at the server, that store what clients ask for."""
        return ()

    @abstractmethod
    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:
        """Return the client's command line. ``servers`` are their addresses, usually one, and
        ``folder`` is its own and its working directory."""

    @abstractmethod
    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:
        """Return what a client reported on stdout and in ``folder`` after ``elapsed_s``.

        Raises AppError where it did not do what it was asked for.
        """

    def together(self, results: Sequence[Result]) -> Result:
        """Return the result of several clients that ran at the same time: throughput is added up,
        p50 is the median of theirs, p99 and p99.9 are the largest.

        Where each does the same work, all is done when the slowest has finished: to add up what
        each had as long as it ran would count the same time more than once.
        """
        if len(results) == 1:
            return results[0]
        each = [one.throughput for one in results]
        return Result(
            len(each) * min(each) if self.same_work else sum(each),
            _of(median, [one.p50_ms for one in results]),
            _of(max, [one.p99_ms for one in results]),
            _of(max, [one.p999_ms for one in results]),
        )


def program(name: str, package: str) -> str:
    """Return the full name of a program. Raises AppError saying which package has it."""
    newest = sorted(_POSTGRES.glob("*/bin"), key=lambda path: float(path.parent.name))[-1:]
    found = shutil.which(name, path=os.pathsep.join([*_SEARCHED, *map(str, newest)]))
    if found is None:
        raise AppError(f"no {name} here: run 'tools/prepare apps' (Debian package {package})")
    return found


def of_times(throughput: float, times_ms: Sequence[float]) -> Result:
    """Compute a result from the times of all requests. Raises AppError if there are none."""
    if not times_ms:
        raise AppError("no request was answered")
    ordered = sorted(times_ms)
    p50, p99, p999 = (percentile(ordered, percent) for percent in (50, 99, 99.9))
    return Result(throughput, p50, p99, p999)


def size_name(size_bytes: int) -> str:
    """Return a size in as few characters as it takes: 3b, 25kb, 1mb."""
    for unit, name in ((1_000_000, "mb"), (1000, "kb")):
        if size_bytes >= unit and size_bytes % unit == 0:
            return f"{size_bytes // unit}{name}"
    return f"{size_bytes}b"


def as_host(address: str) -> str:
    """Return an address as a URL has it."""
    return f"[{address}]" if ":" in address else address


def _of(how: Callable[[Sequence[float]], float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return how(known) if known else None
