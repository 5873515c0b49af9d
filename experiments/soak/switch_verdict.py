"""Judges a soak of the switch by its memory over time and the sanitizers' reports."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.soak import trend

_WARM_UP = 0.25
# What thirds of a run without a leak may differ by: queues and traces are of random sizes.
_SLACK = 0.05
_SLACK_KB = 8192


@dataclass(frozen=True)
class Growth:
    """Memory in the first and the last third of what follows the warm-up (medians)."""

    first_kb: float
    last_kb: float
    kb_per_minute: float

    @property
    def fault(self) -> str | None:
        """Describe growth that is more than chance; None otherwise."""
        if self.last_kb <= self.first_kb * (1 + _SLACK) + _SLACK_KB:
            return None
        return (
            f"memory grows: {self.first_kb:.0f} kB in the first third, {self.last_kb:.0f} kB in "
            f"the last ({self.kb_per_minute:.0f} kB a minute)"
        )


def growth(samples: list[trend.Sample]) -> Growth:
    """Compare thirds; the slope is a least-squares fit over all three.

    Raises ValueError for fewer than three samples after the warm-up.
    """
    settled = [s for s in samples if s.at_s >= samples[-1].at_s * _WARM_UP] if samples else []
    if len(settled) < 3:
        raise ValueError(f"{len(settled)} samples after the warm-up, at least 3 are needed")
    first_kb, last_kb = trend.thirds([s.rss_kb for s in settled])
    slope_kb_s, _ = np.polyfit([s.at_s for s in settled], [s.rss_kb for s in settled], 1)
    return Growth(first_kb, last_kb, 60 * float(slope_kb_s))


def reports(directory: Path) -> list[Path]:
    """The sanitizers' reports: one file per process that had something to say."""
    return sorted(path for path in directory.glob("report.*") if path.stat().st_size)


def headline(report: Path) -> str:
    """The line of a report that names the fault."""
    lines = report.read_text(errors="replace").splitlines()
    told = (line.strip() for line in lines if "ERROR: " in line or "runtime error: " in line)
    return next(told, lines[0].strip())
