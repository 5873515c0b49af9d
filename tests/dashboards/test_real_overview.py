"""What the overview says of the controller and of what was suffered, as controller and switch have
it."""

import re
from typing import Any

import pytest

from experiments.traffic.reader import IncastSpec
from real import SENDERS, looked_at, numbers, until
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


def test_what_was_suffered_and_avoided_is_what_the_switch_has_counted() -> None:
    with looked_at() as looking:
        page, served = looking.sign_in(), looking.served
        until(
            page,
            lambda: re.match(r"[\d.]+ % of a core", figure(page, "load", "figures")) is not None,
            10,
            "the controller's load is known",
        )
        assert 0 <= numbers(figure(page, "load", "figures"))[0] < 1
        assert numbers(figure(page, "Loop stalls", "figures"))
        assert figure(page, "Standby", "figures") == "none configured"
        with incast(served.bed, INCAST) as reads:
            reads.require_progress(200, 60, "under regulation")
        served.settled()
        accounts = served.bed.bottleneck_switch.accounts()
        held = accounts[served.bed.roles.bottleneck]["requests.held"]
        assert held > 100
        until(
            page,
            lambda: (
                numbers(figure(page, "Drops avoided", "harm"))[:1]
                == [pytest.approx(held, rel=ROUNDED)]
            ),
            15,
            f"the page has the {held} requests that were held",
        )
        dropped = sum(
            queue["dropped_packets"]
            for port in served.ask("/v1/ports")["ports"]
            for queue in port["queues"]
        )
        shown = numbers(figure(page, "Packets dropped", "harm"))[0]
        assert shown == pytest.approx(dropped, rel=ROUNDED)
