"""Who transfers in ``bench transport``: each a server or receiver, and a command that transfers.

Data is encrypted with AES-128-GCM and made of symbols, or packets, of about 1,400 bytes. Only
iperf3 sends in clear, and its datagrams are lost where they find no room: they are not repaired.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.bench.transport.speed.medium import Medium
from experiments.traffic import fountain
from experiments.traffic.fountain import Mode, Place
from experiments.traffic.program import Command, ProgramError
from testbed.command import in_network, run

PREFIX_VARIABLE = "WEIR_BENCH_PREFIX"
_PORT = fountain.PORT
_SYMBOL_BYTES = 1408
# Large enough for any path here, as a window that is there from the first moment on.
_WINDOW_BYTES = 16 << 20


@dataclass(frozen=True)
class Running:
    """What has begun: the processes that stay, and the command that transfers. ``near_sends`` says
    which end the command is."""

    pids: Sequence[int]
    argv: Sequence[str]
    near_sends: bool


@dataclass(frozen=True)
class Contender:
    """A way to transfer a file. ``share`` is the part of the bytes that it transfers: slow ones
    need fewer to be measured."""

    label: str
    kind: str
    servers: int = 1
    options: Sequence[str] = ()
    share: float = 1.0

    @contextmanager
    def running(
        self, medium: Medium, folder: Path, size_bytes: int, log: Path
    ) -> Iterator[Running]:
        """Context manager: all but the transfer runs."""
        with _KINDS[self.kind](self, medium, folder, size_bytes, log) as running:
            yield running


FAST_BPS, SLOW_BPS = 6_000_000_000, 100_000_000
CONTENDERS = {
    "lttp_1": Contender("LTTP, 1 server", "lttp"),
    "lttp_8": Contender("LTTP, 8 servers", "lttp", servers=8),
    "dfcp": Contender("DFCP at 6 Gb/s", "dfcp", options=(f"--rate={FAST_BPS}",)),
    "dfcp_tfrc": Contender("DFCP at TFRC's rate", "dfcp", options=("--tfrc",), share=1 / 4),
    "atp": Contender("ATP, one stream", "atp"),
    "quinn": Contender("quinn", "quinn"),
    "quinn_window": Contender(
        "quinn, large window", "quinn", options=(f"--window={_WINDOW_BYTES}",)
    ),
    "iperf3": Contender("iperf3 -u, in clear", "iperf3"),
    "dfcp_100m": Contender(
        "DFCP at 100 Mb/s", "dfcp", options=(f"--rate={SLOW_BPS}",), share=1 / 16
    ),
}


def program(name: str) -> str:
    """Return a program of the crate weir-bench. Raises ProgramError if nobody said where it is."""
    prefix = os.environ.get(PREFIX_VARIABLE)
    if not prefix:
        raise ProgramError(
            f"${PREFIX_VARIABLE} is not set: run 'make bench-transport', 'make bench-short-flows' "
            "or 'make bench-acc'"
        )
    return str(Path(prefix) / name)


def moved_bytes(said: Sequence[dict[str, Any]], size_bytes: int) -> tuple[int, float]:
    """Return the bytes that have arrived, and the seconds that they took, from what the command
    said. Raises ProgramError if it does not say that."""
    last = said[-1] if said else {}
    if sent := last.get("end", {}).get("sum"):
        return round(sent["bytes"] * (1 - sent["lost_percent"] / 100)), float(sent["seconds"])
    if last.get("event") != "done":
        raise ProgramError(f"not the end of a transfer: {json.dumps(last)[:200]}")
    if "rounds" in last:
        moved = sum(int(one["bytes"]) for one in last["rounds"])
        return moved, sum(float(one["seconds"]) for one in last["rounds"])
    return size_bytes, float(last["seconds"])


@contextmanager
def _lttp(
    contender: Contender, medium: Medium, folder: Path, size_bytes: int, log: Path
) -> Iterator[Running]:
    count = contender.servers
    path = make(folder, size_bytes // count).name
    places = [Place(medium.far_pid, medium.far, _PORT + number) for number in range(count)]
    with fountain.servers(folder, places, log) as servers:
        argv = fountain.fetch_argv(servers, path, Mode("client", _SYMBOL_BYTES), rounds=1)
        yield Running([server.pid for server in servers], argv, near_sends=False)


@contextmanager
def _dfcp(
    contender: Contender, medium: Medium, folder: Path, size_bytes: int, log: Path
) -> Iterator[Running]:
    place = Place(medium.far_pid, medium.far, _PORT)
    with fountain.receiver(folder, place, log) as receiver:
        options = (*contender.options, f"--symbol-bytes={_SYMBOL_BYTES}")
        argv = fountain.send_argv(receiver, make(folder, size_bytes), options)
        yield Running([receiver.pid], argv, near_sends=True)


@contextmanager
def _stream(
    contender: Contender, medium: Medium, _folder: Path, size_bytes: int, log: Path
) -> Iterator[Running]:
    with stream_server(contender.kind, medium, contender.options, log) as (pid, reached_by):
        fetch = [program(f"bench-{contender.kind}"), "fetch", *reached_by, f"--bytes={size_bytes}"]
        yield Running([pid], [*fetch, *contender.options], near_sends=False)


@contextmanager
def stream_server(
    kind: str, medium: Medium, options: Sequence[str], log: Path
) -> Iterator[tuple[int, list[str]]]:
    """Context manager: ``bench-KIND`` serves at the far end. Yields its process, and how its client
    reaches it."""
    name, address = f"bench-{kind}", f"{medium.far}:{_PORT}"
    serve = [program(name), "serve", address, *options]
    with Command(serve, name=f"{name} serve", log=log, pid=medium.far_pid) as server:
        told = server.expect("listening")
        known = [f"--certificate={told['certificate']}"] if "certificate" in told else []
        yield server.pid, [address, *known]


@contextmanager
def _iperf3(
    _contender: Contender, medium: Medium, _folder: Path, size_bytes: int, log: Path
) -> Iterator[Running]:
    serve = ["iperf3", "-s", "-B", medium.far, "-p", str(_PORT)]
    argv = serve if medium.far_pid is None else in_network(medium.far_pid, serve)
    with ExitStack() as stack:
        said = stack.enter_context(log.open("ab"))
        server = stack.enter_context(subprocess.Popen(argv, stdout=said, stderr=said))
        stack.callback(server.terminate)
        medium.wait_for_tcp(_PORT)
        # Debian 12's has no segmentation offload; newer ones do.
        offload = ["--gsro"] if "--gsro" in run(["iperf3", "--help"]) else []
        client = [
            *("iperf3", "-c", medium.far, "-p", str(_PORT), "-u", "-b", "0", "--json"),
            *("-l", str(_SYMBOL_BYTES), "-n", str(size_bytes), *offload),
        ]
        yield Running([server.pid], ["sh", "-c", _FLAT, "sh", *client], near_sends=True)


# A message a line, as the other programs have them.
_FLAT = '"$@" | tr -d "\\n"; echo'
_KINDS = {"lttp": _lttp, "dfcp": _dfcp, "atp": _stream, "quinn": _stream, "iperf3": _iperf3}
_CHUNK_BYTES = 1 << 20


def make(folder: Path, size_bytes: int) -> Path:
    """Make a file of random bytes, unless it is there."""
    file = folder / str(size_bytes)
    if not file.exists():
        with file.open("wb") as out:
            for begin in range(0, size_bytes, _CHUNK_BYTES):
                out.write(os.urandom(min(_CHUNK_BYTES, size_bytes - begin)))
    return file
