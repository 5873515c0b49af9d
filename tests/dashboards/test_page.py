"""The operator's page in a browser, over an API that is none.

What the page must never do is checked in all tests: errors, and requests off its origin.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

import fake_fabric as fabric
from accessibility import LOOKS, complaints
from fake_api import Served
from looking import Looking

pytestmark = pytest.mark.browser

HOT = f"#/port/{fabric.port_id(*fabric.HOT).replace(':', '/')}"
# Each view, and what is there once it has its answers.
VIEWS = {
    "overview": ("#/", "congested"),
    "fabric": ("#/fabric", "map"),
    "port": (HOT, "holds"),
    "flows": ("#/flows", "flows"),
    "events": ("#/events", "events"),
}


def view(page: Any, name: str) -> Any:
    """Go to a view, and wait for what it is told."""
    hash_, shown = VIEWS[name]
    page.evaluate("hash => { location.hash = hash }", hash_)
    page.get_by_test_id(shown).wait_for()
    return page.get_by_test_id(shown)


def test_one_signs_in_by_a_token_which_is_kept_nowhere(looking: Looking, expect: Any) -> None:
    page = looking.page
    page.goto("/")
    page.get_by_label("Token").fill("weir_wrong")
    assert looking.refused == []
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("this token is not known")
    assert len(looking.refused) == 1
    looking.sign_in()
    stored = page.evaluate("[{...localStorage}, {...sessionStorage}]")
    assert stored == [{"weir-tour": "seen"}, {}]
    assert page.evaluate("document.cookie") == ""
    assert not [url for url in looking.requests if "weir_" in url]
    page.reload()
    page.get_by_test_id("figures").wait_for()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert not looking.served.api.sessions


def test_a_revoked_token_leads_back_to_the_sign_in(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    looking.served.api.sessions.clear()
    expect(page.get_by_role("alert")).to_contain_text("expired or was revoked")
    expect(page.get_by_label("Token")).to_be_visible()


def test_the_overview_shows_what_the_api_says(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    health = page.get_by_test_id("health")
    expect(health).to_contain_text("1 of 6 switches not ready")
    expect(health).to_contain_text("1 congested port, worst leaf1-eth3 at CN-H")
    expect(page.get_by_test_id("figures")).to_contain_text("5 of 6")
    expect(page.get_by_test_id("figures")).to_contain_text("42 / min")
    row = page.get_by_test_id("congested").get_by_role("row").nth(1)
    for text in ("CN-H", "leaf1-eth3", "0000000000000011", "60 KiB of 64 KiB", "95.3 Mb/s"):
        expect(row).to_contain_text(text)
    expect(page.get_by_role("img", name=re.compile(r"^Requests held: \d"))).to_be_visible()
    held = page.get_by_role("table", name=re.compile("How long requests were held"))
    expect(held.get_by_role("row")).to_have_count(9)
    expect(held).to_contain_text("2.9 k")


def test_the_fabric_is_drawn_and_leads_to_its_ports(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    drawing = view(page, "fabric")
    expect(drawing.get_by_role("button")).to_have_count(6)
    expect(drawing.get_by_role("button", name=re.compile("0014, away"))).to_be_visible()
    expect(
        drawing.get_by_role("button", name=re.compile("0011, congested at CN-H"))
    ).to_be_visible()
    leaves, spines = (
        [
            drawing.locator(f"[data-switch$='{number:x}'] .box").bounding_box()["y"]
            for number in numbers
        ]
        for numbers in (fabric.LEAVES, fabric.SPINES)
    )
    assert max(spines) < min(leaves)
    assert max(leaves) - min(leaves) < 2 > max(spines) - min(spines)
    # Both directions of each link, in the colours of their use.
    expect(drawing.locator(".link")).to_have_count(16)
    busy = fabric.port_id(0x12, 1)
    step = sum(fabric.use(0x12, 1) >= most for most in (0.02, 0.25, 0.5, 0.8))
    expect(drawing.locator(f"[data-link='{busy}'] .link")).to_have_class(re.compile(f"use-{step}"))
    drawing.get_by_role("button", name=re.compile("0011")).press("Enter")
    expect(page.get_by_test_id("ports").get_by_role("row")).to_have_count(7)
    drawing.locator(f"[data-link='{busy}']").dispatch_event("click")
    expect(page.get_by_role("heading", level=1)).to_contain_text("leaf2-eth1")


def test_a_port_shows_its_queue_and_what_is_in_force(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    holds = view(page, "port")
    expect(page.get_by_role("heading", level=1)).to_contain_text("leaf1-eth3")
    figures = page.get_by_test_id("port-figures")
    for text in ("60 KiB of 64 KiB", "95.3 Mb/s of 100 Mb/s", "27 requests", "13.4 ms", "32 burst"):
        expect(figures).to_contain_text(text)
    expect(holds.get_by_role("row").nth(1)).to_contain_text("by the switch")
    expect(holds.get_by_role("row").nth(2)).to_contain_text("14.3 KiB")
    expect(page.get_by_role("listitem").filter(has_text="CN-H").first).to_contain_text("60 KiB")
    for name in ("1 hour", "1 day"):
        page.get_by_role("link", name=name).click()
        expect(page.get_by_role("link", name=name)).to_have_attribute("aria-current", "true")
        expect(page.get_by_role("img", name=re.compile(r"^Queue: \d"))).to_be_visible()
    page.evaluate("location.hash = '#/port/0000000000000011/99'")
    expect(page.get_by_text("has no port 99")).to_be_visible()


def test_operators_turn_regulation_off_and_on_and_are_asked_first(
    looking: Looking, expect: Any
) -> None:
    page, api = looking.sign_in(), looking.served.api
    view(page, "port")
    part = page.get_by_test_id("regulation")
    part.get_by_role("button", name="Turn off…").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("port leaf1-eth3 of switch 0000000000000011")
    asked.get_by_role("button", name="Cancel").click()
    assert api.bypasses == []
    part.get_by_role("button", name="Turn off…").click()
    asked.get_by_label("For").select_option("10 min")
    asked.get_by_role("button", name="Turn off", exact=True).click()
    expect(part).to_contain_text("is off for port leaf1-eth3")
    expect(part).to_contain_text("for 10 min more, by token operator")
    assert api.bypasses == [fabric.bypass(0x11, "leaf1-eth3", 600, "token operator")]
    expect(page.get_by_test_id("health")).to_contain_text("regulation is off at 1 place")
    part.get_by_role("button", name="Turn on…").click()
    asked.get_by_role("button", name="Turn on", exact=True).click()
    expect(part).to_contain_text("Regulation is on")
    assert api.bypasses == []


def test_a_viewer_has_no_such_button(looking: Looking, expect: Any) -> None:
    page = looking.sign_in("viewer")
    for name in ("overview", "port"):
        view(page, name)
        expect(page.get_by_test_id("regulation")).to_contain_text("Regulation is on")
        expect(page.get_by_role("button", name=re.compile("Turn o"))).to_have_count(0)
    status = page.evaluate(
        "fetch('/v1/bypasses', {method: 'PUT', body: '{}', headers: {'X-Weir-Page': '1'}})"
        ".then(answer => answer.status)"
    )
    assert status == 403


def test_nothing_stale_looks_live(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    banner = page.get_by_test_id("stale")
    expect(banner).to_have_count(0)
    looking.served.stop()
    expect(banner).to_contain_text("Not live", timeout=6000)
    expect(banner).to_contain_text("all values are from")
    expect(page.get_by_role("main")).to_have_class(re.compile("stale"))
    looking.served.start()
    expect(banner).to_have_count(0, timeout=10_000)
    expect(page.get_by_role("main")).not_to_have_class(re.compile("stale"))


def test_a_silent_controller_is_told_though_the_api_answers(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    looking.served.api.controller_age_s = 65
    banner = page.get_by_test_id("stale")
    expect(banner).to_contain_text("The controller has not answered the API for 1 min 5 s")
    expect(page.get_by_role("main")).to_have_class(re.compile("stale"))


def test_the_last_values_of_a_switch_that_is_away_are_not_live(
    looking: Looking, expect: Any
) -> None:
    page = looking.sign_in()
    view(page, "fabric").get_by_role("button", name=re.compile("0014, away")).click()
    expect(page.get_by_text("not connected to the controller")).to_be_visible()
    page.get_by_role("link", name="leaf4-eth3").click()
    expect(page.get_by_text("not connected to the controller")).to_be_visible()
    expect(page.get_by_test_id("port-figures")).to_have_class(re.compile("stale"))


def test_a_clock_that_is_off_is_told_and_does_no_harm(looking: Looking, expect: Any) -> None:
    looking.served.api.clock_off_s = -3600
    page = looking.sign_in()
    expect(page.get_by_text("clock is 1 h ahead of Weir's")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Requests: "))).to_be_visible()
    expect(page.get_by_test_id("stale")).to_have_count(0)


def test_what_others_have_chosen_is_text(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    view(page, "fabric").get_by_role("button", name=re.compile("0012")).click()
    expect(page.get_by_test_id("ports")).to_contain_text(fabric.HOSTILE)
    page.get_by_role("link", name=fabric.HOSTILE).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(fabric.HOSTILE)
    script = "<script>alert(2)</script>"
    looking.served.api.happens(script, mac="<b>bold</b>", port=f"{script}:1", **{script: script})
    expect(view(page, "events")).to_contain_text(script)
    expect(page.get_by_test_id("events")).to_contain_text("<b>bold</b>")
    assert page.locator("main img, main b, main script").count() == 0


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_all_can_use_it(browser: Any, served: Served, scheme: str, width: int) -> None:
    size = {"width": width, "height": 844}
    looking = Looking(browser, served, color_scheme=scheme, viewport=size)
    looking.page.goto("/")
    looking.page.get_by_label("Token").wait_for()
    found = {"sign-in": complaints(looking.page)}
    page = looking.sign_in()
    for name in VIEWS:
        view(page, name)
        found[name] = complaints(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.evaluate("location.hash = '#/'")
    page.get_by_role("button", name="Turn off…").click()
    found["dialog"] = complaints(page)
    looking.context.close()
    assert {name: told for name, told in found.items() if told} == {}
    assert looking.errors == []


@pytest.mark.parametrize("way", ["fabric", "flows", "events"])
def test_the_keyboard_suffices(looking: Looking, expect: Any, way: str) -> None:
    page = looking.sign_in()
    press_until(page, lambda: page.evaluate("document.activeElement.textContent") == way.title())
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(way.title())


def press_until(page: Any, reached: Callable[[], bool]) -> None:
    for _ in range(10):
        page.keyboard.press("Tab")
        if reached():
            return
    pytest.fail("not reached by the keyboard")
