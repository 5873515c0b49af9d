"""The delay in the controller from a notice of congestion to the windows that answer it.

One notice at a time changes the windows of a port by which the data of few or many connections
leaves. The delay is from the bytes of the notice to those of the answer. Each notice comes shortly
after the last answer, as from a queue that fills; or, with `alone`, so late that the controller
sleeps.
"""

import statistics
import time
from collections.abc import Callable

from controller.model.values import Notice
from experiments.bench.controller.fake_switch import HOSTS, FakeSwitch, notice
from experiments.bench.controller.handshakes import CallTo, openings
from experiments.bench.controller.process import Weir
from experiments.statistics import percentile
from testbed.sandbox import RUN_DIR

_TURNS = 3
_NOTICES, _PAUSE_S = 600, 0.0002
_ALONE, _ALONE_PAUSE_S = 200, 0.005
_FEW, _MANY = 1_500, 100_000
_SETTLED_S = 2.0


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    figures: dict[str, float] = {}
    for scheme, prefix in (("weir", ""), ("sdtcp", "sdtcp_")):
        for n, name in ((_FEW, "control_delay"), (_MANY, "control_delay_100k")):
            progress(f"{scheme}, {n} flows on the port")
            found = delays(scheme, n)
            figures |= {f"{prefix}{name}_{what}_us": us for what, us in found.items()}
    return figures


def delays(scheme: str, n: int) -> dict[str, float]:
    """Return percentiles in microseconds with ``n`` flows on the port, each the median of some
    turns."""
    directory = RUN_DIR / f"{scheme}{n}"
    directory.mkdir()
    with Weir(directory, scheme) as weir, weir.connect() as switch:
        switch.introduce()
        for piece in openings(0, n, CallTo):
            switch.send(piece)
        switch.settle()
        # The connections have become old enough to be counted, as far as they will be.
        time.sleep(_SETTLED_S)
        turns = [_turn_us(switch, _NOTICES, _PAUSE_S) for _ in range(_TURNS)]
        alone = [_turn_us(switch, _ALONE, _ALONE_PAUSE_S) for _ in range(_TURNS)]
        found = set(weir.burst_flows(HOSTS, _TURNS * (_NOTICES + _ALONE)))
        if found != {n}:
            raise RuntimeError(f"the controller found {found} flows, not {n}")
    return {
        "p50": statistics.median(percentile(turn, 50) for turn in turns),
        "p99": statistics.median(percentile(turn, 99) for turn in turns),
        "alone_p50": statistics.median(percentile(turn, 50) for turn in alone),
    }


def _turn_us(switch: FakeSwitch, notices: int, pause_s: float) -> list[float]:
    delays_us = []
    for sequence in range(notices):
        kind = Notice.CR if sequence % 2 else Notice.CN_H
        delays_us.append(switch.window_delay_ns(notice(kind, HOSTS, sequence)) / 1e3)
        time.sleep(pause_s)
    return delays_us
