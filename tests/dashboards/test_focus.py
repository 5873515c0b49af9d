"""Whoever works by keyboard goes on where something has just been done, never from nowhere."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import fake_fabric as fabric
from fake_api import Served
from looking import Looking

pytestmark = pytest.mark.browser

PORT = fabric.port_id(*fabric.HOT)
PORT_HASH = f"#/port/{PORT.replace(':', '/')}"
HOLD = "regulation.max_hold"


def button(name: str, within: str = "body") -> Callable[[Any], Any]:
    return lambda page: page.locator(within).get_by_role("button", name=name).first


def link(name: str) -> Callable[[Any], Any]:
    return lambda page: page.get_by_role("main").get_by_role("link", name=name).first


def heading(page: Any) -> Any:
    return page.get_by_role("heading", level=1)


def main(page: Any) -> Any:
    return page.get_by_role("main")


def done(page: Any) -> Any:
    return page.get_by_test_id("done")


def nothing(_: Looking[Served]) -> None:
    pass


@dataclass(frozen=True)
class Act:
    """What is done at an address, after some steps, and what has the focus then."""

    hash: str
    act: Callable[[Any], Any]
    then: Callable[[Any], Any]
    steps: Callable[[Any], None] = lambda _: None
    given: Callable[[Looking[Served]], None] = nothing
    key: str = "Enter"


def pick(page: Any) -> None:
    button("Pick a time range")(page).click()


def edit(page: Any) -> None:
    page.get_by_role("button", name=f"Edit {HOLD}").click()
    page.get_by_label(HOLD, exact=True).fill("20 ms")


def wrong(page: Any) -> None:
    edit(page)
    page.get_by_label(HOLD, exact=True).fill("2 s")


def review(page: Any) -> None:
    edit(page)
    page.get_by_role("button", name="Review…").press("Enter")
    page.get_by_test_id("difference").wait_for()


def changed(looking: Looking[Served]) -> None:
    looking.served.api.changing.change(None, {HOLD: "30 ms"}, False, "token other")


def changed_often(looking: Looking[Served]) -> None:
    for number in range(60):
        change = {"regulation.window_ttl": f"{number + 10} s"}
        looking.served.api.changing.change(None, change, False, "token other")


def many_shares(looking: Looking[Served]) -> None:
    looking.served.api.shares = [fabric.share(f"flow-{n}", 1e6) for n in range(120)]


def many_events(looking: Looking[Served]) -> None:
    api = looking.served.api
    for event in api.events:
        event["wall_s"] = api.now_s - 900
    for _ in range(1100):
        api.happens("switch_up", switch=0x13)


def open_hints(page: Any) -> None:
    page.get_by_role("button", name="Show hints").click()
    page.get_by_test_id("tour").wait_for()


def second_hint(page: Any) -> None:
    open_hints(page)
    page.keyboard.press("Enter")
    page.get_by_text("2 of 5").wait_for()


def turn_off(page: Any) -> None:
    button("Turn off…")(page).press("Enter")
    page.get_by_role("dialog").wait_for()


def incident(ago_s: float, span_s: float = 60) -> str:
    end_s = time.time() - ago_s
    return f"#/incident?from={end_s - span_s:.3f}&to={end_s:.3f}&port={PORT}"


def first_field(page: Any) -> Any:
    return page.get_by_test_id("picking").get_by_label("From")


ZOOM = f"?from={time.time() - 100:.3f}&to={time.time() - 50:.3f}"
PICK = button("Pick a time range")
HINTS = button("Show hints")
ACTS = {
    "pick": Act(PORT_HASH, PICK, first_field),
    "pick-cancel": Act(PORT_HASH, button("Cancel", "[data-testid=picking]"), PICK, pick),
    "pick-escape": Act(PORT_HASH, first_field, PICK, pick, key="Escape"),
    "zoom": Act(PORT_HASH, button("Zoom"), link("Show all"), pick),
    "show-all": Act(f"{PORT_HASH}{ZOOM}", link("Show all"), PICK),
    "what-happened": Act("#/", link("What happened then"), main, pick),
    "earlier-notices": Act(
        PORT_HASH + "?span=1h",
        button("Show earlier notices"),
        lambda page: page.get_by_role("heading", name="History"),
        given=many_events,
    ),
    "review-cancel": Act(
        "#/settings", button("Cancel", "dialog.review"), button("Review…"), review
    ),
    "put-in-force": Act("#/settings", button("Put in force"), done, review),
    "refused": Act(
        "#/settings", button("Review…"), lambda page: page.get_by_label(HOLD, exact=True), wrong
    ),
    "discard": Act("#/settings", button("Discard"), button(f"Edit {HOLD}"), edit),
    "undo": Act("#/settings", button("Undo"), done, given=changed),
    "older-changes": Act(
        "#/settings",
        button("Show older"),
        lambda page: page.get_by_role("region", name="Audit log"),
        given=changed_often,
    ),
    "more-shares": Act(
        "#/bandwidth",
        button("Show more"),
        lambda page: page.locator("div[aria-label='Announced flows']"),
        given=many_shares,
    ),
    "turn-off": Act("#/", button("Turn off", "dialog"), button("Turn on…"), turn_off),
    "turn-off-cancel": Act("#/", button("Cancel", "dialog"), button("Turn off…"), turn_off),
    "clear-filter": Act("#/flows?class=burst", link("Clear"), main),
    "incident": Act("#/incident", button("Show what happened"), main),
    "without-a-port": Act(incident(60), link("Without a port chosen"), main),
    "tour-skip": Act("#/", button("Skip"), HINTS, open_hints),
    "tour-close": Act("#/", HINTS, HINTS, open_hints),
    "tour-back": Act("#/", button("Back"), button("Next"), second_hint),
    "sign-out": Act("#/", button("Sign out"), lambda page: page.get_by_label("Token")),
}


@pytest.mark.parametrize("name", ACTS)
def test_the_focus_is_where_one_goes_on(looking: Looking, expect: Any, name: str) -> None:
    act = ACTS[name]
    act.given(looking)
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", act.hash)
    act.steps(page)
    acted = act.act(page)
    acted.focus()
    page.keyboard.press(act.key)
    expect(act.then(page)).to_be_focused()
    # It stays there while what was asked for comes.
    page.wait_for_timeout(300)
    assert page.evaluate("document.activeElement.tagName") != "BODY"


def test_an_incident_that_is_asked_for_again_has_the_focus(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    to_s = looking.served.api.now_s + 2
    page.evaluate(
        "hash => { location.hash = hash }", f"#/incident?from={to_s - 60:.3f}&to={to_s:.3f}"
    )
    again = page.get_by_role("button", name="Ask again")
    again.wait_for()
    looking.served.api.clock_off_s = 10
    again.press("Enter")
    expect(again).to_have_count(0)
    expect(heading(page)).to_be_focused()


def test_a_path_that_is_asked_about_again_has_the_focus(looking: Looking, expect: Any) -> None:
    looking.page.clock.install()
    page = looking.sign_in()
    page.evaluate("location.hash = '#/bandwidth?src=10.0.0.1&dst=10.0.0.250'")
    page.get_by_test_id("links").wait_for()
    page.clock.fast_forward(121_000)
    page.get_by_role("button", name="Ask again").press("Enter")
    expect(page.get_by_role("region", name="Links of the path")).to_be_focused()


def test_what_has_happened_is_announced(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", PORT_HASH)
    PICK(page).press("Enter")
    said = page.get_by_test_id("picking").get_by_role("status")
    expect(said).to_have_text(re.compile("^Picked: "))
    button("Zoom")(page).press("Enter")
    expect(said).to_have_text(re.compile("^Zoomed: "))
    page.evaluate("location.hash = '#/settings'")
    review(page)
    button("Put in force")(page).press("Enter")
    expect(done(page)).to_have_attribute("role", "status")
