"""The memory of a browser that looks for long, going from view to view.

Each view is looked at for a while; then its memory is taken. A round's value is the median over the
views of how far each is from its own median over all rounds: so views are compared with themselves.
Garbage is collected once a round, after the other figures are taken: more often, the browser would
hold less than it does at an operator's desk.
"""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from experiments.page import memory
from experiments.page.browser import Looking, browsing
from experiments.page.clicks import CLICKS
from experiments.page.memory import Memory
from experiments.page.watched import ORIGIN, watched
from experiments.soak.trend import Point, interval, slope
from testbed.dashboard import find_page

_STAYS_S = 12.0
# Nothing here is timed: on a busy machine the page waits for its answers, and holds as much.
_PATIENCE_S = 120.0
_MINUTE_S, _HOUR_S = 60.0, 3600.0
# Until then the page has not loaded all that it keeps, such as ten minutes of samples.
_WARM_PART = 1 / 6
_LEAST_ROUNDS = 4  # for a slope
# These lead from one view to the next, and back to the first.
_WAY = ("flows", "events", "fabric", "fabric_pod", "fabric_switch", "port", "overview")


class Sample(NamedTuple):
    """What was held in a view, seconds after the beginning."""

    at_s: float
    view: str
    memory: Memory


def run(progress: Callable[[str], None], *, minutes: float, small: bool) -> dict[str, object]:
    """Measure; see ``experiments.bench``."""
    with watched(progress, find_page(), small=small) as all_of_it, browsing() as browser:
        blank = memory.of_blank(browser)
        looking = Looking(browser, ORIGIN, all_of_it.secret)
        looking.page.set_default_timeout(1000 * _PATIENCE_S)
        pid = memory.renderer_of(looking.page)
        samples: list[Sample] = []
        heaps: list[Point] = []
        tasks_ms: dict[str, list[float]] = {}
        begun_s = time.monotonic()
        clicks = {click.name: click for click in CLICKS}
        while (passed_s := time.monotonic() - begun_s) < minutes * _MINUTE_S:
            for name in _WAY:
                click = clicks[name]
                click.where(looking.page).click()
                click.then(looking.page)
                tasks_ms.setdefault(name, []).extend(looking.long_tasks_ms(_STAYS_S))
                samples.append(Sample(time.monotonic() - begun_s, name, memory.memory_of(pid)))
            heaps.append((time.monotonic() - begun_s, memory.heap_mb(looking.page)))
            latest = [one.memory for one in samples[-len(_WAY) :]]
            usual = (statistics.median(mb) for mb in zip(*latest, strict=True))
            told = "RSS {:.0f}, PSS {:.0f}, private {:.0f}".format(*usual)
            progress(f"{passed_s / _MINUTE_S:.0f} minutes: {told}, heap {heaps[-1][1]:.1f} MB")
        stayed_s = time.monotonic() - begun_s
        looking.close()
    warm_s = stayed_s * _WARM_PART
    figures: dict[str, object] = {
        "stayed_minutes": stayed_s / _MINUTE_S,
        "warm_after_minutes": warm_s / _MINUTE_S,
        **_held("renderer", rounds(samples, lambda one: one.rss_mb), warm_s),
        **_held("renderer_pss", rounds(samples, lambda one: one.pss_mb), warm_s),
        **_held("renderer_private", rounds(samples, lambda one: one.private_mb), warm_s),
        **_held("heap", heaps, warm_s),
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


def rounds(samples: list[Sample], of: Callable[[Memory], float]) -> list[Point]:
    """When each round ended, and what was held in it, as the views' median."""
    views = list(dict.fromkeys(one.view for one in samples))
    usual = {
        view: statistics.median(of(one.memory) for one in samples if one.view == view)
        for view in views
    }
    middle = statistics.median(of(one.memory) for one in samples)
    found = []
    for begin in range(0, len(samples) - len(views) + 1, len(views)):
        one_round = samples[begin : begin + len(views)]
        beyond = statistics.median(of(one.memory) - usual[one.view] for one in one_round)
        found.append((one_round[-1].at_s, middle + beyond))
    return found


def _held(name: str, points: list[Point], warm_s: float) -> dict[str, object]:
    """The middle, and the growth with its 95 % interval, of what was held when all was warm."""
    warm = [point for point in points if point[0] >= warm_s]
    figures: dict[str, object] = {f"{name}_mb": statistics.median(mb for _, mb in warm)}
    if len(warm) >= _LEAST_ROUNDS:
        low, high = interval(warm)
        figures |= {
            f"{name}_grows_mb_per_h": slope(warm) * _HOUR_S,
            f"{name}_grows_mb_per_h_low": low * _HOUR_S,
            f"{name}_grows_mb_per_h_high": high * _HOUR_S,
        }
    return figures
