"""The fabric that is watched: pods of leaves under two aggregation switches each, and spines. Pure.

Switches have numbers from 1: the spines first, then pod by pod, its aggregation switches first.
"""

from dataclasses import dataclass

from experiments.soak.hosts import Place

_AGGREGATIONS = 2


@dataclass(frozen=True)
class Shape:
    """Every leaf has a link to both aggregation switches of its pod, each of these has
    ``uplinks`` to spines. All ports without a link, ``ports`` in all, are for hosts, at leaves."""

    pods: int
    leaves: int
    spines: int
    uplinks: int
    ports: int

    @property
    def switches(self) -> range:
        return range(1, self.spines + self.pods * (_AGGREGATIONS + self.leaves) + 1)

    def aggregations_of(self, pod: int) -> range:
        first = self.spines + 1 + pod * (_AGGREGATIONS + self.leaves)
        return range(first, first + _AGGREGATIONS)

    def leaves_of(self, pod: int) -> range:
        first = self.aggregations_of(pod).stop
        return range(first, first + self.leaves)

    def layout(self) -> tuple[dict[int, int], list[tuple[Place, Place]]]:
        """How many ports each switch has, and the cables. Raises ValueError if there are fewer
        ports than ends of cables."""
        taken = dict.fromkeys(self.switches, 0)

        def place(switch: int) -> Place:
            taken[switch] += 1
            return Place(switch, taken[switch])

        pairs = [
            (leaf, above)
            for pod in range(self.pods)
            for leaf in self.leaves_of(pod)
            for above in self.aggregations_of(pod)
        ]
        above = [one for pod in range(self.pods) for one in self.aggregations_of(pod)]
        for n, one in enumerate(above):
            pairs += [(one, 1 + (n * self.uplinks + i) % self.spines) for i in range(self.uplinks)]
        cables = [(place(a), place(b)) for a, b in pairs]
        left = self.ports - sum(taken.values())
        if left < 0:
            raise ValueError(f"{self.ports} ports are fewer than the {-left + self.ports} of links")
        leaves = [leaf for pod in range(self.pods) for leaf in self.leaves_of(pod)]
        for n in range(left):
            taken[leaves[n % len(leaves)]] += 1
        return taken, cables

    def edges(self, of_pod: int) -> list[Place]:
        """The ports that have hosts: that of the first leaves of every pod."""
        return [
            Place(leaf, _AGGREGATIONS + 1)
            for pod in range(self.pods)
            for leaf in self.leaves_of(pod)[:of_pod]
        ]


LARGE = Shape(pods=24, leaves=38, spines=40, uplinks=4, ports=5000)
"""1,000 switches."""
SMALL = Shape(pods=4, leaves=10, spines=2, uplinks=2, ports=240)
"""50 switches."""
