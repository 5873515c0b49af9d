"""Each question of each view alone is not answered any more: the page says so."""

from collections.abc import Callable
from typing import Any

import pytest

import fake_fabric as fabric
from fake_api import BROKEN
from looking import Looking

pytestmark = pytest.mark.browser

PORT = fabric.port_id(*fabric.HOT).replace(":", "/")
FLOW = "{src}/{src_port}/{dst}/{dst_port}".format(**fabric.flow(0))
# Each view, what is there once it has its answers, and what is opened there.
VIEWS: dict[str, tuple[str, str, str | None]] = {
    "overview": ("#/", "congested", None),
    "fabric": ("#/fabric", "map", f"[data-switch='{fabric.port_id(*fabric.HOT)[:16]}']"),
    "port": (f"#/port/{PORT}", "largest", None),
    "flows": ("#/flows", "flows", None),
    "flow": (f"#/flow/{FLOW}", "path", None),
    "bandwidth": ("#/bandwidth?src=10.0.0.1&dst=10.0.0.250", "links", None),
    "events": ("#/events", "events", None),
    "settings": ("#/settings", "settings", None),
}
# What comes after these comes by a stream.
ONCE = {"/v1/events", "/v1/fountains"}
WITHIN_S, AGAIN_WITHIN_S = 9, 20
STEP_S = 0.5

# How much is marked as stale, whether anything says why, and what says that it is live.
_MARKS = """why => {
    const health = document.querySelector('[data-testid=health]').textContent;
    const live = [...document.querySelectorAll('[role=status]')]
        .filter(one => one.textContent.trim() === 'Live');
    return {
        stale: document.querySelectorAll('.stale').length,
        told: document.body.innerText.includes(why) || health.includes('not known'),
        live: live.length,
    };
}"""


def marks(page: Any) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(_MARKS, BROKEN)
    return found


class Time:
    """The page's clock, which goes on only while nothing is on its way to the page."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._waiting: set[Any] = set()
        page.clock.install()
        page.on("request", self._begins)
        page.on("requestfinished", self._ends)
        page.on("requestfailed", self._ends)

    def _begins(self, request: Any) -> None:
        if not request.url.endswith("/stream"):
            self._waiting.add(request)

    def _ends(self, request: Any) -> None:
        self._waiting.discard(request)

    def within(self, most_s: float, so: Callable[[], bool]) -> bool:
        """Let time pass until something is so, or for so long."""
        for _ in range(int(most_s / STEP_S)):
            if so():
                return True
            self._page.clock.run_for(int(1000 * STEP_S))
            self._page.wait_for_timeout(20)
            while self._waiting:
                self._page.wait_for_timeout(5)
        return so()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.timeout(120)
def test_it_is_told(looking: Looking, view: str) -> None:
    api = looking.served.api
    api.shares += [fabric.share("a", 5e6)]
    time = Time(looking.page)
    page = looking.sign_in()
    hash_, shown, opened = VIEWS[view]
    api.asked.clear()
    page.evaluate("hash => { location.hash = hash }", hash_)
    page.get_by_test_id(shown).wait_for()
    if opened is not None:
        page.locator(opened).first.press("Enter")
    time.within(STEP_S * 8, lambda: False)
    good = marks(page)
    assert (good["stale"], good["told"]) == (0, False)
    assert not time.within(WITHIN_S, lambda: marks(page) != good)
    paths = {path for method, path in api.asked if method == "GET"}
    assert len(paths) > 2
    for path in sorted(paths):
        api.asked.clear()
        api.broken.add(path)

        def is_told(path: str = path) -> bool:
            now = marks(page)
            stopped = now["live"] < good["live"] or not path.endswith("/stream")
            return stopped and (now["told"] or now["stale"] > 0)

        told = time.within(WITHIN_S, is_told)
        asked = ("GET", path) in api.asked
        assert told or (path in ONCE and not asked), path
        api.broken.clear()
        assert time.within(AGAIN_WITHIN_S, lambda: marks(page) == good), path
