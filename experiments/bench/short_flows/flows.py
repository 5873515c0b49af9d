"""Short flows in each setting and over each protocol: the groups ``settings``, ``random`` and
``bursts``.

Flows follow one another. ``whole`` is from before the connection is opened until the server has
said that it has everything, ``transfer`` from the moment that data may be sent. Losses are in the
data's direction alone.
"""

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from experiments.bench.sandboxed import Incomplete
from experiments.bench.short_flows.dumbbell import (
    RED,
    Dumbbell,
    address,
    dumbbell,
)
from experiments.bench.short_flows.lines import LINES, USUAL, Line
from experiments.bench.transport.speed.contenders import program
from experiments.measure.sampling import share_of_processors
from experiments.statistics import percentile
from experiments.traffic.program import Command, ProgramError
from experiments.workloads.long_flows import long_flows
from testbed.bottleneck import Loss, Seen
from testbed.host import Host
from testbed.netns import network_of
from testbed.sandbox import RUN_DIR
from testbed.shaping import FULL_FRAME_BYTES

BYTES = 8500
PERCENTILES = {"median": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
TIMES = ("transfer", "whole")
PORT = 4433
_LOAD_PORT = 4434
# Flows before those that count: the first are slower, and QUIC's has nothing to resume.
_WARM_UP = 3
_BURST = 2.5
# With the short flows beside them, a little more than the link carries: about 1.5 % are lost.
_LOAD_BPS = 99_900_000
_PATIENCE_S = 30.0
_SETTLE_S = 2.0


@dataclass(frozen=True)
class Setting:
    """``beside``: what h3 sends to h4 meanwhile, nothing, ``tcp`` or ``udp``."""

    label: str
    loss: Loss = field(default_factory=Loss)
    beside: str = ""
    gap_ms: int = 2


# An overload has no room: the flows are to be few, or they would be the overload.
SETTINGS = {
    "none": Setting("no background traffic"),
    "tcp": Setting("a TCP stream in the background", beside="tcp"),
    "loss1": Setting("1 % random loss", Loss(0.01)),
    "udp": Setting("an overload of UDP", beside="udp", gap_ms=40),
}


def sweep(kind: str, losses_pct: Sequence[float]) -> dict[str, Setting]:
    """Return the settings of a sweep: ``random`` losses, or in ``bursts``."""
    burst = _BURST if kind == "bursts" else None
    what = "random loss" if burst is None else f"loss in bursts of {burst:g}"
    return {
        f"{kind}{pct:g}": Setting(f"{pct:g} % {what}", Loss(pct / 100, burst)) for pct in losses_pct
    }


def run(
    progress: Callable[[str], None],
    *,
    flows: int,
    kind: str = "settings",
    losses_pct: Sequence[float] = (),
    lines: Sequence[str] = tuple(LINES),
) -> dict[str, Any]:
    """Measure; see ``experiments.bench``. Samples are kept of the settings, not of sweeps."""
    settings = SETTINGS if kind == "settings" else sweep(kind, losses_pct)
    figures: dict[str, Any] = {}
    failed = []
    with dumbbell() as network:
        for seed, (name, setting) in enumerate(settings.items(), 1):
            for line in lines:
                try:
                    said, lost = _measure(network, setting, LINES[line], flows, seed)
                except ProgramError as error:
                    failed.append(f"{name}, {line}")
                    progress(f"{name}, {line}: {error}")
                    continue
                found = summary(said) | lost
                if kind == "settings":
                    found |= {f"{which}_us": said[f"{which}_us"] for which in TIMES}
                figures |= {f"{name}_{line}_{key}": value for key, value in found.items()}
                progress(f"{setting.label}, {LINES[line].label}: {_in_words(found)}")
    if failed:
        raise Incomplete(figures, failed)
    return figures


def summary(said: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of one cell from what the program said at its end."""
    figures: dict[str, float] = {"flows": len(said["whole_us"]), "failures": len(said["failures"])}
    for which in TIMES:
        values = said[f"{which}_us"]
        figures |= {
            f"{which}_{name}_ms": percentile(values, percent) / 1000
            for name, percent in PERCENTILES.items()
        }
    figures["retransmissions"] = sum(said["retransmissions"])
    return figures


def losses(seen: Seen, tail_drops: int) -> dict[str, float]:
    """Return the shares of frames towards the receivers that were dropped, the short flows' and
    the others', before the buffer; and how many found it full."""
    figures: dict[str, float] = {"tail_drops": tail_drops, "longest_bytes": seen.longest_bytes}
    for name, of in (("lost_pct", seen.first), ("background_lost_pct", seen.others)):
        figures[name] = 100 * (of.lost + of.red) / of.seen if of.seen else 0.0
    figures["frames"] = seen.first.seen
    return figures


def _measure(
    network: Dumbbell, setting: Setting, line: Line, flows: int, seed: int
) -> tuple[dict[str, Any], dict[str, float]]:
    log = RUN_DIR / "workload.log"
    h1, h2 = network.hosts[:2]
    network.start(setting.loss, {**USUAL, **line.sysctls}, seed)
    with ExitStack() as stack:
        argv = stack.enter_context(served(line, h2, 2, log))
        stack.enter_context(_beside(network, setting, log))
        # What counts begins now; the background has been there for a moment.
        time.sleep(_SETTLE_S if setting.beside else 0)
        network.link.set(setting.loss, RED, seed)
        full_before, processors = network.tail_drops(), psutil.cpu_times()
        argv += [f"--count={flows}", f"--warm-up={_WARM_UP}", f"--gap-ms={setting.gap_ms}"]
        said = finished(argv, h1, log, (flows + _WARM_UP) * _PATIENCE_S)
        seen, full = network.link.seen(), network.tail_drops() - full_before
    if seen.longest_bytes > FULL_FRAME_BYTES:
        raise ProgramError(f"frames of {seen.longest_bytes} bytes: hosts segment too late")
    shares = {
        f"processors_{kind}_pct": 100 * share_of_processors(processors, kind)
        for kind in ("idle", "steal")
    }
    return said, losses(seen, full) | shares


@contextmanager
def served(line: Line, host: Host, number: int, log: Path) -> Iterator[list[str]]:
    """Context manager: ``host``, hN, takes flows. Yields the command that sends some."""
    to = f"{address(number)}:{PORT}"
    argv = [program("bench-short-flows"), "serve", line.protocol, f"--listen={to}"]
    with Command(argv, name=f"serve {line.protocol}", log=log, pid=host.pid) as server:
        told = server.expect("listening")
        command = [program("bench-short-flows"), "run", line.protocol, f"--connect={to}"]
        yield command + ([f"--certificate={told['certificate']}"] if told["certificate"] else [])


def finished(argv: Sequence[str], host: Host, log: Path, timeout_s: float) -> dict[str, Any]:
    """Run the command at ``host``; return its last message. Raises ProgramError."""
    with Command(argv, name=" ".join(argv[1:3]), log=log, pid=host.pid) as command:
        *_, said = command.messages(timeout_s)
    return said


@contextmanager
def _beside(network: Dumbbell, setting: Setting, log: Path) -> Iterator[None]:
    _, _, h3, h4 = network.hosts
    if setting.beside == "tcp":
        with long_flows([h3], h4, log, to=address(4)):
            yield
    elif setting.beside == "udp":
        with network_of(h4.pid):
            # Nobody reads it: what it has no room for is gone.
            sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sink.bind((address(4), _LOAD_PORT))
        to = f"--connect={address(4)}:{_LOAD_PORT}"
        argv = [program("bench-short-flows"), "load", to, f"--rate-bps={_LOAD_BPS}"]
        with sink, Command(argv, name="load", log=log, pid=h3.pid) as load:
            load.expect("sending")
            yield
            if not load.running():
                raise ProgramError(f"the load has ended; see {log}")
    else:
        yield


def _in_words(found: Mapping[str, float]) -> str:
    times = (
        f"{which} {found[f'{which}_median_ms']:.2f}, {found[f'{which}_p99_ms']:.2f}, "
        f"{found[f'{which}_p999_ms']:.2f} ms"
        for which in TIMES
    )
    lost = f"{found['lost_pct']:.2f} % lost, {found['failures']:.0f} failed"
    return f"{'; '.join(times)} (median, p99, p99.9); {lost}"
