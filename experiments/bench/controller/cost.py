"""What concurrent flows cost the controller, under scheme sdtcp: the SDTCP paper's Figure 16.

A flow lasts a second, and another one follows it. So with N of them at once, N are opened and N are
closed every second, evenly. ``cpu_pct`` is of one processor, ``rss_mb`` the memory at the end,
``channel_mbps`` what goes over the control channel both ways, headers of TCP and IP included.
Delays are from a notice to the windows that answer it (``delay``), with N flows on the port.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.bench.controller import delay
from experiments.bench.controller.handshakes import CallTo
from experiments.bench.controller.process import Weir
from experiments.measure.sampling import parse_received
from testbed.sandbox import RUN_DIR

_FLOWS = (1, 100, 300, 600, 1000, 1500)
_SCHEME = "sdtcp"
_SECONDS, _STEPS_A_SECOND = 4, 20


def run(
    progress: Callable[[str], None],
    *,
    flows: Sequence[int] = _FLOWS,
) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    figures: dict[str, float] = {}
    for n in flows:
        progress(f"{n} flows at once")
        found = _cost(n) | {f"delay_{what}_us": us for what, us in delay.delays(_SCHEME, n).items()}
        figures |= {f"cost_{what}_n{n}": value for what, value in found.items()}
    return figures


def _cost(n: int) -> dict[str, float]:
    directory = RUN_DIR / f"cost{n}"
    directory.mkdir()
    calls = [CallTo(number).parts() for number in range(n * (_SECONDS + 1))]
    with Weir(directory, _SCHEME) as weir, weir.connect() as switch:
        switch.introduce()
        switch.settle()
        # For a second they only begin, so that afterwards there are N of them all the time.
        for step in range(_STEPS_A_SECOND * (_SECONDS + 1)):
            if step == _STEPS_A_SECOND:
                begun_s, used_s, sent = time.monotonic(), weir.processor_s(), _channel_bytes()
            next_s = time.monotonic() + 1 / _STEPS_A_SECOND
            first, last = (n * k // _STEPS_A_SECOND for k in (step, step + 1))
            switch.send(b"".join(call[0] + call[1] for call in calls[first:last]))
            if step >= _STEPS_A_SECOND:
                ended = calls[first - n : last - n]
                switch.send(b"".join(call[2] + call[3] for call in ended))
            switch.listen(max(0.0, next_s - time.monotonic()))
        switch.settle()
        took_s = time.monotonic() - begun_s
        return {
            "cpu_pct": 100 * (weir.processor_s() - used_s) / took_s,
            "rss_mb": weir.resident_bytes() / 1e6,
            "channel_mbps": (_channel_bytes() - sent) * 8e-6 / took_s,
        }


def _channel_bytes() -> int:
    """What has gone over the loopback device: in this sandbox nothing else does."""
    return parse_received(Path("/proc/net/dev").read_text(), "lo")
