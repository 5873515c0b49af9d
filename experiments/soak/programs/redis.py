"""redis: the client that remembers (``keys``), and redis-benchmark as load beside it."""

import random
import re
import signal
import threading
from pathlib import Path
from typing import Any, Self

from experiments.soak.programs.work import CheckError, Client, Tally
from experiments.traffic.program import Program, ProgramError
from experiments.traffic.programs.app import program
from experiments.traffic.programs.redis import SERVER

_KEYS = "experiments.soak.programs.keys"
_DONE = re.compile(r"^(?:SET|GET): [\d.]+ requests per second", re.MULTILINE)
_MOST_REQUESTS, _MOST_BYTES = 10_000, 10_000_000
# A short soak is to have one, too.
_MOST_FIRST_REQUESTS = 500
_MOST_PAUSE_S = 3.0
_PATIENCE_S = 300
_POLL_S = 0.2


class Keys:
    """Context manager around ``keys`` at the host of ``pid``, against ``server``. ``counts`` are
    its latest; faults go to ``tally``."""

    def __init__(
        self, server: str, pid: int, folder: Path, log: Path, tally: Tally, seed: int,
        connections: int = 4,
    ) -> None:  # fmt: skip
        self.counts: dict[str, int] = {}
        self._state, self._log, self._tally = folder / "keys.json", log, tally
        words = [
            *("--address", server, "--port", str(SERVER.port), "--seed", str(seed)),
            *("--state", str(self._state), "--connections", str(connections)),
        ]
        self._program = Program(_KEYS, words, log=log, pid=pid)
        self._follower = threading.Thread(
            target=self._follow, args=(self._program,), name="keys", daemon=True
        )

    def __enter__(self) -> Self:
        self._program.__enter__()
        self._follower.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._program.__exit__()

    def finish(self) -> threading.Thread:
        """Have it get all keys, and end. Return the thread that ends then."""
        self._program.finish()
        return self._follower

    def compare(self, pid: int) -> None:
        """Compare what it has left with what the server has, at the host of which this is a
        process."""
        words = ["--address", "127.0.0.1", "--port", str(SERVER.port)]
        argv = [*words, "--compare", str(self._state)]
        with Program(_KEYS, argv, log=self._log, pid=pid) as last:
            self._follow(last)

    def _follow(self, keys: Program) -> None:
        """Read what it tells, to its end."""
        told: dict[str, Any] = {}
        try:
            for told in keys.messages():
                self.counts |= told["counts"]
        except ProgramError as broken:
            self._tally.fault(f"keys: {broken}")
        if told.get("event") != "done":
            self._tally.fault("keys: it has not told the end")
        for fault in told.get("faults", ()):
            self._tally.fault(f"redis: {fault}")


class Load:
    """Runs of redis-benchmark one after the other, each with parameters of its own."""

    def __init__(
        self, server: str, pid: int, folder: Path, tally: Tally, seed: int,
        stopped: threading.Event, most_connections: int = 50,
    ) -> None:  # fmt: skip
        self._server, self._pid, self._folder, self._tally = server, pid, folder, tally
        self._rng = random.Random(f"{seed} benchmark")
        self._stopped = stopped
        self._most_connections = most_connections
        self._most_requests = _MOST_FIRST_REQUESTS

    def step(self) -> None:
        """Do one run. It is killed when the soak is over, which is a fault of nobody."""
        connections = min(self._rng.choice((1, 10, 50)), self._most_connections)
        size_bytes = self._rng.choice((3, 100, 3_000, 30_000))
        requests = min(self._most_requests, _MOST_BYTES // size_bytes)
        self._most_requests = _MOST_REQUESTS
        if connections == 1:
            requests //= 10
        argv = [
            *(program("redis-benchmark", "redis-tools"), "-h", self._server),
            *("-p", str(SERVER.port), "-t", "set,get", "-q", "-r", "1000"),
            *("-c", str(connections), "-d", str(size_bytes), "-n", str(requests)),
            *("-P", str(self._rng.choice((1, 1, 8)))),
        ]
        # It leaves without reading its last answers, which resets connections; one for each test,
        # and one that asks for the server's settings.
        self._tally.count("redis.breakable", 2 * connections + 1)
        client = Client(argv, self._pid, self._folder)
        ended = threading.Event()
        killer = threading.Thread(target=self._kill_when_stopped, args=(client, ended))
        killer.start()
        try:
            said = client.result(_PATIENCE_S, expected=(0, -signal.SIGKILL))
        finally:
            ended.set()
            killer.join()
        if self._stopped.is_set():
            return
        if len(_DONE.findall(said.replace("\r", "\n"))) != 2:
            raise CheckError(f"redis-benchmark reports no end: {said[-300:]!r}")
        self._tally.count("redis.benchmark_requests", 2 * requests)
        self._stopped.wait(self._rng.uniform(0, _MOST_PAUSE_S))

    def _kill_when_stopped(self, client: Client, ended: threading.Event) -> None:
        while not ended.wait(_POLL_S):
            if self._stopped.is_set():
                client.signal(signal.SIGKILL)
                return
