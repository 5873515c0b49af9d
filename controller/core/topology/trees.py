"""The paths from switch to switch: for each path id a shortest path of its own (ECMP).

A frame's *path id* is a hash of its connection, the same for both directions; for the datagrams of
announced flows the controller chooses it. The path between two switches is the least of all by, in
this order: the number of doubtful links and distrusted switches, length, nearness to the root
of the path id, and a sum over its links that is drawn from the path id. All of these add up link by
link and are the same in both directions. So paths are symmetric, the rest of a path is a path
itself and nothing loops. A failure moves only the paths that led over it: the least of all the
others stays what it was.

The roots are what multi-rooted fabrics call so: of the switches that lie on shortest paths between
hosts, those farthest from hosts; the cores of a fat-tree (Al-Fares et al., SIGCOMM 2008), the
spines of a leaf-spine. Path ids are dealt to them in turn, which spreads traffic evenly; where the
root is not on a shortest path the path id takes another.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import chain

import networkx as nx

from controller.core.topology.links import Link
from controller.model.values import N_PATH_IDS, PortId

# A path has less than 2**8 links, a root is less than 2**8 links away.
_NEAR = 1
_HOP = 1 << 20
_DISTRUST = 1 << 30

_FAR = 255
_MASK = (1 << 64) - 1


class Trees:
    """The paths of one state of the fabric, computed on demand.

    `edges` are the switches that hosts are, or may be, at. Paths avoid `distrusted` switches and
    `doubtful` links where they can. `former_roots`, of an earlier state, keep their place when path
    ids are dealt although they are gone, so that only their own path ids move.
    """

    def __init__(
        self,
        links: Iterable[Link],
        edges: Collection[int],
        distrusted: Collection[int] = (),
        doubtful: Collection[Link] = (),
        former_roots: Collection[int] = (),
    ) -> None:
        self._graph: nx.Graph[int] = nx.Graph()
        # The doubtful ones last, so that they are not used where there are parallel links.
        for link in sorted(links, key=lambda link: link in doubtful):
            a, b = link[0].switch, link[1].switch
            known = self._graph.get_edge_data(a, b)
            if known is None and a != b:
                self._graph.add_edge(a, b, links=[link], doubtful=link in doubtful)
            elif known is not None and known["doubtful"] == (link in doubtful):
                known["links"].append(link)
        live = _roots(self._graph, edges, distrusted)
        gone = {root for root in former_roots if root not in self._graph or root in distrusted}
        self.roots = tuple(sorted(live | gone))
        self.root_of = _deal(self.roots, live)
        for root in set(self.root_of):
            self._weigh(root, distrusted)
        self._ways: dict[tuple[int, int], _EqualCostPaths] = {}
        self._next: dict[tuple[int, int], dict[int, int]] = {}

    @property
    def switches(self) -> Collection[int]:
        """The switches that have links."""
        return self._graph.nodes

    def next_ports(self, destination: int, path_id: int) -> dict[int, int]:
        """The port towards `destination` of every other switch that reaches it."""
        key = destination, path_id
        if key not in self._next:
            self._next[key] = self._find(destination, path_id)
        return self._next[key]

    def _find(self, destination: int, path_id: int) -> dict[int, int]:
        if destination not in self._graph:
            return {}
        root = self.root_of[path_id]
        ways = self._ways.get((destination, root))
        if ways is None:
            ways = self._ways[destination, root] = _EqualCostPaths(self._graph, destination, root)
        return {
            switch: _port(self._graph[switch][parent]["links"], switch, path_id)
            for switch, parent in ways.parents(path_id).items()
        }

    def _weigh(self, root: int, distrusted: Collection[int]) -> None:
        away = nx.single_source_shortest_path_length(self._graph, root)
        # Not by `edges`: its view and the graph would refer to each other, and such cycles are
        # collected once in an hour only.
        for a, others in self._graph.adjacency():
            for b, edge in others.items():
                edge[str(root)] = (
                    _HOP
                    + _NEAR * (min(away.get(a, _FAR), _FAR) + min(away.get(b, _FAR), _FAR))
                    + _DISTRUST * ((a in distrusted) + (b in distrusted) + edge["doubtful"])
                )


class _EqualCostPaths:
    """The equally good paths to a destination for the path ids of one root."""

    def __init__(self, graph: "nx.Graph[int]", destination: int, root: int) -> None:
        predecessors, distances = nx.dijkstra_predecessor_and_distance(
            graph, destination, weight=str(root)
        )
        # The nearest first, so that a parent is always settled before its children.
        self._parents = {switch: predecessors[switch] for switch in distances}
        self._ties = any(len(parents) > 1 for parents in self._parents.values())
        self._only = {s: parents[0] for s, parents in self._parents.items() if parents}

    def parents(self, path_id: int) -> dict[int, int]:
        """For every switch the next one, with ties broken for this path id."""
        if not self._ties:
            return self._only
        chosen: dict[int, int] = {}
        drawn: dict[int, int] = {}
        for switch, parents in self._parents.items():
            if parents:
                drawn[switch], chosen[switch] = min(
                    (drawn[parent] + _draw(path_id, switch, parent), parent) for parent in parents
                )
            else:
                drawn[switch] = 0
        return chosen


def _roots(graph: "nx.Graph[int]", edges: Collection[int], distrusted: Collection[int]) -> set[int]:
    """The trusted switches farthest from the edges, of those on shortest paths between edges."""
    present = [edge for edge in edges if edge in graph]
    transit = set(present)
    for edge in present:
        away = nx.single_source_shortest_path_length(graph, edge)
        back = [other for other in present if other in away]
        seen = set(back)
        while back:
            switch = back.pop()
            for parent in graph[switch]:
                if away[parent] < away[switch] and parent not in seen:
                    seen.add(parent)
                    back.append(parent)
        transit |= seen
    candidates = transit.difference(distrusted) or transit or set(graph)
    if not present:
        return candidates
    tiers = dict(enumerate(nx.bfs_layers(graph, present)))
    return next(
        roots
        for tier in sorted(tiers, reverse=True)
        if (roots := candidates.intersection(tiers[tier]))
    )


def _deal(roots: tuple[int, ...], live: Collection[int]) -> tuple[int, ...]:
    """The root of each path id; where that is gone the next live one, another for each path id."""
    if not live:
        return ()
    dealt = []
    for path_id in range(N_PATH_IDS):
        turn, place = divmod(path_id, len(roots))
        others = roots[:place] + roots[place + 1 :]
        turn %= max(1, len(others))
        choice = chain([roots[place]], others[turn:], others[:turn])
        dealt.append(next(root for root in choice if root in live))
    return tuple(dealt)


def _port(links: Sequence[Link], switch: int, path_id: int) -> int:
    """The port of one of the links between two switches, the same link from either side."""
    if len(links) == 1:
        a, b = links[0]
    else:
        a, b = max(links, key=lambda link: (_draw_link(path_id, *link), link))
    return a.port if a.switch == switch else b.port


def _draw_link(path_id: int, a: PortId, b: PortId) -> int:
    """Rendezvous hashing: the loss of a link moves only the path ids that used it."""
    return _draw(path_id, _mix(a.switch) ^ a.port, _mix(b.switch) ^ b.port)


@lru_cache(maxsize=1 << 18)
def _draw(path_id: int, a: int, b: int) -> int:
    """A number of 32 bits, the same for both directions and after a restart."""
    low, high = (a, b) if a < b else (b, a)
    return _mix(_mix(_mix(path_id + 1) ^ low) ^ high) >> 32


def _mix(value: int) -> int:
    """SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31
