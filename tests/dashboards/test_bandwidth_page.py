"""What announced flows may send, and what the path between two hosts has left, on the page."""

from typing import Any

import pytest

import fake_fabric as fabric
from accessibility import LOOKS, complaints
from fake_api import Served
from looking import Looking, pass_until

pytestmark = pytest.mark.browser

PATH = "#/bandwidth?src=10.0.0.1&dst=10.0.0.250"


def open_bandwidth(looking: Looking, hash_: str = "#/bandwidth") -> Any:
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", hash_)
    page.get_by_role("heading", name="Bandwidth").wait_for()
    return page


def test_a_path_is_asked_for_by_its_hosts(looking: Looking, expect: Any) -> None:
    page = open_bandwidth(looking)
    page.get_by_label("From").fill(" web1 ")
    page.get_by_label("To").fill("10.0.0.250")
    page.keyboard.press("Enter")
    figures, links = page.get_by_test_id("path-figures"), page.get_by_test_id("links")
    for text in ("38 Mb/s", "± 4.2 Mb/s", "47 Mb/s", "10.0.0.1 → 10.0.0.250, 3 links"):
        expect(figures).to_contain_text(text)
    rows = links.get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text("from the host at")
    expect(rows.nth(1)).to_contain_text("not measured")
    expect(rows.nth(2)).to_contain_text("62 Mb/s")
    expect(rows.nth(2)).to_contain_text("38 Mb/s narrowest")
    # Nothing was measured there: how much of it is used is not known.
    expect(rows.nth(1)).to_contain_text("at most 100 Mb/s")
    rows.nth(3).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("leaf1-eth3")
    page.go_back()
    # The question is in the address, so a link shows it to others.
    expect(page.get_by_label("To")).to_have_value("10.0.0.250")
    expect(figures).to_be_visible()


def test_it_is_asked_again_as_long_as_it_is_shown(looking: Looking) -> None:
    page = open_bandwidth(looking, PATH)
    page.get_by_test_id("links").wait_for()
    asked = looking.served.api.asked
    before = asked.count(("GET", "/v1/bandwidth"))
    with page.expect_response("**/v1/bandwidth*"):
        pass
    assert asked.count(("GET", "/v1/bandwidth")) > before


def test_a_page_that_is_left_open_does_not_ask_for_ever(looking: Looking, expect: Any) -> None:
    looking.page.clock.install()
    page = open_bandwidth(looking, PATH)
    links = page.get_by_test_id("links")
    links.wait_for()
    page.clock.fast_forward(121_000)
    rests = page.get_by_test_id("rests")
    expect(rests).to_contain_text("not asked about any more")
    expect(page.locator(".stale").get_by_test_id("links")).to_be_visible()
    asked = looking.served.api.asked
    before = asked.count(("GET", "/v1/bandwidth"))
    page.clock.run_for(5000)
    assert asked.count(("GET", "/v1/bandwidth")) == before
    rests.get_by_role("button", name="Ask again").click()
    # What was asked while the clock was put forward was answered late.
    stale = page.locator(".stale").get_by_test_id("links")
    pass_until(page, lambda: stale.count() == 0, 15)
    expect(rests).to_have_count(0)
    assert asked.count(("GET", "/v1/bandwidth")) > before


def test_a_host_that_is_not_known_is_told_with_what_to_do(looking: Looking, expect: Any) -> None:
    page = open_bandwidth(looking, "#/bandwidth?src=10.0.0.9&dst=10.0.0.250")
    expect(page.get_by_text("is known: 10.0.0.9; it has to send something first")).to_be_visible()
    expect(page.get_by_test_id("path-figures")).to_have_count(0)


def test_without_announced_flows_it_says_how_a_sender_announces(
    looking: Looking, expect: Any
) -> None:
    page = open_bandwidth(looking)
    expect(page.get_by_text("No flow is announced now")).to_be_visible()
    command = f"fountain send --rate-from {looking.served.origin} --token-file FILE"
    expect(page.get_by_text(command)).to_be_visible()


def test_shares_follow_the_stream(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    api.shares += [fabric.share("small", 5e6, 5e6), fabric.share("large", 40e6)]
    page = open_bandwidth(looking)
    rows = page.get_by_test_id("shares").get_by_role("row")
    expect(page.get_by_test_id("shares-total")).to_have_text("2 flows, 45 Mb/s in all")
    expect(page.get_by_test_id("shares-state")).to_have_text("Live")
    for text in ("large", "40 Mb/s", "all that it gets", "11:3", "10"):
        expect(rows.nth(1)).to_contain_text(text)
    expect(rows.nth(2)).to_contain_text("5 Mb/s")
    expect(rows.nth(2)).to_contain_text("its own maximum")
    api.shares += [fabric.share("large", 3e6), fabric.share("lost", None)]
    expect(rows.nth(1)).to_contain_text("small")
    expect(rows.nth(3)).to_contain_text("no path now")
    api.shares += [fabric.gone("large"), fabric.gone("lost")]
    expect(rows).to_have_count(2)
    rows.nth(1).get_by_role("link", name="10.0.0.1 → 10.0.0.250").click()
    expect(page.get_by_test_id("path-figures")).to_be_visible()


def test_shares_are_not_live_while_nothing_answers(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    api.shares += [fabric.share("a", 5e6), fabric.share("b", 6e6)]
    page = open_bandwidth(looking)
    expect(page.get_by_test_id("shares-state")).to_have_text("Live")
    looking.served.stop()
    expect(page.get_by_test_id("shares-state")).not_to_have_text("Live")
    expect(page.locator(".stale").get_by_test_id("shares")).to_be_visible()
    # One ends meanwhile, which nobody hears.
    api.shares += [fabric.gone("a")]
    looking.served.start()
    expect(page.get_by_test_id("shares-state")).to_have_text("Live", timeout=10_000)
    expect(page.get_by_test_id("shares").get_by_role("row")).to_have_count(2)


def test_many_flows_are_shown_by_and_by(looking: Looking, expect: Any) -> None:
    looking.served.api.shares += [fabric.share(f"flow-{n}", 1e6 + n) for n in range(250)]
    page = open_bandwidth(looking)
    rows = page.get_by_test_id("shares").get_by_role("row")
    expect(rows).to_have_count(101)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(201)


def test_names_of_flows_are_text(looking: Looking, expect: Any) -> None:
    """The API takes no such names, and the page does not rely on that."""
    looking.served.api.shares += [fabric.share(fabric.HOSTILE, 5e6)]
    page = open_bandwidth(looking, "#/bandwidth?src=%3Cimg%20src=x%3E&dst=<b>10</b>")
    expect(page.get_by_test_id("shares")).to_contain_text(fabric.HOSTILE)
    expect(page.get_by_text("is known: <img src=x>")).to_be_visible()
    assert page.locator("main img, main b").count() == 0


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_all_can_use_it(browser: Any, served: Served, scheme: str, width: int) -> None:
    looking = Looking(
        browser, served, color_scheme=scheme, viewport={"width": width, "height": 844}
    )
    page = open_bandwidth(looking, PATH)
    page.get_by_test_id("links").wait_for()
    found = {"no flow": complaints(page)}
    served.api.shares += [fabric.share("small", 5e6, 5e6), fabric.share("large", 40e6)]
    page.get_by_test_id("shares").wait_for()
    found["flows"] = complaints(page)
    assert {name: told for name, told in found.items() if told} == {}
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    looking.context.close()
    assert looking.errors == []
