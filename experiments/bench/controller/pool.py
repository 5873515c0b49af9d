"""A pool of connections that were idle for long, and send all at once: ``idle_pool_...``.

The connections of 199 clients to one server move nothing until they are dormant. Then each sends a
request. ``idle_pool_relearn_ms`` is from the first copy of a request to the controller until all
2,000 count at the server's port. ``bytes_per_dormant_connection`` is of 50,000 of them.
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
_MANY, _DORMANT_S = 50_000, 300.0
# None is counted: so they are dormant by age, and the switch need not tell what they moved.
_SECTIONS = {"classifier": {"expiry": "2 s", "counted_per_switch": 0}}


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    return {
        "idle_pool_relearn_ms": _relearn_ms(progress),
        "bytes_per_dormant_connection": _dormant_bytes(progress),
    }


def _relearn_ms(progress: Callable[[str], None]) -> float:
    directory = RUN_DIR / "pool"
    directory.mkdir()
    with Weir(directory, sections=_SECTIONS) as weir, weir.connect() as switch:
        switch.introduce()
        _open(switch, _POOL)
        requests = b"".join(CallTo(number).request() for number in range(_POOL))
        took_ms = []
        for turn in range(_TURNS):
            progress(f"turn {turn + 1} of {_TURNS} of a pool of {_POOL}")
            _until_dormant(weir, switch)
            begun_s = time.perf_counter()
            switch.send(requests)
            switch.settle()
            took_ms.append((time.perf_counter() - begun_s) * 1e3)
            found = _flows(weir, switch)
            if found != _POOL:
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
        _until_dormant(weir, switch)
        return (weir.resident_bytes() - before_bytes) / _MANY


def _open(switch: FakeSwitch, n: int) -> None:
    for piece in openings(0, n, CallTo):
        switch.send(piece)
    switch.settle()


def _until_dormant(weir: Weir, switch: FakeSwitch) -> None:
    def none_counts() -> bool:
        switch.listen(1.0)
        return _flows(weir, switch) == 0

    wait_until(none_counts, timeout_s=_DORMANT_S, what="all connections are dormant")


def _flows(weir: Weir, switch: FakeSwitch) -> int:
    """How many flows count at the server's port."""
    switch.send(notice(3, HOSTS, 1))
    switch.settle()
    return weir.burst_flows(HOSTS)[-1]
