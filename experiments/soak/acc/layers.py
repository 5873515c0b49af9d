"""``fountain acc up`` at a host: killed, ended and begun again, and what all of its processes have
counted."""

import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.network.acc import End, Layer, await_routes, up_argv
from experiments.soak.acc.verdict import LayerEnd
from experiments.soak.trend import Sample, sample
from experiments.traffic.program import Command, ProgramError
from testbed.command import CommandError, wait_until

# What may be counted for so long after an end or a beginning is that one's.
GRACE_S = 10.0
_READY_S = 10.0
_MOST_UNANSWERED = 3
_OF_PEERS = (
    "sent", "came", "coded_at_ends", "coded_on_losses", "coded_came", "lost", "recovered",
    "useless", "impatient", "timeouts_avoided",
)  # fmt: skip
_OF_LAYER = (
    "malformed", "unknown", "forged", "refused", "strayed", "unnumbered", "evicted",
    "undelivered", "unsent",
)  # fmt: skip


def flat(statistics: Mapping[str, Any]) -> dict[str, float]:
    """Return the counters of `fountain acc stats`, those of peers in sum."""
    found = {name: float(statistics[name]) for name in _OF_LAYER}
    for name in _OF_PEERS:
        found[name] = sum(float(peer[name]) for peer in statistics["peers"])
    return found


class Totals:
    """Counters over processes that begin at zero: of all the time, and of the times that are
    excused."""

    def __init__(self) -> None:
        self.all: dict[str, float] = defaultdict(float)
        self.excused: dict[str, float] = defaultdict(float)
        self._before: Mapping[str, float] = {}

    def begin(self) -> None:
        """A new process counts from zero."""
        self._before = {}

    def take(self, counters: Mapping[str, float], *, is_excused: bool) -> None:
        """Take what the process has counted so far."""
        for name, value in counters.items():
            before = self._before.get(name, 0.0)
            # A peer that comes back counts from zero, too.
            grown = value - before if value >= before else value
            self.all[name] += grown
            if is_excused:
                self.excused[name] += grown
        self._before = counters


class HostLayer:
    """The layer of the host of ``pid``, whose peer is ``peer``; nothing runs before ``start``."""

    def __init__(self, name: str, pid: int, peer: str, key: Path, folder: Path, log: Path) -> None:
        self.name = name
        self.totals = Totals()
        self.processes: list[list[Sample]] = []
        self.ends: Counter[str] = Counter()
        self.gone: Counter[str] = Counter()
        self.held_most_bytes, self.held_left_bytes = 0, 0
        self.failure: str | None = None
        self.is_idle = False
        """Whether there are no connections any more. Then a burst of losses may take all that two
        layers say to each other for a moment."""
        self._end, self._key, self._log = End(pid, [peer]), key, log
        self._control = folder / f"{name}.sock"
        self._command: Command | None = None
        self._peers = self._unanswered = 0
        self._excused_until_s = 0.0

    @property
    def rss_kb(self) -> int:
        """Its memory when it was looked at last; 0 if that was another process."""
        return self.processes[-1][-1].rss_kb if self.processes and self.processes[-1] else 0

    @property
    def peers(self) -> int:
        """How often it has said that it has found its peer."""
        return self._peers

    def excuse(self) -> None:
        """It or its peer ends or begins: what it drops for a while is nobody's fault."""
        self._excused_until_s = time.monotonic() + GRACE_S

    @property
    def is_excused(self) -> bool:
        """Whether that is so now."""
        return time.monotonic() < self._excused_until_s

    def start(self) -> None:
        """Start it. Raises ProgramError if it does not."""
        self.excuse()
        self.totals.begin()
        self.processes.append([])
        command = Command(
            up_argv(self._key, self._control, self._end.peers),
            name=f"{self.name} layer",
            log=self._log,
            pid=self._end.pid,
        )
        command.expect("up")
        self._command = command
        self._reader = threading.Thread(target=self._read, args=(command,), daemon=True)
        self._reader.start()

    def await_peer(self, heard: int) -> None:
        """Wait until it has found its peer once more than ``heard`` times, and TCP goes through it.
        Raises TimeoutError."""
        wait_until(
            lambda: self._peers > heard,
            timeout_s=_READY_S,
            what=f"the {self.name} layer finds its peer",
        )
        await_routes(self._end)

    def kill(self) -> None:
        """Kill it."""
        self._finish(signal.SIGKILL, -signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._finish(signal.SIGTERM, 0)

    def _finish(self, number: int, expected: int) -> None:
        assert self._command is not None
        self.take()
        self.excuse()
        command, self._command = self._command, None
        os.kill(command.pid, number)
        try:
            status = command.await_end()
            if status != expected:
                self.failure = f"ended with status {status}, not {expected}"
        finally:
            # Closed when nobody reads any more.
            self._reader.join(_READY_S)
            command.__exit__()
        self.ends["kills" if number == signal.SIGKILL else "stops"] += 1

    def _read(self, command: Command) -> None:
        try:
            for message in command.messages():
                self._hear(message)
        except (ProgramError, ValueError) as wrong:
            if self._command is command:
                self.failure = str(wrong)

    def _hear(self, message: Mapping[str, Any]) -> None:
        match message["event"]:
            case "peer":
                self._peers += 1
            case "gone":
                usual = "when_idle" if self.is_idle else "by_itself"
                kind = "at_restarts" if self.is_excused else usual
                self.gone[f"{kind}: {message['why']}"] += 1

    def take(self) -> dict[str, Any]:
        """Ask for its counters, and return all that it says. {} while it does not run or answer.

        Raises ProgramError when it does not answer again and again.
        """
        if self._command is None:
            return {}
        try:
            said = Layer(self._command.pid, self._control).statistics()
        except CommandError as silent:
            self._unanswered += 1
            if self._unanswered == _MOST_UNANSWERED:
                raise ProgramError(f"the {self.name} layer does not answer: {silent}") from silent
            return {}
        self._unanswered = 0
        self.totals.take(flat(said), is_excused=self.is_excused)
        self.held_most_bytes = max(self.held_most_bytes, said["held_bytes"])
        return said

    def sample(self, at_s: float) -> None:
        """Look at its process, if it runs. Raises ProcessLookupError if it has ended by itself."""
        if self._command is None:
            return
        if not self._command.running():
            raise ProcessLookupError(f"the {self.name} layer has ended by itself")
        try:
            self.processes[-1].append(sample(self._command.pid, at_s))
        except ProcessLookupError as gone:
            raise ProcessLookupError(f"the {self.name} layer has ended by itself") from gone

    def close(self) -> None:
        """End it somehow, if it still runs."""
        if self._command is not None:
            self._command.__exit__()
            self._command = None

    def ended(self) -> LayerEnd:
        """Return what is known of it in the end."""
        return LayerEnd(
            self.name,
            processes=tuple(map(tuple, self.processes)),
            counters=dict(self.totals.all),
            excused=dict(self.totals.excused),
            ends=dict(self.ends),
            gone=dict(self.gone),
            held_most_bytes=self.held_most_bytes,
            held_left_bytes=self.held_left_bytes,
            failure=self.failure,
        )
