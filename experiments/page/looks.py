"""How long the page takes for its first view, and from each click to the next frame."""

import statistics
from collections.abc import Callable

from experiments.page import memory
from experiments.page.browser import Looking, browsing
from experiments.page.clicks import rounds
from experiments.page.watched import ORIGIN, watched
from experiments.statistics import percentile
from testbed.dashboard import find_page

_SETTLE_S = 5.0


def run(
    progress: Callable[[str], None], *, first_views: int, turns: int, small: bool
) -> dict[str, object]:
    """Measure; see ``experiments.bench``."""
    page = find_page()
    with watched(progress, page, small=small) as all_of_it, browsing() as browser:
        blank = memory.of_blank(browser)
        looking = Looking(browser, ORIGIN, all_of_it.secret)
        looking.page.wait_for_timeout(1000 * _SETTLE_S)
        views_s = [looking.first_view_s() for _ in range(first_views)]
        progress(f"first view: {statistics.median(views_s):.2f} s")
        clicks_ms: dict[str, list[float]] = {}
        events_ms: list[float] = []
        tasks_ms: dict[str, list[float]] = {}
        for name, told in rounds(looking, turns):
            clicks_ms.setdefault(name, []).extend(told["clicks_ms"])
            tasks_ms.setdefault(name, []).append(max(told["tasks_ms"], default=0.0))
            events_ms.extend(told["events_ms"])
        every_ms = [ms for values in clicks_ms.values() for ms in values]
        progress(f"clicks: {statistics.median(every_ms):.0f} ms, worst {max(every_ms):.0f} ms")
        held = memory.memory_of(memory.renderer_of(looking.page))
        figures: dict[str, object] = {
            "flows": all_of_it.flows,
            "setup_s": all_of_it.setup_s,
            "browser": browser.version,
            "first_view_s": statistics.median(views_s),
            "first_view_worst_s": max(views_s),
            "first_view_samples_s": [round(value, 3) for value in views_s],
            "click_p50_ms": statistics.median(every_ms),
            "click_p95_ms": percentile(every_ms, 95),
            "click_worst_ms": max(every_ms),
            "click_worst_by_event_timing_ms": max(events_ms, default=0.0),
            "renderer_mb": held.rss_mb,
            "renderer_pss_mb": held.pss_mb,
            "renderer_private_mb": held.private_mb,
            "heap_mb": memory.heap_mb(looking.page),
            **blank,
        }
        for name, values in clicks_ms.items():
            figures |= {
                f"click_{name}_ms": statistics.median(values),
                f"click_{name}_samples_ms": [round(value, 1) for value in values],
                f"longest_task_after_{name}_ms": max(tasks_ms[name]),
            }
        looking.close()
    return figures
