"""One flow, and what announced flows may send, as a real switch and controller have them."""

import json
import re
import urllib.request
from typing import Any

import pytest

from experiments.traffic.reader import IncastSpec
from real import API_PORT, SENDERS, Real, looked_at, numbers, until
from traffic import incast

INCAST = IncastSpec(senders=SENDERS, rounds=10**6)
# The page writes three digits.
ROUNDED = 0.01

pytestmark = [pytest.mark.browser, pytest.mark.netns, pytest.mark.switch, pytest.mark.slow]


def figure(page: Any, title: str, where: str) -> str:
    """What a figure of the page says."""
    found = page.get_by_test_id(where).locator("div").filter(has_text=title).first
    text: str = found.locator("dd").inner_text()
    return text


def test_one_flow_is_shown_as_it_is_and_then_as_gone(expect: Any) -> None:
    with looked_at() as looking:
        page, served = looking.sign_in(), looking.served
        with incast(served.bed, INCAST) as reads:
            reads.require_progress(20, 30, "under regulation")
            port = served.bottleneck()
            listed = f"/v1/flows?switch={port['datapath_id']}&port={port['port']}&limit=1"
            (flow,) = served.ask(listed)["flows"]
            page.evaluate("hash => { location.hash = hash }", served.port_hash())
            name = f"{flow['src']}:{flow['src_port']} → {flow['dst']}:{flow['dst_port']}"
            page.get_by_test_id("largest").get_by_role("link", name=name).click()
            expect(page.get_by_role("heading", level=1)).to_have_text(name)
            is_as_told(page, served, flow, expect)
            reads.require_progress(5, 30, "while it is looked at")
        # The readers have closed their connections.
        expect(page.get_by_test_id("gone")).to_contain_text("This flow is gone", timeout=10_000)
        expect(page.get_by_test_id("flow-figures")).to_have_class(re.compile("stale"))


def is_as_told(page: Any, served: Real, flow: dict[str, Any], expect: Any) -> None:
    asked = "&".join(f"{end}={flow[end]}" for end in ("src", "src_port", "dst", "dst_port"))
    before = served.ask(f"/v1/flows/one?{asked}")
    expect(page.get_by_test_id("flow-figures")).to_contain_text(before["flow"]["class"])
    rows = page.get_by_test_id("path").locator("tbody tr")
    # Its two ends are rows as well.
    expect(rows).to_have_count(len(before["hops"]) + 2)
    last = rows.nth(len(before["hops"]))
    expect(last).to_contain_text(served.bed.roles.bottleneck)
    expect(last).to_contain_text("by the switch")
    assert before["hops"][-1]["hold"]["credit"] is not None
    mss = figure(page, "MSS", "flow-figures")
    assert mss == f"{before['flow']['mss_bytes']} B, {before['flow']['window_scale']}"
    if before["flow"]["counted"]:
        at_least = before["flow"]["volume_bytes"]
        until(
            page,
            lambda: numbers(figure(page, "Volume", "flow-figures"))[0] >= at_least * (1 - ROUNDED),
            5,
            "the page has its volume",
        )
        after = served.ask(f"/v1/flows/one?{asked}")["flow"]["volume_bytes"]
        assert numbers(figure(page, "Volume", "flow-figures"))[0] <= after * (1 + ROUNDED)


def announce(served: Real, name: str, **flow: Any) -> dict[str, Any]:
    headers = {
        "Authorization": f"Bearer {served.token('sender')}",
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{API_PORT}/v1/fountains/{name}",
        json.dumps(flow).encode(),
        headers,
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=10) as told:
        share: dict[str, Any] = json.loads(told.read())
        return share


def test_shares_and_paths_are_those_that_the_api_tells(expect: Any) -> None:
    with looked_at() as looking:
        page, served = looking.sign_in(), looking.served
        sender, receiver = (
            served.bed.host(name).IP()
            for name in (served.bed.roles.senders[0], served.bed.roles.receiver)
        )
        page.evaluate("location.hash = '#/bandwidth'")
        expect(page.get_by_text("No flow is announced now")).to_be_visible()
        expect(page.get_by_test_id("shares-state")).to_have_text("Live")
        share = announce(served, "a", src=sender, dst=receiver)
        expect(page.get_by_test_id("shares")).to_contain_text("all that it gets")
        row = page.get_by_test_id("shares").locator("tbody tr")
        assert numbers(row.locator("td").nth(2).inner_text())[0] == pytest.approx(
            share["rate_bps"], rel=ROUNDED
        )
        row.get_by_role("link", name=f"{sender} → {receiver}").click()
        page.get_by_test_id("links").wait_for()
        told = served.ask(f"/v1/bandwidth?src={sender}&dst={receiver}")
        expect(page.get_by_test_id("links").locator("tbody tr")).to_have_count(len(told["links"]))
        until(
            page,
            lambda: (
                numbers(figure(page, "Left on", "path-figures"))[0]
                == pytest.approx(
                    served.ask(f"/v1/bandwidth?src={sender}&dst={receiver}")["available_bps"],
                    rel=ROUNDED,
                )
            ),
            5,
            "the page has what is left",
        )
        # It is not renewed.
        expect(page.get_by_text("No flow is announced now")).to_be_visible(timeout=10_000)
        page.get_by_label("To").fill("10.99.99.99")
        page.keyboard.press("Enter")
        expect(page.get_by_text("it has to send something first, such as a ping")).to_be_visible()
