"""PostgreSQL and pgbench."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from experiments.traffic.programs.app import (
    SECONDS,
    App,
    AppError,
    Result,
    Service,
    of_times,
    program,
)
from testbed.command import run

USER = "postgres"
_PACKAGE = "postgresql"
_ACCESS = "local all all trust\nhost all all all trust\n"
_RATE = re.compile(r"^tps = ([\d.]+) ", re.MULTILINE)
_FAILED = re.compile(r"number of failed transactions: (\d+)")


def as_user() -> list[str]:
    """Return the words that make a command line one of PostgreSQL's user: it refuses root."""
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]


class Postgres(Service):
    """A cluster of its own in memory, which nothing but the network can slow down."""

    name = "postgres"
    port = 5432

    def prepare(self, folder: Path) -> None:
        """See Service."""
        shutil.chown(folder, USER)
        words = ("-A", "trust", "--no-sync", "--no-instructions", "-U", USER)
        initdb = program("initdb", _PACKAGE)
        run([*as_user(), initdb, "-D", str(folder / "data"), *words], timeout_s=60)
        (folder / "data/pg_hba.conf").write_text(_ACCESS)

    def argv(self, folder: Path) -> list[str]:
        """See Service."""
        server = program("postgres", _PACKAGE)
        settings = {
            "listen_addresses": "*",
            "unix_socket_directories": str(folder),
            "fsync": "off",
            "max_connections": "300",
        }
        words = [word for pair in settings.items() for word in ("-c", "=".join(pair))]
        return [*as_user(), server, "-D", str(folder / "data"), *words]


SERVER = Postgres()


@dataclass(frozen=True)
class Pgbench(App):
    """Its transactions over ``connections``: reads of a row, or with ``writes`` what it does by
    default; with ``reconnect`` a connection for each."""

    connections: int
    writes: bool = False
    reconnect: bool = False

    service: ClassVar[Service] = SERVER

    @property
    def name(self) -> str:
        """See App."""
        what = "tpcb" if self.writes else "select"
        return f"pgbench_{what}_c{self.connections}{'_connection_each' * self.reconnect}"

    def fill(self, folder: Path) -> Sequence[Sequence[str]]:
        """The tables, of the smallest size."""
        words = ("-i", "-q", "-s", "1", "-h", str(folder), "-U", USER, USER)
        return ((program("pgbench", _PACKAGE), *words),)

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:  # noqa: ARG002
        """See App."""
        (server,) = servers
        options = ["-S"] * (not self.writes) + ["-C"] * self.reconnect
        return [
            *(program("pgbench", _PACKAGE), "-n", *options, "-c", str(self.connections)),
            *("-T", str(SECONDS), "-l", f"--log-prefix={folder / 'transactions'}"),
            *("-h", server, "-p", str(SERVER.port), "-U", USER, USER),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App. A transaction's time is without the opening of its connection."""
        rate, failed = _RATE.search(said), _FAILED.search(said)
        if rate is None or failed is None:
            raise AppError(f"pgbench reports no transactions: {said[-500:]}")
        if int(failed[1]):
            raise AppError(f"pgbench: {failed[1]} transactions failed")
        logs = folder.glob("transactions.*")
        rows = [row for log in logs for row in log.read_text().splitlines()]
        return of_times(float(rate[1]), [int(row.split()[2]) / 1e3 for row in rows])
