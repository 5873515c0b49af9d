"""The memory of a browser that looks for long, going from view to view without a driver.

Its memory is taken towards the end of each stay, the heap before the first and after the last.
"""

import statistics
import time
from collections.abc import Callable

from experiments.page import memory
from experiments.page.browser import TAKE
from experiments.page.growth import Sample, held, rounds
from experiments.page.left_alone import WAY, left_alone
from experiments.page.watched import ORIGIN, watched
from testbed import sandbox
from testbed.dashboard import find_page

_STAYS_S = 12.0
# Nothing here is timed: on a busy machine the page waits for its answers, and holds as much.
_PATIENCE_S = 600.0
_LEAST_KNOWN = 0.95
_MINUTE_S = 60.0
# Until then the page has not loaded all that it keeps, such as ten minutes of samples.
_WARM_PART = 1 / 6


def run(progress: Callable[[str], None], *, minutes: float, small: bool) -> dict[str, object]:
    """Measure; see ``experiments.bench``."""
    place = watched(progress, find_page(), small=small, least_known=_LEAST_KNOWN)
    with place as all_of_it, left_alone(sandbox.RUN_DIR / "browser") as alone:
        with alone.browser() as browser:
            blank = memory.of_blank(browser)
        alone.open(ORIGIN, all_of_it.secret, _PATIENCE_S)
        samples: list[Sample] = []
        with alone.page(_PATIENCE_S) as page:
            pid = memory.renderer_of(page)
            heap_at_first = memory.heap_mb(page)
            begun_s = time.monotonic()
            alone.go(page, _STAYS_S)
        while (passed_s := time.monotonic() - begun_s) < minutes * _MINUTE_S:
            for name in WAY:
                # Towards the end of a stay, by a clock that does not drift from the page's.
                time.sleep(max(0.0, begun_s + (len(samples) + 0.8) * _STAYS_S - time.monotonic()))
                samples.append(Sample(time.monotonic() - begun_s, name, memory.memory_of(pid)))
            latest = [one.memory for one in samples[-len(WAY) :]]
            usual = (statistics.median(mb) for mb in zip(*latest, strict=True))
            told = "RSS {:.0f}, PSS {:.0f}, private {:.0f} MB".format(*usual)
            progress(f"{passed_s / _MINUTE_S:.0f} minutes: {told}")
        stayed_s = time.monotonic() - begun_s
        with alone.page(_PATIENCE_S) as page:
            missed, tasks_ms = alone.missed(page), page.evaluate(TAKE)["tasks_ms"]
            heap_at_last = memory.heap_mb(page)
    warm_s = stayed_s * _WARM_PART
    figures: dict[str, object] = {
        "flows": all_of_it.flows,
        "stayed_minutes": stayed_s / _MINUTE_S,
        "warm_after_minutes": warm_s / _MINUTE_S,
        **held("renderer", rounds(samples, lambda one: one.rss_mb), warm_s),
        **held("renderer_pss", rounds(samples, lambda one: one.pss_mb), warm_s),
        **held("renderer_private", rounds(samples, lambda one: one.private_mb), warm_s),
        "heap_at_first_mb": heap_at_first,
        "heap_at_last_mb": heap_at_last,
        **blank,
        "renderer_most_mb": max(one.memory.rss_mb for one in samples),
        "renderer_pss_most_mb": max(one.memory.pss_mb for one in samples),
        "renderer_private_most_mb": max(one.memory.private_mb for one in samples),
        "views_missed": len(missed),
        "long_task_worst_ms": max(tasks_ms, default=0),
        "long_tasks_per_minute": len(tasks_ms) / (stayed_s / _MINUTE_S),
        "samples_view_s_rss_pss_private_mb": [
            [one.view, round(one.at_s), *(round(mb, 1) for mb in one.memory)] for one in samples
        ],
    }
    if len(missed) > len(samples) / 10:
        raise RuntimeError(f"the page did not find its way: {', '.join(missed)}")
    return figures
