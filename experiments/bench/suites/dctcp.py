"""DCTCP's parameters."""

from experiments.bench.dctcp import sweep
from experiments.bench.suites import SUITES, Conclusion, Group, Suite

_GAINS = (0.0625, 0.15, 0.3)


SUITES.add(
    Suite(
        "dctcp",
        "which threshold K and gain g are the best for DCTCP at 100 Mb/s and 64 KiB",
        {
            f"g{gain:g}": Group(
                "experiments.bench.dctcp.sweep",
                {
                    "gain": gain,
                    "frames": (2, 4, 8, 14, 20, 30),
                    "senders": (8, 16, 24, 32),
                    "rounds": 10,
                    "repeats": 2,
                },
                quick={"frames": (4, 20), "senders": (16,), "repeats": 1},
                tabled=True,
            )
            for gain in _GAINS
        },
        Conclusion(sweep.conclude, sweep.show),
    )
)
