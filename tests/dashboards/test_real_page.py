"""Each view shows what the API and the switch say, under real traffic through a real switch."""

import re
from typing import Any

import pytest

from experiments.traffic.reader import IncastSpec
from real import SENDERS, Real, looked_at, numbers, until, watch
from testbed.command import wait_until
from traffic import accounts_in_force, incast

INCAST = IncastSpec(senders=SENDERS, rounds=10**6)
# The page writes three digits.
ROUNDED = 0.01

pytestmark = [pytest.mark.browser, pytest.mark.netns, pytest.mark.switch]


def tile(page: Any, title: str, where: str = "port-figures") -> str:
    """What a figure of the page says."""
    found = page.get_by_test_id(where).locator("div").filter(has_text=title).first
    text: str = found.locator("dd").inner_text()
    return text


def test_each_view_shows_what_api_and_switch_say(expect: Any) -> None:
    with looked_at() as looking:
        shows_what_they_say(looking.sign_in(), looking.served, expect)


def shows_what_they_say(page: Any, served: Real, expect: Any) -> None:
    bottleneck = served.bed.roles.bottleneck
    with incast(served.bed, INCAST) as reads:
        reads.require_progress(20, 30, "under regulation")
        row = page.get_by_test_id("congested").get_by_role("row").nth(1)
        expect(row).to_contain_text(bottleneck)
        limit = int(served.queue()["limit_bytes"])
        assert numbers(row.inner_text().split("of")[1])[0] == limit

        page.evaluate("location.hash = '#/flows'")
        page.get_by_test_id("flows").wait_for()
        flows = page.get_by_test_id("total")
        expect(flows).to_contain_text(f"of {served.ask('/v1/flows?limit=1')['total']}")
        # The hosts' addresses, from whoever has given them.
        ends = {served.bed.host(name).IP() for name in served.bed.roles.senders}
        shown = page.get_by_test_id("flows").inner_text()
        assert {address for address in ends if address in shown} == ends

        page.evaluate("hash => { location.hash = hash }", served.port_hash())
        told = page.get_by_test_id("port-figures").get_by_role("link", name=re.compile("burst"))
        until(page, lambda: sum(numbers(told.inner_text())) == SENDERS, 5, "all flows are there")
        expect(page.get_by_test_id("holds")).to_contain_text("by the switch")
        assert accounts_in_force(served.bed)[bottleneck] == {"0", "1"}
        reads.require_progress(5, 30, "while it is looked at")

    queue = served.settled()
    account = served.bed.bottleneck_switch.accounts()[bottleneck]
    assert int(queue["max_queue_bytes"]) > 0 < account["held.longest_us"]
    longest = page.get_by_test_id("port-figures").locator("div").filter(has_text="Longest queue")
    until(
        page,
        lambda: (
            numbers(longest.first.locator("dd").inner_text())[0]
            == pytest.approx(int(queue["max_queue_bytes"]), rel=ROUNDED)
        ),
        5,
        "the page has the longest queue",
    )
    empty = [0.0, float(queue["limit_bytes"])]
    until(page, lambda: numbers(tile(page, "Queue"))[:2] == empty, 5, "the page has an empty queue")
    assert numbers(tile(page, "Use"))[1] == int(queue["max_rate"])
    dropped, marked = (int(queue[f"{what}_packets"]) for what in ("dropped", "marked"))
    assert numbers(tile(page, "Dropped")) == pytest.approx([dropped, marked], rel=ROUNDED)
    held, longest_s = numbers(tile(page, "Held now"))
    assert held == 0
    assert longest_s == pytest.approx(account["held.longest_us"] / 1e6, rel=ROUNDED)
    expected, connections = numbers(tile(page, "Expected"))
    assert expected == pytest.approx(account["now.expected_bytes"], rel=ROUNDED)
    assert connections == account["now.connections"]

    page.evaluate("location.hash = '#/fabric'")
    drawing = page.get_by_test_id("map")
    expect(drawing.get_by_role("button")).to_have_count(len(served.bed.switches))
    dpid = served.bed.bottleneck_switch.dpid
    drawing.get_by_role("button", name=re.compile(dpid.lstrip("0"))).press("Enter")
    # One row of them is the heading.
    expect(page.get_by_test_id("ports").get_by_role("row")).to_have_count(len(served.bed.hosts) + 1)

    page.evaluate("location.hash = '#/'")
    figures = page.get_by_test_id("figures")
    expect(figures).to_contain_text(f"{len(served.bed.switches)} of {len(served.bed.switches)}")
    expect(figures).to_contain_text(f"0 of {len(served.bed.hosts)}")
    expect(page.get_by_test_id("health")).to_contain_text("healthy", ignore_case=True)


# Where an episode shows, in each view.
SHOWN = {
    "overview": ("#/", "[data-testid=congested] tbody tr", "eth"),
    "events": ("#/events", "[data-testid=events] [role=row]", "CN-"),
    "port": ("", ".notices li", "CN-"),
}


@pytest.mark.slow
@pytest.mark.parametrize("view", SHOWN)
def test_an_episode_is_on_the_screen_within_a_second(view: str) -> None:
    hash_, selector, text = SHOWN[view]
    with looked_at() as looking:
        page, served = looking.sign_in(), looking.served
        page.evaluate("hash => { location.hash = hash }", hash_ or served.port_hash())
        page.get_by_role("heading", level=1).wait_for()
        late_s = [lateness_s(page, served, selector, text) for _ in range(3)]
    print(late_s)
    assert max(late_s) < 1


def lateness_s(page: Any, served: Real, selector: str, text: str) -> float:
    """How long after the controller has heard of it the page shows an episode."""
    wait_until(
        lambda: not served.ask("/v1/overview")["ports"]["congested"],
        timeout_s=10,
        what="nothing is congested",
    )
    page.wait_for_timeout(2000)
    n_known = len(served.notices())
    seen_s = watch(page, selector, text)
    with incast(served.bed, INCAST) as reads:
        until(page, lambda: seen_s() is not None, 10, "the episode is on the screen")
        reads.require_progress(1, 30, "in the episode")
    found_s = seen_s()
    assert found_s is not None
    heard_s: float = served.notices()[n_known]["wall_s"]
    return found_s - heard_s
