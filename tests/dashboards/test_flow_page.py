"""One flow on the page: hop by hop, while it is there and after it has gone."""

import re
from typing import Any

import pytest

import fake_fabric as fabric
from accessibility import LOOKS, complaints
from fake_api import Served
from looking import Looking

pytestmark = pytest.mark.browser

BACKGROUND, BURST = fabric.flow(0), fabric.flow(2)


def hash_of(flow: Any) -> str:
    return f"#/flow/{flow['src']}/{flow['src_port']}/{flow['dst']}/{flow['dst_port']}"


def open_flow(looking: Looking, flow: Any = BACKGROUND) -> Any:
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", hash_of(flow))
    page.get_by_test_id("path").wait_for()
    return page


def test_a_row_of_the_flows_and_of_a_port_leads_to_it(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    page.evaluate("location.hash = '#/flows'")
    page.get_by_test_id("flows").get_by_role("link", name="10.0.0.1:80").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("10.0.0.1:80 → 10.0.0.250:40000")
    hot = fabric.port_id(*fabric.HOT).replace(":", "/")
    page.evaluate("hash => { location.hash = hash }", f"#/port/{hot}")
    page.get_by_test_id("largest").get_by_role("link", name=re.compile("10.0.0.2:80")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("10.0.0.2:80 → 10.0.0.250:40001")


def test_it_is_shown_hop_by_hop_with_what_holds_it(looking: Looking, expect: Any) -> None:
    page = open_flow(looking)
    figures, path = page.get_by_test_id("flow-figures"), page.get_by_test_id("path")
    for text in ("background", "1460 B, 7", "14.3 KiB at leaf1-eth3", "8 KiB at leaf1-eth3"):
        expect(figures).to_contain_text(text)
    # It is measured between answers.
    expect(figures).to_contain_text("8 Mb/s over the last 10 s")
    rows = path.get_by_role("row")
    expect(rows).to_have_count(6)
    expect(rows.nth(1)).to_contain_text("10.0.0.1, behind")
    for n, hop in enumerate(fabric.flow_detail(0, 0)["hops"]):
        expect(rows.nth(2 + n)).to_contain_text(hop["name"])
    hot = rows.nth(4)
    for text in ("CN-H", "60 KiB", "weir, after CN-H", "14.3 KiB", "8 KiB", "160 ms"):
        expect(hot).to_contain_text(text)
    expect(hot).to_contain_text("27 requests")
    expect(hot).to_contain_text("13.4 ms")
    expect(rows.nth(3)).to_contain_text("no account")
    hot.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("leaf1-eth3")


def test_a_bound_that_the_switch_decides_is_told_so(looking: Looking, expect: Any) -> None:
    page = open_flow(looking, BURST)
    expect(page.get_by_test_id("path").get_by_role("row").nth(4)).to_contain_text("by the switch")
    expect(page.get_by_test_id("flow-figures")).to_contain_text("28.5 KiB at leaf2-eth1")


def test_a_flow_that_goes_is_told_so_and_nothing_of_it_is_live(
    looking: Looking, expect: Any
) -> None:
    page = open_flow(looking)
    figures = page.get_by_test_id("flow-figures")
    expect(figures).to_contain_text("Mb/s")
    expect(figures).not_to_have_class(re.compile("stale"))
    told = looking.served.api.flow_told
    looking.served.api.flow_told = lambda _: None
    gone = page.get_by_test_id("gone")
    expect(gone).to_contain_text("This flow is gone. It was seen last at")
    expect(gone.locator("time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(figures).to_have_class(re.compile("stale"))
    expect(figures).to_contain_text("– over the last 10 s")
    looking.served.api.flow_told = told
    expect(gone).to_have_count(0, timeout=10_000)
    expect(figures).not_to_have_class(re.compile("stale"))


def test_a_flow_that_is_gone_is_asked_about_more_seldom(looking: Looking, expect: Any) -> None:
    """Browsers write each answer with an error to their console."""
    page = open_flow(looking)
    looking.served.api.flow_told = lambda _: None
    expect(page.get_by_test_id("gone")).to_be_visible()
    page.wait_for_timeout(3000)
    asked = looking.served.api.asked
    before = asked.count(("GET", "/v1/flows/one"))
    page.wait_for_timeout(4000)
    assert asked.count(("GET", "/v1/flows/one")) - before <= 2


def test_a_link_to_a_flow_that_is_gone_says_what_to_do(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    page.evaluate("location.hash = '#/flow/10.0.0.9/1/fd00::1/2'")
    gone = page.get_by_test_id("gone")
    expect(gone).to_contain_text("no flow from 10.0.0.9:1 to fd00::1:2 is known")
    expect(page.get_by_role("heading", level=1)).to_have_text("10.0.0.9:1 → [fd00::1]:2")
    gone.get_by_role("link").click()
    expect(page.get_by_label("Host or subnet")).to_have_value("10.0.0.9")


def test_another_flow_is_not_shown_with_the_values_of_the_former(
    looking: Looking, expect: Any
) -> None:
    page = open_flow(looking)
    back = page.get_by_test_id("flow-figures").get_by_role("link", name=re.compile("→ 10.0.0.1:80"))
    back.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("10.0.0.250:40000 → 10.0.0.1:80")
    expect(page.get_by_test_id("gone")).to_contain_text("There is no such flow now")
    expect(page.get_by_test_id("flow-figures")).to_have_count(0)


def test_names_of_ports_are_text(looking: Looking, expect: Any) -> None:
    told = fabric.flow_detail(0, 0)
    told["hops"][0]["name"] = told["hops"][0]["scheme"] = fabric.HOSTILE
    told["flow"]["class"] = "<b>class</b>"
    looking.served.api.flow_told = lambda _: told
    page = open_flow(looking)
    expect(page.get_by_test_id("path")).to_contain_text(fabric.HOSTILE)
    expect(page.get_by_test_id("flow-figures")).to_contain_text("<b>class</b>")
    assert page.locator("main img, main b").count() == 0


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_all_can_use_it(browser: Any, served: Served, scheme: str, width: int) -> None:
    looking = Looking(
        browser, served, color_scheme=scheme, viewport={"width": width, "height": 844}
    )
    page = open_flow(looking)
    assert complaints(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("hash => { location.hash = hash }", hash_of(fabric.flow(fabric.LONG_FLOW)))
    page.get_by_test_id("flow-figures").get_by_text(f"at {fabric.LONG_NAME}").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    looking.context.close()
    assert looking.errors == []
