"""pgbench, and the sums that must agree after each of its runs."""

import hashlib
import re
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.soak.programs.work import CheckError, Client, Tally
from experiments.traffic.programs.app import program
from experiments.traffic.programs.postgres import SERVER, USER

SCALE = 2
_PACKAGE = "postgresql"
_PROCESSED = re.compile(r"number of transactions actually processed: (\d+)")
_FAILED = re.compile(r"number of failed transactions: (\d+)")
_WAYS: Sequence[Sequence[str]] = ((), ("-M", "prepared"), ("-C",), ("-M", "extended"))
_CONNECTIONS = 8
_PATIENCE_S = 120
_POLL_S = 0.2
_SUMS = """\
select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
    (select sum(bbalance) from pgbench_branches), coalesce(sum(delta), 0), count(*)
from pgbench_history
"""
_ACCOUNTS = "copy (select * from pgbench_accounts order by aid) to stdout"


@dataclass(frozen=True)
class Balance:
    """The sums of the tables of pgbench, the number of rows in its history, and of the
    transactions that it has reported as processed, all since the beginning."""

    accounts: int
    tellers: int
    branches: int
    history: int
    rows: int
    reported: int

    @property
    def fault(self) -> str | None:
        """Describe what does not agree; None if all does."""
        sums = (self.accounts, self.tellers, self.branches, self.history)
        if len(set(sums)) > 1:
            return f"balances differ: accounts, tellers, branches and history have {sums}"
        if self.rows != self.reported:
            return f"the history has {self.rows} transactions, pgbench has done {self.reported}"
        return None


def fill_argv(socket: Path) -> list[str]:
    """Return the command that makes the tables."""
    words = ("-i", "-q", "-s", str(SCALE), "-h", str(socket), "-U", USER, USER)
    return [program("pgbench", _PACKAGE), *words]


class Bench:
    """Runs of pgbench of ``run_s``, and the comparison after each: as the server has it (by its
    ``socket``) and as it comes over the network. ``rate`` is of transactions a second; None is as
    fast as it can."""

    def __init__(
        self, server: str, pid: int, socket: Path, folder: Path, tally: Tally,
        run_s: float, stopped: threading.Event, rate: float | None = None,
    ) -> None:  # fmt: skip
        self._server, self._pid, self._socket, self._folder = server, pid, socket, folder
        self._tally, self._run_s, self._stopped = tally, run_s, stopped
        self._paced = [] if rate is None else ["-R", f"{rate:g}"]
        self._turn = 0
        self._reported = 0

    def step(self) -> None:
        """Do one run, and compare. Raises CheckError where something is wrong."""
        way = _WAYS[self._turn % len(_WAYS)]
        self._turn += 1
        argv = [
            *(program("pgbench", _PACKAGE), "-n", *way, *self._paced),
            *("-c", str(_CONNECTIONS)),
            *("-T", str(max(1, round(self._run_s))), *self._to(self._server), USER),
        ]
        client = Client(argv, self._pid, self._folder)
        ended = threading.Event()
        ender = threading.Thread(target=self._end_when_stopped, args=(client, ended))
        ender.start()
        try:
            said = client.result(self._run_s + _PATIENCE_S, expected=(0, -signal.SIGALRM))
        finally:
            ended.set()
            ender.join()
        if not said and self._stopped.is_set():
            # Told to end before it had begun.
            return
        processed, failed = _PROCESSED.search(said), _FAILED.search(said)
        if processed is None or failed is None:
            raise CheckError(f"pgbench reports no transactions: {said[-300:]}")
        self._reported += int(processed[1])
        self._tally.count("postgres.transactions", int(processed[1]))
        if int(failed[1]):
            raise CheckError(f"pgbench: {failed[1]} transactions failed")
        self._compare()

    def _compare(self) -> None:
        direct = self._ask(str(self._socket), _SUMS)
        carried = self._ask(self._server, _SUMS)
        if direct != carried:
            raise CheckError(
                f"the server says {direct.strip()}, over the network {carried.strip()}"
            )
        accounts, tellers, branches, history, rows = map(int, direct.strip().split("|"))
        balance = Balance(accounts, tellers, branches, history, rows, self._reported)
        if balance.fault:
            # One fault is one fault, not one for each run that follows.
            self._reported = balance.rows
            raise CheckError(balance.fault)
        own, other = (self._ask(where, _ACCOUNTS) for where in (str(self._socket), self._server))
        if _sha256(own) != _sha256(other):
            raise CheckError("the accounts are others over the network than at the server")
        self._tally.count("postgres.balances")
        self._tally.count("postgres.compared_bytes", len(other))

    def _ask(self, where: str, query: str) -> str:
        argv = [program("psql", _PACKAGE), "-XAtq", "-c", query, *self._to(where), USER]
        return Client(argv, self._pid, self._folder).result(_PATIENCE_S)

    def _to(self, where: str) -> list[str]:
        return ["-h", where, "-p", str(SERVER.port), "-U", USER]

    def _end_when_stopped(self, client: Client, ended: threading.Event) -> None:
        """End a run before its time: to pgbench, SIGALRM is the end of it, so that it finishes
        what it has begun and reports."""
        while not ended.wait(_POLL_S):
            if self._stopped.is_set():
                client.signal(signal.SIGALRM)
                return


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
