"""The course of a soak of unmodified programs: servers and clients start, time passes, all ends in
order, and a verdict is written."""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, TextIO

from experiments.bench.short_flows.dumbbell import RATE_BPS, Dumbbell, dumbbell
from experiments.bench.short_flows.lines import USUAL
from experiments.soak import SUMMARY, AccSpec, AtpSpec
from experiments.soak.entry import say
from experiments.soak.programs import judging, losses, redis
from experiments.soak.programs.losses import Losses
from experiments.soak.programs.passing import Task, pass_time
from experiments.soak.programs.work import Tally, Worker
from experiments.soak.trend import Sample
from experiments.traffic.program import ProgramError
from experiments.traffic.programs.app import AppError, Service
from experiments.traffic.programs.running import server
from testbed.bottleneck import Counts, Loss
from testbed.command import CommandError
from testbed.sandbox import RUN_DIR, reap_orphans

_SAY_EVERY_S, _REAP_EVERY_S = 10.0, 10.0
# What clients may need for what they have begun.
_WIND_UP_S = 300.0


class PanicError(RuntimeError):
    """A thread of what is soaked has panicked; the text is what its log says."""


_BREAKS_OFF = (
    AppError, CommandError, PanicError, ProcessLookupError, ProgramError, TimeoutError,
)  # fmt: skip


class ProgramSoak(ABC):
    """A soak in progress, of what carries the connections from h1 to h2. ``faults`` collects what
    is wrong, as text."""

    soaked: ClassVar[str]
    """What a process that is soaked is called."""
    sample_every_s: ClassVar[float] = 10.0
    keys_connections: ClassVar[int] = 4
    server: ClassVar[str]
    """Where clients at h1 find the servers."""

    def __init__(self, spec: AtpSpec | AccSpec, out: Path, log: str) -> None:
        self.faults: list[str] = []
        self._spec, self._out = spec, out
        self._tally = Tally()
        self._stopped = threading.Event()
        self._log = out / log
        self._losses: Losses | None = None
        self._keys: redis.Keys | None = None
        self._said = 0
        self._lasted_s = 0.0
        self._interrupted = self._broken_off = False

    # What a soak is made of

    def _network(self) -> AbstractContextManager[Dumbbell]:
        """Return the network."""
        return dumbbell(both_ways=True)

    @abstractmethod
    def _start(self, stack: ExitStack, network: Dumbbell, folder: Path) -> None:
        """Start servers, and what is soaked."""

    @abstractmethod
    def _workers(self, network: Dumbbell, folder: Path) -> Sequence[Worker]:
        """Return the clients."""

    def _tasks(self) -> Sequence[Task]:
        """Return what is to be done now and then, beside what every soak does."""
        return ()

    @abstractmethod
    def _sample(self, at_s: float, counters: TextIO) -> None:
        """Look at the processes; a line of their counters for each. Raises ProcessLookupError if
        one has ended by itself."""

    @abstractmethod
    def _progress(self, counts: Counter[str]) -> str:
        """Return what has been done so far."""

    def _end_of_clients(self) -> None:  # noqa: B027  (not everything has to know)
        """No new clients come from now on; those that are end."""

    @abstractmethod
    def _require_nothing_left(self) -> None:
        """Look at what is left after all clients."""

    @abstractmethod
    def _end(self) -> None:
        """End the processes."""

    @abstractmethod
    def _verdict(
        self, counts: Counter[str], link: Mapping[str, Counts], faults: Sequence[str]
    ) -> tuple[dict[str, Any], list[str]]:
        """Return figures and findings."""

    @abstractmethod
    def _samples(self) -> Mapping[str, Sequence[Sample]]:
        """Return the samples of all processes."""

    @abstractmethod
    def _checked(self, figures: Mapping[str, Any]) -> str:
        """Return what was checked, in words."""

    # Its course

    def run(self) -> list[str]:
        """The whole of it. Returns ``faults``, which are complete then."""
        spec = self._spec
        say(f"{spec.minutes:g} minutes, {losses.SHARE:.0%} lost both ways, seed {spec.seed}")
        folder = RUN_DIR / "soak"
        folder.mkdir()
        try:
            with ExitStack() as stack:
                network = stack.enter_context(self._network())
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
        return self.faults

    def _with_clients(self, stack: ExitStack, network: Dumbbell, folder: Path) -> None:
        near, far = network.hosts[:2]
        keys = redis.Keys(
            *(self.server, near.pid, folder, self._out / "keys.log"),
            *(self._tally, self._spec.seed, self.keys_connections),
        )
        self._keys = stack.enter_context(keys)
        workers = self._workers(network, folder)
        for worker in workers:
            worker.start()
        self._losses = Losses(network, self._spec.seed)
        with self._timed():
            self._drive(self._losses)
        self._stopped.set()
        self._end_of_clients()
        self._join([keys.finish(), *workers])
        self._require_nothing_left()
        self._require_no_panic()
        keys.compare(far.pid)
        self._end()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begun_s = time.monotonic()
        try:
            yield
        except KeyboardInterrupt:
            self._interrupted = True
            say("interrupted: what has begun is ended, and judged")
        except _BREAKS_OFF:
            # What follows from it is no news.
            self._tally.close()
            raise
        finally:
            self._lasted_s = time.monotonic() - begun_s

    def _drive(self, lost: Losses) -> None:
        lost.turn()
        turn_s = losses.turn_s(self._spec.minutes)
        try:
            with (self._out / "counters.jsonl").open("w") as file:
                tasks = (
                    Task(lost.turn, turn_s, turn_s),
                    Task(lambda at_s: self._sample(at_s, file), self.sample_every_s),
                    Task(self._say_progress, _SAY_EVERY_S, _SAY_EVERY_S),
                    # sshd leaves one for each session.
                    Task(lambda _at_s: reap_orphans(), _REAP_EVERY_S),
                    *self._tasks(),
                )
                pass_time(self._spec.minutes * 60, tasks)
        finally:
            lost.note()

    def _say_progress(self, at_s: float) -> None:
        counts = self._counts()
        faults = counts["faults"] + counts["redis.faults"]
        say(f"{at_s:5.0f} s  {self._progress(counts)}" + (f"; {faults} FAULTS" if faults else ""))
        told = self._tally.faults()
        for fault in told[self._said :]:
            say(f"fault: {fault}")
        self._said = len(told)
        self._require_no_panic()

    def _require_no_panic(self) -> None:
        """Stop at the first: what follows is its consequence."""
        if text := judging.panic(self._log.read_text(errors="replace")):
            raise PanicError(f"a {self.soaked}: {text}")

    def _join(self, threads: Sequence[threading.Thread]) -> None:
        deadline_s = time.monotonic() + _WIND_UP_S
        for thread in threads:
            thread.join(max(0.1, deadline_s - time.monotonic()))
            if thread.is_alive():
                self.faults.append(
                    f"{thread.name} hangs: not ended {_WIND_UP_S:g} s after all else"
                )

    def _counts(self) -> Counter[str]:
        counts = self._tally.counts()
        if self._keys:
            counts.update({f"redis.{name}": count for name, count in self._keys.counts.items()})
        return counts

    def _judge(self) -> None:
        judging.record_samples(self._out / "samples.csv", self.soaked, self._samples())
        seen = self._losses.seen if self._losses else {}
        found = [*self.faults, *self._tally.faults()]
        figures, faults = self._verdict(self._counts(), seen, found)
        # Of a soak that was broken off, the cause is what counts.
        self.faults = found if self._broken_off else faults
        summary = {
            **asdict(self._spec),
            "lasted_s": round(self._lasted_s, 1),
            "interrupted": self._interrupted,
            "loss": losses.SHARE,
            "rate_bps": RATE_BPS,
            **figures,
            "faults": self.faults,
        }
        (self._out / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")
        packets = sum(counts.seen for counts in seen.values())
        say(
            f"{self._lasted_s:.0f} s; checked: {figures.get('checked_bytes', 0) / 1e6:.0f} MB in "
            f"{self._checked(Counter(figures))}"
        )
        say(f"lost on the link: {figures.get('link.lost', 0)} of {packets} packets")


def serve(stack: ExitStack, service: Service, network: Dumbbell, folder: Path) -> Path:
    """Start ``service`` at h2, in a folder of its own below ``folder``; return that."""
    own = folder / service.name / "server"
    own.mkdir(parents=True)
    service.prepare(own)
    stack.enter_context(server(service, network.hosts[1], own))
    return own
