"""20 MB over a protocol beside 20 MB over TCP, begun at once on the link of the short flows: the
group ``fairness``.

``fairness_LINE_ratio`` is how long the protocol's transfer takes over how long TCP's takes; medians
of the turns.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median

from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.short_flows.dumbbell import Dumbbell, dumbbell
from experiments.bench.short_flows.flows import finished, served
from experiments.bench.short_flows.lines import LINES, USUAL, Line
from experiments.traffic.program import Command, ProgramError
from testbed.bottleneck import Loss
from testbed.sandbox import RUN_DIR

_BYTES = 20_000_000
_TIMEOUT_S = 60.0


def run(
    progress: Callable[[str], None], *, turns: int, lines: Sequence[str] = tuple(LINES)
) -> Figures:
    """Measure; see ``experiments.bench``."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in lines}
    failed = []
    with dumbbell() as network:
        for turn in range(1, turns + 1):
            for name, pairs in taken.items():
                try:
                    pairs.append(_together(network, LINES[name]))
                except ProgramError as error:
                    failed.append(f"{name}, turn {turn}")
                    progress(f"{LINES[name].label}, turn {turn}: {error}")
                    continue
                own_s, tcp_s = pairs[-1]
                progress(f"{LINES[name].label} {own_s:.2f} s, TCP beside it {tcp_s:.2f} s")
    figures: Figures = {}
    for name, pairs in taken.items():
        if pairs:
            figures |= of_turns(name, pairs)
    if failed:
        raise Incomplete(figures, failed)
    return figures


def of_turns(name: str, pairs: Sequence[tuple[float, float]]) -> Figures:
    """Return the figures of a line from its seconds and TCP's of each turn."""
    return {
        f"fairness_{name}_s": median(own for own, _ in pairs),
        f"fairness_{name}_tcp_s": median(tcp for _, tcp in pairs),
        f"fairness_{name}_ratio": median(own / tcp for own, tcp in pairs),
    }


def _together(network: Dumbbell, line: Line) -> tuple[float, float]:
    log = RUN_DIR / "workload.log"
    h1, h2, h3, h4 = network.hosts
    network.start(Loss(), {**USUAL, **line.sysctls})
    size = ("--count=1", f"--bytes={_BYTES}")
    with ExitStack() as stack:
        own = stack.enter_context(served(line, h2, 2, log))
        others = stack.enter_context(served(LINES["tcp"], h4, 4, log))
        beside = stack.enter_context(Command([*others, *size], name="TCP", log=log, pid=h3.pid))
        said = finished([*own, *size], h1, log, _TIMEOUT_S)
        *_, other = beside.messages(_TIMEOUT_S)
    for one in (said, other):
        if one["failures"]:
            raise ProgramError(one["failures"][0]["why"])
    return said["whole_us"][0] / 1e6, other["whole_us"][0] / 1e6
