"""Looks at the page in a browser, and notes what it complains of and asks for."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pytest

_CHROMIUM = "/usr/bin/chromium"


class Served(Protocol):
    """What serves the page, the fake API or a real one, and has a token for each role."""

    @property
    def origin(self) -> str: ...

    def token(self, name: str) -> str: ...


S = TypeVar("S", bound=Served)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Debian's Chromium. The test is skipped where there is none."""
    driver = pytest.importorskip("playwright.sync_api")
    if not Path(_CHROMIUM).exists():
        pytest.skip("there is no chromium: tools/prepare browser")
    with driver.sync_playwright() as playwright:
        # Chromium does not sandbox itself for root.
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Looking(Generic[S]):
    """A page in the browser. `tour`: nobody has seen its tour there yet."""

    def __init__(self, browser: Any, served: S, *, tour: bool = False, **look: Any) -> None:
        self.served = served
        self.context = browser.new_context(base_url=served.origin, **look)
        if not tour:
            self.context.add_init_script("localStorage.setItem('weir-tour', 'seen')")
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.refused: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def _said(self, message: Any) -> None:
        if message.type not in ("error", "warning"):
            return
        # The browser itself tells of every answer with an error.
        refused = "Failed to load resource" in message.text
        (self.refused if refused else self.errors).append(message.text)

    def sign_in(self, name: str = "operator") -> Any:
        self.page.goto("/")
        self.page.get_by_label("Token").fill(self.served.token(name))
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_test_id("figures").wait_for()
        return self.page

    def off_origin(self) -> list[str]:
        own = (self.served.origin + "/", f"blob:{self.served.origin}/", "data:")
        return [url for url in self.requests if not url.startswith(own)]


def pass_until(page: Any, so: Callable[[], bool], most_s: int) -> None:
    """Move the page's clock until something is so, for so many seconds at most.

    Playwright's clock does not always go on by itself after it was put forward: timers stand still
    then, though the time goes on.
    """
    for _ in range(most_s):
        if so():
            return
        page.clock.run_for(1000)
        page.wait_for_timeout(20)
    assert so()
