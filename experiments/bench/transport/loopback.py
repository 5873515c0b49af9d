"""How fast LTTP's programs are where no network limits them: over the loopback device.

The servers run on the first processor of this machine, the client on the last one. On a machine
with one processor they share it, and ``loopback_processors`` says so. Random bytes in memory are
fetched several times; the median round counts. Data is encrypted, except where a name ends in
``_insecure``. ``send_gbps`` is the rate of one server, symbols that were lost on the way included,
``fetch_gbps_8_servers`` the rate of the objects that one client gets from eight servers.
``..._share`` is how busy that side's processor was: a side whose share is less than 1 waited for
the other.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from experiments.bench.comparison import Figures
from experiments.measure.process import ended_children_s, processor_s
from experiments.traffic import fountain
from experiments.traffic.fountain import Mode, Place
from testbed.sandbox import RUN_DIR

SERVERS = 8
_OBJECT_BYTES = 128 * 2**20
_ROUNDS = 5
_ADDRESS = "127.0.0.1"
_CHUNK_BYTES = 2**20
# By suffix: bytes of a symbol, and whether data is encrypted. 1408 is the largest multiple of 64
# that fits an Ethernet frame, 1024 the paper's.
VARIANTS = {"": (1408, True), "_1024": (1024, True), "_insecure": (1408, False)}


def run(progress: Callable[[str], None]) -> Figures:
    """Measure; see ``experiments.bench``."""
    processors = sorted(os.sched_getaffinity(0))
    folder = RUN_DIR / "objects"
    folder.mkdir()
    _make(folder / "all", _OBJECT_BYTES)
    _make(folder / "part", _OBJECT_BYTES // SERVERS)
    figures: Figures = {"loopback_processors": float(len({processors[0], processors[-1]}))}
    for suffix, (symbol_bytes, secure) in VARIANTS.items():
        for count, path in ((1, "all"), (SERVERS, "part")):
            measured = _measure(folder, count, path, symbol_bytes, secure, processors)
            told = ", ".join(f"{name} {value:.2f}" for name, value in measured.items())
            progress(f"servers {count}, symbols {symbol_bytes}, encrypted {secure}: {told}")
            name = "fetch_gbps_1_server" if count == 1 else f"fetch_gbps_{count}_servers"
            figures[name + suffix] = measured["fetch_gbps"]
            if count == 1:
                figures[f"send_gbps{suffix}"] = measured["send_gbps"]
            for side in ("server", "client"):
                figures[f"{name}{suffix}_{side}_share"] = measured[f"{side}_share"]
    return figures


def _measure(
    folder: Path,
    count: int,
    path: str,
    symbol_bytes: int,
    secure: bool,
    processors: Sequence[int],
) -> Figures:
    log = RUN_DIR / "workload.log"
    places = [Place(None, _ADDRESS, fountain.PORT + number) for number in range(count)]
    pinned = [("taskset", "-c", str(processors[end])) for end in (0, -1)]
    listening = fountain.servers(folder, places, log, secure=secure, prefix=pinned[0])
    with listening as servers:
        argv = fountain.fetch_argv(servers, path, Mode("client", symbol_bytes), rounds=_ROUNDS)
        begun_s = time.monotonic()
        client_s = ended_children_s()
        served_s = sum(processor_s(server.pid) for server in servers)
        fetched = fountain.fetch([*pinned[1], *argv], log)
        took_s = time.monotonic() - begun_s
        served_s = sum(processor_s(server.pid) for server in servers) - served_s
        spent_s = ended_children_s() - client_s
    sent = fetched.symbols_received + fetched.symbols_lost
    return {
        "fetch_gbps": median(
            size * 8e-9 / s for size, s in zip(fetched.round_bytes, fetched.round_s, strict=True)
        ),
        "send_gbps": sent * symbol_bytes * 8e-9 / sum(fetched.round_s),
        "server_share": served_s / took_s,
        "client_share": spent_s / took_s,
    }


def _make(file: Path, size_bytes: int) -> None:
    with file.open("wb") as out:
        for _ in range(size_bytes // _CHUNK_BYTES):
            out.write(os.urandom(_CHUNK_BYTES))
