"""A pool of connections that were idle for long, and send all at once: ``idle_pool_...``.

The connections of 199 clients to one server move nothing until they are dormant. Then each sends a
request. ``idle_pool_relearn_ms`` is from the first copy of a request to the controller until all
2,000 count at the server's port. ``bytes_per_dormant_connection`` is of 100,000 of them.
"""

import statistics
import time
from collections.abc import Callable

from experiments.bench.controller.fake_switch import HOSTS, FakeSwitch, notice
from experiments.bench.controller.handshakes import CallTo, openings
from experiments.bench.controller.process import Weir
from testbed.command import wait_until
from testbed.sandbox import RUN_DIR

_POOL, _TURNS = 2_000, 5
_MANY, _DORMANT_S = 100_000, 300.0
# None is counted: so they are dormant by age, and the switch need not tell what they moved.
_SECTIONS = {"classifier": {"expiry": "2 s", "counted_per_switch": 0}}


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    return {
        "idle_pool_relearn_ms": _relearn_ms(progress),
        "bytes_per_dormant_connection": _dormant_bytes(progress),
    }


class _Server:
    """The port of the server, at which notices tell how many flows count."""

    def __init__(self, weir: Weir, switch: FakeSwitch) -> None:
        self._weir = weir
        self._switch = switch
        self._notices = 0

    def flows(self) -> int:
        """How many flows count now."""
        self._switch.send(notice(3, HOSTS, self._notices))
        self._notices += 1
        self._switch.settle()
        return self._weir.burst_flows(HOSTS, self._notices)[-1]

    def wait_until_dormant(self) -> None:
        """Wait until none counts."""

        def none_counts() -> bool:
            self._switch.listen(1.0)
            return self.flows() == 0

        wait_until(none_counts, timeout_s=_DORMANT_S, what="all connections are dormant")


def _relearn_ms(progress: Callable[[str], None]) -> float:
    directory = RUN_DIR / "pool"
    directory.mkdir()
    with Weir(directory, sections=_SECTIONS) as weir, weir.connect() as switch:
        switch.introduce()
        _open(switch, _POOL)
        requests = b"".join(CallTo(number).request() for number in range(_POOL))
        server, took_ms = _Server(weir, switch), []
        for turn in range(_TURNS):
            progress(f"turn {turn + 1} of {_TURNS} of a pool of {_POOL}")
            server.wait_until_dormant()
            begun_s = time.perf_counter()
            switch.send(requests)
            switch.settle()
            took_ms.append((time.perf_counter() - begun_s) * 1e3)
            if (found := server.flows()) != _POOL:
                raise RuntimeError(f"the controller found {found} flows, not {_POOL}")
    return statistics.median(took_ms)


def _dormant_bytes(progress: Callable[[str], None]) -> float:
    progress(f"{_MANY} dormant connections")
    directory = RUN_DIR / "dormant"
    directory.mkdir()
    with Weir(directory, sections=_SECTIONS) as weir, weir.connect() as switch:
        switch.introduce()
        before_bytes = weir.resident_bytes()
        _open(switch, _MANY)
        _Server(weir, switch).wait_until_dormant()
        return (weir.resident_bytes() - before_bytes) / _MANY


def _open(switch: FakeSwitch, n: int) -> None:
    for piece in openings(0, n, CallTo):
        switch.send(piece)
    switch.settle()
