"""Fabrics of switches for tests, as lists of links."""

from collections import Counter
from itertools import product

from controller.core.topology.links import Link
from controller.model.values import PortId

CORE, AGGREGATION, EDGE = 16, 64, 128
SPINE, LEAF = 16, 32


class Wiring:
    """Links, at the next free port of either switch; hosts' ports begin at 100."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.edges: list[int] = []
        self._ports: Counter[int] = Counter()

    def link(self, a: int, b: int) -> None:
        self._ports.update((a, b))
        self.links.append((PortId(a, self._ports[a]), PortId(b, self._ports[b])))

    def without(self, *switches: int) -> list[Link]:
        """The links that are left when these switches are gone."""
        return [link for link in self.links if not {end.switch for end in link} & set(switches)]


def fat_tree(k: int) -> Wiring:
    """Al-Fares et al., SIGCOMM 2008."""
    wiring, half = Wiring(), k // 2
    for pod, place in product(range(k), range(half)):
        aggregation = AGGREGATION + pod * half + place
        for i in range(half):
            wiring.link(aggregation, CORE + place * half + i)
            wiring.link(aggregation, EDGE + pod * half + i)
    wiring.edges = [EDGE + i for i in range(k * half)]
    return wiring


def leaf_spine(spines: int, leaves: int, parallel: int = 1) -> Wiring:
    wiring = Wiring()
    for leaf, spine, _ in product(range(leaves), range(spines), range(parallel)):
        wiring.link(LEAF + leaf, SPINE + spine)
    wiring.edges = [LEAF + i for i in range(leaves)]
    return wiring
