"""redis-server and redis-benchmark."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from experiments.traffic.programs.app import App, AppError, Result, Service, program, size_name

_THROUGHPUT = re.compile(r"throughput summary: ([\d.]+) requests per second")
_SUMMARY = re.compile(r"avg +min +p50 +p95 +p99 +max\n((?: +[\d.]+){6})")
_TAIL = re.compile(r"^([\d.]+)% <= ([\d.]+) milliseconds", re.MULTILINE)


class RedisServer(Service):
    """redis-server, which keeps everything in memory."""

    name = "redis"
    port = 6379

    def argv(self, folder: Path) -> list[str]:
        """See Service."""
        server = program("redis-server", "redis-server")
        return [
            *(server, "--port", str(self.port), "--save", "", "--dir", str(folder)),
            *("--protected-mode", "no", "--daemonize", "no"),
        ]


SERVER = RedisServer()


@dataclass(frozen=True)
class Redis(App):
    """``test`` (get or set) of values of ``size_bytes`` over ``connections``, ``requests`` in all,
    ``pipelined`` at a time."""

    test: str
    connections: int
    size_bytes: int
    requests: int
    pipelined: int = 1

    service: ClassVar[Service] = SERVER
    same_work: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """See App."""
        pipelined = f"_p{self.pipelined}" if self.pipelined > 1 else ""
        return f"redis_{self.test}_c{self.connections}_{size_name(self.size_bytes)}{pipelined}"

    def fill(self, folder: Path) -> Sequence[Sequence[str]]:  # noqa: ARG002
        """The one key that redis-benchmark asks for."""
        return (self._argv("127.0.0.1", "set", connections=1, requests=1),)

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:  # noqa: ARG002
        """See App."""
        (server,) = servers
        argv = self._argv(server, self.test, self.connections, self.requests)
        return [*argv, "-P", str(self.pipelined)]

    def _argv(self, server: str, test: str, connections: int, requests: int) -> list[str]:
        benchmark = program("redis-benchmark", "redis-tools")
        return [
            *(benchmark, "-h", server, "-p", str(SERVER.port), "-t", test),
            *("-c", str(connections), "-d", str(self.size_bytes), "-n", str(requests)),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App. p99.9 is that of the first of its percentiles that is as high."""
        throughput, summary = _THROUGHPUT.search(said), _SUMMARY.search(said)
        result = said.partition("Latency by percentile distribution:")[2].partition("\n\n")[0]
        tail = [float(ms) for percent, ms in _TAIL.findall(result) if float(percent) >= 99.9]
        if throughput is None or summary is None or not tail:
            raise AppError(f"redis-benchmark reports no summary: {said[-500:]}")
        _, _, p50, _, p99, _ = map(float, summary[1].split())
        return Result(float(throughput[1]), p50, p99, tail[0])
