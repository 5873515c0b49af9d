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

All destinations of a root are computed at once, in arrays, a few at a time: a row for each switch,
or for each place, and a column for each destination. A link has two places, one for each direction,
in the order of the switches that send.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.core.topology.links import Link
from controller.model.values import N_PATH_IDS, PortId

# A path has less than 2**8 links, a root is less than 2**8 links away.
_NEAR = 1
_HOP = 1 << 20
_DISTRUST = 1 << 30

_FAR = 255
_NEVER = 1 << 60
_MASK = (1 << 64) - 1

# How many places are looked at together: a few milliseconds of work.
_PLACES_AT_ONCE = 1 << 15
_USUAL_HOPS = 10

_Array = NDArray[np.int64]


class _Tree(NamedTuple):
    """The paths to some destinations for one root: the sums of weights by switch, which places are
    on a least path, and for each path id the ports, a row for each destination."""

    sums: _Array
    least: NDArray[np.bool_]
    ports: dict[int, NDArray[np.int32]]


class Trees:
    """The paths of one state of the fabric.

    `edges` are the switches that hosts are, or may be, at. Paths avoid `distrusted` switches and
    `doubtful` links where they can. `former_roots`, of an earlier state, keep their place when path
    ids are dealt although they are gone, so that only their own path ids move. What a change of
    links has left as it was is taken from the `former` trees.

    Who has others waiting calls `prepare` until it returns True, and then `advance` for each
    destination; each call takes a few milliseconds in a large fabric. Others need not care. `spent`
    is the work so far, in such calls.
    """

    def __init__(
        self,
        links: Iterable[Link],
        edges: Collection[int],
        distrusted: Collection[int] = (),
        doubtful: Collection[Link] = (),
        former_roots: Collection[int] = (),
        former: "Trees | None" = None,
    ) -> None:
        pairs: dict[tuple[int, int], list[Link]] = {}
        # The doubtful ones last, so that they are not used where there are parallel links.
        for link in sorted(links, key=lambda link: link in doubtful) if doubtful else links:
            a, b = link[0].switch, link[1].switch
            if a != b:
                pairs.setdefault((a, b) if a < b else (b, a), []).append(link)
        self.switches: tuple[int, ...] = tuple(sorted(set(chain.from_iterable(pairs))))
        self.place_of = {switch: place for place, switch in enumerate(self.switches)}
        self._pairs = pairs
        self._doubtful = doubtful
        self._distrusted = {self.place_of[one] for one in distrusted if one in self.place_of}
        self._former_roots = former_roots
        present = sorted(self.place_of[edge] for edge in edges if edge in self.place_of)
        # Those that are destinations first, so that they are computed together.
        self._edges = present
        is_edge = set(present)
        others = (place for place in range(len(self.switches)) if place not in is_edge)
        self._order = [*present, *others]
        self._rank = {place: rank for rank, place in enumerate(self._order)}
        # Without links all are gone.
        self._roots: tuple[int, ...] = tuple(sorted(set(former_roots)))
        self.spent = 0.0
        self._root_of: tuple[int, ...] = ()
        self._weights: dict[int, _Array] = {}
        self._trees: dict[tuple[int, int], _Tree] = {}  # By root and group.
        self._former = former
        if former is not None:
            former._former = None
        # By root, the places of the former trees that are gone or have become worse, and those
        # of these that have come or become better.
        self._changes: dict[int, tuple[_Array, _Array]] = {}
        self._is_prepared = not pairs
        self._steps = self._prepare()

    def prepare(self) -> bool:
        """Go one step further; returns whether all is prepared."""
        if not self._is_prepared and next(self._steps, None) is None:
            self._is_prepared = True
        return self._is_prepared

    def advance(self, destination: int) -> bool:
        """Go one step further towards the paths to a destination; returns whether they are
        known."""
        self._finish()
        if destination in self.place_of:
            group = self._column(destination)[0]
            for root in set(self._root_of):
                if (root, group) not in self._trees and not self._reuse(root, group):
                    self._trees[root, group] = self._compute(root, group)
                    return False
        return True

    @property
    def roots(self) -> tuple[int, ...]:
        self._finish()
        return self._roots

    @property
    def root_of(self) -> tuple[int, ...]:
        """The root of each path id; empty without links."""
        self._finish()
        return self._root_of

    def next_hops(self, destination: int) -> NDArray[np.int32]:
        """The ports towards a destination: a row for each path id, in each a column for each of
        `switches`; 0 at the destination itself, and where it cannot be reached."""
        self._finish()
        ports = np.zeros((N_PATH_IDS, len(self.switches)), np.int32)
        if destination in self.place_of:
            for path_id in range(N_PATH_IDS):
                ports[path_id] = self._row(destination, path_id)
        return ports

    def next_port(self, switch: int, destination: int, path_id: int) -> int | None:
        """The port of a switch towards a destination; None if it cannot be reached from there, or
        is the switch itself."""
        self._finish()
        if switch not in self.place_of or destination not in self.place_of:
            return None
        return int(self._row(destination, path_id)[self.place_of[switch]]) or None

    def next_ports(self, destination: int, path_id: int) -> dict[int, int]:
        """The port towards `destination` of every other switch that reaches it."""
        self._finish()
        if destination not in self.place_of:
            return {}
        row = self._row(destination, path_id).tolist()
        return {switch: port for switch, port in zip(self.switches, row, strict=True) if port}

    # Preparation

    def _finish(self) -> None:
        while not self.prepare():
            pass

    def _prepare(self) -> Generator[int]:
        """Each step takes a few milliseconds in a large fabric."""
        self._lay_out()
        yield 1
        steps = self._find_roots()
        for _ in steps:
            yield 1
        for root in set(self._root_of):
            self._weights[root] = self._weigh(root)
            yield 1
        if self._former is not None:
            self._compare(self._former)
        yield 1

    def _lay_out(self) -> None:
        """The arrays of the places."""
        place_of = self.place_of
        ends = np.array([(place_of[a], place_of[b]) for a, b in self._pairs], np.int64).reshape(
            -1, 2
        )
        src = np.concatenate((ends[:, 0], ends[:, 1]))
        dst = np.concatenate((ends[:, 1], ends[:, 0]))
        order = np.lexsort((dst, src))
        self._src, self._dst = src[order], dst[order]
        self._starts = np.searchsorted(self._src, np.arange(len(self.switches)))
        ports = np.empty((N_PATH_IDS, 2, len(self._pairs)), np.int32)
        doubts = np.zeros(len(self._pairs), np.int64)
        for i, ((low, _), links) in enumerate(self._pairs.items()):
            doubts[i] = links[0] in self._doubtful
            used = [link for link in links if (link in self._doubtful) == bool(doubts[i])]
            if len(used) == 1:
                ports[:, :, i] = _ports_from(low, used[0])
            else:
                drawn = (_drawn_link(used, path_id) for path_id in range(N_PATH_IDS))
                ports[:, :, i] = [_ports_from(low, link) for link in drawn]
        self._ports = ports.reshape(N_PATH_IDS, -1)[:, order]
        distrusted = np.zeros(len(self.switches), np.int64)
        distrusted[list(self._distrusted)] = 1
        doubt = np.concatenate((doubts, doubts))[order]
        self._penalties = doubt + distrusted[self._src] + distrusted[self._dst]
        self._places = np.arange(len(self._src))
        self._at_once = max(1, _PLACES_AT_ONCE // len(self._src))

    def _find_roots(self) -> Iterator[int]:
        """The trusted switches farthest from the edges, of those on shortest paths between edges;
        and how the path ids are dealt to all roots."""
        hops = np.full((len(self._edges), len(self.switches)), _NEVER, np.int64)
        for begin in range(0, len(self._edges), self._at_once):
            some = self._edges[begin : begin + self._at_once]
            sums, _ = self._relax(some, np.ones((len(self._src), 1), np.int64))
            hops[begin : begin + len(some)] = sums.T
            yield 1
        transit = set(self._edges)
        for begin in range(0, len(self._edges), self._at_once):
            for i in range(begin, min(begin + self._at_once, len(self._edges))):
                between = hops[i][self._edges]
                on_paths = (hops[i] + hops == between[:, None]) & (between[:, None] < _NEVER)
                transit.update(np.flatnonzero(on_paths.any(axis=0)).tolist())
            yield 1
        candidates = transit - self._distrusted or transit or set(range(len(self.switches)))
        if self._edges:
            away = hops.min(axis=0)
            farthest = max(away[place] for place in candidates)
            candidates = {place for place in candidates if away[place] == farthest}
        live = {self.switches[place] for place in candidates}
        distrusted = {self.switches[place] for place in self._distrusted}
        gone = {
            root for root in self._former_roots if root not in self.place_of or root in distrusted
        }
        self._roots = tuple(sorted(live | gone))
        self._root_of = _deal(self._roots, live)

    def _weigh(self, root: int) -> _Array:
        """What each place adds to a path, for one root."""
        hops, _ = self._relax([self.place_of[root]], np.ones((len(self._src), 1), np.int64))
        away = np.minimum(hops, _FAR)
        near = away[self._src] + away[self._dst]
        weights: _Array = _HOP + _NEAR * near + _DISTRUST * self._penalties[:, None]
        return weights

    # Paths

    def _relax(self, destinations: Sequence[int], weights: _Array) -> tuple[_Array, _Array]:
        """The sums of the least paths of all switches to each destination, and those by way of each
        place (Bellman and Ford). `weights` are of the places, for all destinations or for each."""
        sums = np.full((len(self.switches), len(destinations)), _NEVER, np.int64)
        sums[list(destinations), np.arange(len(destinations))] = 0
        while True:
            ways = sums[self._dst]
            ways += weights
            self.spent += ways.size / (_PLACES_AT_ONCE * _USUAL_HOPS)
            least = np.minimum.reduceat(ways, self._starts, axis=0)
            np.minimum(least, sums, out=least)
            if np.array_equal(least, sums):
                return sums, ways
            sums = least

    def _row(self, destination: int, path_id: int) -> NDArray[np.int32]:
        root, (group, row) = self._root_of[path_id], self._column(destination)
        if (root, group) not in self._trees and not self._reuse(root, group):
            self._trees[root, group] = self._compute(root, group)
        ports: NDArray[np.int32] = self._trees[root, group].ports[path_id][row]
        return ports

    def _column(self, destination: int) -> tuple[int, int]:
        """Where the paths to a destination are: in which group, and at which place there."""
        return divmod(self._rank[self.place_of[destination]], self._at_once)

    def _path_ids(self, root: int) -> list[int]:
        return [path_id for path_id, other in enumerate(self._root_of) if other == root]

    def _compute(self, root: int, group: int) -> _Tree:
        """The paths to a group of destinations for one root."""
        first = group * self._at_once
        some = self._order[first : first + self._at_once]
        sums, ways = self._relax(some, self._weights[root])
        here = sums[self._src]
        least = (ways == here) & (here < _NEVER)
        ties = bool((np.add.reduceat(least, self._starts, axis=0, dtype=np.int32) > 1).any())
        only = None if ties else self._first(least)
        chosen = {}
        for path_id in self._path_ids(root):
            places = self._first(self._drawn(some, least, path_id)) if only is None else only
            ports = np.append(self._ports[path_id], np.int32(0))
            chosen[path_id] = np.ascontiguousarray(ports[places].T)
        return _Tree(sums, least, chosen)

    # What is as it was

    def _compare(self, former: "Trees") -> None:
        """Find the places that have changed, if the former trees are of the same switches."""
        if (former.switches, former._order) != (self.switches, self._order):
            return
        if former._at_once != self._at_once:
            return
        now, then = (one._src * len(one.switches) + one._dst for one in (self, former))
        found = np.minimum(np.searchsorted(then, now), len(then) - 1)
        stayed = then[found] == now
        self._stayed, self._stayed_from = np.flatnonzero(stayed), found[stayed]
        gone = np.ones(len(then), np.bool_)
        gone[self._stayed_from] = False
        rewired = (self._ports[:, self._stayed] != former._ports[:, self._stayed_from]).any(axis=0)
        for root, weights in self._weights.items():
            if root in former._weights and former._path_ids(root) == self._path_ids(root):
                before = former._weights[root][self._stayed_from, 0]
                after = weights[self._stayed, 0]
                worse, better = gone.copy(), ~stayed
                worse[self._stayed_from] |= (after > before) | rewired
                better[self._stayed] |= after < before
                self._changes[root] = np.flatnonzero(worse), np.flatnonzero(better)

    def _reuse(self, root: int, group: int) -> bool:
        """Take a tree from the former ones; returns whether it is right still.

        It is if no least path leads over a place that is gone or worse, and none over a place that
        has come or is better would be as short.
        """
        tree = self._former._trees.get((root, group)) if self._former else None
        if tree is None or root not in self._changes:
            return False
        worse, better = self._changes[root]
        over = tree.sums[self._dst[better]] + self._weights[root][better]
        if tree.least[worse].any() or (over <= tree.sums[self._src[better]]).any():
            return False
        least = np.zeros((len(self._src), tree.least.shape[1]), np.bool_)
        least[self._stayed] = tree.least[self._stayed_from]
        self._trees[root, group] = tree._replace(least=least)
        return True

    # Ties

    def _drawn(
        self, some: Sequence[int], least: NDArray[np.bool_], path_id: int
    ) -> NDArray[np.bool_]:
        """Of the least paths, those whose draws have the least sum."""
        switches = np.array(self.switches, np.uint64)
        draws = _draw(path_id, switches[self._src], switches[self._dst])
        sums, ways = self._relax(some, np.where(least, draws[:, None], _NEVER))
        marked: NDArray[np.bool_] = least & (ways == sums[self._src])
        return marked

    def _first(self, marked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """For each switch the first of its places that are marked, or one past the last place."""
        none = len(self._src)
        places = np.where(marked, self._places[:, None], none)
        return np.minimum.reduceat(places, self._starts, axis=0)


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


def _drawn_link(links: Sequence[Link], path_id: int) -> Link:
    """One of the links between two switches, the same from either side.

    Rendezvous hashing: the loss of a link moves only the path ids that used it.
    """
    return max(links, key=lambda link: (_draw_of_ports(path_id, *link), link))


def _ports_from(switch: int, link: Link) -> tuple[int, int]:
    """The ports of a link, first that of this switch."""
    a, b = link
    return (a.port, b.port) if a.switch == switch else (b.port, a.port)


@lru_cache(maxsize=1 << 16)
def _draw_of_ports(path_id: int, a: PortId, b: PortId) -> int:
    ends = (np.array([_mix(end.switch) ^ end.port], np.uint64) for end in (a, b))
    return int(_draw(path_id, *ends)[0])


def _draw(path_id: int, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> _Array:
    """A number of 32 bits, the same for both directions and after a restart."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    start = np.uint64(_mix(path_id + 1))
    return (_mix_all(_mix_all(start ^ low) ^ high) >> np.uint64(32)).astype(np.int64)


def _mix(value: int) -> int:
    """SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    return int(_mix_all(np.array([value & _MASK], np.uint64))[0])


def _mix_all(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)
