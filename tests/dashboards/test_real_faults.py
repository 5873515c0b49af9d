"""What goes wrong between the switch and the eye: the page says so, recovers by itself, and shows
nothing stale as live."""

import os
import re
import signal
import time
from typing import Any

import pytest

from real import Real, looked_at, until
from testbed.command import wait_until

# Three seconds without an answer are too many; the page looks each second.
SAYS_MS = 6_000
RECOVERS_MS = 15_000
GONE_S = 60

pytestmark = [
    pytest.mark.browser,
    pytest.mark.netns,
    pytest.mark.switch,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


def stale(page: Any, expect: Any, why: str = "Not live") -> None:
    """The page says that it is not live, and that of all that it shows."""
    expect(page.get_by_test_id("stale")).to_contain_text(why, timeout=SAYS_MS)
    expect(page.get_by_role("main")).to_have_class(re.compile("stale"))


def live(page: Any, expect: Any) -> None:
    """The page says no more that it is not live, and its values go on."""
    expect(page.get_by_test_id("stale")).to_have_count(0, timeout=RECOVERS_MS)
    expect(page.get_by_role("main")).not_to_have_class(re.compile("stale"))
    as_of = page.get_by_role("contentinfo")
    before = as_of.inner_text()
    until(page, lambda: as_of.inner_text() != before, 5, "the page's values are new ones")


def all_ready(served: Real) -> bool:
    switches: dict[str, int] = served.ask("/v1/overview")["switches"]
    return switches["known"] == switches["ready"] == len(served.bed.switches)


def test_a_controller_that_is_killed_and_started_again(expect: Any) -> None:
    with looked_at() as looking:
        page, served = looking.sign_in(), looking.served
        controller = served.bed.controller
        assert controller is not None
        controller.kill()
        stale(page, expect)
        controller.restart()
        live(page, expect)
        wait_until(lambda: all_ready(served), timeout_s=20, what="the switch is ready again")
        expect(page.get_by_test_id("health")).to_contain_text("Healthy", timeout=RECOVERS_MS)


def test_a_controller_that_hangs(expect: Any) -> None:
    with looked_at() as looking:
        page, served = looking.sign_in(), looking.served
        os.kill(served.pid, signal.SIGSTOP)
        try:
            stale(page, expect, "The controller has not answered the API")
            page.evaluate("hash => { location.hash = hash }", "#/fabric")
            expect(page.get_by_role("main")).to_have_class(re.compile("stale"))
        finally:
            os.kill(served.pid, signal.SIGCONT)
        live(page, expect)


def test_an_api_that_is_killed(expect: Any) -> None:
    with looked_at() as looking:
        page, served = looking.sign_in(), looking.served
        page.evaluate("location.hash = '#/events'")
        expect(page.get_by_test_id("tail")).to_have_text("Live")
        before = served.api_pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        wait_until(
            lambda: served.api_pid not in (before, None),
            timeout_s=20,
            what="the API is started again",
        )
        live(page, expect)
        expect(page.get_by_test_id("tail")).to_have_text("Live", timeout=RECOVERS_MS)


def test_a_network_that_is_gone_for_a_minute(expect: Any) -> None:
    with looked_at(way=True) as looking:
        page, way = looking.sign_in(), looking.served.way
        assert way is not None
        page.evaluate("location.hash = '#/events'")
        expect(page.get_by_test_id("tail")).to_have_text("Live")
        way.cut()
        gone_s = time.monotonic()
        stale(page, expect)
        until(page, lambda: time.monotonic() - gone_s > GONE_S, GONE_S + 5, "a minute is over")
        stale(page, expect)
        expect(page.get_by_test_id("tail")).not_to_have_text("Live")
        way.mend()
        live(page, expect)
        expect(page.get_by_test_id("tail")).to_have_text("Live", timeout=RECOVERS_MS)


def test_a_token_that_is_revoked(expect: Any) -> None:
    with looked_at() as looking:
        page, served = looking.sign_in("viewer"), looking.served
        page.evaluate("location.hash = '#/events'")
        expect(page.get_by_test_id("tail")).to_have_text("Live")
        served.revoke("viewer")
        expect(page.get_by_role("alert")).to_contain_text("expired or was revoked", timeout=SAYS_MS)
        expect(page.get_by_label("Token")).to_be_visible()
        expect(page.get_by_test_id("events")).to_have_count(0)
        looking.sign_in("operator")


@pytest.mark.parametrize("off_s", [-3600, 3600])
def test_a_clock_that_is_off_by_an_hour(expect: Any, off_s: int) -> None:
    with looked_at() as looking:
        looking.context.add_init_script(
            f"""{{
                const Real = Date, off_ms = {1000 * off_s};
                globalThis.Date = class extends Real {{
                    constructor(...given) {{
                        super(...(given.length > 0 ? given : [Real.now() + off_ms]));
                    }}
                    static now() {{ return Real.now() + off_ms; }}
                }};
            }}"""
        )
        page = looking.sign_in()
        how = "ahead of" if off_s > 0 else "behind"
        expect(page.get_by_text(f"clock is 1 h {how} Weir's")).to_be_visible()
        expect(page.get_by_test_id("stale")).to_have_count(0)
        # Times are Weir's: the last sample is one of the last seconds.
        shown = page.get_by_role("contentinfo").locator("time").get_attribute("datetime")
        told_s = page.evaluate("text => new Date(text).getTime() / 1000", shown)
        assert abs(time.time() - told_s) < 10
        live(page, expect)
        os.kill(looking.served.pid, signal.SIGSTOP)
        try:
            stale(page, expect)
        finally:
            os.kill(looking.served.pid, signal.SIGCONT)
        live(page, expect)
