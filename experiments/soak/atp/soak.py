"""The soak of atp-proxy: starts servers, proxies and clients, lets time pass, and judges.

    python -m experiments.soak.atp.soak --spec JSON --out DIR

is what ``experiments.soak.run_atp`` starts as the first process of a new sandbox.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TextIO

from experiments.bench.short_flows.dumbbell import Dumbbell, address
from experiments.measure.process import footprint
from experiments.soak import AtpSpec, entry
from experiments.soak.atp.proxies import Proxies, Proxy, proxies
from experiments.soak.atp.verdict import Run, judge
from experiments.soak.programs import losses, postgres, redis
from experiments.soak.programs.http import Fetcher, Nginx
from experiments.soak.programs.soak import ProgramSoak, serve
from experiments.soak.programs.work import Worker
from experiments.soak.trend import Sample
from experiments.traffic.programs.app import Service
from testbed.bottleneck import Counts
from testbed.command import run, wait_until

_ATP_PORT = 4880
_FETCHERS = 3
# pgbench's balances are compared this often at least.
_BALANCE_S = 60.0
_FILL_S = 60.0
_SETTLE_S = 40.0


class AtpSoak(ProgramSoak):
    """See ProgramSoak."""

    soaked = "proxy"
    # The proxy beside them.
    server = address(1)

    def __init__(self, spec: AtpSpec, out: Path) -> None:
        super().__init__(spec, out, "proxies.log")
        self._pairs: list[Proxies] = []

    def _start(self, stack: ExitStack, network: Dumbbell, folder: Path) -> None:
        self._nginx = Nginx(self._spec.seed)
        services: tuple[Service, ...] = (self._nginx, redis.SERVER, postgres.SERVER)
        for number, service in enumerate(services):
            own = serve(stack, service, network, folder)
            state = own.parent / "proxies"
            state.mkdir()
            pair = proxies(service, network, state, self._log, _ATP_PORT + number)
            self._pairs.append(stack.enter_context(pair))
        self._socket = folder / postgres.SERVER.name / "server"
        run(postgres.fill_argv(self._socket), pid=network.hosts[1].pid, timeout_s=_FILL_S)
        for proxy in self._proxies():
            proxy.tell_again()
            proxy.idle_descriptors = footprint(proxy.command.pid).descriptors

    def _workers(self, network: Dumbbell, folder: Path) -> list[Worker]:
        spec, tally, stopped = self._spec, self._tally, self._stopped
        pid, server = network.hosts[0].pid, self.server
        steps: dict[str, Callable[[], None]] = {}
        for number in range(_FETCHERS):
            own = folder / f"curl{number}"
            seed = f"{spec.seed} fetcher {number}"
            fetcher = Fetcher(self._nginx, server, pid, own, self._out / "wrong", tally, seed)
            steps[own.name] = fetcher.step
        run_s = min(_BALANCE_S, spec.minutes * 60 / 3)
        load = redis.Load(server, pid, folder, tally, spec.seed, stopped)
        bench = postgres.Bench(server, pid, self._socket, folder, tally, run_s, stopped)
        steps |= {"redis-benchmark": load.step, "pgbench": bench.step}
        return [Worker(name, step, tally, stopped) for name, step in steps.items()]

    def _sample(self, at_s: float, counters: TextIO) -> None:
        for proxy in self._proxies():
            try:
                proxy.sample(at_s)
            except ProcessLookupError as gone:
                raise ProcessLookupError(f"the {proxy.name} proxy has ended by itself") from gone
            line = {"at_s": round(at_s, 1), "proxy": proxy.name}
            counters.write(json.dumps(line | dict(proxy.counters)) + "\n")

    def _progress(self, counts: Counter[str]) -> str:
        http = counts["http.fetched_bytes"] + counts["http.uploaded_bytes"]
        memory = max((proxy.samples[-1].rss_kb for proxy in self._proxies()), default=0)
        return (
            f"{counts['http.files'] + counts['http.uploads']} files ({http / 1e6:.0f} MB), "
            f"{counts['redis.sets'] + counts['redis.gets']} values, "
            f"{counts['postgres.transactions']} transactions; "
            f"{sum(proxy.open for proxy in self._proxies())} open, "
            f"at most {memory / 1024:.0f} MiB a proxy"
        )

    def _end_of_clients(self) -> None:
        for proxy in self._proxies():
            # Without clients it is left when nothing was heard for a while, as it should be.
            proxy.ending = True

    def _require_nothing_left(self) -> None:
        """Wait until no connection is open; the verdict sees which are."""
        with suppress(TimeoutError):
            wait_until(
                lambda: not any(proxy.open for proxy in self._proxies()),
                timeout_s=_SETTLE_S,
                what="connections are closed",
                poll_s=0.2,
            )
        for proxy in self._proxies():
            with suppress(TimeoutError):
                proxy.tell_again()
            proxy.left_connections = proxy.open
            proxy.left_descriptors = footprint(proxy.command.pid).descriptors

    def _end(self) -> None:
        for proxy in self._proxies():
            proxy.end()

    def _proxies(self) -> list[Proxy]:
        return [proxy for pair in self._pairs for proxy in pair]

    def _verdict(
        self, counts: Counter[str], link: Mapping[str, Counts], faults: Sequence[str]
    ) -> tuple[dict[str, Any], list[str]]:
        breakable = {"http": counts["http.broken_off"], "redis": counts["redis.breakable"]}
        pairs = [pair.ended(breakable.get(pair.service, 0)) for pair in self._pairs]
        return judge(Run(counts, link, losses.SHARE, pairs, faults))

    def _samples(self) -> Mapping[str, Sequence[Sample]]:
        return {proxy.name: proxy.samples for proxy in self._proxies()}

    def _checked(self, figures: Mapping[str, Any]) -> str:
        return (
            f"{figures['http.files']} files fetched and {figures['http.uploads']} stored, "
            f"{figures['redis.gets']} values got of {figures['redis.sets']} set, "
            f"{figures['postgres.transactions']} transactions in "
            f"{figures['postgres.balances']} balances"
        )


def _soak(spec: AtpSpec, out: Path) -> list[str]:
    return AtpSoak(spec, out).run()


if __name__ == "__main__":
    sys.exit(entry.run(AtpSpec, _soak))
