"""What a soak is judged by: memory over time, open descriptors, and the sanitizers' reports."""

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_RSS = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)
_WARM_UP = 0.25
# What thirds of a run without a leak may differ by: queues and traces are of random sizes.
_SLACK = 0.05
_SLACK_KB = 8192


@dataclass(frozen=True)
class Sample:
    """The switch at a moment, in seconds since the soak began."""

    at_s: float
    rss_kb: int
    descriptors: int


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def sample(pid: int, at_s: float) -> Sample:
    """Look at a running process."""
    found = _RSS.search(Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise ProcessLookupError(f"process {pid} has no memory: it has ended")
    return Sample(at_s, int(found[1]), descriptors(pid))


@dataclass(frozen=True)
class Growth:
    """Memory in the first and the last third of what follows the warm-up (medians)."""

    first_kb: float
    last_kb: float
    kb_per_minute: float

    @property
    def fault(self) -> str | None:
        """In words, if it is more than chance."""
        if self.last_kb <= self.first_kb * (1 + _SLACK) + _SLACK_KB:
            return None
        return (
            f"memory grows: {self.first_kb:.0f} kB in the first third, {self.last_kb:.0f} kB in "
            f"the last ({self.kb_per_minute:.0f} kB a minute)"
        )


def growth(samples: list[Sample]) -> Growth:
    """Compare thirds; the slope is a least-squares fit over all three.

    Raises ValueError for fewer than three samples after the warm-up.
    """
    settled = [s for s in samples if s.at_s >= samples[-1].at_s * _WARM_UP] if samples else []
    if len(settled) < 3:
        raise ValueError(f"{len(settled)} samples after the warm-up, at least 3 are needed")
    third = len(settled) // 3
    first, last = settled[:third], settled[-third:]
    mean_s = sum(s.at_s for s in settled) / len(settled)
    mean_kb = sum(s.rss_kb for s in settled) / len(settled)
    covariance = sum((s.at_s - mean_s) * (s.rss_kb - mean_kb) for s in settled)
    variance = sum((s.at_s - mean_s) ** 2 for s in settled)
    return Growth(
        median(s.rss_kb for s in first),
        median(s.rss_kb for s in last),
        60 * covariance / variance if variance else 0.0,
    )


def reports(directory: Path) -> list[Path]:
    """The sanitizers' reports: one file per process that had something to say."""
    return sorted(path for path in directory.glob("report.*") if path.stat().st_size)


def headline(report: Path) -> str:
    """The line of a report that says what it is about."""
    lines = report.read_text(errors="replace").splitlines()
    told = (line.strip() for line in lines if "ERROR: " in line or "runtime error: " in line)
    return next(told, lines[0].strip())
