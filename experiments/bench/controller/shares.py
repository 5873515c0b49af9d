"""How long the controller takes to keep the shares of 10,000 announced flows fair: ``max_min_...``.

They are between any hosts of a fat tree of 1,024 (k = 16), over paths chosen at random; TCP takes a
part of some links. After one reading of counters the use of 16 links has changed
(``max_min_10k_flows_ms``, ``..._p99_ms``); a flow leaves and another one joins (``..._join_ms``);
beside it, all shares are computed from nothing (``..._anew_ms``). The same where all flows go to
one host (``max_min_10k_incast_...``).
"""

import random
import time
from collections.abc import Callable, Hashable
from math import inf
from statistics import median

from controller.core.bandwidth.max_min import Contention, Demand, FairShares
from experiments.statistics import percentile

_K = 16
_HOSTS = _K**3 // 4
_FLOWS, _READINGS, _TIMES = 10_000, 16, 200
_CAPACITY_BPS = 10e9

Link = tuple[Hashable, ...]


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    figures: dict[str, float] = {}
    for name, receivers in (("flows", _HOSTS), ("incast", 1)):
        progress(f"shares of {_FLOWS} flows to {receivers} hosts")
        found = _measure(random.Random(1), receivers)
        figures |= {f"max_min_10k_{name}_{what}": value for what, value in found.items()}
    return figures


def _measure(chance: random.Random, receivers: int) -> dict[str, float]:
    demands = {}
    for flow in range(_FLOWS):
        dst = chance.randrange(receivers)
        src = chance.choice([host for host in range(_HOSTS) if host != dst])
        demands[flow] = Demand(_path(src, dst, chance), chance.choice((inf, 1e8, 1e9)))
    links = {link: _contention(chance) for demand in demands.values() for link in demand.links}
    begun_s = time.perf_counter()
    shares: FairShares[int, Link] = FairShares()
    for link, contention in links.items():
        shares.set_link(link, contention)
    for flow, demand in demands.items():
        shares.put(flow, demand)
    shares.settle()
    anew_ms = (time.perf_counter() - begun_s) * 1e3

    def join() -> None:
        flow = chance.randrange(_FLOWS)
        shares.remove(flow)
        for link in demands[flow].links:
            if not shares.flows_over(link):
                shares.set_link(link, links[link])
        shares.put(flow, demands[flow])

    def read() -> None:
        for link in chance.sample(list(links), _READINGS):
            shares.set_link(link, _contention(chance))

    def timed_ms(change: Callable[[], None]) -> float:
        begun_s = time.perf_counter()
        change()
        shares.settle()
        return (time.perf_counter() - begun_s) * 1e3

    read_ms = [timed_ms(read) for _ in range(_TIMES)]
    join_ms = [timed_ms(join) for _ in range(_TIMES)]
    return {
        "ms": median(read_ms),
        "p99_ms": percentile(read_ms, 99),
        "join_ms": median(join_ms),
        "anew_ms": anew_ms,
    }


def _contention(chance: random.Random) -> Contention:
    """TCP has up to a tenth of a link in one of two cases, and nothing of it otherwise."""
    tcp_bps = chance.choice((0.0, 1.0)) * chance.uniform(0.05, 0.1) * _CAPACITY_BPS
    return Contention(_CAPACITY_BPS, 1 + chance.randrange(8), tcp_bps)


def _path(src: int, dst: int, chance: random.Random) -> tuple[Link, ...]:
    """The links from host to host, over an aggregation and a core switch chosen at random."""
    half = _K // 2
    (edge, other_edge), (pod, other_pod) = (
        (src // half, dst // half),
        (src // half**2, dst // half**2),
    )
    links: list[Link] = [("from", src)]
    if edge != other_edge:
        up, core = chance.randrange(half), chance.randrange(half)
        links.append(("edge up", edge, up))
        if pod != other_pod:
            links += [("pod up", pod, up, core), ("pod down", other_pod, up, core)]
        links.append(("edge down", other_edge, up))
    return (*links, ("to", dst))
