"""Something done on a test bed that is observed meanwhile, and checked as every run is."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from experiments.bench.valid import VoidRuns, reasons
from experiments.measure import observation, validity
from experiments.measure.sampling import Processors
from experiments.measure.trace import QueueTrace
from testbed.bed import Bed
from testbed.host import Host

Found = TypeVar("Found")


@dataclass(frozen=True)
class Watched(Generic[Found]):
    """What was ``found``, the network's ``record`` and the bottleneck's ``queue``, and why it is
    ``void``, if it is."""

    found: Found
    record: Mapping[str, Any]
    queue: QueueTrace
    void: list[str]


def watched(
    bed: Bed,
    do: Callable[[], Found],
    *,
    filled: bool = False,
    more_rtt_ms: float = 0.0,
    idle_rtt_ms: Mapping[str, float] | None = None,
    narrowest: Host | None = None,
) -> Watched[Found]:
    """Probe the idle network, unless it was (``observation.idle_rtt``), and ``do`` something in it.

    ``filled`` says that this fills the link, ``more_rtt_ms`` what delays a round trip besides the
    ports of switches. ``narrowest`` is the host whose own link is the bottleneck, if it is one's:
    packets wait there, and it may lose some.
    """
    idle_rtt_ms = idle_rtt_ms or observation.idle_rtt(bed, more_ms=more_rtt_ms)
    with observation.Observation(bed) as seen:
        processors = Processors(bed.ovs.vswitchd_pid)
        found = do()
        busy = processors.as_record()
    record = {"idle_rtt_ms": idle_rtt_ms, "processors": busy, **seen.record}
    record |= observation.controller(bed, record["start_ns"])
    if narrowest is not None:
        record["lost_elsewhere"] = _not_sent_left_out(record["lost_elsewhere"], narrowest)
    checks = validity.network_checks(
        record, bed.roles.bottleneck_bps, filled=filled, queued=narrowest is None
    )
    if bed.controller is not None:
        checks += validity.controller_checks(record)
    return Watched(found, record, seen.queue, reasons(checks))


def _not_sent_left_out(
    lost: Mapping[str, Mapping[str, int]], host: Host
) -> dict[str, dict[str, int]]:
    """Return what was lost (``counters.by_kind_of_loss``) but for what a host could not send."""
    own = {f"{host.name}/{host.defaultIntf()}"}
    own |= {f"{host.name} {counter}" for counter in ("Ip.OutDiscards", "Udp.SndbufErrors")}
    return {
        kind: {place: n for place, n in places.items() if place not in own}
        for kind, places in lost.items()
    }


def until_valid(
    void: VoidRuns, what: Hashable, watch: Callable[[], Watched[Found]]
) -> Watched[Found]:
    """Return what ``watch`` finds, the last time if it is void and done again."""
    while True:
        one = watch()
        if not void.again(what, one.void):
            return one
