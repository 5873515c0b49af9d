"""A page that goes from view to view by itself, without a driver.

As long as Playwright is connected, the process that shows the page keeps the bodies of what was
read for it, up to 200 MB, and each new connection leaves 0.3 MB of scripts in the page. A page that
asks once a second seems to grow then, and does not.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from experiments.page.browser import CHROMIUM, WATCH, signed_in
from testbed.command import wait_until
from testbed.controller import listening

WAY = ("flows", "events", "fabric", "a group", "a switch", "a port", "overview")
"""The views that the page goes through by itself."""
# Goes from view to view as WAY says, without anybody's help.
_GO = """
(stays_ms) => {
  const link = (name) =>
    [...document.querySelectorAll('nav a')].find((one) => one.textContent.trim() === name);
  const find = (what) => document.querySelectorAll(what);
  const way = [
    () => link('Flows'), () => link('Events'), () => link('Fabric'), () => find('[data-group]')[1],
    () => find('[data-switch]')[0], () => find('[data-testid=ports] a')[0], () => link('Overview'),
  ];
  const told = window.weirWay = { steps: 0, missed: [] };
  const step = () => {
    const at = told.steps % way.length;
    const where = way[at]();
    told.steps += 1;
    if (where) where.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }));
    else told.missed.push(at);
  };
  step();
  setInterval(step, stays_ms);
}
"""
_PORT = 9222
_START_S = 60.0


class LeftAlone:
    """A browser with one page."""

    def __init__(self, playwright: Any) -> None:
        self._playwright = playwright

    @contextmanager
    def browser(self) -> Iterator[Any]:
        """With a driver, as long as it is used."""
        browser = self._playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{_PORT}")
        try:
            yield browser
        finally:
            browser.close()

    @contextmanager
    def page(self, patience_s: float) -> Iterator[Any]:
        """The page, as long as it is used."""
        with self.browser() as browser:
            page = browser.contexts[0].pages[0]
            page.set_default_timeout(1000 * patience_s)
            yield page

    def open(self, origin: str, secret: str, patience_s: float) -> None:
        """Sign in, and look at the overview."""
        with self.page(patience_s) as page:
            signed_in(page.context, origin, secret)
            page.goto(origin)
            page.get_by_test_id("figures").wait_for()
            page.evaluate(WATCH)

    def go(self, page: Any, stays_s: float) -> None:
        """Have it go from view to view from now on."""
        page.evaluate(_GO, 1000 * stays_s)

    def missed(self, page: Any) -> list[str]:
        """The views that it could not go to, each time."""
        return [WAY[at] for at in page.evaluate("() => window.weirWay.missed")]


@contextmanager
def left_alone(directory: Path) -> Iterator[LeftAlone]:
    """Start a browser, which keeps its files in the directory."""
    command = [
        *(CHROMIUM, "--headless=new", "--no-sandbox", "--window-size=1280,900"),
        *(f"--remote-debugging-port={_PORT}", f"--user-data-dir={directory}", "about:blank"),
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as chromium:
        try:
            wait_until(lambda: listening(_PORT), timeout_s=_START_S, what="the browser listens")
            with sync_playwright() as playwright:
                yield LeftAlone(playwright)
        finally:
            chromium.terminate()
