"""Validity checks: named checks over the record of a run. One that fails makes the run void.

An emulation on a slow machine, or with losses in the wrong place, gives numbers that look like any
other. These checks are after the network invariants of Mininet-HiFi (Handigol et al., CoNEXT 2012).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.schemes import scheme
from experiments.traffic.keeping import LATE_NS
from experiments.workloads import from_record, span_ns

RATE_TOLERANCE = 0.02
WINDOW_NS = 1_000_000_000
MIN_IDLE_SHARE = 0.20
MAX_SWITCH_WAIT_SHARE = 0.10
# In full-size frames. Mininet-HiFi has one; a virtual machine whose processors are taken away now
# and then has 1.3 to 2.1 (99th percentile) in runs whose rates, queues and drops are in order.
MAX_SPACING_ERROR = 3
MAX_LATE_SHARE = 0.01
MAX_TURN_MS = 2.0
# Of the packets that the bottleneck has sent; of few packets, a buffer's end may be on its way yet.
MAX_UNTIMED_SHARE = 0.01
_FEW_PACKETS = 5
_NOTABLE_SHARE = 0.01
# What hosts may add to a round trip through an idle network, and what each port of a switch may: a
# millisecond through one switch. Where processors are free at once it is a third of that.
_HOSTS_RTT_MS, _PORT_RTT_MS = 0.5, 0.25

# What does not hold on a machine that has too little time for it, and may hold the next time.
OF_A_QUIET_MACHINE = frozenset(
    {
        "shaped rate",
        "drops only at the bottleneck",
        "processors",
        "complete queue trace",
        "spacing of departures",
        "idle round trip",
        "generator kept up",
    }
)


@dataclass(frozen=True)
class Check:
    """``measured`` against ``bound``, in words, and whether it holds."""

    name: str
    measured: str
    bound: str
    holds: bool


def checks(record: Mapping[str, Any]) -> list[Check]:
    """Return every check of a run, from what ``experiments.runner`` has recorded."""
    spec = record["spec"]
    filled = spec["background"] or from_record(spec["workload"]).fills
    return [
        *network_checks(record, record["roles"]["bottleneck_bps"], filled=filled),
        *controller_checks(record),
        *([notices_heard(record)] if scheme(spec["scheme"]).reacts else []),
        *(generator_checks(record["generator"]) if record.get("generator") else []),
    ]


def generator_checks(generator: Mapping[str, Any]) -> list[Check]:
    """Return the checks of what began flows at set times (``experiments.traffic.flows``)."""
    return [kept_up(generator), all_ended(generator)]


def kept_up(generator: Mapping[str, Any]) -> Check:
    """The generator began what was due when it was due, and read what came when it came."""
    late, moments = generator["late_moments"], generator["moments"]
    most = max(1, int(moments * MAX_LATE_SHARE))
    turn_ms, limit_ms = generator["turn_p99_ms"], LATE_NS / 1e6
    return Check(
        "generator kept up",
        f"{late} of {moments} times late by more than {limit_ms:g} ms, "
        f"99 % of its turns within {turn_ms:.2f} ms",
        f"at most {most} times, within {MAX_TURN_MS:g} ms: fewer flows a second, or a faster "
        "machine",
        late <= most and turn_ms <= MAX_TURN_MS,
    )


def all_ended(generator: Mapping[str, Any]) -> Check:
    """Every flow that was begun has ended; else the slowest would be missing in the figures."""
    return Check(
        "all flows ended",
        f"{generator['unfinished']} of {generator['planned']} have not",
        "none",
        generator["unfinished"] == 0,
    )


def controller_checks(record: Mapping[str, Any]) -> list[Check]:
    """Return the checks of what ``measure.observation.controller`` has read, where there is a
    controller."""
    return [connected(record["events"]), without_errors(record["controller_errors"])]


def network_checks(
    record: Mapping[str, Any], rate_bps: int, *, filled: bool = False, queued: bool = True
) -> list[Check]:
    """Return the checks of a record of ``measure.observation``, with ``processors`` and
    ``idle_rtt_ms``; ``filled`` says that what was sent is enough to fill the link. If not
    ``queued``, packets wait elsewhere, before they come to the port that mostly is the bottleneck:
    nothing follows from how evenly it sends them."""
    return [
        shaped_rate(record["far_end"], rate_bps, filled=filled),
        *([evenly_spaced(record["spacing"], filled=filled)] if queued else []),
        idle_round_trip(record["idle_rtt_ms"]),
        drops_in_place(record["dropped"], record["lost_elsewhere"]),
        no_faults("qdiscs as asked", record["qdisc_faults"]),
        no_faults("offloads off", record["offload_faults"]),
        no_faults("host settings as printed", record["settings_faults"]),
        processors(record["processors"]),
        complete_trace(record["arrived"], record["arrived_in_trace"]),
    ]


def evenly_spaced(spacing: Mapping[str, Any], *, filled: bool = False) -> Check:
    """While packets waited, the bottleneck's port sent one after the other, each in its time: what
    99 % of the gaps are off is less than MAX_SPACING_ERROR full-size frames take.

    Where nothing was timed there is nothing off: so what was timed must be what the port has sent
    and, if the link was ``filled``, packets must have waited.
    """
    error_us, frame_us = spacing["p99_error_us"], spacing["frame_us"]
    sent, timed = spacing["sent"], spacing["timed"]
    missing = max(spacing["not_recorded"], sent - timed)
    most = max(_FEW_PACKETS, int(sent * MAX_UNTIMED_SHARE))
    is_timed = not spacing["not_recorded"] and missing <= most and (timed > 0 or not sent)
    if error_us is None:
        measured, is_even = "none waited", not filled
    else:
        measured = f"{error_us:.0f} us off (99th percentile)"
        is_even = error_us < MAX_SPACING_ERROR * frame_us
    return Check(
        "spacing of departures",
        f"{measured}, {spacing['gaps']} gaps"
        + f", {missing} of {sent} packets not timed" * (not is_timed),
        f"less than {MAX_SPACING_ERROR * frame_us:.0f} us off, the time of {MAX_SPACING_ERROR} "
        "full-size frames" + ", and some that waited" * filled + "; every packet timed",
        is_even and is_timed,
    )


def idle_round_trip(rtt_ms: Mapping[str, float]) -> Check:
    """Before the workload, a round trip took as long as links and delays make it, and little
    more."""
    least = rtt_ms["delay"]
    most = least + rtt_ms["links"] + _HOSTS_RTT_MS + rtt_ms["ports"] * _PORT_RTT_MS
    return Check(
        "idle round trip",
        f"{rtt_ms['avg']:.2f} ms (least {rtt_ms['min']:.2f}, most {rtt_ms['max']:.2f})",
        f"{least:.2f} to {most:.2f} ms on average",
        least <= rtt_ms["avg"] <= most,
    )


def shaped_rate(
    far_end: Mapping[str, Sequence[int]], rate_bps: int, *, filled: bool = True
) -> Check:
    """The bottleneck link carried its rate in its busiest second: never more and, if it was
    ``filled``, as a background flow fills it, no less."""
    busiest_bps = busiest(far_end["time_ns"], far_end["bytes"])
    low = rate_bps * (1 - RATE_TOLERANCE) if filled else 0
    high = rate_bps * (1 + RATE_TOLERANCE)
    return Check(
        "shaped rate",
        f"{busiest_bps / 1e6:.2f} Mb/s in the busiest second",
        f"{low / 1e6:g} to {high / 1e6:g} Mb/s",
        low <= busiest_bps <= high,
    )


def busiest(times_ns: Sequence[int], received: Sequence[int]) -> float:
    """Return the greatest rate over a second or, by the samples' spacing, little more, in bit/s."""
    best = 0.0
    first = 0
    for last, now_ns in enumerate(times_ns):
        while first + 1 <= last and now_ns - times_ns[first + 1] >= WINDOW_NS:
            first += 1
        span_ns = now_ns - times_ns[first]
        if span_ns >= WINDOW_NS:
            best = max(best, (received[last] - received[first]) * 8e9 / span_ns)
    return best


def drops_in_place(dropped: int, elsewhere: Mapping[str, Mapping[str, int]]) -> Check:
    """Every packet that was lost was lost in the bottleneck's egress queue."""
    lost = lost_at(elsewhere)
    return Check(
        "drops only at the bottleneck",
        ", ".join(lost) or f"{dropped} at the bottleneck, none elsewhere",
        f"none in: {', '.join(elsewhere)}",
        not lost,
    )


def lost_at(places_by_kind: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The number of packets lost at each place, in words."""
    return [
        f"{count} at {place} ({kind})"
        for kind, places in places_by_kind.items()
        for place, count in places.items()
    ]


def processors(shares: Mapping[str, float]) -> Check:
    """The machine was fast enough: processors were idle at times, and the switch rarely waited."""
    idle, wait = enough_idle(shares["idle_share"]), shares["switch_wait_share"]
    # Who is to blame; the hypervisor is not known to all records.
    stolen = shares.get("stolen_share", 0.0)
    return Check(
        idle.name,
        f"{idle.measured}, the switch waited {wait:.0%} of the time"
        + f", the hypervisor took {stolen:.0%}" * (stolen >= _NOTABLE_SHARE),
        f"{idle.bound}, waiting at most {MAX_SWITCH_WAIT_SHARE:.0%}",
        idle.holds and wait <= MAX_SWITCH_WAIT_SHARE,
    )


def enough_idle(idle_share: float) -> Check:
    """The processors were idle at times. Without that, nobody had one whenever he wanted it."""
    return Check(
        "processors",
        f"{idle_share:.0%} idle",
        f"at least {MIN_IDLE_SHARE:.0%} idle",
        idle_share >= MIN_IDLE_SHARE,
    )


def all_carried(record: Mapping[str, Any], rate_bps: int) -> Check:
    """All that a client claims to have received has reached its host, and took no less time than on
    the link.

    The client reports its rounds itself, and could leave some of their time out.
    """
    got, told_s = sum(record["round_bytes"]), sum(record["round_s"])
    came = record["tcp"][record["receiver"]].get("IpExt.InOctets", 0)
    least_s = got * 8 / rate_bps
    return Check(
        "all carried in the time told",
        f"{got} bytes in {told_s:.2f} s, {came} came to the host",
        f"no more than came, and no less than {least_s:.2f} s",
        got <= came and told_s >= least_s,
    )


def complete_trace(arrived: int, in_trace: int) -> Check:
    """The queue's trace is complete: it holds every packet that was counted.

    It begins a little before the counters are first read, and ends a little after the last reading.
    """
    return Check(
        "complete queue trace",
        f"{in_trace} arrivals in the trace",
        f"at least the {arrived} counted",
        0 < arrived <= in_trace,
    )


def connected(events: Sequence[Mapping[str, Any]]) -> Check:
    """Every switch was connected to its controller all the time, and no notice was lost."""
    downs = sum(event["event"] == "switch_down" for event in events)
    missed = sum(event["missed"] for event in events if event["event"] == "queue_event")
    return Check(
        "controller connected",
        f"{downs} disconnections, {missed} notices missed",
        "none",
        not (downs or missed),
    )


def notices_heard(record: Mapping[str, Any]) -> Check:
    """The controller received notices during the workload, if there was congestion. Without
    notices a scheme that only reacts has done nothing."""
    heard = notices_during_workload(record)
    longest, low = record["longest_bytes"], int(record["queue"]["low"])
    return Check(
        "notices heard during the workload",
        f"{heard}, with up to {longest} bytes in the queue",
        f"some, if the queue reaches L, {low} bytes",
        heard > 0 or longest < low,
    )


def notices_during_workload(record: Mapping[str, Any]) -> int:
    """Return how many notices of congestion the controller received during the workload."""
    begin_ns, end_ns = span_ns(record["operations"])
    return sum(
        event["event"] == "queue_event"
        and event["notice"] != "CR"
        and begin_ns <= event["switch_time_ns"] <= end_ns
        for event in record["events"]
    )


def without_errors(errors: Sequence[str]) -> Check:
    """The controller logged no error; a message that a switch refused is one."""
    return Check(
        "controller without errors",
        f"{len(errors)}, the first: {errors[0]}" if errors else "none",
        "none",
        not errors,
    )


def no_faults(name: str, faults: Sequence[str]) -> Check:
    """All settings that were read back are as asked for."""
    return Check(name, "; ".join(faults) or "no difference", "no difference", not faults)
