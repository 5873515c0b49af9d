"""A browser that looks at the page: Debian's Chromium without windows, driven by Playwright.

Times are taken in the page, by its own clock: so the driver's own time is in none of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
_SESSION = "/v1/session"

# When the first figures were there, in milliseconds since navigation began; and each click: when
# the next frame had been made, in milliseconds since the input came, before the page had it.
# The browser's own Event Timing counts up to the same frame, in steps of 8 ms, from 16 ms on.
WATCH = """
(() => {
  const told = window.weirBench = { shown_ms: null, clicks_ms: [], events_ms: [], tasks_ms: [] };
  const look = () => {
    if (told.shown_ms === null && document.querySelector('[data-testid=figures]')) {
      told.shown_ms = performance.now();
      seeing.disconnect();
    }
  };
  const seeing = new MutationObserver(look);
  seeing.observe(document, { childList: true, subtree: true });
  addEventListener('click', (event) => {
    const begun = event.timeStamp;
    requestAnimationFrame(() => {
      const frame = new MessageChannel();
      frame.port1.onmessage = () => told.clicks_ms.push(performance.now() - begun);
      frame.port2.postMessage(null);
    });
  }, true);
  const watch = (type, options, take) => {
    const watching = new PerformanceObserver((list) => list.getEntries().forEach(take));
    watching.observe({ type, ...options });
  };
  watch('event', { durationThreshold: 16 }, (entry) => {
    if (entry.name === 'click') told.events_ms.push(entry.duration);
  });
  watch('longtask', {}, (entry) => told.tasks_ms.push(entry.duration));
})();
"""
TAKE = """
() => {
  const { clicks_ms, events_ms, tasks_ms } = window.weirBench;
  Object.assign(window.weirBench, { clicks_ms: [], events_ms: [], tasks_ms: [] });
  return { clicks_ms, events_ms, tasks_ms };
}
"""


def signed_in(context: Any, origin: str, secret: str) -> None:
    """Sign in from the page's own origin, as a person would."""
    answer = context.request.post(
        origin + _SESSION, data={"token": secret}, headers={"Origin": origin}
    )
    if not answer.ok:
        raise RuntimeError(f"signing in is refused with {answer.status}")


class Looking:
    """A signed-in page in a browser context of its own."""

    def __init__(self, browser: Any, origin: str, secret: str) -> None:
        self._browser = browser
        self._origin = origin
        self._context = self._signed_in(secret)
        self.page = self._context.new_page()
        self.page.goto(origin)
        self.page.get_by_test_id("figures").wait_for()

    def _signed_in(self, secret: str) -> Any:
        context = self._browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(WATCH)
        signed_in(context, self._origin, secret)
        return context

    def close(self) -> None:
        self._context.close()

    def first_view_s(self) -> float:
        """From the beginning of navigation to the overview's figures, nothing being cached."""
        session = self._context.storage_state()
        with_nothing = self._browser.new_context(
            storage_state=session, viewport={"width": 1280, "height": 900}
        )
        try:
            with_nothing.add_init_script(WATCH)
            page = with_nothing.new_page()
            page.goto(self._origin)
            page.get_by_test_id("figures").wait_for()
            shown_ms: float = page.evaluate("() => window.weirBench.shown_ms")
            return shown_ms / 1e3
        finally:
            with_nothing.close()

    def clicked(self, where: Any, then: Callable[[], None]) -> dict[str, list[float]]:
        """Click, and wait until ``then`` returns; what the click and all long tasks took."""
        self.page.evaluate(TAKE)
        where.click()
        then()
        # The last of what it has caused has its frame by then.
        self.page.wait_for_timeout(300)
        told: dict[str, list[float]] = self.page.evaluate(TAKE)
        if len(told["clicks_ms"]) != 1:
            raise RuntimeError(f"the page noticed {len(told['clicks_ms'])} clicks instead of one")
        return told

    def long_tasks_ms(self, for_s: float) -> list[float]:
        """The tasks of 50 ms and more while nobody clicks."""
        self.page.evaluate(TAKE)
        self.page.wait_for_timeout(1000 * for_s)
        told: dict[str, list[float]] = self.page.evaluate(TAKE)
        return told["tasks_ms"]


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser."""
    with sync_playwright() as playwright:
        # Chromium does not sandbox itself for root.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
