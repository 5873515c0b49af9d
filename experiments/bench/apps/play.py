"""Servers and clients as processes on a test bed."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from experiments.bench.apps.matrix import ELEPHANTS, INCAST, Workload
from experiments.measure import netstat
from experiments.measure.sampling import Processors
from experiments.traffic.programs.app import App, AppError, Result
from experiments.traffic.programs.running import Client, server
from experiments.traffic.reader import IncastSpec
from experiments.workloads import reads
from experiments.workloads.long_flows import long_flows
from testbed.bed import Bed
from testbed.command import CommandError, run
from testbed.host import Host

_WARM_UP_S = 1.0
_INCAST_CONNECTIONS, _ELEPHANTS = 32, 2
# More than anything beside them lasts.
_ROUNDS = 100_000


@dataclass(frozen=True)
class Played:
    """The result of a workload: what the clients reported, and what happened to their traffic.

    ``timeouts`` and ``retransmitted`` are sums over all hosts, ``drops`` are by port of a switch,
    ``idle_share`` is of the machine's processors.
    """

    result: Result
    timeouts: int
    retransmitted: int
    drops: dict[str, int]
    elapsed_s: float
    idle_share: float


class Stage:
    """Context manager that runs workloads on ``bed``. Started servers run until the end."""

    def __init__(self, bed: Bed, *, ipv6: bool) -> None:
        self._bed = bed
        self._ipv6 = ipv6
        self._folder = bed.run_dir / "apps"
        self._servers: dict[tuple[str, str], Path] = {}
        self._filled: dict[tuple[str, str], list[list[str]]] = {}
        self._stack = ExitStack()
        self._played = 0

    def __enter__(self) -> Self:
        self._folder.mkdir()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def play(self, workload: Workload) -> Played:
        """Run a workload. Raises AppError, with what was said on stderr, where a program fails."""
        bed, app = self._bed, workload.app
        receiver, senders = bed.host(bed.roles.receiver), bed.roles.senders
        if workload.all_to_all:
            hosts = [bed.host(name) for name in senders[: workload.all_to_all]]
            pairs = [(host, [other for other in hosts if other is not host]) for host in hosts]
        elif workload.clients == 1:
            pairs = [(receiver, [bed.host(senders[0])])]
        else:
            pairs = [(bed.host(name), [receiver]) for name in senders[: workload.clients]]
        if len(pairs) != (workload.all_to_all or workload.clients):
            raise AppError(f"{workload.name} needs more hosts than there are: {len(senders)}")
        asked = dict.fromkeys(server for _, servers in pairs for server in servers)
        folders = [self._serve(app, server) for server in asked]
        with _beside(bed, workload.beside):
            return self._measure(app, pairs, folders[0])

    def _measure(
        self, app: App, pairs: Sequence[tuple[Host, Sequence[Host]]], server_folder: Path
    ) -> Played:
        bed = self._bed
        pids = [host.pid for host in bed.hosts]
        before, queues_before = netstat.total(pids), _dropped(bed)
        begun_s, processors = time.monotonic(), Processors(bed.ovs.vswitchd_pid)
        with ExitStack() as stack:
            clients = []
            for host, servers in pairs:
                self._played += 1
                folder = self._folder / f"client-{self._played}"
                folder.mkdir()
                # Some keep a line for each request: memory, which is not to pile up.
                stack.callback(shutil.rmtree, folder)
                addresses = [server.address6() if self._ipv6 else server.IP() for server in servers]
                argv = app.client(addresses, folder, server_folder)
                clients.append(stack.enter_context(Client(app, argv, host, folder)))
            results = [client.result() for client in clients]
        elapsed_s, idle_share = time.monotonic() - begun_s, processors.as_record()["idle_share"]
        grown = netstat.grown(before, netstat.total(pids))
        return Played(
            app.together(results),
            grown.get(netstat.TIMEOUTS, 0),
            grown.get("Tcp.RetransSegs", 0),
            netstat.grown(queues_before, _dropped(bed)),
            elapsed_s,
            idle_share,
        )

    def _serve(self, app: App, host: Host) -> Path:
        """Run a server for ``app`` on ``host``, with the data that clients ask for; return its
        folder."""
        service = app.service
        key = (host.name, service.name)
        if key not in self._servers:
            folder = self._folder / f"{service.name}-{host.name}"
            folder.mkdir()
            try:
                service.prepare(folder)
                self._stack.enter_context(server(service, host, folder))
            except CommandError as failed:
                shutil.rmtree(folder)
                raise AppError(f"{service.name} cannot be prepared: {failed}") from failed
            except AppError:
                shutil.rmtree(folder)
                raise
            self._servers[key] = folder
        folder = self._servers[key]
        # What another app had stored may be what this one asks for, in another size.
        wanted = [list(argv) for argv in app.fill(folder)]
        if wanted and self._filled.get(key) != wanted:
            try:
                for argv in wanted:
                    run(argv, pid=host.pid)
            except CommandError as failed:
                raise AppError(f"{app.name} cannot be filled: {failed}") from failed
            self._filled[key] = wanted
        return folder


def _dropped(bed: Bed) -> dict[str, int]:
    return {
        name: int(queue["dropped_packets"])
        for switch in bed.switches
        for name, queue in switch.queues().items()
    }


@contextmanager
def _beside(bed: Bed, what: str | None) -> Iterator[None]:
    """Context manager: an incast or elephants go to the receiver meanwhile."""
    log = bed.run_dir / "workload.log"
    receiver = bed.host(bed.roles.receiver)
    if what is None:
        yield
    elif what == INCAST:
        senders = min(_INCAST_CONNECTIONS, len(bed.roles.senders))
        spec = IncastSpec(senders=senders, rounds=_ROUNDS)
        with reads.responders(bed, log), reads.reader(bed, spec, log) as reader:
            reader.expect("connected")
            reader.ignore()
            time.sleep(_WARM_UP_S)
            yield
    elif what == ELEPHANTS:
        # Not from the server's own host, whose link would be full as well.
        names = bed.roles.senders[1 : 1 + _ELEPHANTS]
        with long_flows(map(bed.host, names), receiver, log):
            time.sleep(2 * _WARM_UP_S)
            yield
    else:
        raise ValueError(f"nothing called {what!r} goes on beside a workload")


def as_record(played: Played) -> dict[str, object]:
    """Return it as values of JSON."""
    return asdict(played)
