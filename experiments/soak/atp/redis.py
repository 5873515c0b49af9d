"""redis-benchmark as load beside the values that ``keys`` keeps."""

import random
import re
import signal
import threading
from pathlib import Path

from experiments.soak.atp.work import CheckError, Client, Tally
from experiments.traffic.programs.app import program
from experiments.traffic.programs.redis import SERVER

_DONE = re.compile(r"^(?:SET|GET): [\d.]+ requests per second", re.MULTILINE)
_MOST_REQUESTS, _MOST_BYTES = 10_000, 10_000_000
# A short soak is to have one, too.
_MOST_FIRST_REQUESTS = 500
_MOST_PAUSE_S = 3.0
_PATIENCE_S = 300
_POLL_S = 0.2


class Load:
    """Runs of redis-benchmark one after the other, each with parameters of its own."""

    def __init__(
        self, server: str, pid: int, folder: Path, tally: Tally, seed: int, stopped: threading.Event
    ) -> None:
        self._server, self._pid, self._folder, self._tally = server, pid, folder, tally
        self._rng = random.Random(f"{seed} benchmark")
        self._stopped = stopped
        self._most_requests = _MOST_FIRST_REQUESTS

    def step(self) -> None:
        """Do one run. It is killed when the soak is over, which is a fault of nobody."""
        connections = self._rng.choice((1, 10, 50))
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
