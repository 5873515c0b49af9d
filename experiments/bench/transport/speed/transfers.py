"""Transfers of a file by each contender in turn: the group ``loopback`` and ``veth``.

``..._goodput_gbps`` counts the file's own bytes, from the moment that they are asked for. CPU time
is what the kernel has charged to the processes of each end (getrusage), their start included; what
it does for a packet on its way, it charges to the sender here. ``..._gbps_per_core`` is the file's
bits over that time: how fast that end would be with a processor of its own, if nothing else held it
back.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.bench.transport.speed.contenders import CONTENDERS, Contender, moved_bytes
from experiments.bench.transport.speed.medium import Medium, medium
from experiments.measure.process import ended_children_s, processor_s
from experiments.traffic.program import Command, ProgramError
from testbed.sandbox import RUN_DIR

_TIMEOUT_S = 300.0
_GB = 1e9
_FIGURES = ("goodput_gbps", "send_cpu_s_per_gb", "receive_cpu_s_per_gb")


def run(
    progress: Callable[[str], None],
    *,
    over: str,
    size_mib: int,
    turns: int,
    contenders: Sequence[str] = tuple(CONTENDERS),
) -> Figures:
    """Measure; see ``experiments.bench``."""
    folder = RUN_DIR / "objects"
    folder.mkdir()
    samples: dict[str, list[Figures]] = {name: [] for name in contenders}
    failed = []
    with medium(over) as between:
        for turn in range(1, turns + 1):
            for name, taken in samples.items():
                contender = CONTENDERS[name]
                try:
                    taken.append(_transfer(contender, between, folder, size_mib << 20))
                except ProgramError as error:
                    failed.append(f"{name}, turn {turn}")
                    progress(f"{contender.label}, turn {turn}: {error}")
                    continue
                told = ", ".join(f"{figure} {value:.2f}" for figure, value in taken[-1].items())
                progress(f"{contender.label}, turn {turn} of {turns}: {told}")
    figures: Figures = {}
    for name, taken in samples.items():
        if taken:
            figures |= {f"{over}_{name}_{key}": value for key, value in _summary(taken).items()}
    if failed:
        raise Incomplete(figures, failed)
    return figures


def _transfer(contender: Contender, between: Medium, folder: Path, size_bytes: int) -> Figures:
    size_bytes = round(size_bytes * contender.share)
    log = RUN_DIR / "workload.log"
    with contender.running(between, folder, size_bytes, log) as running:
        near_s = ended_children_s()
        far_s = sum(processor_s(pid) for pid in running.pids)
        with Command(running.argv, name=contender.label, log=log) as command:
            said = list(command.messages(_TIMEOUT_S))
        far_s = sum(processor_s(pid) for pid in running.pids) - far_s
        near_s = ended_children_s() - near_s
    moved, seconds = moved_bytes(said, size_bytes)
    ends = (near_s, far_s) if running.near_sends else (far_s, near_s)
    values = (moved * 8 / seconds / 1e9, *(spent_s / (moved / _GB) for spent_s in ends))
    return dict(zip(_FIGURES, values, strict=True))


def _summary(taken: Sequence[Figures]) -> Figures:
    found = {figure: median(one[figure] for one in taken) for figure in _FIGURES}
    goodputs = [one["goodput_gbps"] for one in taken]
    found |= {"goodput_gbps_least": min(goodputs), "goodput_gbps_most": max(goodputs)}
    for end in ("send", "receive"):
        found[f"{end}_gbps_per_core"] = 8 / max(found[f"{end}_cpu_s_per_gb"], 1e-9)
    return found
