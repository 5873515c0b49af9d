"""How fast the switch forwards, with few ports and with many.

One TCP connection between two hosts, all other ports idle; switch and hosts have a processor each,
and no offload hides what a packet costs. Peer: the unpatched switch, built the same way. All stand
side by side and take turns, so that a machine that is slower for a while is slower for all.
"""

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.switch.unpatched import unpatched_prefix
from experiments.traffic.program import Program
from testbed.ovs import find_prefix
from testbed.sandbox import RUN_DIR

_TURNS = 7
_TURN_S = 1.5
_FEW, _MANY = 3, 101
_RELEASES = ("device", "kernel", "thread")


@dataclass(frozen=True)
class Forwarder:
    """A switch to measure.

    ``release`` puts QoS of type weir on the ports that carry traffic, and names who delays packets
    there.
    """

    prefix: Path
    ports: int
    release: str | None = None

    def arguments(self) -> list[str]:
        """For ``experiments.bench.switch.forwarder``."""
        queue = [f"--release={self.release}"] if self.release else []
        return [str(self.prefix), str(self.ports), *queue]


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    stock, patched = unpatched_prefix(), find_prefix()
    mbps = by_turns(
        {
            f"stock_mbps_{_FEW}_ports": Forwarder(stock, _FEW),
            f"mbps_{_FEW}_ports": Forwarder(patched, _FEW),
            **{
                f"queue_{release}_mbps_{_FEW}_ports": Forwarder(patched, _FEW, release)
                for release in _RELEASES
            },
            f"stock_mbps_{_MANY}_ports": Forwarder(stock, _MANY),
            f"mbps_{_MANY}_ports": Forwarder(patched, _MANY),
        },
        progress,
    )
    figures = {name: statistics.median(turns) for name, turns in mbps.items()}
    stock_mbps = mbps[f"stock_mbps_{_FEW}_ports"]
    ratios = {
        release: median_ratio(mbps[f"queue_{release}_mbps_{_FEW}_ports"], stock_mbps)
        for release in _RELEASES
    }
    return figures | {
        # The port is as fast as its queue: nothing but the queue itself is in the way.
        "forward_ratio_vs_stock": ratios["device"],
        # linux-htb behind the queue, and the thread, cost more.
        "forward_ratio_kernel_vs_stock": ratios["kernel"],
        "forward_ratio_thread_vs_stock": ratios["thread"],
        "forward_ratio_no_queue_vs_stock": median_ratio(mbps[f"mbps_{_FEW}_ports"], stock_mbps),
        "ports_ratio": median_ratio(mbps[f"mbps_{_MANY}_ports"], mbps[f"mbps_{_FEW}_ports"]),
        "stock_ports_ratio": median_ratio(
            mbps[f"stock_mbps_{_MANY}_ports"], mbps[f"stock_mbps_{_FEW}_ports"]
        ),
    }


def by_turns(
    forwarders: dict[str, Forwarder],
    progress: Callable[[str], None],
    *,
    turns: int = _TURNS,
    turn_s: float = _TURN_S,
) -> dict[str, list[float]]:
    """Let all forward in turns; return the Mb/s of each, turn by turn."""
    mbps: dict[str, list[float]] = {name: [] for name in forwarders}
    with ExitStack() as stack:
        programs = {}
        for name, forwarder in forwarders.items():
            progress(f"{name}: setting up")
            program = Program(
                "experiments.bench.switch.forwarder",
                forwarder.arguments(),
                log=RUN_DIR / f"{name}.log",
            )
            programs[name] = stack.enter_context(program)
            program.expect("ready")
        for turn in range(turns):
            for name, program in programs.items():
                program.tell(str(turn_s))
                mbps[name].append(program.expect("forwarded")["mbps"])
            told = ", ".join(f"{values[-1]:.0f}" for values in mbps.values())
            progress(f"turn {turn + 1} of {turns}: {told} Mb/s")
    return mbps


def median_ratio(of: list[float], to: list[float]) -> float:
    """The median of the ratios turn by turn: what slows down a whole turn cancels out."""
    return statistics.median(a / b for a, b in zip(of, to, strict=True))
