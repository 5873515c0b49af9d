"""Judges a soak of the controller by the samples taken after its warm-up."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.soak import trend
from experiments.soak.trend import Sample

# Memory may seem to grow by this much an hour, or over the whole of a soak by what it moves about
# anyway and an arena of the allocator.
SLOPE_KB_PER_HOUR = 512.0
# Memory that was watched for less than a minute may still be filling up.
_MEMORY = trend.MemoryBound(chance_kb=1024.0, least_s=60.0, slope_kb_per_hour=SLOPE_KB_PER_HOUR)
# The last third may be slower than the first by this factor, and by the noise of a machine.
_DELAY_RATIO, _DELAY_NOISE_US = 1.5, 200.0
# What the controller counts may differ from the truth by what is on its way.
_ON_ITS_WAY, _SHARE_ON_ITS_WAY = 40, 0.01
# The first part of a soak, or more of a short one: caches fill.
_WARM_UP, _WARM_UP_S, _MOST_WARM_UP = 0.3, 240.0, 0.5

# Processor time; nobody is answered meanwhile.
LONG_TURN_S = 0.02

_LEVEL = re.compile(r"^\S+ \S+ (WARNING|ERROR|CRITICAL)\b")
_EXPECTED = (
    re.compile(r"weir\.app: switch=\w{16} disconnected( \(and \d+ more like it were left out\))?$"),
    re.compile(r"weir\.session: switch=\w{16} has no meters"),
    # EPIPE and ECONNRESET: the other end has just gone.
    re.compile(r"weir\.channel: switch=\w{16} at \S+: \[Errno (32|104)\]"),
)


@dataclass(frozen=True)
class Minute:
    """The control delays of a minute, and its connections counted twice: by the controller's
    ports, and by who made them. ``vanished`` are those whose end it cannot know. ``long_turns`` is
    how many turns of its main loop have taken longer than LONG_TURN_S until then."""

    at_s: float
    delay_p50_us: float
    delay_p99_us: float
    delays: int
    counted: int
    truth: int
    vanished: int
    long_turns: int = 0
    longest_turn_ms: float = 0.0

    @property
    def fault(self) -> str | None:
        """Describe how the controller's view is wrong; None if it is not."""
        allowance = _ON_ITS_WAY + self.truth * _SHARE_ON_ITS_WAY
        if self.truth - allowance <= self.counted <= self.truth + self.vanished + allowance:
            return None
        return (
            f"after {self.at_s:.0f} s the controller counts {self.counted} flows, "
            f"there are {self.truth}, and {self.vanished} that ended without a word"
        )


def judge(
    samples: Sequence[Sample], minutes: Sequence[Minute]
) -> tuple[dict[str, float], list[str]]:
    """Return figures, and findings in words."""
    faults = [minute.fault for minute in minutes if minute.fault]
    end_s = samples[-1].at_s if samples else 0.0
    begin_s = max(_WARM_UP * end_s, min(_WARM_UP_S, _MOST_WARM_UP * end_s))
    settled = [sample for sample in samples if sample.at_s >= begin_s]
    late = [minute for minute in minutes if minute.at_s >= begin_s]
    figures: dict[str, float] = {}
    try:
        figures |= _memory(settled, faults)
        figures |= _delays(late, faults)
        figures |= _turns(late)
    except ValueError as too_short:
        return figures, [*faults, f"too short to tell: {too_short}"]
    for what in ("descriptors", "threads"):
        first, last = trend.thirds([getattr(sample, what) for sample in settled])
        figures |= {f"{what}_first_third": first, f"{what}_last_third": last}
        if last > first:
            faults.append(f"{what} grow: {first:g} in the first third, {last:g} in the last")
    return figures, faults


def unexpected(log: Iterable[str]) -> list[str]:
    """The complaints in a controller's log about things that were not done on purpose."""
    return [
        line
        for line in log
        if _LEVEL.search(line) and not any(known.search(line) for known in _EXPECTED)
    ]


def _memory(settled: Sequence[Sample], faults: list[str]) -> dict[str, float]:
    figures, fault = trend.memory(settled, _MEMORY)
    faults += [fault] if fault else []
    return figures


def _turns(late: Sequence[Minute]) -> dict[str, float]:
    """The turns of the main loop that took long; the longest is since the start."""
    long = late[-1].long_turns - late[0].long_turns
    return {"long_turns": long, "longest_turn_ms": late[-1].longest_turn_ms}


def _delays(late: Sequence[Minute], faults: list[str]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name in ("p50", "p99"):
        first, last = trend.thirds([getattr(minute, f"delay_{name}_us") for minute in late])
        figures |= {f"delay_{name}_first_third_us": first, f"delay_{name}_last_third_us": last}
        if last > _DELAY_RATIO * first + _DELAY_NOISE_US:
            faults.append(
                f"the control delay's {name} rises: {first:.0f} us in the first third, "
                f"{last:.0f} us in the last"
            )
    return figures
