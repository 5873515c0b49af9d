"""The memory that a million open connections take in the controller."""

from collections.abc import Callable

from experiments.bench.controller.fake_switch import HOSTS, notice
from experiments.bench.controller.handshakes import openings
from experiments.bench.controller.process import Weir
from testbed.sandbox import RUN_DIR

_MILLION = 1_000_000


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    with Weir(RUN_DIR) as weir, weir.connect() as switch:
        switch.introduce()
        before_bytes = weir.resident_bytes()
        for i, piece in enumerate(openings(0, _MILLION)):
            switch.send(piece)
            if i % 1000 == 0:
                progress(f"{i * 256:,} connections")
        switch.settle()  # Notices overtake.
        for port in range(1, HOSTS + 1):
            switch.send(notice(3, port, 1))
        switch.settle()
        after_bytes = weir.resident_bytes()
        flows = sum(weir.burst_flows(port)[0] for port in range(1, HOSTS + 1))
    if flows != 2 * _MILLION:
        raise RuntimeError(f"the controller found {flows} flows, not twice {_MILLION}")
    return {
        "bytes_per_flow": (after_bytes - before_bytes) / _MILLION,
        "rss_mb_1m_flows": after_bytes / 1e6,
    }
