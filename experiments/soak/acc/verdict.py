"""Judges a soak of TCP-ACC's layer: by what was compared, what stood still, what was lost on the
link and recovered, and what the layers hold. A soak in which nothing was compared, lost or
recovered has failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.soak.programs import judging
from experiments.soak.trend import Sample
from testbed.bottleneck import Counts

# Each of these has to have happened.
NEEDED = (
    "http.files", "http.fetched_bytes", "http.uploads", "http.uploaded_bytes",
    "redis.sets", "redis.gets", "redis.got_bytes", "redis.kept", "redis.compared",
    "redis.benchmark_requests", "postgres.transactions", "postgres.balances",
    "ssh.files", "ssh.copied_bytes", "typed.sessions", "typed.answers", "stay.answers",
    "iperf3.runs", "iperf3.carried",
    "restarts.kills", "restarts.stops", "stalls.seen",
)  # fmt: skip
# Of each layer, these.
WORKED = ("sent", "came", "coded", "coded_came", "lost", "recovered")
# There is no such packet here, whatever ends and begins.
NEVER = ("malformed", "forged", "refused", "evicted", "unnumbered")
# And none of these, but when a layer or its peer has just ended or begun.
ONLY_AT_RESTARTS = ("unknown", "strayed", "undelivered", "unsent")
# Of the packets on the link these at least are the layer's, as acknowledgements are, too.
LEAST_CARRIED = 0.8
# So much is kept for the connections of a minute, of which pgbench opens a thousand, and nothing
# when all have gone.
_HELD_MOST_BYTES = 64 << 20
# One that watches has a few descriptors, however many connections there are.
_MOVING_DESCRIPTORS = 4


@dataclass(frozen=True)
class LayerEnd:
    """What is known of a layer in the end: samples of each of its processes, counters of all of
    them and those of moments around restarts alone, how often it was ended in each way, how often
    its peer was gone and why, the most bytes held and those held in the end, and how it failed, if
    it did."""

    name: str
    processes: Sequence[Sequence[Sample]]
    counters: Mapping[str, float]
    excused: Mapping[str, float]
    ends: Mapping[str, int]
    gone: Mapping[str, int]
    held_most_bytes: int
    held_left_bytes: int
    failure: str | None


@dataclass(frozen=True)
class Run:
    """A soak: counts, packets on the link by direction and kind of loss, layers, times of what was
    timed, and the faults that were found on the way. ``loss`` is the share that was asked for."""

    counts: Mapping[str, int]
    link: Mapping[str, Counts]
    loss: float
    layers: Sequence[LayerEnd]
    times: Mapping[str, Mapping[str, float]]
    faults: Sequence[str]


def judge(run: Run) -> tuple[dict[str, Any], list[str]]:
    """Return figures, and findings in words."""
    faults = list(run.faults)
    figures: dict[str, Any] = {}
    judging.checked(run.counts, NEEDED, figures, faults)
    judging.link(run.link, run.loss, figures, faults)
    for name, times in run.times.items():
        figures |= {f"{name}.{key}": value for key, value in times.items()}
        if not times:
            faults.append(f"nothing was timed: no {name}")
    _stays(run.counts, faults)
    for layer in run.layers:
        _layer(layer, figures, faults)
    _carried(run, figures, faults)
    if not run.layers:
        faults.append("there were no layers")
    return figures, faults


def _stays(counts: Mapping[str, int], faults: list[str]) -> None:
    """The long-lived session is one, from the beginning to an end in order."""
    begun, ended = counts.get("stay.sessions", 0), counts.get("stay.ended", 0)
    if (begun, ended) != (1, 1):
        faults.append(
            f"the session that was to stay was begun {begun} times and ended in order {ended} times"
        )


def _layer(layer: LayerEnd, figures: dict[str, Any], faults: list[str]) -> None:
    name = f"{layer.name} layer"
    if layer.failure:
        faults.append(f"{name}: {layer.failure}")
    counters = {**layer.counters}
    counters["coded"] = counters.get("coded_at_ends", 0) + counters.get("coded_on_losses", 0)
    figures |= {f"{layer.name}.{key}": round(value) for key, value in counters.items()}
    figures |= {
        f"{layer.name}.at_restarts.{key}": round(layer.excused.get(key, 0))
        for key in ONLY_AT_RESTARTS
    }
    figures |= {f"{layer.name}.{how}": count for how, count in layer.ends.items()}
    figures[f"{layer.name}.gone"] = dict(layer.gone)
    figures[f"{layer.name}.held_most_bytes"] = layer.held_most_bytes
    figures[f"{layer.name}.held_left_bytes"] = layer.held_left_bytes
    faults += [f"{name}: nothing was {what}" for what in WORKED if not counters.get(what)]
    for what in NEVER:
        if count := counters.get(what, 0):
            faults.append(f"{name}: {count:.0f} packets were {what}")
    for what in ONLY_AT_RESTARTS:
        if count := counters.get(what, 0) - layer.excused.get(what, 0):
            faults.append(f"{name}: {count:.0f} packets were {what}, while no layer began or ended")
    for why, count in layer.gone.items():
        if why.startswith("by_itself"):
            faults.append(f"{name}: its peer was gone {count} times, {why}")
    if layer.held_most_bytes > _HELD_MOST_BYTES:
        faults.append(f"{name}: it has held {layer.held_most_bytes} bytes")
    if layer.held_left_bytes:
        faults.append(f"{name}: it holds {layer.held_left_bytes} bytes after all")
    # The one that has lived longest; to the others the same happens, and ends sooner.
    longest = max(layer.processes, key=_lifetime_s, default=())
    try:
        held = judging.resources(name, longest, _MOVING_DESCRIPTORS, faults)
        figures |= {f"{layer.name}.{key}": value for key, value in held.items()}
    except ValueError as too_short:
        faults.append(f"{name}: too short to tell: {too_short}")


def _lifetime_s(samples: Sequence[Sample]) -> float:
    return samples[-1].at_s - samples[0].at_s if samples else 0.0


def _carried(run: Run, figures: dict[str, Any], faults: list[str]) -> None:
    """Most of what was on the link has to be the layers'."""
    packets = sum(counts.seen for counts in run.link.values())
    sent = sum(
        layer.counters.get(name, 0)
        for layer in run.layers
        for name in ("sent", "coded_at_ends", "coded_on_losses")
    )
    if packets:
        figures["carried"] = round(sent / packets, 4)
        if sent < LEAST_CARRIED * packets:
            faults.append(f"the layers have sent {sent:.0f} of {packets} packets on the link only")
