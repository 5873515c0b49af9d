"""From a notice of congestion to the windows that answer it, in the controller.

One notice at a time, each shortly after the answer to the last; each one changes the windows of a
port that few or many connections' data leave by. From the bytes of the one to those of the other.
"""

import statistics
import time
from collections.abc import Callable

from controller.core.values import Notice
from experiments.bench.fake_switch import HOSTS, FakeSwitch, notice
from experiments.bench.load import CallTo, openings
from experiments.bench.network import percentile
from experiments.bench.subject import Weir
from testbed.isolation import RUN_DIR

_TURNS = 3
_NOTICES = 600
_PAUSE_S = 0.0002
_FEW, _MANY = 1_500, 100_000
_SETTLED_S = 2.0


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    figures: dict[str, float] = {}
    for scheme, prefix in (("weir", ""), ("sdtcp", "sdtcp_")):
        for n, name in ((_FEW, "control_delay"), (_MANY, "control_delay_100k")):
            progress(f"{scheme}, {n} flows on the port")
            p50_us, p99_us = _turns(scheme, n)
            figures[f"{prefix}{name}_p50_us"] = p50_us
            figures[f"{prefix}{name}_p99_us"] = p99_us
    return figures


def _turns(scheme: str, n: int) -> tuple[float, float]:
    directory = RUN_DIR / f"{scheme}{n}"
    directory.mkdir()
    with Weir(directory, scheme) as weir, weir.connect() as switch:
        switch.introduce()
        for piece in openings(0, n, CallTo):
            switch.send(piece)
        switch.settle()
        # The connections have become old enough to be counted, as far as they will be.
        time.sleep(_SETTLED_S)
        turns = [_delays_us(switch) for _ in range(_TURNS)]
        found = set(weir.burst_flows(HOSTS))
        if found != {n}:
            raise RuntimeError(f"the controller found {found} flows, not {n}")
    return (
        statistics.median(percentile(turn, 0.5) for turn in turns),
        statistics.median(percentile(turn, 0.99) for turn in turns),
    )


def _delays_us(switch: FakeSwitch) -> list[float]:
    delays_us = []
    for sequence in range(_NOTICES):
        kind = Notice.CR if sequence % 2 else Notice.CN_H
        delays_us.append(switch.window_delay_ns(notice(kind, HOSTS, sequence)) / 1e3)
        time.sleep(_PAUSE_S)
    return delays_us
