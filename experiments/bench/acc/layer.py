"""What ``bench acc`` compares: TCP without the layer and with it, on hosts of two kinds; and the
layer, on each of these hosts.

Routes name the congestion control, since a namespace's own default may be none that is restricted
on this machine. The layer's routes are its own (a table), so they have to name it, too.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.short_flows.lines import USUAL
from experiments.bench.transport.speed.contenders import program
from experiments.network.acc import TABLE, End, Layer, hear, running, set_control
from experiments.traffic.program import Command
from testbed.command import in_network, run

_TUN = "bench-tun"


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
    with running(line.coding, ends, folder, log) as layers:
        _control(ends, tcp)
        yield layers


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
            set_control(end.pid, tcp.control, TABLE)


def sent_bytes(pid: int) -> int:
    """Return what eth0 of a namespace has sent, in bytes of frames."""
    (shown,) = json.loads(run(["ip", "-j", "-s", "link", "show", "dev", "eth0"], pid=pid))
    count: int = shown["stats64"]["tx"]["bytes"]
    return count


def in_namespace(pid: int | None, argv: Sequence[str]) -> list[str]:
    """Return ``argv`` as a command in the namespace of ``pid``, if given."""
    return list(argv) if pid is None else in_network(pid, argv)
