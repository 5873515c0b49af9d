"""The soak of TCP-ACC's layer: starts servers, layers and clients, lets time pass, and judges.

    python -m experiments.soak.acc.soak --spec JSON --out DIR

is what ``experiments.soak.run_acc`` starts as the first process of a new sandbox.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any, TextIO

from experiments.bench.short_flows.dumbbell import Dumbbell, address, dumbbell
from experiments.network.acc import make_key
from experiments.soak import AccSpec, entry
from experiments.soak.acc import stalls
from experiments.soak.acc.layers import HostLayer
from experiments.soak.acc.restarts import Restart, plan
from experiments.soak.acc.verdict import Run, judge
from experiments.soak.entry import say
from experiments.soak.programs import iperf, losses, postgres, redis, ssh
from experiments.soak.programs.http import Fetcher, Nginx
from experiments.soak.programs.passing import Task
from experiments.soak.programs.soak import ProgramSoak, serve
from experiments.soak.programs.work import Times, Worker
from experiments.soak.trend import Sample
from experiments.traffic.programs.rsync import SERVER as SSH_SERVER
from testbed.bottleneck import Counts
from testbed.command import run, wait_until

_NAMES = ("near", "far")
_FETCHERS = 2
_BALANCE_S, _IPERF_S = 60.0, 20.0
_FILL_S = 60.0
# The layer forgets flows, and what it holds of them, a minute after their end, as a rule. Who soaks
# for less does not wait for that.
_SETTLE_S, _LEAST_TO_SETTLE_S = 150.0, 120.0
_LOOK_S = 0.5
_BUFFER_BYTES = 256 * 1024
_MOST_BENCHMARKED = 10
# Programs pause for so long after each thing that they do (longer where not said here), so that the
# machine has time for them all, and the answers that are timed do not wait for a processor.
# Transactions come at a rate.
_PAUSES_S = {"typed": 1.0, "stay": 1.0, "iperf3": 1.0}
_PAUSE_S, _TRANSACTIONS_PER_S = 3.0, 20.0


class AccSoak(ProgramSoak):
    """See ProgramSoak."""

    soaked = "layer"
    sample_every_s = 2.0
    keys_connections = 2
    server = address(2)

    def __init__(self, spec: AccSpec, out: Path) -> None:
        super().__init__(spec, out, "layers.log")
        self._layers: list[HostLayer] = []
        self._restarts = plan(spec.minutes * 60, len(_NAMES), spec.seed)
        self._restarted = Times()
        self._typists: dict[str, ssh.Typist] = {}
        self._stalls = [stalls.Stalls(name, self._tally.fault) for name in _NAMES]

    def _network(self) -> AbstractContextManager[Dumbbell]:
        """One that loses little but what it is told to: what stands still because a queue overflows
        again and again is TCP's own."""
        return dumbbell(both_ways=True, red=None, buffer_bytes=_BUFFER_BYTES)

    def _start(self, stack: ExitStack, network: Dumbbell, folder: Path) -> None:
        spec = self._spec
        self._nginx = Nginx(spec.seed)
        serve(stack, self._nginx, network, folder)
        serve(stack, redis.SERVER, network, folder)
        serve(stack, iperf.SERVER, network, folder)
        self._socket = serve(stack, postgres.SERVER, network, folder)
        run(postgres.fill_argv(self._socket), pid=network.hosts[1].pid, timeout_s=_FILL_S)
        self._account = ssh.Account.of(self.server, serve(stack, SSH_SERVER, network, folder))
        key = folder / "acc.key"
        make_key(key)
        for number, name in enumerate(_NAMES):
            peer = address(len(_NAMES) - number)
            layer = HostLayer(name, network.hosts[number].pid, peer, key, folder, self._log)
            stack.callback(layer.close)
            self._layers.append(layer)
            layer.start()
        for layer in self._layers:
            layer.await_peer(0)

    def _workers(self, network: Dumbbell, folder: Path) -> list[Worker]:
        spec, tally, stopped = self._spec, self._tally, self._stopped
        pid, server = network.hosts[0].pid, self.server
        steps: dict[str, Callable[[], None]] = {}
        for number in range(_FETCHERS):
            own = folder / f"curl{number}"
            seed = f"{spec.seed} fetcher {number}"
            fetcher = Fetcher(self._nginx, server, pid, own, self._out / "wrong", tally, seed)
            steps[own.name] = fetcher.step
        short_s = spec.minutes * 60 / 3
        load = redis.Load(server, pid, folder, tally, spec.seed, stopped, _MOST_BENCHMARKED)
        bench = postgres.Bench(
            *(server, pid, self._socket, folder, tally, min(_BALANCE_S, short_s), stopped),
            _TRANSACTIONS_PER_S,
        )
        files = self._nginx.files
        copier = ssh.Copier(
            self._account, files, pid, folder / "copier", tally, f"{spec.seed} copier"
        )
        bulk = iperf.Bulk(server, pid, folder, tally, spec.seed, min(_IPERF_S, short_s), stopped)
        for name in ("typed", "stay"):
            log = self._out / f"{name}.log"
            self._typists[name] = ssh.typist(
                name, self._account, pid, log, tally, stopped, spec.seed
            )
        steps |= {
            "redis-benchmark": load.step, "pgbench": bench.step, "ssh": copier.step,
            "iperf3": bulk.step, "typed": self._typists["typed"].type,
            "stay": self._typists["stay"].stay,
        }  # fmt: skip
        pause_s = min(_PAUSE_S, short_s / 10)
        workers = [
            Worker(name, step, tally, stopped, _PAUSES_S.get(name, pause_s))
            for name, step in steps.items()
        ]
        return [*workers, Worker("stalls", lambda: self._look(network), tally, stopped, _LOOK_S)]

    def _look(self, network: Dumbbell) -> None:
        for seen, host in zip(self._stalls, network.hosts[: len(_NAMES)], strict=True):
            seen.see(time.monotonic(), run(stalls.SS, pid=host.pid))

    def _tasks(self) -> list[Task]:
        return [Task(self._restart_if_due, 0.0, is_done=lambda: not self._restarts)]

    def _restart_if_due(self, at_s: float) -> None:
        if self._restarts and at_s >= self._restarts[0].at_s:
            self._restart(at_s, self._restarts.pop(0))

    def _restart(self, at_s: float, due: Restart) -> None:
        layer, begun_s = self._layers[due.layer], time.monotonic()
        heard = [each.peers for each in self._layers]
        for each in self._layers:
            each.take()
            each.excuse()
        if due.how == "kill":
            layer.kill()
        else:
            layer.stop()
        time.sleep(due.away_s)
        layer.start()
        for each, before in zip(self._layers, heard, strict=True):
            each.await_peer(before)
            each.excuse()
        took_s = time.monotonic() - begun_s
        self._restarted.add(took_s - due.away_s)
        self._tally.count(f"restarts.{due.how}s")
        line = {
            "at_s": round(at_s, 1), "layer": layer.name, "how": due.how,
            "away_s": round(due.away_s, 2), "back_s": round(took_s, 2),
        }  # fmt: skip
        with (self._out / "restarts.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        say(f"{at_s:5.0f} s  the {layer.name} layer: {due.how}, back after {took_s:.2f} s")

    def _sample(self, at_s: float, counters: TextIO) -> None:
        for layer in self._layers:
            layer.sample(at_s)
            if not (said := layer.take()):
                continue
            for peer in said["peers"]:
                peer["flows"] = len(peer["flows"])
            counters.write(json.dumps({"at_s": round(at_s, 1), "layer": layer.name} | said) + "\n")

    def _progress(self, counts: Counter[str]) -> str:
        http = counts["http.fetched_bytes"] + counts["http.uploaded_bytes"]
        copied = counts["ssh.copied_bytes"]
        recovered = sum(layer.totals.all["recovered"] for layer in self._layers)
        echoes = [typist.answers.figures() for typist in self._typists.values()]
        longest_ms = max((times.get("longest_ms", 0.0) for times in echoes), default=0.0)
        still_s = max(seen.longest_s for seen in self._stalls)
        memory = max((layer.rss_kb for layer in self._layers), default=0)
        return (
            f"{counts['http.files'] + counts['http.uploads']} files ({http / 1e6:.0f} MB), "
            f"{counts['ssh.files']} by ssh ({copied / 1e6:.0f} MB), "
            f"{counts['redis.sets'] + counts['redis.gets']} values, "
            f"{counts['postgres.transactions']} transactions, "
            f"iperf3 {counts['iperf3.carried'] / 1e6:.0f} MB, "
            f"{counts['typed.answers'] + counts['stay.answers']} echoes; "
            f"{recovered:.0f} recovered; longest echo {longest_ms:.0f} ms, "
            f"still {still_s:.1f} s; at most {memory / 1024:.0f} MiB a layer"
        )

    def _require_nothing_left(self) -> None:
        """Wait until nothing is held; the verdict sees what is."""
        for layer in self._layers:
            layer.is_idle = True
        if self._lasted_s < _LEAST_TO_SETTLE_S:
            return

        def holds_nothing() -> bool:
            return not any(layer.take().get("held_bytes", 1) for layer in self._layers)

        with suppress(TimeoutError):
            wait_until(holds_nothing, timeout_s=_SETTLE_S, what="nothing is held", poll_s=1.0)
        for layer in self._layers:
            layer.held_left_bytes = layer.take().get("held_bytes", 1)

    def _end(self) -> None:
        for layer in self._layers:
            layer.excuse()
        for layer in self._layers:
            layer.stop()

    def _times(self) -> dict[str, dict[str, float]]:
        echoes = {name: typist.answers for name, typist in self._typists.items()}
        logins = {f"{name}.login": typist.logins for name, typist in self._typists.items()}
        times = {**echoes, **logins, "restarts": self._restarted}
        return {name: one.figures() for name, one in times.items()}

    def _verdict(
        self, counts: Counter[str], link: Mapping[str, Counts], faults: Sequence[str]
    ) -> tuple[dict[str, Any], list[str]]:
        counts["stalls.seen"] = sum(seen.seen for seen in self._stalls)
        layers = [layer.ended() for layer in self._layers]
        found = Run(counts, link, losses.SHARE, layers, self._times(), faults)
        figures, found_faults = judge(found)
        longest_s = max(seen.longest_s for seen in self._stalls)
        return figures | {"stalls.longest_s": round(longest_s, 2)}, found_faults

    def _samples(self) -> Mapping[str, Sequence[Sample]]:
        return {
            f"{layer.name} {number}": samples
            for layer in self._layers
            for number, samples in enumerate(layer.processes)
        }

    def _checked(self, figures: Mapping[str, Any]) -> str:
        return (
            f"{figures['http.files']} files fetched, {figures['http.uploads']} stored and "
            f"{figures['ssh.files']} by ssh, {figures['redis.gets']} values got of "
            f"{figures['redis.sets']} set, {figures['postgres.balances']} balances, "
            f"{figures['typed.answers'] + figures['stay.answers']} echoes"
        )


def _soak(spec: AccSpec, out: Path) -> list[str]:
    return AccSoak(spec, out).run()


if __name__ == "__main__":
    sys.exit(entry.run(AccSpec, _soak))
