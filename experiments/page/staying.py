"""The memory of a browser that looks for long, going from view to view.

Each view is looked at for a while, without a driver; then its memory is taken. Garbage is collected
once a round, after the other figures are taken: more often, the browser would hold less than it
does at an operator's desk.
"""

import statistics
import time
from collections.abc import Callable

from experiments.page import memory
from experiments.page.browser import TAKE
from experiments.page.clicks import CLICKS
from experiments.page.growth import Sample, held, rounds
from experiments.page.left_alone import left_alone
from experiments.page.watched import ORIGIN, watched
from experiments.soak.trend import Point
from testbed import sandbox
from testbed.dashboard import find_page

_STAYS_S = 12.0
# Nothing here is timed: on a busy machine the page waits for its answers, and holds as much.
_PATIENCE_S = 600.0
_LEAST_KNOWN = 0.95
_MINUTE_S = 60.0
# Until then the page has not loaded all that it keeps, such as ten minutes of samples.
_WARM_PART = 1 / 6
# These lead from one view to the next, and back to the first.
_WAY = ("flows", "events", "fabric", "fabric_pod", "fabric_switch", "port", "overview")


def run(progress: Callable[[str], None], *, minutes: float, small: bool) -> dict[str, object]:
    """Measure; see ``experiments.bench``."""
    place = watched(progress, find_page(), small=small, least_known=_LEAST_KNOWN)
    with place as all_of_it, left_alone(sandbox.RUN_DIR / "browser") as alone:
        with alone.browser() as browser:
            blank = memory.of_blank(browser)
        alone.open(ORIGIN, all_of_it.secret, _PATIENCE_S)
        with alone.page(_PATIENCE_S) as page:
            pid = memory.renderer_of(page)
        samples: list[Sample] = []
        heaps: list[Point] = []
        tasks_ms: dict[str, list[float]] = {}
        begun_s = time.monotonic()
        clicks = {click.name: click for click in CLICKS}
        while (passed_s := time.monotonic() - begun_s) < minutes * _MINUTE_S:
            for name in _WAY:
                with alone.page(_PATIENCE_S) as page:
                    click = clicks[name]
                    click.where(page).click()
                    click.then(page)
                    page.evaluate(TAKE)
                time.sleep(_STAYS_S)
                samples.append(Sample(time.monotonic() - begun_s, name, memory.memory_of(pid)))
                with alone.page(_PATIENCE_S) as page:
                    tasks_ms.setdefault(name, []).extend(page.evaluate(TAKE)["tasks_ms"])
                    if name == _WAY[-1]:
                        heaps.append((time.monotonic() - begun_s, memory.heap_mb(page)))
            latest = [one.memory for one in samples[-len(_WAY) :]]
            usual = (statistics.median(mb) for mb in zip(*latest, strict=True))
            told = "RSS {:.0f}, PSS {:.0f}, private {:.0f}".format(*usual)
            progress(f"{passed_s / _MINUTE_S:.0f} minutes: {told}, heap {heaps[-1][1]:.1f} MB")
        stayed_s = time.monotonic() - begun_s
    warm_s = stayed_s * _WARM_PART
    figures: dict[str, object] = {
        "flows": all_of_it.flows,
        "stayed_minutes": stayed_s / _MINUTE_S,
        "warm_after_minutes": warm_s / _MINUTE_S,
        **held("renderer", rounds(samples, lambda one: one.rss_mb), warm_s),
        **held("renderer_pss", rounds(samples, lambda one: one.pss_mb), warm_s),
        **held("renderer_private", rounds(samples, lambda one: one.private_mb), warm_s),
        **held("heap", heaps, warm_s),
        **blank,
        "renderer_most_mb": max(one.memory.rss_mb for one in samples),
        "renderer_pss_most_mb": max(one.memory.pss_mb for one in samples),
        "renderer_private_most_mb": max(one.memory.private_mb for one in samples),
        "heap_most_mb": max(heap for _, heap in heaps),
        "long_task_worst_ms": max((ms for all_ms in tasks_ms.values() for ms in all_ms), default=0),
        "samples_view_s_rss_pss_private_mb": [
            [one.view, round(one.at_s), *(round(mb, 1) for mb in one.memory)] for one in samples
        ],
        "heap_samples_s_mb": [[round(at_s), round(heap, 2)] for at_s, heap in heaps],
    }
    for name, all_ms in tasks_ms.items():
        watched_s = _STAYS_S * sum(one.view == name for one in samples)
        figures[f"long_tasks_per_minute_in_{name}"] = len(all_ms) / (watched_s / _MINUTE_S)
    return figures
