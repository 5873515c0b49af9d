"""When a layer is ended and begun again, and how."""

import random
from dataclasses import dataclass

HOWS = ("kill", "stop")
# Restarts come in these parts of the time. Between them processes are left alone for long enough
# that their memory can be judged.
_PARTS = ((0.05, 0.40), (0.92, 0.97))
_EVERY_S, _LEAST = 180.0, 2
# For so long it is away. A peer that is back at once has said nothing of its end.
_AWAY_S = (0.0, 0.0, 1.0, 5.0)


@dataclass(frozen=True)
class Restart:
    """Seconds after the beginning, the number of the layer that ends, how, and for how long it is
    away."""

    at_s: float
    layer: int
    how: str
    away_s: float


def plan(seconds: float, layers: int, seed: int) -> list[Restart]:
    """Draw the restarts of a soak of so many seconds: in each part at least one in each way."""
    rng = random.Random(f"{seed} restarts")
    drawn = []
    for begin, end in _PARTS:
        count = max(_LEAST, round((end - begin) * seconds / _EVERY_S))
        hows = [HOWS[number % len(HOWS)] for number in range(count)]
        whose = [number % layers for number in range(count)]
        rng.shuffle(hows)
        rng.shuffle(whose)
        slot_s = (end - begin) * seconds / count
        for number, (how, layer) in enumerate(zip(hows, whose, strict=True)):
            at_s = begin * seconds + (number + rng.random()) * slot_s
            away_s = min(rng.choice(_AWAY_S), slot_s / 2)
            drawn.append(Restart(at_s, layer, how, away_s))
    return drawn
