"""Looks at the page in a browser, and notes what it complains of and asks for."""

from typing import Any

from fake_api import Served


class Looking:
    """A page in the browser."""

    def __init__(self, browser: Any, served: Served, **look: Any) -> None:
        self.served = served
        self.context = browser.new_context(base_url=served.origin, **look)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def _said(self, message: Any) -> None:
        # The browser itself tells of every answer with an error, also of the first: no session yet.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def sign_in(self, name: str = "operator") -> Any:
        self.page.goto("/")
        self.page.get_by_label("Token").fill(f"weir_{name}")
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_test_id("figures").wait_for()
        return self.page

    def off_origin(self) -> list[str]:
        own = (self.served.origin + "/", f"blob:{self.served.origin}/", "data:")
        return [url for url in self.requests if not url.startswith(own)]
