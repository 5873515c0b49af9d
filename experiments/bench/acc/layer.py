"""What ``bench acc`` compares: TCP without the layer and with it, on hosts of two kinds; and the
layer, on each of these hosts.

Routes name the congestion control, since a namespace's own default may be none that is restricted
on this machine. The layer's routes are its own (a table), so they have to name it, too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.bench.short_flows.lines import USUAL
from experiments.bench.transport.speed.contenders import program
from experiments.traffic.fountain import find_fountain
from experiments.traffic.program import Command, ProgramError
from testbed.command import CommandError, in_network, run, wait_until

_TUN = "bench-tun"
# Where `fountain acc up`, and bench-tun, put their routes.
_TABLE = "4881"
_READY_S = 10.0


@dataclass(frozen=True)
class Line:
    """``coding`` is what the layer sends beside TCP's packets; None: there is no layer. ``tun``:
    TCP's packets go through a TUN device and UDP, and nothing else is done to them."""

    label: str
    colour: str
    coding: str | None = None
    tun: bool = False


LINES = {
    "plain": Line("TCP", "#000000"),
    "tun": Line("a TUN device alone", "#CC79A7", tun=True),
    "off": Line("layer, nothing coded", "#999999", "off"),
    "acc": Line("TCP-ACC", "#009E73", "acc"),
    "paper": Line("TCP-ACC as in the paper", "#56B4E9", "paper"),
    "gip": Line("GIP", "#E69F00", "gip"),
    "ccr": Line("Corrective", "#0072B2", "ccr"),
}


@dataclass(frozen=True)
class Tcp:
    """The hosts' TCP: its congestion ``control``, which a scheme is called after, too, and
    ``sysctls`` of net.ipv4."""

    label: str
    control: str
    sysctls: Mapping[str, str]


TCPS = {
    "linux": Tcp("CUBIC, SACK, RACK, TLP", "cubic", {**USUAL, "tcp_sack": "1"}),
    "newreno": Tcp(
        "NewReno", "reno", {"tcp_recovery": "0", "tcp_early_retrans": "0", "tcp_sack": "0"}
    ),
}


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


@contextmanager
def layers(
    line: Line, ends: Sequence[End], tcp: Tcp | None, folder: Path, log: Path
) -> Iterator[list[Layer]]:
    """Context manager: each of ``ends`` runs the layer, and has found its peers; none does if
    ``line`` has no layer. Connections over it, and over a TUN device alone, have the congestion
    control of ``tcp``, if given.

    Raises ProgramError if a peer is not found, or if one does not end well when told to.
    """
    if line.tun:
        with tuns(ends, log):
            _control(ends, tcp)
            yield []
        return
    if line.coding is None:
        yield []
        return
    key = folder / "acc.key"
    if not key.exists():
        make_key(key)
    with ExitStack() as stack:
        started, layers = [], []
        for number, end in enumerate(ends):
            control = folder / f"acc-{number}.sock"
            argv = up_argv(key, control, end.peers, line.coding)
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
        _control(ends, tcp)
        yield layers
        for process in started:
            if status := process.terminate():
                raise ProgramError(f"fountain acc up ended with status {status}; see {log}")


@contextmanager
def tuns(ends: Sequence[End], log: Path) -> Iterator[list[int]]:
    """Context manager: TCP between two ends goes through a TUN device of each, and UDP. Yields the
    processes that carry it."""
    one, other = ends
    with ExitStack() as stack:
        started = []
        for end, local, remote in (
            (one, other.peers[0], one.peers[0]),
            (other, one.peers[0], other.peers[0]),
        ):
            argv = [program(_TUN), "--local", local, "--remote", remote, "--device", "tun0"]
            started.append(stack.enter_context(Command(argv, name=_TUN, log=log, pid=end.pid)))
        for process in started:
            hear(process, "up")
            process.ignore()
        yield [process.pid for process in started]
        for process in started:
            process.terminate()


def _control(ends: Sequence[End], tcp: Tcp | None) -> None:
    if tcp:
        for end in ends:
            set_control(end.pid, tcp.control, _TABLE)


def await_routes(end: End) -> None:
    """Return once TCP to all peers goes through the layer, a moment after it says that it knows
    them."""

    def are_there() -> bool:
        return len(_routes(end.pid, _TABLE)) >= len(end.peers)

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


def set_attributes(pid: int | None, attributes: Mapping[str, str], table: str = _TABLE) -> None:
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


def sent_bytes(pid: int) -> int:
    """Return what eth0 of a namespace has sent, in bytes of frames."""
    (shown,) = json.loads(run(["ip", "-j", "-s", "link", "show", "dev", "eth0"], pid=pid))
    count: int = shown["stats64"]["tx"]["bytes"]
    return count


def in_namespace(pid: int | None, argv: Sequence[str]) -> list[str]:
    """Return ``argv`` as a command in the namespace of ``pid``, if given."""
    return list(argv) if pid is None else in_network(pid, argv)
