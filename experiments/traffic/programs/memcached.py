"""memcached and memcaslap (of libmemcached), nine gets to a set."""

import re
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
    program,
    size_name,
)

_OPERATIONS = re.compile(r"Run time: ([\d.]+)s Ops: (\d+) TPS: (\d+)")
_MISSES = re.compile(r"get_misses: (\d+)")


class MemcachedServer(Service):
    """memcached."""

    name = "memcached"
    port = 11211

    def argv(self, folder: Path) -> list[str]:  # noqa: ARG002
        """See Service."""
        server = program("memcached", "memcached")
        return [server, "-u", "nobody", "-p", str(self.port), "-U", "0", "-c", "4096"]


SERVER = MemcachedServer()


@dataclass(frozen=True)
class Memcached(App):
    """Values of ``size_bytes`` over ``connections``."""

    connections: int
    size_bytes: int

    service: ClassVar[Service] = SERVER

    @property
    def name(self) -> str:
        """See App."""
        return f"memcached_c{self.connections}_{size_name(self.size_bytes)}"

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:  # noqa: ARG002
        """See App. A small window keeps what it stores beforehand small."""
        (server,) = servers
        return [
            *(program("memcaslap", "libmemcached-tools"), "-s", f"{server}:{SERVER.port}"),
            *("-T", "1", "-c", str(self.connections), "-t", f"{SECONDS}s"),
            *("-X", str(self.size_bytes), "-w", "1k"),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App. It reports no percentiles."""
        operations, misses = _OPERATIONS.search(said), _MISSES.search(said)
        if operations is None or misses is None or not int(operations[2]):
            raise AppError(f"memcaslap reports no operations: {said[-500:]}")
        if int(misses[1]):
            raise AppError(f"memcaslap has missed {misses[1]} of the keys that it had set")
        return Result(float(operations[3]))
