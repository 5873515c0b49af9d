"""What connections cost an LTTP server that want nothing: the group ``idle``.

``idle_share`` is the share of a processor that the server takes while nobody asks for anything.
``busy_cpu_s_per_gb`` is what it takes to send to one client, ``..._beside_idle`` with them.
"""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.bench.comparison import Figures
from experiments.bench.transport.speed.contenders import make, program
from experiments.measure.process import processor_s
from experiments.traffic import fountain
from experiments.traffic.fountain import Mode, Place, Server
from experiments.traffic.program import Command
from testbed.sandbox import RUN_DIR

_PLACE = Place(None, "127.0.0.1", fountain.PORT)
_MOST = "--max-connections={0} --max-connections-per-address={0} --memory={1}"
_SPARE = 16
# What the server counts for a connection; it gives an eighth of all to those of one address.
_COUNTED_BYTES, _SHARES = 128 << 10, 8
# Of the files that it may have open, it takes half for connections, but for a few.
_OTHER_FILES = 64


def run(
    progress: Callable[[str], None], *, connections: int, measured_s: float, size_mib: int
) -> Figures:
    """Measure; see ``experiments.bench``."""
    folder = RUN_DIR / "objects"
    folder.mkdir()
    log = RUN_DIR / "workload.log"
    path = make(folder, size_mib << 20).name
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some room is left for the client that fetches beside them.
    connections = min(connections, (files - _OTHER_FILES) // 2 - _SPARE)
    most = connections + _SPARE
    options = _MOST.format(most, most * _COUNTED_BYTES * _SHARES).split()
    figures: Figures = {}
    with fountain.servers(folder, [_PLACE], log, options=options) as (server,):
        figures["busy_cpu_s_per_gb"] = _fetch(server, path, log)
        with _idle(server, connections, log) as open_connections:
            figures["idle_connections"] = float(open_connections)
            progress(f"{open_connections} of {connections} connections are open")
            begun_s, spent_s = time.monotonic(), processor_s(server.pid)
            time.sleep(measured_s)
            spent_s = processor_s(server.pid) - spent_s
            figures["idle_share"] = spent_s / (time.monotonic() - begun_s)
            figures["busy_cpu_s_per_gb_beside_idle"] = _fetch(server, path, log)
    progress(", ".join(f"{name} {value:.4g}" for name, value in figures.items()))
    return figures


def _fetch(server: Server, path: str, log: Path) -> float:
    """Return the processor seconds that the server takes for a gigabyte."""
    before_s = processor_s(server.pid)
    fetched = fountain.fetch(
        fountain.fetch_argv([server], path, Mode(symbol_bytes=1408), rounds=2), log
    )
    return (processor_s(server.pid) - before_s) / (sum(fetched.round_bytes) / 1e9)


@contextmanager
def _idle(server: Server, connections: int, log: Path) -> Iterator[int]:
    argv = [
        *(program("bench-idle"), server.endpoint, f"--fingerprint={server.fingerprint}"),
        f"--connections={connections}",
    ]
    with Command(argv, name="bench-idle", log=log) as command:
        yield int(command.expect("idle")["connections"])
        command.finish()
