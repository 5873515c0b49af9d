"""How large flows are: distributions of sizes, drawn from with randomness that is given.

The measured ones are files in ``distributions/``, which name their sources.
"""

import bisect
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

FOLDER = Path(__file__).with_name("distributions")


@dataclass(frozen=True)
class Sizes:
    """A distribution of sizes, in bytes, by straight lines between points of its cumulative
    distribution function (CDF).

    ``points`` are (bytes, share of flows that are no larger); both never fall, and the shares go
    from 0 to 1. Two points of the same bytes are a step: that share of flows has just this size.
    Raises ValueError for others.
    """

    points: Sequence[tuple[float, float]]

    def __post_init__(self) -> None:
        sizes, shares = zip(*self.points, strict=True)
        rising = all(a <= b for values in (sizes, shares) for a, b in pairwise(values))
        if not rising or sizes[0] < 1 or (shares[0], shares[-1]) != (0, 1):
            raise ValueError(
                "points of a distribution of sizes rise from a share of 0 to 1, and from 1 byte on"
            )

    @classmethod
    def fixed(cls, size_bytes: float) -> "Sizes":
        """Return the distribution of flows that all have one size."""
        return cls([(size_bytes, 0.0), (size_bytes, 1.0)])

    @classmethod
    def measured(cls, name: str) -> "Sizes":
        """Return the distribution in the file ``distributions/NAME.csv``.

        Raises ValueError naming those that there are.
        """
        path = FOLDER / f"{name}.csv"
        if not path.exists():
            known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.csv")))
            raise ValueError(f"no distribution of sizes {name!r}: there are {known}")
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        return cls([(float(row["bytes"]), float(row["share"])) for row in csv.DictReader(lines)])

    @property
    def mean_bytes(self) -> float:
        """The mean size: exact, of the distribution and not of anything drawn."""
        return sum((a + b) / 2 * (q - p) for (a, p), (b, q) in pairwise(self.points))

    def at(self, share: float) -> int:
        """Return the size that ``share`` of all flows, 0 to 1, do not exceed: its inverse CDF.

        A size is a whole number of bytes, at least 1.
        """
        index = bisect.bisect_left(self.points, share, key=lambda point: point[1])
        (high, above) = self.points[max(index, 1)]
        (low, below) = self.points[max(index, 1) - 1]
        part = (share - below) / (above - below) if above > below else 1.0
        return max(1, round(low + (high - low) * part))

    def scaled(self, factor: float) -> "Sizes":
        """Return the same of flows that are ``factor`` times as large, and at least 1 byte."""
        return Sizes([(max(1.0, size * factor), share) for size, share in self.points])

    def at_most(self, largest_bytes: float) -> "Sizes":
        """Return the same where flows that would be larger have ``largest_bytes``.

        Their share stays, so that as many of the flows are long; their bytes are fewer.
        """
        points: list[tuple[float, float]] = []
        for size, share in self.points:
            if size <= largest_bytes:
                points.append((size, share))
                continue
            low, below = points[-1] if points else (largest_bytes, 0.0)
            part = (largest_bytes - low) / (size - low) if size > low else 0.0
            points.append((largest_bytes, below + (share - below) * part))
            points.append((largest_bytes, 1.0))
            break
        return Sizes(points)
