"""Mixes of flows over one link, each measured in a sandbox of its own, and again if it was void."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

from experiments.bench import sandboxed
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import INTERRUPTED, Incomplete
from experiments.bench.valid import VoidRuns, reasons
from experiments.measure import observation, validity
from experiments.measure.received import ReceivedBySource
from experiments.measure.sampling import Processors
from experiments.traffic.program import Command, ProgramError
from testbed.bed import Bed


def measure_each(
    progress: Callable[[str], None],
    module: str,
    names: Sequence[str],
    measured_s: float,
    prefix: str,
    figures_of: Callable[[str, Mapping[str, Any]], Figures],
) -> Figures:
    """Return the figures of all mixes, as PREFIX_NAME_FIGURE.

    ``python -m MODULE NAME SECONDS FILE`` measures one and says, by ``observe``, whether it is
    void; ``figures_of`` makes figures of that, by name and measurement. Raises Incomplete if some
    are void each time.
    """
    figures: Figures = {}
    missing = []
    void = VoidRuns(progress)
    for name in names:
        progress(f"{name}: measuring")
        while True:
            try:
                measured = sandboxed.result(module, name, str(measured_s))
            except sandboxed.EndedError as ended:
                if ended.status in INTERRUPTED:
                    raise SystemExit(ended.status) from ended
                measured = {"void": [str(ended)]}
            if not void.again(name, measured["void"]):
                break
        figures[f"{prefix}_{name}_void_runs"] = void.counts[name]
        if measured["void"]:
            missing.append(name)
            continue
        found = figures_of(name, measured)
        figures |= {f"{prefix}_{name}_{figure}": value for figure, value in found.items()}
        told = ", ".join(f"{figure} {value:.3f}" for figure, value in found.items())
        progress(f"{name}: {told}")
    if missing:
        raise Incomplete(figures, missing)
    return figures


@dataclass(frozen=True)
class Observed:
    """The frames that arrived from each sender, in order: ``bytes`` by ``time_ns``. ``record``
    is the network's record, ``verdict`` has its checks and, as ``void``, those that fail."""

    time_ns: list[int]
    bytes: list[list[int]]
    record: Mapping[str, Any]
    verdict: Mapping[str, Any]


def observe(
    bed: Bed,
    flows: AbstractContextManager[Sequence[Command]],
    idle_rtt_ms: Mapping[str, float],
    *,
    filled: bool,
    settle_s: float,
    measured_s: float,
    period_s: float,
) -> Observed:
    """Let ``flows`` send to the receiver of ``bed``, and count what comes, every ``period_s``;
    ``filled`` says that they are to fill the link. ``idle_rtt_ms`` was measured before
    (``observation.idle_rtt``).

    Raises ProgramError if one of them ends too early.
    """
    sources = [bed.host(name).IP() for name in bed.roles.senders]
    receiver = bed.host(bed.roles.receiver)
    with observation.Observation(bed) as seen, flows as commands:
        time.sleep(settle_s)
        processors = Processors(bed.ovs.vswitchd_pid)
        with ReceivedBySource(receiver.pid, sources, period_s) as received:
            time.sleep(measured_s)
        busy = processors.as_record()
        ended = [flow for flow in commands if not flow.running()]
    if ended:
        raise ProgramError(f"{len(ended)} of the flows have ended before they were told to")
    record = {"idle_rtt_ms": idle_rtt_ms, "processors": busy, **seen.record}
    record |= observation.controller(bed, seen.record["start_ns"])
    checks = validity.network_checks(record, bed.config.rate_bps, filled=filled)
    if bed.controller is not None:
        checks += validity.controller_checks(record)
    verdict = {"void": reasons(checks), "checks": [asdict(check) for check in checks]}
    counted = [received.bytes[source] for source in sources]
    return Observed(received.time_ns, counted, record, verdict)
