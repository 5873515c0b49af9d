"""The tree of links over which frames to a group reach all switches, each once.

Switches cannot all change at the same moment, and one whose control channel is lost does not change
at all. So a new tree keeps what it can of the former one, and all of it between switches that
cannot be told of another.
"""

from collections import deque
from collections.abc import Collection, Iterable

from controller.core.topology.links import Link


def flood_tree(
    links: Iterable[Link],
    former: Collection[Link] = (),
    silent: Collection[int] = (),
    avoided: Collection[Link] = (),
) -> frozenset[Link]:
    """A spanning tree of these links; of a fabric in parts, one for each part.

    Links of the `former` tree between two `silent` switches stay in any case. Others are preferred
    if they are not `avoided`, then if they are of the former tree, then near the root, so that
    paths are short (Kruskal, "On the shortest spanning subtree of a graph", 1956).
    """
    links = set(links)
    depths = _depths(links)
    group: dict[int, int] = {}

    def root_of(switch: int) -> int:
        while (above := group.get(switch, switch)) != switch:
            group[switch] = group.get(above, above)
            switch = above
        return switch

    def rank(link: Link) -> tuple[bool, bool, bool, int, Link]:
        stays = link in former and link[0].switch in silent and link[1].switch in silent
        depth = min(depths[end.switch] for end in link)
        return not stays, link in avoided, link not in former, depth, link

    tree = set()
    for link in sorted(links, key=rank):
        a, b = (root_of(end.switch) for end in link)
        if a != b:
            group[a] = b
            tree.add(link)
    return frozenset(tree)


def _depths(links: Iterable[Link]) -> dict[int, int]:
    """How far each switch is from the root of its part: the one with most links, so that it is a
    core or a spine where there are any."""
    peers: dict[int, set[int]] = {}
    for a, b in links:
        peers.setdefault(a.switch, set()).add(b.switch)
        peers.setdefault(b.switch, set()).add(a.switch)
    depths: dict[int, int] = {}
    for root in sorted(peers, key=lambda switch: (-len(peers[switch]), switch)):
        if root in depths:
            continue
        depths[root] = 0
        reached = deque([root])
        while reached:
            switch = reached.popleft()
            for peer in peers[switch]:
                if peer not in depths:
                    depths[peer] = depths[switch] + 1
                    reached.append(peer)
    return depths
