"""No view shows as live what is not, whichever question is not answered."""

import re
from typing import Any

import pytest

import fake_fabric as fabric
from fake_api import BROKEN
from looking import Looking
from test_charts import has_episode, open_port

pytestmark = pytest.mark.browser

STREAM = "/v1/events/stream"


def test_notices_of_a_port_are_not_live_without_their_stream(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    page = looking.sign_in()
    open_port(page)
    state, notices = page.get_by_test_id("notices-state"), page.get_by_test_id("notices")
    expect(state).to_have_text("Live")
    api.broken.add(STREAM)
    expect(state).to_have_text(BROKEN)
    expect(notices).to_have_class(re.compile("stale"))
    has_episode(looking, 0)
    api.broken.clear()
    expect(state).to_have_text("Live")
    expect(notices).not_to_have_class(re.compile("stale"))
    expect(notices.get_by_role("listitem").first).to_contain_text("CR")


def test_events_that_were_missed_are_told_where_they_are_missing(
    looking: Looking, expect: Any
) -> None:
    api = looking.served.api
    page = looking.sign_in()
    page.evaluate("location.hash = '#/events'")
    rows = page.get_by_test_id("events").get_by_role("row")
    expect(page.get_by_test_id("tail")).to_have_text("Live")
    expect(rows).to_have_count(4)
    for n in (7, 7):
        api.misses(n)
        api.happens("switch_down", switch=0x13)
    expect(rows).to_have_count(8)
    for at in (2, 4):
        expect(rows.nth(at)).to_contain_text("7 events came faster")
        expect(rows.nth(at).locator("time")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    page.get_by_label("With the words").fill("cn-h")
    expect(rows).to_have_count(4)


def test_notices_are_not_all_there_after_some_were_missed(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    api.events.clear()
    has_episode(looking, 590)
    page = looking.sign_in()
    open_port(page)
    expect(page.get_by_test_id("notices-state")).to_have_text("Live")
    lack = page.get_by_text("Notices are shown from")
    api.misses(7)
    api.happens("switch_down", switch=0x13)
    expect(lack).to_be_visible()
    expect(page.get_by_role("button", name="Show earlier notices")).to_be_visible()


def test_live_is_not_said_beneath_not_live(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    api.shares += [fabric.share("a", 5e6)]
    page = looking.sign_in()
    api.controller_age_s = 65
    for view, state in (("events", "tail"), ("bandwidth", "shares-state")):
        page.evaluate("hash => { location.hash = hash }", f"#/{view}")
        expect(page.get_by_test_id("stale")).to_be_visible()
        expect(page.get_by_test_id(state)).to_have_text("Not live")


def test_the_level_of_a_port_is_not_live_alone(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    open_port(page)
    level = page.get_by_test_id("port-level")
    expect(level).to_have_text("CN-H")
    expect(level).not_to_have_class(re.compile("stale"))
    looking.served.api.broken.add("/v1/ports")
    expect(level).to_have_class(re.compile("stale"), timeout=8000)


def test_regulation_of_which_nothing_is_heard_is_not_on(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    api.congested = []
    page = looking.sign_in()
    regulation, health = page.get_by_test_id("regulation"), page.get_by_test_id("health")
    expect(regulation).to_contain_text("Regulation is on.")
    api.broken.add("/v1/bypasses")
    expect(regulation).to_contain_text("Regulation was on.", timeout=10_000)
    expect(regulation).to_contain_text("Whether that is still so is not known.")
    expect(page.get_by_text(BROKEN)).to_be_visible()
    expect(health).to_contain_text("where regulation is on is not known")
    page.reload()
    expect(regulation).to_contain_text("Whether regulation is on is not known yet.")
    expect(health).to_contain_text("where regulation is on is not known")
    api.broken.clear()
    expect(regulation).to_contain_text("Regulation is on.", timeout=10_000)


def test_who_reads_a_row_at_the_top_is_told_that_it_is_paused(
    looking: Looking, expect: Any
) -> None:
    api = looking.served.api
    page = looking.sign_in()
    page.evaluate("location.hash = '#/events'")
    rows, tail = page.get_by_test_id("events").get_by_role("row"), page.get_by_test_id("tail")
    expect(tail).to_have_text("Live")
    rows.nth(1).get_by_role("link").focus()
    expect(tail).to_have_text("Paused while you read")
    api.happens("switch_down", switch=0x13)
    # Going on does go on, though the button takes the focus from the row.
    page.get_by_role("button", name="Go on (1 new)").click()
    expect(tail).to_have_text("Live")
    expect(rows.nth(1)).to_contain_text("switch_down")
    # A table that is gone is read by nobody.
    rows.nth(2).get_by_role("link").focus()
    expect(tail).to_have_text("Paused while you read")
    page.evaluate("location.hash = '#/events?text=nothing-like-it'")
    expect(tail).to_have_text("Live")
    page.evaluate("location.hash = '#/events'")
    rows.nth(2).get_by_role("link").focus()
    api.broken.add(STREAM)
    expect(tail).to_have_text(f"Paused while you read. {BROKEN}")
