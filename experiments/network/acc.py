"""TCP-ACC's layer beneath the TCP of hosts (``fountain acc up`` at each of them)."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.schemes import Scheme
from experiments.traffic.fountain import find_fountain
from experiments.traffic.program import Command, ProgramError
from testbed.bed import Bed
from testbed.command import CommandError, run, wait_until

TABLE = "4881"
"""Where `fountain acc up`, and bench-tun, put their routes."""

_READY_S = 10.0


@dataclass(frozen=True)
class End:
    """A host that runs the layer: ``pid`` is a process of its namespace (None: this one's)."""

    pid: int | None
    peers: Sequence[str]


@dataclass(frozen=True)
class Layer:
    """A layer that runs: its process, and where it answers."""

    pid: int
    control: Path

    def statistics(self) -> dict[str, Any]:
        """Return what `fountain acc stats` says."""
        argv = [str(find_fountain()), "acc", "stats", f"--control={self.control}", "--json"]
        said: dict[str, Any] = json.loads(run(argv))
        return said


def ends(bed: Bed) -> list[End]:
    """Return the hosts that send or receive, each with those that it sends to or hears."""
    roles = bed.roles
    pairs = [(name, roles.receiver) for name in roles.senders]
    pairs.append((roles.background_sender, roles.background_receiver))
    peers: dict[str, list[str]] = {}
    for sender, receiver in pairs:
        for one, other in ((sender, receiver), (receiver, sender)):
            known = peers.setdefault(one, [])
            if bed.host(other).IP() not in known:
                known.append(bed.host(other).IP())
    return [End(bed.host(name).pid, told) for name, told in peers.items()]


@contextmanager
def beneath(scheme: Scheme, bed: Bed, log: Path) -> Iterator[list[Layer]]:
    """Context manager: the hosts of ``bed`` run the layer, if ``scheme`` has it; yields theirs.
    Routes through it say of TCP what the hosts' own say.

    Raises FountainError if it has not been built, ProgramError if a host does not find its peers.
    """
    if scheme.acc is None:
        yield []
        return
    by_pid = {host.pid: host for host in bed.hosts}
    with running(scheme.acc, ends(bed), bed.run_dir, log) as layers:
        for end in ends(bed):
            assert end.pid is not None
            if attributes := by_pid[end.pid].route_attributes():
                set_attributes(end.pid, attributes)
        yield layers


@contextmanager
def running(coding: str, ends: Sequence[End], folder: Path, log: Path) -> Iterator[list[Layer]]:
    """Context manager: each of ``ends`` runs the layer, which codes so, and has found its peers.

    Raises ProgramError if a peer is not found, or if one does not end well when told to.
    """
    key = folder / "acc.key"
    if not key.exists():
        make_key(key)
    with ExitStack() as stack:
        started, layers = [], []
        for number, end in enumerate(ends):
            control = folder / f"acc-{number}.sock"
            argv = up_argv(key, control, end.peers, coding)
            process = Command(argv, name=f"fountain acc up {number}", log=log, pid=end.pid)
            started.append(stack.enter_context(process))
            layers.append(Layer(process.pid, control))
        for process, end in zip(started, ends, strict=True):
            hear(process, "up")
            for _ in end.peers:
                hear(process, "peer")
            process.ignore()
        for end in ends:
            await_routes(end)
        yield layers
        for process in started:
            if status := process.terminate():
                raise ProgramError(f"fountain acc up ended with status {status}; see {log}")


def make_key(file: Path) -> None:
    """Make a key, which hosts share."""
    run([str(find_fountain()), "acc", "key", str(file)])


def up_argv(key: Path, control: Path, peers: Iterable[str], coding: str = "acc") -> list[str]:
    """Return the command that runs the layer at a host. It answers at ``control``."""
    return [
        *(str(find_fountain()), "acc", "up", "--json", f"--key={key}"),
        *(f"--control={control}", f"--coding={coding}"),
        *(f"--peer={peer}" for peer in peers),
    ]


def await_routes(end: End) -> None:
    """Return once TCP to all peers goes through the layer, a moment after it says that it knows
    them."""

    def are_there() -> bool:
        return len(_routes(end.pid, TABLE)) >= len(end.peers)

    wait_until(are_there, timeout_s=_READY_S, what="routes through the layer")


def hear(process: Command, event: str) -> None:
    """Wait for the next message of ``process``, a little. Raises ProgramError unless it is
    ``event``."""
    message = next(process.messages(_READY_S), {})
    if message.get("event") != event:
        raise ProgramError(f"fountain acc up said {json.dumps(message)[:200]}, not {event!r}")


def set_control(pid: int | None, control: str, table: str = "main") -> None:
    """Have connections by all routes of a ``table`` use a congestion control; what else routes say
    stays."""
    set_attributes(pid, {"congctl": control}, table)


def set_attributes(pid: int | None, attributes: Mapping[str, str], table: str = TABLE) -> None:
    """Have all routes of a ``table``, by default those of the layer, say this of TCP (as ``ip
    route`` names it) besides what they say."""
    said = [word for pair in attributes.items() for word in pair]
    batch = ""
    for route in _routes(pid, table):
        words = ["route", "change", *_words(route), "table", table, *said]
        batch += f"{' '.join(words)}\n"
    run(["ip", "-batch", "-"], pid=pid, stdin=batch)


def _routes(pid: int | None, table: str) -> list[dict[str, Any]]:
    try:
        shown = run(["ip", "-j", "route", "show", "table", table], pid=pid)
    except CommandError:
        # A table without a route that was ever there.
        return []
    routes: list[dict[str, Any]] = json.loads(shown or "[]")
    return routes


def _words(route: Mapping[str, Any]) -> Iterator[str]:
    yield route["dst"]
    for key, word in (
        ("dev", "dev"), ("protocol", "proto"), ("scope", "scope"), ("prefsrc", "src"),
    ):  # fmt: skip
        if key in route:
            yield from (word, route[key])
    for metric in route.get("metrics", ()):
        if "mtu" in metric:
            yield from ("mtu", str(metric["mtu"]))


def summed(statistics: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return what layers have counted of all their peers, in sum."""
    found = dict.fromkeys(("sent", "coded", "lost", "recovered", "timeouts_avoided"), 0.0)
    for peer in (peer for one in statistics for peer in one["peers"]):
        found["coded"] += peer["coded_at_ends"] + peer["coded_on_losses"]
        for name in ("sent", "lost", "recovered", "timeouts_avoided"):
            found[name] += peer[name]
    return found
