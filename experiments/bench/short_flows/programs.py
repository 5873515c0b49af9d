"""Programs over ``fountain atp-proxy`` and over TCP: the groups ``programs``, where frames are lost
both ways, and ``undisturbed``, where none is: what the proxies cost.

``GROUP_APP_WAY_p99_ms`` is the client's own figure; WAY is tcp, or atp: the client talks to a
proxy on its host, that one over ATP to a proxy on the server's host, and that one to the server.
``GROUP_APP_p99_ratio`` is how many times ATP's 99th percentile TCP's is.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.short_flows.dumbbell import Dumbbell, address, dumbbell
from experiments.bench.short_flows.lines import USUAL
from experiments.traffic.fountain import find_fountain
from experiments.traffic.program import Command, ProgramError
from experiments.traffic.programs.app import REQUESTS, App, AppError, Result
from experiments.traffic.programs.http import ConnectionEach, KeepAlive
from experiments.traffic.programs.postgres import Pgbench
from experiments.traffic.programs.redis import Redis
from experiments.traffic.programs.running import Client, server
from testbed.bottleneck import Loss
from testbed.command import run as run_command
from testbed.sandbox import RUN_DIR

APPS: Mapping[str, App] = {
    "redis_get": Redis("get", 50, 3, 60_000),
    "redis_set": Redis("set", 50, 3_000, 20_000),
    "nginx": KeepAlive(16, 25_000),
    "nginx_connection_each": ConnectionEach(16, 64),
    "pgbench": Pgbench(8),
}
WAYS = ("tcp", "atp")
GROUPS = {"programs": "1 % lost both ways", "undisturbed": "nothing lost at random"}
_PORT = 4880


def run(
    progress: Callable[[str], None],
    *,
    turns: int,
    loss_pct: float,
    group: str,
    apps: Sequence[str] = tuple(APPS),
) -> Figures:
    """Measure; see ``experiments.bench``. Of several turns the median by p99 counts."""
    figures: Figures = {}
    failed = []
    with dumbbell(both_ways=True) as network:
        for name in apps:
            for way in WAYS:
                try:
                    results = [
                        _measure(network, APPS[name], way, loss_pct, seed) for seed in range(turns)
                    ]
                except (AppError, ProgramError) as error:
                    failed.append(f"{name}, {way}")
                    progress(f"{name}, {way}: {error}")
                    continue
                ordered = sorted(results, key=lambda result: result.p99_ms or 0)
                figures |= of_result(f"{group}_{name}_{way}", ordered[len(ordered) // 2])
                progress(f"{name}, {way}: {_in_words(ordered[len(ordered) // 2])}")
            figures |= ratio(f"{group}_{name}", figures)
    if failed:
        raise Incomplete(figures, failed)
    return figures


def of_result(name: str, result: Result) -> Figures:
    """Return the figures of one program one way."""
    figures: Figures = {f"{name}_{REQUESTS}": result.throughput}
    for what in ("p50_ms", "p99_ms", "p999_ms"):
        if (value := getattr(result, what)) is not None:
            figures[f"{name}_{what}"] = value
    return figures


def ratio(name: str, figures: Mapping[str, float]) -> Figures:
    """Return how many times ATP's tail TCP's is, if both were measured."""
    atp, tcp = (figures.get(f"{name}_{way}_p99_ms") for way in ("atp", "tcp"))
    return {f"{name}_p99_ratio": tcp / atp} if atp and tcp else {}


def _in_words(result: Result) -> str:
    times = (result.p50_ms, result.p99_ms, result.p999_ms)
    shown = ", ".join("-" if time is None else f"{time:.2f}" for time in times)
    return f"{result.throughput:.0f} requests/s; {shown} ms (median, p99, p99.9)"


def _measure(network: Dumbbell, app: App, way: str, loss_pct: float, seed: int) -> Result:
    near, far = network.hosts[:2]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=RUN_DIR)))
        folder.chmod(0o755)
        served, own = folder / "server", folder / "client"
        for each in (served, own):
            each.mkdir()
        # What is prepared and stored is not what is measured.
        network.start(Loss(), USUAL, seed + 1)
        app.service.prepare(served)
        stack.enter_context(server(app.service, far, served))
        for words in app.fill(served):
            run_command(list(words), pid=far.pid)
        to = address(2)
        if way == "atp":
            stack.enter_context(_proxies(network, app, folder))
            to = address(1)
        network.set_loss(Loss(loss_pct / 100), seed + 1)
        argv = app.client([to], own, served)
        client = stack.enter_context(Client(app, argv, near, own))
        return client.result()


@contextmanager
def _proxies(network: Dumbbell, app: App, folder: Path) -> Iterator[None]:
    near, far = network.hosts[:2]
    log, port = RUN_DIR / "workload.log", app.service.port
    state = [f"XDG_STATE_HOME={folder}", f"HOME={folder}"]
    proxy = ["env", *state, str(find_fountain()), "atp-proxy"]
    out = [*proxy, f"atp://{address(2)}:{_PORT}", f"tcp://127.0.0.1:{port}", "--json"]
    with Command(out, name="far proxy", log=log, pid=far.pid) as there:
        told = there.expect("listening")
        there.ignore()
        known = f"--fingerprint={told['fingerprint']}"
        into = [
            *proxy,
            f"tcp://{address(1)}:{port}",
            f"atp://{address(2)}:{_PORT}",
            known,
            "--json",
        ]
        with Command(into, name="near proxy", log=log, pid=near.pid) as here:
            here.expect("listening")
            here.expect("connected")
            here.ignore()
            yield
