"""A pair of ``fountain atp-proxy``: one beside the clients, one beside the server."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.bench.short_flows.dumbbell import Dumbbell, address
from experiments.soak.atp.verdict import Pair, ProxyEnd
from experiments.soak.trend import Sample, sample
from experiments.traffic.fountain import find_fountain
from experiments.traffic.program import Command, ProgramError
from experiments.traffic.programs.app import Service
from testbed.command import wait_until

STATS_S = 2
_READY_S = 20.0


@dataclass
class Proxy:
    """A running proxy. ``counters`` are its latest, ``errors`` what connections broke with, and
    ``lost`` why connections of ATP ended."""

    name: str
    command: Command
    counters: Mapping[str, Any] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    idle_descriptors: int = 0
    left_descriptors: int = 0
    left_connections: int = 0
    told: int = 0
    failure: str | None = None
    ending: bool = False

    def follow(self) -> None:
        """Read its messages from now on."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            for message in self.command.messages():
                self._take(message)
        except (ProgramError, ValueError) as wrong:
            self.failure = str(wrong)

    def _take(self, message: Mapping[str, Any]) -> None:
        match message["event"]:
            case "stats" | "stopped":
                self.counters = message
                self.told += 1
            case "closed" if message["error"]:
                self.errors[message["error"]] += 1
            case "lost" if not self.ending:
                self.lost.append(message["why"])

    def sample(self, at_s: float) -> Sample:
        """Look at its memory and descriptors. Raises ProcessLookupError if it has ended."""
        self.samples.append(sample(self.command.pid, at_s))
        return self.samples[-1]

    @property
    def open(self) -> int:
        """How many connections it has by its counters."""
        return int(self.counters.get("opened", 0)) - int(self.counters.get("closed", 0))

    def tell_again(self) -> None:
        """Wait until it has told its counters anew. Raises TimeoutError."""
        before = self.told
        wait_until(
            lambda: self.told > before,
            timeout_s=_READY_S,
            what=f"the {self.name} proxy tells its counters",
            poll_s=0.1,
        )

    def end(self) -> None:
        """End it by SIGTERM, and read what it says last. ``ending`` of both has to be set before,
        or the other one takes this for a loss."""
        try:
            status = self.command.terminate()
        except ProgramError as wrong:
            self.failure = str(wrong)
            return
        self._reader.join(_READY_S)
        if status:
            self.failure = f"ended with status {status}"

    def ended(self) -> ProxyEnd:
        """Return what is known of it in the end."""
        return ProxyEnd(
            self.name,
            samples=tuple(self.samples),
            counters=dict(self.counters),
            errors=dict(self.errors),
            lost=tuple(self.lost),
            idle_descriptors=self.idle_descriptors,
            left_descriptors=self.left_descriptors,
            left_connections=self.left_connections,
            failure=self.failure,
        )


@dataclass(frozen=True)
class Proxies:
    """The two proxies of ``service``."""

    service: str
    near: Proxy
    far: Proxy

    def __iter__(self) -> Iterator[Proxy]:
        return iter((self.near, self.far))

    def ended(self, breakable: int) -> Pair:
        """Return what is known of them in the end; see ``Pair``."""
        return Pair(self.service, self.near.ended(), self.far.ended(), breakable)


@contextmanager
def proxies(
    service: Service, network: Dumbbell, folder: Path, log: Path, atp_port: int
) -> Iterator[Proxies]:
    """Context manager: the clients' host carries ``service`` at its usual port."""
    near, far = network.hosts[:2]
    port, name = service.port, service.name
    common = ["--json", "--stats", str(STATS_S)]
    out = [*_argv(folder / "far"), f"atp://{address(2)}:{atp_port}", f"tcp://127.0.0.1:{port}"]
    with Command([*out, *common], name=f"far {name} proxy", log=log, pid=far.pid) as there:
        known = f"--fingerprint={there.expect('listening')['fingerprint']}"
        into = [
            *_argv(folder / "near"),
            f"tcp://{address(1)}:{port}",
            f"atp://{address(2)}:{atp_port}",
            known,
        ]
        with Command([*into, *common], name=f"near {name} proxy", log=log, pid=near.pid) as here:
            here.expect("listening")
            here.expect("connected")
            pair = Proxies(name, Proxy(f"{name} near", here), Proxy(f"{name} far", there))
            for proxy in pair:
                proxy.follow()
            yield pair


def _argv(state: Path) -> list[str]:
    state.mkdir()
    return ["env", f"XDG_STATE_HOME={state}", f"HOME={state}", str(find_fountain()), "atp-proxy"]
