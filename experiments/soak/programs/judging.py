"""What every soak of unmodified programs is judged by: that something was compared, that packets
were lost, and that no process grows or panics."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.soak import trend
from experiments.soak.trend import Sample
from testbed.bottleneck import Counts

# The share of packets that is lost may differ by this factor from what was asked for, where so many
# were sent that chance is no reason.
_LOSS_FACTOR, _MANY_PACKETS = 2.0, 20_000
# The first part of a soak, or more of a short one: queues and pools grow to their sizes.
_WARM_UP, _WARM_UP_S, _MOST_WARM_UP = 0.3, 600.0, 0.5
# Memory may seem to grow by what the allocator moves about; the load is of random sizes.
_MEMORY = trend.MemoryBound(chance_kb=2048.0, least_s=45.0)
_GROWTH_OF_DESCRIPTORS = 1.25


def checked(
    counts: Mapping[str, int], needed: Sequence[str], figures: dict[str, Any], faults: list[str]
) -> None:
    """Require that each of ``needed`` has happened."""
    figures |= {name: counts[name] for name in sorted(counts)}
    faults += [f"nothing was checked: no {name}" for name in needed if not counts.get(name)]
    figures["checked_bytes"] = sum(
        count for name, count in counts.items()
        if name.endswith("_bytes")
    )  # fmt: skip


def link(
    seen: Mapping[str, Counts], loss: float, figures: dict[str, Any], faults: list[str]
) -> None:
    """Require that the share ``loss`` was lost in each direction, by each kind of loss."""
    if not seen:
        faults.append("no packet was seen on the link")
    for name, counts in seen.items():
        figures |= {
            f"link.{name}.packets": counts.seen,
            f"link.{name}.lost": counts.lost,
            f"link.{name}.red": counts.red,
        }
        if not counts.lost:
            faults.append(f"no packet was lost, {name}, of {counts.seen}: this proves nothing")
            continue
        share = counts.lost / counts.seen
        if counts.seen >= _MANY_PACKETS and not (
            loss / _LOSS_FACTOR <= share <= loss * _LOSS_FACTOR
        ):
            faults.append(f"{share:.2%} were lost, {name}, instead of {loss:.2%}")
    figures["link.lost"] = sum(counts.lost for counts in seen.values())


def resources(
    name: str, samples: Sequence[Sample], moving_descriptors: int, faults: list[str]
) -> dict[str, float]:
    """Require that neither memory nor descriptors grow, of which so many come and go; return the
    figures.

    Raises ValueError where the samples cover too little.
    """
    begin_s, end_s = (samples[0].at_s, samples[-1].at_s) if samples else (0.0, 0.0)
    watched_s = end_s - begin_s
    warm_up_s = min(max(_WARM_UP * watched_s, _WARM_UP_S), _MOST_WARM_UP * watched_s)
    settled = [sample for sample in samples if sample.at_s >= begin_s + warm_up_s]
    figures, fault = trend.memory(settled, _MEMORY)
    if fault:
        faults.append(f"{name}: {fault}")
    few, many = trend.thirds([sample.descriptors for sample in settled])
    if many > few * _GROWTH_OF_DESCRIPTORS + moving_descriptors:
        faults.append(f"{name}: descriptors grow: {few:g} in the first third, {many:g} in the last")
    return figures | {
        "rss_most_kb": max(sample.rss_kb for sample in samples),
        "descriptors_first_third": few,
        "descriptors_last_third": many,
        "descriptors_most": max(sample.descriptors for sample in samples),
    }


def panic(log: str) -> str | None:
    """Return what a log says of a thread that has panicked; None if none has."""
    lines = iter(log.splitlines())
    for line in lines:
        if "panicked at" in line:
            return f"{line.strip()} {next(lines, '').strip()}"
    return None


def record_samples(file: Path, what: str, of: Mapping[str, Sequence[Sample]]) -> None:
    """Write the samples of processes, each of which is a ``what``, as CSV."""
    with file.open("w") as opened:
        table = csv.writer(opened)
        table.writerow(("seconds", what, "rss_kb", "descriptors", "threads"))
        for name, samples in of.items():
            table.writerows(
                (f"{s.at_s:.1f}", name, s.rss_kb, s.descriptors, s.threads) for s in samples
            )
