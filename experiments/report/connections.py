"""Congestion windows and round trips of connections over time, as a picture."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from experiments.measure.captures import Sample

_MOST = 12


def draw(samples: Sequence[Sample], path: Path, since_ns: int) -> None:
    """Draw the first connections of ``samples``, against the seconds after ``since_ns``, to
    ``path`` (.png)."""
    by_connection: dict[tuple[str, str, str], list[Sample]] = {}
    for one in samples:
        by_connection.setdefault((one.host, one.local, one.peer), []).append(one)
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        picture, (windows, round_trips) = plt.subplots(
            2, 1, figsize=(10, 6.4), sharex=True, layout="constrained"
        )
        for (host, _, peer), series in list(by_connection.items())[:_MOST]:
            at_s = [(one.time_ns - since_ns) / 1e9 for one in series]
            label = f"{host} to {peer}"
            windows.step(at_s, [one.cwnd for one in series], where="post", lw=1.1, label=label)
            round_trips.step(at_s, [one.rtt_ms for one in series], where="post", lw=1.1)
        windows.set_ylabel("congestion window [segments]")
        round_trips.set_ylabel("smoothed round trip [ms]")
        round_trips.set_xlabel("time since the workload began [s]")
        for axes in (windows, round_trips):
            axes.set_ylim(bottom=0)
            axes.grid(linewidth=0.3)
        if by_connection:
            windows.legend(fontsize=7, frameon=False, ncols=3)
        picture.savefig(path, dpi=130, metadata={"Software": None})
        plt.close(picture)
