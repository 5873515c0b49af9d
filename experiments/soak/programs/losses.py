"""Losses on both ways of a link: at random and in bursts, by turns."""

from experiments.bench.short_flows.dumbbell import Dumbbell
from testbed.bottleneck import Counts, Loss

SHARE = 0.01
KINDS = {"random": Loss(SHARE), "bursts": Loss(SHARE, 2.5)}
# They change this often at least, and four times in a short soak.
_TURN_S, _TURNS = 60.0, 4


def turn_s(minutes: float) -> float:
    """Return how long a turn takes in a soak of so many minutes."""
    return min(_TURN_S, minutes * 60 / _TURNS)


class Losses:
    """What is lost on a link; ``seen`` is what it has counted, by kind of loss and direction."""

    def __init__(self, network: Dumbbell, seed: int) -> None:
        self.seen: dict[str, Counts] = {}
        self._network, self._seed = network, seed % 2**31
        self._turn = -1

    def turn(self, _at_s: float = 0.0) -> None:
        """Begin the next turn."""
        if self._turn >= 0:
            self.note()
        self._turn += 1
        self._network.set_loss(KINDS[self._kind], self._seed + self._turn)

    def note(self) -> None:
        """Add up what the link has counted in this turn: at the end of one, once."""
        assert self._network.back is not None
        for way, link in (("there", self._network.link), ("back", self._network.back)):
            counted = link.seen()
            before = self.seen.get(f"{self._kind}.{way}", Counts(0, 0, 0))
            self.seen[f"{self._kind}.{way}"] = Counts(
                *(
                    getattr(before, n) + getattr(counted.first, n) + getattr(counted.others, n)
                    for n in ("seen", "lost", "red")
                )
            )

    @property
    def _kind(self) -> str:
        return list(KINDS)[self._turn % len(KINDS)]
