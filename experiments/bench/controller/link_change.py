"""How long the controller takes to lead traffic round a link that has failed: ``link_change_...``.

The core by itself, with a fat tree (Al-Fares et al., SIGCOMM 2008) of k = 8 and k = 16, which has
320 switches and 1,024 hosts, and links that fail and come back, each one between an edge and an
aggregation switch, or between an aggregation and a core switch.

``..._ms`` is from the news until all entries are ordered (the median of all links);
``..._slice_ms`` is how long nothing else has a turn meanwhile (the median, and the 99th
percentile).
"""

import random
import time
from collections.abc import Callable
from itertools import product
from statistics import median

from controller.config.reading import parse
from controller.core.congestion.regulation import Features
from controller.core.engine import Engine
from controller.model.effects import Effect, GoOn
from controller.model.packet_ins import NeighbourMessage
from controller.model.values import Port, PortId
from experiments.statistics import percentile

_SIZES = 8, 16
_FAILURES = 12
_SECOND_NS = 10**9
_BROADCAST = b"\xff" * 6
_CORE, _AGGREGATION, _EDGE = 1, 10_000, 20_000

Link = tuple[PortId, PortId]


def run(progress: Callable[[str], None], failures: int = _FAILURES) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    figures: dict[str, float] = {}
    for k in _SIZES:
        figures |= _measure(k, failures, progress)
    return figures


class _World:
    """An engine, and time that passes only while it works."""

    def __init__(self, k: int) -> None:
        self._engine = Engine(parse("").engine_settings())
        self._now_ns = _SECOND_NS
        self.links = _links(k)
        ports: dict[int, int] = {}
        for end in (end for link in self.links for end in link):
            ports[end.switch] = max(ports.get(end.switch, 0), end.port)
        for switch, n in ports.items():
            described = [self._port(switch, number) for number in range(1, n + k // 2 + 1)]
            self.do(self._engine.switch_up(switch, described, Features(0), [], self._now_ns))
        self._find_all()
        self._now_ns += _SECOND_NS
        edges = [switch for switch in ports if switch >= _EDGE]
        for n, (edge, i) in enumerate(product(edges, range(k // 2))):
            mac, address = b"\2\0" + n.to_bytes(4, "big"), b"\x0a" + n.to_bytes(3, "big")
            said = NeighbourMessage(True, mac, address, address, _BROADCAST, b"", b"")
            port_id = PortId(edge, ports[edge] + 1 + i)
            self.do(self._engine.resolve(port_id, said, self._now_ns))
        assert len(self._engine.fabric.hosts) == k**3 // 4

    def _find_all(self) -> None:
        """Discovery finds all links, in both directions."""
        effects: list[Effect] = []
        for a, b in self.links:
            effects += self._engine.link_seen(a, b, self._now_ns, self._now_ns)
            effects += self._engine.link_seen(b, a, self._now_ns, self._now_ns)
        self.do(effects)

    def lose(self, link: Link) -> list[float]:
        """A link fails: one of its ports says so."""
        end = link[0]
        port = self._port(*end, up=False)
        return self.do(self._engine.port_changed(end.switch, port, self._now_ns))

    def mend(self, link: Link) -> None:
        """It is back, and so late that it is not on trial."""
        self._now_ns += 3600 * _SECOND_NS
        port = self._port(*link[0])
        self.do(self._engine.port_changed(link[0].switch, port, self._now_ns))
        self._find_all()

    def do(self, effects: list[Effect]) -> list[float]:
        """What follows from an event: the slices, in milliseconds, without the first, which its
        caller has had."""
        slices: list[float] = []
        while any(isinstance(effect, GoOn) for effect in effects):
            begun_s = time.perf_counter()
            effects = self._engine.go_on(self._now_ns)
            slices.append((time.perf_counter() - begun_s) * 1e3)
        return slices

    @staticmethod
    def _port(switch: int, number: int, *, up: bool = True) -> Port:
        return Port(number, f"s{switch}-eth{number}", b"\2\1" + switch.to_bytes(4, "big"), up)


def _measure(k: int, failures: int, progress: Callable[[str], None]) -> dict[str, float]:
    progress(f"a fat tree of k = {k}")
    world, chance = _World(k), random.Random(1)
    whole, slices = [], []
    for n, link in enumerate(chance.sample(world.links, failures)):
        progress(f"k = {k}: link {n + 1} of {failures}")
        begun_s = time.perf_counter()
        seen = world.lose(link)
        took_ms = (time.perf_counter() - begun_s) * 1e3
        whole.append(took_ms)
        slices += [took_ms - sum(seen), *seen]
        world.mend(link)
    return {
        f"link_change_k{k}_ms": median(whole),
        f"link_change_k{k}_slice_ms": median(slices),
        f"link_change_k{k}_slice_p99_ms": percentile(slices, 99),
    }


def _links(k: int) -> list[Link]:
    half, used = k // 2, dict[int, int]()

    def port(switch: int) -> PortId:
        used[switch] = used.get(switch, 0) + 1
        return PortId(switch, used[switch])

    links = []
    for pod, place, i in product(range(k), range(half), range(half)):
        aggregation = _AGGREGATION + pod * half + place
        links.append((port(aggregation), port(_CORE + place * half + i)))
        links.append((port(_EDGE + pod * half + i), port(aggregation)))
    return links
