"""Small requests over one connection of ATP: the group ``requests``.

There are 256 of them at any time, each a stream of its own with 64 bytes that come back, over
loopback, where client and server share this machine's processors. ``requests_per_s`` is the median
of the turns, ``requests_slowest_ms`` the slowest of all requests.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from experiments.bench.comparison import Figures
from experiments.bench.transport.speed.contenders import program, stream_server
from experiments.bench.transport.speed.medium import medium
from experiments.traffic.program import Command
from testbed.sandbox import RUN_DIR

_PATIENCE_S = 30.0


def run(progress: Callable[[str], None], *, seconds: float, turns: int) -> Figures:
    """Measure; see ``experiments.bench``."""
    log = RUN_DIR / "workload.log"
    said = []
    with medium("loopback") as over, stream_server("atp", over, (), log) as (_, reached_by):
        argv = [program("bench-atp"), "requests", *reached_by, f"--seconds={seconds}"]
        for turn in range(1, turns + 1):
            with Command(argv, name="bench-atp requests", log=log) as client:
                *_, done = client.messages(seconds + _PATIENCE_S)
            said.append(done)
            progress(f"turn {turn} of {turns}: {done['per_second']:,.0f} requests a second")
    return of_turns(said)


def of_turns(said: Sequence[Mapping[str, Any]]) -> Figures:
    """Return the figures of what the client has said at the end of each turn."""
    return {
        "requests_per_s": median(done["per_second"] for done in said),
        "requests_slowest_ms": max(done["slowest_ms"] for done in said),
        "requests_per_packet": median(done["requests"] / done["packets"] for done in said),
    }
