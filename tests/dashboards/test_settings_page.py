"""The view of settings in a browser: what is told, changed, refused, taken back, and by whom."""

import json
import re
from typing import Any

import pytest

import fake_fabric as fabric
from accessibility import LOOKS, complaints
from fake_api import Served
from looking import Looking

pytestmark = pytest.mark.browser

HOLD, TTL, LEVELS = "regulation.max_hold", "regulation.window_ttl", "log.levels"


def settings(looking: Looking[Served], name: str = "operator") -> Any:
    """Sign in, and go to the settings."""
    page = looking.sign_in(name)
    page.evaluate("location.hash = '#/settings'")
    page.get_by_test_id("settings").wait_for()
    return page


def row(page: Any, key: str) -> Any:
    return page.locator(f"[data-key='{key}']")


def type_in(page: Any, key: str, text: str) -> Any:
    """Write into the field of a setting; returns its row."""
    found = row(page, key)
    found.get_by_role("button", name=f"Edit {key}").click()
    found.get_by_role("textbox").fill(text)
    return found


def review(page: Any) -> Any:
    page.get_by_role("button", name="Review…").click()
    return page.get_by_role("dialog")


def change(looking: Looking[Served], by: str = "token other", **changes: str) -> None:
    """Somebody else changes settings of regulation."""
    named = {f"regulation.{key}": value for key, value in changes.items()}
    looking.served.api.changing.change(None, named, False, by)


def told(looking: Looking[Served], key: str = HOLD) -> str:
    views = looking.served.api.changing.settings()["settings"]
    return next(view["value"] for view in views if view["key"] == key)


def test_settings_are_shown_with_what_the_file_says(looking: Looking[Served], expect: Any) -> None:
    change(looking, max_hold="20 ms")
    page = settings(looking)
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    hold = row(page, HOLD)
    for text in ("20 ms", "changed by token other", "the file says 100 ms", "default is 160 ms"):
        expect(hold).to_contain_text(text)
    expect(hold).to_contain_text("how long a switch may hold a request")
    expect(row(page, "fabric.rtt")).to_contain_text("200 us")
    expect(row(page, "fabric.rtt")).to_contain_text("takes a restart")
    expect(row(page, "fabric.rtt").get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("heading", name="regulation", exact=True)).to_be_visible()
    page.get_by_label("With the words").fill("request hold")
    expect(page.locator("[data-key]")).to_have_count(1)
    page.get_by_label("With the words").fill("")
    page.get_by_label("Only what was changed").check()
    expect(page.locator("[data-key]")).to_have_count(1)
    page.reload()
    expect(page.locator("[data-key]")).to_have_count(1)


def test_the_difference_is_shown_before_it_is_in_force(
    looking: Looking[Served], expect: Any
) -> None:
    page = settings(looking)
    type_in(page, HOLD, "20ms")
    expect(page.get_by_test_id("confirm")).to_contain_text("1 change, not in force yet")
    row(page, "regulation.scheme").get_by_role("button", name="Edit").click()
    row(page, "regulation.scheme").get_by_role("combobox").select_option("sdtcp")
    asked = review(page)
    difference = asked.get_by_test_id("difference").get_by_role("row")
    expect(difference).to_have_count(3)
    expect(difference.nth(1)).to_contain_text(re.compile("regulation.scheme.*weir.*sdtcp|max_hold"))
    expect(asked).to_contain_text("100 ms")
    expect(asked).to_contain_text("20 ms")
    assert told(looking) == "100 ms"
    asked.get_by_role("button", name="Cancel").click()
    expect(asked).to_be_hidden()
    assert told(looking) == "100 ms"
    review(page).get_by_role("button", name="Put in force").click()
    expect(page.get_by_test_id("done")).to_contain_text(f"{HOLD} is 20 ms")
    expect(page.get_by_test_id("done")).to_contain_text("ends with its next start")
    assert (told(looking), told(looking, "regulation.scheme")) == ("20 ms", "sdtcp")
    expect(row(page, HOLD).locator(".now")).to_have_text("20 ms")
    expect(row(page, HOLD)).to_contain_text("changed by token operator")
    expect(page.get_by_test_id("confirm")).to_have_count(0)


def test_the_latest_change_is_taken_back_by_one_click(
    looking: Looking[Served], expect: Any
) -> None:
    change(looking, max_hold="20 ms", window_ttl="5 s")
    page = settings(looking)
    latest = page.get_by_test_id("latest")
    expect(latest).to_contain_text("by token other")
    expect(latest).to_contain_text(f"{HOLD} from 100 ms to 20 ms")
    latest.get_by_role("button", name="Undo").click()
    expect(page.get_by_test_id("done")).to_contain_text(f"{HOLD} is 100 ms")
    expect(latest).to_contain_text(f"by token operator: {HOLD} from 20 ms to 100 ms")
    assert (told(looking), told(looking, TTL)) == ("100 ms", "3 s")
    latest.get_by_role("button", name="Undo").click()
    expect(row(page, TTL).locator(".now")).to_have_text("5 s")
    # It is where one looks, too, after a change far down the page.
    within = page.get_by_test_id("settings")
    within.get_by_role("button", name="Undo").click()
    expect(row(page, TTL).locator(".now")).to_have_text("3 s")
    page.get_by_role("link", name="Fabric").click()
    page.get_by_role("link", name="Settings").click()
    expect(latest).to_be_visible()
    expect(within.get_by_role("button", name="Undo")).to_have_count(0)


def test_the_files_value_again(looking: Looking[Served], expect: Any) -> None:
    change(looking, max_hold="20 ms")
    page = settings(looking)
    row(page, HOLD).get_by_role("button", name="Use what the file says").click()
    asked = review(page)
    expect(asked.get_by_test_id("difference")).to_contain_text(re.compile("20 ms.*100 ms"))
    asked.get_by_role("button", name="Put in force").click()
    expect(row(page, HOLD)).not_to_contain_text("changed by")
    assert told(looking) == "100 ms"


def test_a_value_that_cannot_be_is_told_at_its_field(looking: Looking[Served], expect: Any) -> None:
    page = settings(looking)
    hold = type_in(page, HOLD, "2 s")
    expect(hold).to_contain_text("a time with its unit, such as 20 ms")
    levels = type_in(page, LEVELS, "{session: loud}")
    page.get_by_role("button", name="Review…").click()
    expect(hold.get_by_role("alert")).to_contain_text("2000 ms is not within 1 ms to 1 s; choose")
    expect(hold.get_by_role("textbox")).to_have_attribute("aria-invalid", "true")
    expect(levels.get_by_role("alert")).to_contain_text("'loud' is not one of")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert looking.served.api.changing.settings()["undoable"] is None
    # What is mended is no longer blamed, and what was typed stays.
    hold.get_by_role("textbox").fill("30 ms")
    expect(hold.get_by_role("alert")).to_have_count(0)
    expect(levels.get_by_role("alert")).to_have_count(1)
    levels.get_by_role("button", name="Cancel").click()
    review(page).get_by_role("button", name="Put in force").click()
    expect(hold.locator(".now")).to_have_text("30 ms")


def test_somebody_else_changes_the_same_meanwhile(looking: Looking[Served], expect: Any) -> None:
    page = settings(looking)
    hold = type_in(page, HOLD, "20 ms")
    asked = review(page)
    expect(asked).to_contain_text("20 ms")
    change(looking, max_hold="50 ms")
    asked.get_by_role("button", name="Put in force").click()
    expect(page.get_by_role("alert").first).to_contain_text("Somebody has changed settings")
    expect(hold.get_by_role("status")).to_contain_text(
        "was 100 ms when you began, and is 50 ms now"
    )
    expect(hold.get_by_role("textbox")).to_have_value("20 ms")
    assert told(looking) == "50 ms"
    asked = review(page)
    expect(asked.get_by_test_id("difference")).to_contain_text(re.compile("50 ms.*20 ms"))
    asked.get_by_role("button", name="Put in force").click()
    expect(hold.locator(".now")).to_have_text("20 ms")
    assert told(looking) == "20 ms"


def test_what_was_typed_stays_while_one_looks_elsewhere(
    looking: Looking[Served], expect: Any
) -> None:
    page = settings(looking)
    type_in(page, HOLD, "20 ms")
    page.get_by_role("link", name="Fabric").click()
    page.get_by_role("link", name="Settings").click()
    expect(row(page, HOLD).get_by_role("textbox")).to_have_value("20 ms")
    page.get_by_role("button", name="Discard").click()
    expect(row(page, HOLD).locator(".now")).to_have_text("100 ms")
    row(page, HOLD).get_by_role("button", name="Edit").click()
    expect(page.get_by_test_id("confirm")).to_contain_text("Nothing differs")
    expect(page.get_by_role("button", name="Review…")).to_be_disabled()


def held_back(page: Any, method: str) -> Any:
    """Hold requests about settings back; returns those that wait, each with `continue_`."""
    waiting: list[Any] = []

    def hold(route: Any) -> None:
        if route.request.method == method:
            waiting.append(route)
        else:
            route.continue_()

    page.route("**/v1/settings", hold)
    return waiting


def until_asked(page: Any, waiting: list[Any]) -> None:
    for _ in range(100):
        if waiting:
            return
        page.wait_for_timeout(20)
    pytest.fail("it was not asked")


def test_what_is_typed_while_a_change_is_on_its_way_stays(
    looking: Looking[Served], expect: Any
) -> None:
    page = settings(looking)
    type_in(page, HOLD, "20 ms")
    waiting = held_back(page, "PATCH")
    page.get_by_role("button", name="Review…").click()
    until_asked(page, waiting)
    type_in(page, TTL, "5 s")
    row(page, HOLD).get_by_role("textbox").fill("30 ms")
    waiting[0].continue_()
    page.unroute("**/v1/settings")
    asked = page.get_by_role("dialog")
    expect(asked.get_by_test_id("difference")).to_contain_text(re.compile("100 ms.*20 ms"))
    asked.get_by_role("button", name="Put in force").click()
    expect(page.get_by_test_id("done")).to_contain_text(f"{HOLD} is 20 ms")
    expect(row(page, TTL).get_by_role("textbox")).to_have_value("5 s")
    expect(row(page, HOLD).get_by_role("textbox")).to_have_value("30 ms")
    expect(page.get_by_test_id("confirm")).to_contain_text("2 changes, not in force yet")
    # That somebody else has changed it meanwhile is not said: it was oneself.
    expect(row(page, HOLD).get_by_text("when you began")).to_have_count(0)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("lost", ["the network is gone", "the API has failed"])
def test_a_change_whose_answer_is_lost(
    looking: Looking[Served], expect: Any, lost: str, done: bool
) -> None:
    page = settings(looking)
    type_in(page, HOLD, "20 ms")
    asked = review(page)
    expect(asked).to_contain_text("20 ms")

    def lose(route: Any) -> None:
        if route.request.method != "PATCH":
            route.continue_()
            return
        if done:
            change(looking, by="token operator", max_hold="20 ms")
        if "network" in lost:
            route.abort()
        else:
            route.fulfill(status=504, json={"detail": "the controller has not answered"})

    page.route("**/v1/settings", lose)
    asked.get_by_role("button", name="Put in force").click()
    said = page.get_by_test_id("lost")
    expect(said).to_contain_text("was not confirmed")
    expect(said).to_contain_text("does not answer" if "network" in lost else "has not answered")
    expect(said).to_contain_text(
        f"It is in force: {HOLD} is 20 ms."
        if done
        else f"It is not in force now: {HOLD} is 100 ms, not 20 ms."
    )
    expect(row(page, HOLD).get_by_role("textbox")).to_have_value("20 ms")


def sign_in_again(page: Any, token: str, waits_for: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_test_id(waits_for).wait_for()


def test_the_next_person_in_the_same_tab_sees_no_draft(
    looking: Looking[Served], expect: Any
) -> None:
    page = settings(looking)
    type_in(page, HOLD, "20 ms")
    waiting = held_back(page, "PATCH")
    page.get_by_role("button", name="Review…").click()
    until_asked(page, waiting)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    difference = [{"key": HOLD, "from": "100 ms", "to": "20 ms"}]
    waiting[0].fulfill(json={"version": 1, "changes": difference, "id": None, "kept": False})
    sign_in_again(page, "weir_operator", "settings")
    expect(row(page, HOLD).locator(".now")).to_have_text("100 ms")
    expect(page.get_by_test_id("settings").get_by_role("textbox")).to_have_count(0)
    expect(page.get_by_test_id("confirm")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_be_hidden()


@pytest.mark.parametrize("way", ["signed out", "revoked"])
def test_the_next_person_in_the_same_tab_sees_no_former_values(
    looking: Looking[Served], expect: Any, way: str
) -> None:
    api = looking.served.api
    api.bypasses.append(fabric.bypass(None, None, None, "token operator"))
    page = settings(looking)
    expect(page.get_by_test_id("health")).to_contain_text("regulation is off")
    if way == "revoked":
        api.sessions.clear()
    else:
        page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    api.broken |= {"/v1/overview", "/v1/bypasses", "/v1/settings"}
    sign_in_again(page, "weir_viewer", "health")
    expect(page.get_by_test_id("health")).to_contain_text("No answer yet")
    expect(page.get_by_text("Settings").first).to_be_visible()
    expect(page.get_by_test_id("settings")).to_have_count(0)
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_test_id("figures")).to_have_count(0)


def test_another_tab_signs_another_person_in(looking: Looking[Served], expect: Any) -> None:
    page = settings(looking)
    type_in(page, HOLD, "20 ms")
    other = looking.context.new_page()
    other.goto("/")
    other.get_by_role("button", name="Sign out").click()
    sign_in_again(other, "weir_viewer", "figures")
    other.close()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.get_by_role("banner")).to_contain_text("viewer")
    expect(page.get_by_test_id("read-only")).to_be_visible()
    expect(row(page, HOLD).locator(".now")).to_have_text("100 ms")


def test_the_audit_log_says_who_and_when(looking: Looking[Served], expect: Any) -> None:
    api = looking.served.api
    change(looking, max_hold="20 ms")
    api.changing._audit_log.add("off", "user ada", detail="everything for 600 s")
    page = settings(looking)
    rows = page.get_by_test_id("audit").get_by_role("row")
    expect(rows).to_have_count(3)
    for text in ("user ada", "turned regulation off", "everything for 600 s"):
        expect(rows.nth(1)).to_contain_text(text)
    for text in ("token other", "changed settings", f"{HOLD}: 100 ms → 20 ms"):
        expect(rows.nth(2)).to_contain_text(text)
    time = rows.nth(1).locator("time")
    expect(time).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"))
    expect(time).to_have_attribute("title", re.compile(r" UTC$"))
    page.get_by_test_id("latest").get_by_role("button", name="Undo").click()
    expect(rows.nth(1)).to_contain_text("took a change back")


def test_older_entries_are_asked_for(looking: Looking[Served], expect: Any) -> None:
    for number in range(120):
        change(looking, window_ttl=f"{number + 10} s")
    page = settings(looking)
    rows = page.get_by_test_id("audit").get_by_role("row")
    expect(rows).to_have_count(51)
    page.get_by_role("button", name="Show older").click()
    expect(rows).to_have_count(101)
    page.get_by_role("button", name="Show older").click()
    expect(rows).to_have_count(121)
    expect(page.get_by_role("button", name="Show older")).to_have_count(0)
    with page.expect_response(lambda response: "/v1/audit" in response.url, timeout=10_000):
        pass
    page.wait_for_timeout(200)
    expect(page.get_by_role("button", name="Show older")).to_have_count(0)
    expect(rows.last).to_contain_text("3 s → 10 s")


def test_a_viewer_sees_all_and_changes_nothing(looking: Looking[Served], expect: Any) -> None:
    change(looking, max_hold="20 ms")
    page = settings(looking, "viewer")
    expect(page.get_by_test_id("read-only")).to_contain_text("scope regulate")
    expect(row(page, HOLD)).to_contain_text("20 ms")
    expect(page.get_by_test_id("latest")).to_contain_text("by token other")
    expect(page.get_by_test_id("audit").get_by_role("row")).to_have_count(2)
    within = page.get_by_role("main").get_by_role("button")
    expect(within).to_have_text(["Who has changed what"])
    expect(page.get_by_test_id("settings").get_by_role("textbox")).to_have_count(0)
    version = looking.served.api.changing.settings()["version"]
    for method, path, body in (
        ("PATCH", "/v1/settings", {"version": version, "changes": {HOLD: "30 ms"}}),
        ("POST", "/v1/settings/undo", {"id": "1"}),
    ):
        asked = {"method": method, "body": json.dumps(body), "headers": {"X-Weir-Page": "1"}}
        status = page.evaluate(
            "([path, asked]) => fetch(path, asked).then(answer => answer.status)", [path, asked]
        )
        assert status == 403
    assert told(looking) == "20 ms"


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_nothing_keeps_people_from_using_it(
    browser: Any, served: Served, scheme: str, width: int
) -> None:
    look: dict[str, Any] = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    looking = Looking(browser, served, **look)
    change(looking, max_hold="20 ms")
    page = settings(looking)
    found = {"plain": complaints(page)}
    type_in(page, HOLD, "2 s")
    row(page, "policies").get_by_role("button", name="Edit").click()
    row(page, "regulation.scheme").get_by_role("button", name="Edit").click()
    page.get_by_role("button", name="Review…").click()
    row(page, HOLD).get_by_role("alert").wait_for()
    found["refused"] = complaints(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    row(page, HOLD).get_by_role("textbox").fill("30 ms")
    review(page).wait_for()
    found["review"] = complaints(page)
    looking.context.close()
    assert {name: told for name, told in found.items() if told} == {}
    assert looking.errors == []


def test_the_keyboard_suffices(looking: Looking[Served], expect: Any) -> None:
    page = settings(looking)
    row(page, HOLD).get_by_role("button", name="Edit").focus()
    page.keyboard.press("Enter")
    field = row(page, HOLD).get_by_role("textbox")
    expect(field).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("20 ms")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    field.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(row(page, HOLD).get_by_role("button", name="Edit")).to_be_focused()


def test_a_field_that_a_filter_brings_back_leaves_the_focus_where_it_is(
    looking: Looking[Served], expect: Any
) -> None:
    page = settings(looking)
    type_in(page, HOLD, "22 ms")
    words = page.get_by_label("With the words")
    words.press_sequentially("scheme")
    expect(row(page, HOLD)).to_have_count(0)
    words.fill("")
    field = row(page, HOLD).get_by_role("textbox")
    expect(field).to_have_value("22 ms")
    expect(words).to_be_focused()
