"""What a page holds over time, and by how much it grows.

A round goes through all views. Its value is the median over the views of how far each is from its
own median over all rounds: so views are compared with themselves.
"""

import statistics
from collections.abc import Callable
from typing import NamedTuple

from experiments.page.memory import Memory
from experiments.soak.trend import Point, interval, slope

_HOUR_S = 3600.0
_LEAST_ROUNDS = 4  # for a slope


class Sample(NamedTuple):
    """What was held in a view, seconds after the beginning."""

    at_s: float
    view: str
    memory: Memory


def rounds(samples: list[Sample], of: Callable[[Memory], float]) -> list[Point]:
    """When each round ended, and what was held in it, as the views' median."""
    views = list(dict.fromkeys(one.view for one in samples))
    usual = {
        view: statistics.median(of(one.memory) for one in samples if one.view == view)
        for view in views
    }
    middle = statistics.median(of(one.memory) for one in samples)
    found = []
    for begin in range(0, len(samples) - len(views) + 1, len(views)):
        one_round = samples[begin : begin + len(views)]
        beyond = statistics.median(of(one.memory) - usual[one.view] for one in one_round)
        found.append((one_round[-1].at_s, middle + beyond))
    return found


def held(name: str, points: list[Point], warm_s: float) -> dict[str, object]:
    """The middle, and the growth with its 95 % interval, of what was held when all was warm."""
    warm = [point for point in points if point[0] >= warm_s]
    figures: dict[str, object] = {f"{name}_mb": statistics.median(mb for _, mb in warm)}
    if len(warm) >= _LEAST_ROUNDS:
        low, high = interval(warm)
        figures |= {
            f"{name}_grows_mb_per_h": slope(warm) * _HOUR_S,
            f"{name}_grows_mb_per_h_low": low * _HOUR_S,
            f"{name}_grows_mb_per_h_high": high * _HOUR_S,
        }
    return figures
