"""The soak of atp-proxy: starts servers, proxies and clients, lets time pass, and judges.

    python -m experiments.soak.atp.soak --spec JSON --out DIR

is what ``experiments.soak.run_atp`` starts as the first process of a new sandbox.
"""

import csv
import json
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.bench.short_flows.dumbbell import RATE_BPS, Dumbbell, address, dumbbell
from experiments.bench.short_flows.lines import USUAL
from experiments.measure.process import footprint
from experiments.soak import SUMMARY, AtpSpec, entry
from experiments.soak.atp import postgres, redis
from experiments.soak.atp.http import Fetcher, Nginx
from experiments.soak.atp.proxies import Proxies, Proxy, proxies
from experiments.soak.atp.verdict import Run, judge, panic
from experiments.soak.atp.work import Tally, Worker
from experiments.soak.entry import say
from experiments.traffic.program import Program, ProgramError
from experiments.traffic.programs.app import AppError, Service
from experiments.traffic.programs.running import server
from testbed.bottleneck import Counts, Loss
from testbed.command import CommandError, run, wait_until
from testbed.sandbox import RUN_DIR

LOSS = 0.01
KINDS = {"random": Loss(LOSS), "bursts": Loss(LOSS, 2.5)}
_ATP_PORT = 4880
_FETCHERS = 3
_TICK_S = 0.5
_SAMPLE_EVERY_S, _SAY_EVERY_S = 10.0, 10.0
# Losses change between random and bursts, and pgbench's balances are compared, this often at least.
_TURN_S, _BALANCE_S = 60.0, 60.0
_FILL_S = 60.0
# What clients may need for what they have begun.
_WIND_UP_S = 300.0
_SETTLE_S = 40.0


class PanicError(RuntimeError):
    """A thread of a proxy has panicked; the text is what its log says."""


_BREAKS_OFF = (
    AppError, CommandError, PanicError, ProcessLookupError, ProgramError, TimeoutError,
)  # fmt: skip


class Soak:
    """A soak in progress. ``faults`` collects what is wrong, as text."""

    def __init__(self, spec: AtpSpec, out: Path) -> None:
        self.faults: list[str] = []
        self._spec, self._out = spec, out
        self._tally = Tally()
        self._stopped = threading.Event()
        self._pairs: list[Proxies] = []
        self._link: dict[str, Counts] = {}
        self._kind = ""
        self._said = 0
        self._log = out / "proxies.log"
        self._keys: dict[str, int] = {}
        self._begun_s = self._lasted_s = 0.0
        self._interrupted = self._broken_off = False

    def run(self) -> None:
        """The whole of it; ``faults`` is complete afterwards."""
        folder = RUN_DIR / "soak"
        folder.mkdir()
        try:
            with ExitStack() as stack:
                network = stack.enter_context(dumbbell(both_ways=True))
                network.start(Loss(), USUAL, self._spec.seed)
                self._start(stack, network, folder)
                self._with_clients(stack, network, folder)
        except _BREAKS_OFF as broken:
            self._tally.close()
            self._broken_off = True
            self.faults.append(str(broken))
        except KeyboardInterrupt:
            self._interrupted = True
        self._stopped.set()
        self._judge()

    def _start(self, stack: ExitStack, network: Dumbbell, folder: Path) -> None:
        """Start servers and proxies."""
        self._nginx = Nginx(self._spec.seed)
        services: tuple[Service, ...] = (self._nginx, redis.SERVER, postgres.SERVER)
        far = network.hosts[1]
        for number, service in enumerate(services):
            own = folder / service.name
            for each in (own, own / "server", own / "proxies"):
                each.mkdir()
            service.prepare(own / "server")
            stack.enter_context(server(service, far, own / "server"))
            pair = proxies(service, network, own / "proxies", self._log, _ATP_PORT + number)
            self._pairs.append(stack.enter_context(pair))
        self._socket = folder / postgres.SERVER.name / "server"
        run(postgres.fill_argv(self._socket), pid=far.pid, timeout_s=_FILL_S)
        for proxy in self._proxies():
            proxy.tell_again()
            proxy.idle_descriptors = footprint(proxy.command.pid).descriptors

    def _with_clients(self, stack: ExitStack, network: Dumbbell, folder: Path) -> None:
        near, far = network.hosts[:2]
        state = folder / "keys.json"
        words = ["--port", str(redis.SERVER.port)]
        keeping = ["--address", address(1), "--seed", str(self._spec.seed), "--state", str(state)]
        log = self._out / "keys.log"
        keys = stack.enter_context(
            Program("experiments.soak.atp.keys", [*words, *keeping], log=log, pid=near.pid)
        )
        follower = threading.Thread(target=self._follow, args=(keys,), daemon=True)
        workers = self._workers(near.pid, folder)
        for thread in (follower, *workers):
            thread.start()
        try:
            self._drive(network)
        except KeyboardInterrupt:
            self._interrupted = True
            say("interrupted: what has begun is ended, and judged")
        except (ProcessLookupError, PanicError):
            self._tally.close()
            raise
        finally:
            self._lasted_s = time.monotonic() - self._begun_s
            self._note_link(network)
        self._stopped.set()
        for proxy in self._proxies():
            # Without clients it is left when nothing was heard for a while, as it should be.
            proxy.ending = True
        keys.finish()
        self._join([follower, *workers])
        self._require_nothing_left()
        self._require_no_panic()
        comparing = ["--address", "127.0.0.1", "--compare", str(state)]
        with Program(
            "experiments.soak.atp.keys", [*words, *comparing], log=log, pid=far.pid
        ) as last:
            self._follow(last)
        for proxy in self._proxies():
            proxy.end()

    def _workers(self, pid: int, folder: Path) -> list[Worker]:
        spec, tally, stopped = self._spec, self._tally, self._stopped
        steps: dict[str, Callable[[], None]] = {}
        for number in range(_FETCHERS):
            own = folder / f"curl{number}"
            seed = f"{spec.seed} fetcher {number}"
            fetcher = Fetcher(self._nginx, address(1), pid, own, self._out / "wrong", tally, seed)
            steps[own.name] = fetcher.step
        run_s = min(_BALANCE_S, spec.minutes * 60 / 3)
        load = redis.Load(address(1), pid, folder, tally, spec.seed, stopped)
        bench = postgres.Bench(address(1), pid, self._socket, folder, tally, run_s, stopped)
        steps |= {"redis-benchmark": load.step, "pgbench": bench.step}
        return [Worker(name, step, tally, stopped) for name, step in steps.items()]

    def _follow(self, keys: Program) -> None:
        """Read what the client of redis tells, to its end."""
        told: dict[str, Any] = {}
        try:
            for told in keys.messages():
                self._keys |= told["counts"]
        except ProgramError as broken:
            self._tally.fault(f"keys: {broken}")
        if told.get("event") != "done":
            self._tally.fault("keys: it has not told the end")
        for fault in told.get("faults", ()):
            self._tally.fault(f"redis: {fault}")

    # While it goes on

    def _drive(self, network: Dumbbell) -> None:
        self._begun_s = begun_s = time.monotonic()
        end_s = begun_s + self._spec.minutes * 60
        turn_s = min(_TURN_S, self._spec.minutes * 60 / 4)
        turn, due_turn = 0, begun_s + turn_s
        due_sample, due_said = begun_s, begun_s + _SAY_EVERY_S
        self._kind = self._set_loss(network, turn)
        with (self._out / "counters.jsonl").open("w") as file:
            while (now_s := time.monotonic()) < end_s:
                if now_s >= due_turn:
                    due_turn += turn_s
                    turn += 1
                    self._note_link(network)
                    self._kind = self._set_loss(network, turn)
                if now_s >= due_sample:
                    due_sample += _SAMPLE_EVERY_S
                    for proxy in self._proxies():
                        try:
                            proxy.sample(now_s - begun_s)
                        except ProcessLookupError as gone:
                            raise ProcessLookupError(
                                f"the {proxy.name} proxy has ended by itself"
                            ) from gone
                        line = {"at_s": round(now_s - begun_s, 1), "proxy": proxy.name}
                        file.write(json.dumps(line | dict(proxy.counters)) + "\n")
                if now_s >= due_said:
                    due_said += _SAY_EVERY_S
                    say(self._progress(now_s - begun_s))
                    self._say_faults()
                    self._require_no_panic()
                time.sleep(_TICK_S)

    def _say_faults(self) -> None:
        faults = self._tally.faults()
        for fault in faults[self._said :]:
            say(f"fault: {fault}")
        self._said = len(faults)

    def _require_no_panic(self) -> None:
        """Stop at the first: what follows is its consequence."""
        if text := panic(self._log.read_text(errors="replace")):
            raise PanicError(f"a proxy: {text}")

    def _set_loss(self, network: Dumbbell, turn: int) -> str:
        kind = list(KINDS)[turn % len(KINDS)]
        network.set_loss(KINDS[kind], self._spec.seed % 2**31 + turn)
        return kind

    def _note_link(self, network: Dumbbell) -> None:
        """Add up what the link has counted since its losses were set."""
        assert network.back is not None
        for way, link in (("there", network.link), ("back", network.back)):
            seen = link.seen()
            before = self._link.get(f"{self._kind}.{way}", Counts(0, 0, 0))
            self._link[f"{self._kind}.{way}"] = Counts(
                *(
                    getattr(before, name) + getattr(seen.first, name) + getattr(seen.others, name)
                    for name in ("seen", "lost", "red")
                )
            )

    def _progress(self, at_s: float) -> str:
        counts = self._tally.counts()
        http = counts["http.fetched_bytes"] + counts["http.uploaded_bytes"]
        values = sum(self._keys.get(kind, 0) for kind in ("sets", "gets"))
        memory = max((proxy.samples[-1].rss_kb for proxy in self._proxies()), default=0)
        faults = counts["faults"] + self._keys.get("faults", 0)
        return (
            f"{at_s:5.0f} s  {counts['http.files'] + counts['http.uploads']} files "
            f"({http / 1e6:.0f} MB), {values} values, {counts['postgres.transactions']} "
            f"transactions; {sum(proxy.open for proxy in self._proxies())} open, "
            f"at most {memory / 1024:.0f} MiB a proxy" + (f"; {faults} FAULTS" if faults else "")
        )

    # The end

    def _join(self, threads: list[threading.Thread]) -> None:
        deadline_s = time.monotonic() + _WIND_UP_S
        for thread in threads:
            thread.join(max(0.1, deadline_s - time.monotonic()))
            if thread.is_alive():
                self.faults.append(
                    f"{thread.name} hangs: not ended {_WIND_UP_S:g} s after all else"
                )

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

    def _proxies(self) -> list[Proxy]:
        return [proxy for pair in self._pairs for proxy in pair]

    def _judge(self) -> None:
        counts = self._tally.counts()
        counts.update({f"redis.{name}": count for name, count in self._keys.items()})
        breakable = {"http": counts["http.broken_off"], "redis": counts["redis.breakable"]}
        pairs = [pair.ended(breakable.get(pair.service, 0)) for pair in self._pairs]
        found = Run(counts, self._link, LOSS, pairs, [*self.faults, *self._tally.faults()])
        figures, faults = judge(found)
        # Of a soak that was broken off, the cause is what counts.
        self.faults = list(found.faults) if self._broken_off else faults
        with (self._out / "samples.csv").open("w") as file:
            table = csv.writer(file)
            table.writerow(("seconds", "proxy", "rss_kb", "descriptors", "threads"))
            for proxy in self._proxies():
                table.writerows(
                    (f"{s.at_s:.1f}", proxy.name, s.rss_kb, s.descriptors, s.threads)
                    for s in proxy.samples
                )
        summary = {
            **asdict(self._spec),
            "lasted_s": round(self._lasted_s, 1),
            "interrupted": self._interrupted,
            "loss": LOSS,
            "rate_bps": RATE_BPS,
            **figures,
            "faults": self.faults,
        }
        (self._out / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")
        self._say_checked(figures)

    def _say_checked(self, figures: dict[str, Any]) -> None:
        of = {name: figures.get(name, 0) for name in figures}
        say(
            f"{self._lasted_s:.0f} s; checked: {of.get('checked_bytes', 0) / 1e6:.0f} MB in "
            f"{of.get('http.files', 0)} files fetched and {of.get('http.uploads', 0)} stored, "
            f"{of.get('redis.gets', 0)} values got of {of.get('redis.sets', 0)} set, "
            f"{of.get('postgres.transactions', 0)} transactions in "
            f"{of.get('postgres.balances', 0)} balances"
        )
        packets = sum(counts.seen for counts in self._link.values())
        say(f"lost on the link: {of.get('link.lost', 0)} of {packets} packets")


def _soak(spec: AtpSpec, out: Path) -> list[str]:
    say(f"{spec.minutes:g} minutes, {LOSS:.0%} lost both ways, seed {spec.seed}")
    soak = Soak(spec, out)
    soak.run()
    return soak.faults


if __name__ == "__main__":
    sys.exit(entry.run(AtpSpec, _soak))
