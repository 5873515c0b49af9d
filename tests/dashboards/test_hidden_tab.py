"""A tab that nobody sees asks for nothing, and shows nothing stale as live when it is back."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

import fake_fabric as fabric
from looking import Looking, pass_until

pytestmark = pytest.mark.browser

_HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


def hide(page: Any, hidden: bool) -> None:
    """A browser without windows hides none, so the page is told so."""
    page.evaluate(_HIDE, hidden)


def opened(looking: Looking, hash_: str, shown: str) -> Any:
    """A page whose clock goes on by what a test says, too."""
    looking.page.clock.install()
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", hash_)
    page.get_by_test_id(shown).wait_for()
    return page


def until(so: Callable[[], bool], page: Any) -> None:
    end_s = time.monotonic() + 5
    while not so():
        assert time.monotonic() < end_s, "too late"
        page.wait_for_timeout(20)


def test_it_gives_up_its_stream_and_takes_it_up_again(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    page = opened(looking, "#/events", "events")
    tail = page.get_by_test_id("tail")
    expect(tail).to_have_text("Live")
    assert api.listeners == 1
    hide(page, True)
    page.clock.run_for(9000)
    assert api.listeners == 1
    page.clock.run_for(1500)
    until(lambda: api.listeners == 0, page)
    expect(tail).not_to_have_text("Live")
    expect(page.locator(".stale").get_by_test_id("events")).to_have_count(1)
    api.happens("switch_down", switch=0x13)
    # Nothing at all is asked for.
    page.clock.run_for(5000)
    asked = len(api.asked)
    page.clock.run_for(60_000)
    page.wait_for_timeout(200)
    assert len(api.asked) == asked
    hide(page, False)
    expect(tail).to_have_text("Live")
    expect(page.get_by_test_id("events").get_by_role("row").nth(1)).to_contain_text("switch_down")
    assert api.listeners == 1


def test_what_is_old_when_it_is_seen_again_is_not_live(looking: Looking, expect: Any) -> None:
    page = opened(looking, "#/", "figures")
    hide(page, True)
    page.clock.run_for(11_000)
    page.wait_for_timeout(200)
    looking.served.stop()
    page.clock.run_for(60_000)
    hide(page, False)
    banner = page.get_by_test_id("stale")
    expect(banner).to_contain_text("Not live")
    expect(page.get_by_role("main")).to_have_class(re.compile("stale"))
    looking.served.start()
    expect(banner).to_have_count(0, timeout=15_000)


def test_nobody_is_alarmed_by_a_tab_that_was_hidden(looking: Looking, expect: Any) -> None:
    page = opened(looking, "#/", "figures")
    hide(page, True)
    page.clock.run_for(11_000)
    page.wait_for_timeout(200)
    page.clock.run_for(60_000)
    # Before anything is answered: without colour, and without an alarm.
    page.evaluate(
        """() => {
            window.told = [];
            const note = () =>
                window.told.push(document.querySelector('[data-testid=stale]') !== null);
            new MutationObserver(note).observe(document.body,
                {subtree: true, childList: true, attributes: true, characterData: true});
        }"""
    )
    expect(page.get_by_role("main")).to_have_class(re.compile("stale"))
    hide(page, False)
    expect(page.get_by_role("main")).not_to_have_class(re.compile("stale"))
    alarmed = page.evaluate("window.told")
    assert alarmed
    assert not any(alarmed)


def test_who_looks_away_for_a_moment_loses_nothing(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    api.shares.append(fabric.share("a", 5e6))
    page = opened(looking, "#/bandwidth", "shares")
    expect(page.get_by_test_id("shares-state")).to_have_text("Live")
    streams = api.asked.count(("GET", "/v1/fountains/stream"))
    hide(page, True)
    page.clock.run_for(5000)
    hide(page, False)
    page.clock.run_for(11_000)
    state = page.get_by_test_id("shares-state")
    pass_until(page, lambda: state.text_content() == "Live", 5)
    assert api.asked.count(("GET", "/v1/fountains/stream")) == streams


def test_a_view_that_is_left_while_nobody_looks_stays_quiet(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    page = opened(looking, "#/bandwidth", "shares-state")
    expect(page.get_by_test_id("shares-state")).to_have_text("Live")
    hide(page, True)
    page.clock.run_for(11_000)
    until(lambda: api.listeners == 0, page)
    page.evaluate("location.hash = '#/'")
    page.clock.run_for(1000)
    asked = api.asked.count(("GET", "/v1/fountains/stream"))
    hide(page, False)
    page.get_by_test_id("congested").wait_for()
    page.wait_for_timeout(200)
    assert api.asked.count(("GET", "/v1/fountains/stream")) == asked
    assert api.listeners == 0
