"""Judges a soak of atp-proxy: by what was compared, what was lost on the link, and what the
proxies hold in the end. A soak in which nothing was compared, or nothing lost, has failed."""

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
)  # fmt: skip
_SPARE_DESCRIPTORS = 4
# The connections that are open at a time are of random number, too.
_MOVING_DESCRIPTORS = 24


@dataclass(frozen=True)
class ProxyEnd:
    """What is known of a proxy in the end: samples of its process, its last counters, what
    connections broke with, why connections of ATP were lost, descriptors before any connection and
    after the last one, connections that were left when all clients had gone (what ends the proxy
    ends them, too), and how it failed, if it did."""

    name: str
    samples: Sequence[Sample]
    counters: Mapping[str, Any]
    errors: Mapping[str, int]
    lost: Sequence[str]
    idle_descriptors: int
    left_descriptors: int
    left_connections: int
    failure: str | None


@dataclass(frozen=True)
class Pair:
    """The proxies of a service. ``breakable`` of its connections may have been broken off by
    clients, on purpose or as they are used to."""

    service: str
    near: ProxyEnd
    far: ProxyEnd
    breakable: int


@dataclass(frozen=True)
class Run:
    """A soak: counts, packets on the link by direction and kind of loss, proxies, and the faults
    that were found on the way. ``loss`` is the share that was asked for."""

    counts: Mapping[str, int]
    link: Mapping[str, Counts]
    loss: float
    pairs: Sequence[Pair]
    faults: Sequence[str]


def judge(run: Run) -> tuple[dict[str, Any], list[str]]:
    """Return figures, and findings in words."""
    faults = list(run.faults)
    figures: dict[str, Any] = {}
    judging.checked(run.counts, NEEDED, figures, faults)
    judging.link(run.link, run.loss, figures, faults)
    for pair in run.pairs:
        for proxy in (pair.near, pair.far):
            _proxy(proxy, pair.breakable, figures, faults)
        _together(pair, faults)
    if not run.pairs:
        faults.append("there were no proxies")
    return figures, faults


def _proxy(proxy: ProxyEnd, breakable: int, figures: dict[str, Any], faults: list[str]) -> None:
    name = proxy.name.replace(" ", ".")
    if proxy.failure:
        faults.append(f"{proxy.name} proxy: {proxy.failure}")
    faults += [f"{proxy.name} proxy lost its connection: {why}" for why in proxy.lost]
    counters = proxy.counters
    if not counters:
        faults.append(f"{proxy.name} proxy: no counters")
        return
    for key, value in counters.items():
        if isinstance(value, Mapping):
            figures |= {f"{name}.{key}.{inner}": held for inner, held in value.items()}
        elif key != "event":
            figures[f"{name}.{key}"] = value
    figures[f"{name}.errors"] = dict(proxy.errors)
    opened, closed, failed = (counters[key] for key in ("opened", "closed", "failed"))
    if left := proxy.left_connections or opened - closed:
        faults.append(f"{proxy.name} proxy: {left} connections of {opened} are left")
    if not opened:
        faults.append(f"{proxy.name} proxy: no connection came")
    if failed > breakable:
        told = "; ".join(f"{count} × {error}" for error, count in proxy.errors.items())
        faults.append(
            f"{proxy.name} proxy: {failed} connections broke, clients broke off {breakable}: {told}"
        )
    if counters["reconnected"]:
        faults.append(f"{proxy.name} proxy connected anew {counters['reconnected']} times")
    if proxy.left_descriptors > proxy.idle_descriptors + _SPARE_DESCRIPTORS:
        faults.append(
            f"{proxy.name} proxy: {proxy.left_descriptors} descriptors are open after all, "
            f"{proxy.idle_descriptors} were before"
        )
    figures |= {
        f"{name}.idle_descriptors": proxy.idle_descriptors,
        f"{name}.left_descriptors": proxy.left_descriptors,
    }
    try:
        held = judging.resources(f"{proxy.name} proxy", proxy.samples, _MOVING_DESCRIPTORS, faults)
        figures |= {f"{name}.{key}": value for key, value in held.items()}
    except ValueError as too_short:
        faults.append(f"{proxy.name} proxy: too short to tell: {too_short}")


def _together(pair: Pair, faults: list[str]) -> None:
    """Hold what one proxy has sent against what the other one has received."""
    near, far = pair.near.counters, pair.far.counters
    if not near or not far:
        return
    if not near["opened"] - pair.breakable <= far["opened"] <= near["opened"]:
        faults.append(
            f"{pair.service}: {near['opened']} connections came to one proxy, and "
            f"{far['opened']} from the other"
        )
    ways = (("requests", near, far), ("answers", far, near))
    for what, one, other in ways:
        sent, received = one["to_atp_bytes"], other["from_atp_bytes"]
        is_whole = not near["failed"] and not far["failed"]
        if received > sent or (is_whole and received != sent):
            faults.append(f"{pair.service}: {received} bytes of {what} came of {sent}")
