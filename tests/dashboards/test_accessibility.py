"""What keeps people from using the page, in the states of its views that come and go.

Views as they are at first, the sign-in, dialogs, the tour, settings that are refused or looked at,
and the groups of a large fabric have tests of their own.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import fake_fabric as fabric
from accessibility import LOOKS, complaints
from fake_api import Served
from looking import Looking

pytestmark = pytest.mark.browser

PORT = fabric.port_id(*fabric.HOT)
PORT_HASH = f"#/port/{PORT.replace(':', '/')}"


def nothing(_: Any) -> None:
    pass


@dataclass(frozen=True)
class State:
    """An address, what the API is like, what is done there, and a text that is there then."""

    hash: str
    shown: str
    steps: Callable[[Any], None] = nothing
    given: Callable[[Served], None] = nothing
    after: Callable[[Served], None] = nothing


def pick(page: Any) -> None:
    page.get_by_role("button", name="Pick a time range").first.click()


def choose_switch(page: Any) -> None:
    page.get_by_role("button", name=re.compile("0011, congested")).click()


def to_paper(page: Any) -> None:
    page.get_by_test_id("facts").wait_for()
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")


def to_screen(page: Any) -> None:
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")


def turn_off(page: Any) -> None:
    page.get_by_role("button", name="Turn off…").first.click()


def off_everywhere(served: Served) -> None:
    served.api.bypasses = [fabric.bypass(None, None, 600, "token ada")]


def on_again(served: Served) -> None:
    served.api.bypasses = []


def silent(served: Served) -> None:
    served.api.controller_age_s = 65


def heard(served: Served) -> None:
    served.api.controller_age_s = 0.2


def shares(served: Served) -> None:
    served.api.shares = [fabric.share("a", 1e6), fabric.share("b", None, 2e6)]


def times(first_s: float, last_s: float) -> str:
    now_s = time.time()
    return f"?from={now_s - first_s:.3f}&to={now_s - last_s:.3f}"


STATES = {
    "range picked": State("#/", "What happened then", pick),
    "regulation off": State("#/", "Regulation is off", given=off_everywhere, after=on_again),
    "controller silent": State("#/", "Not live.", given=silent, after=heard),
    "switch chosen": State("#/fabric", "Leads to", choose_switch),
    "chart zoomed": State(f"{PORT_HASH}{times(200, 100)}", "Show all"),
    "zoom picked": State(f"{PORT_HASH}{times(190, 90)}", "What happened then", pick),
    "no such port": State("#/port/0000000000000011/99", "has no port 99"),
    "flow": State("#/flow/10.0.0.6/80/10.0.0.250/40005", "Rate of its payload"),
    "flow gone": State("#/flow/10.0.0.77/80/10.0.0.250/1", "There is no such flow now"),
    "no flow": State("#/flows?host=192.0.2.1", "No flow matches"),
    "flows refused": State("#/flows?host=1/99", "is no address"),
    "path": State("#/bandwidth?src=10.0.0.1&dst=10.0.0.250", "narrowest", given=shares),
    "path refused": State("#/bandwidth?src=zz&dst=10.0.0.250", "no host of this address"),
    "no event": State("#/events?text=zzz", "matches"),
    "incident to pick": State("#/incident", "The last hour"),
    "incident": State(f"#/incident{times(60, -600)}&port={PORT}", "Ask again"),
    "incident too long": State(f"#/incident{times(9000, 60)}", "is too long"),
    "incident on paper": State(f"#/incident{times(120, 60)}", "In short", to_paper),
}


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_all_can_use_what_comes_and_goes(
    browser: Any, served: Served, expect: Any, scheme: str, width: int
) -> None:
    size = {"width": width, "height": 844}
    looking = Looking(browser, served, color_scheme=scheme, viewport=size)
    page = looking.sign_in()
    found = {}
    for name, state in STATES.items():
        state.given(served)
        page.evaluate("hash => { location.hash = hash }", state.hash)
        state.steps(page)
        expect(page.get_by_text(state.shown).first).to_be_visible(timeout=10_000)
        found[name] = complaints(page)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found[name].append(f"wider than {width} px")
        if state.steps is to_paper:
            to_screen(page)
        state.after(served)
    served.stop()
    expect(page.get_by_test_id("stale")).to_be_visible(timeout=10_000)
    found["API silent"] = complaints(page)
    looking.context.close()
    assert {name: told for name, told in found.items() if told} == {}
    assert looking.errors == []
