"""The overview: how the controller is, what the fabric suffers, and how soon it is shown."""

import re
import time
from typing import Any

import pytest

from looking import Looking

pytestmark = pytest.mark.browser


def test_it_says_how_busy_the_controller_is_and_who_could_take_over(
    looking: Looking, expect: Any
) -> None:
    page = looking.sign_in()
    figures = page.get_by_test_id("figures")
    for text in ("4.3 % of a core", "≤ 25 ms 99 % ≤ 1 ms", "master; hears spare"):
        expect(figures).to_contain_text(text)
    looking.served.api.silent = ["<b>third</b>"]
    expect(figures).to_contain_text("master; hears spare; does not hear <b>third</b>")
    expect(page.get_by_test_id("health")).to_contain_text("controller <b>third</b> is not heard")
    assert page.locator("main b, header b").count() == 0


def test_what_an_older_api_does_not_tell_is_told_so(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    api.not_told = {"load", "loop_late_s", "rank", "peers", "silent"}
    page = looking.sign_in()
    expect(page.get_by_test_id("figures").get_by_text("not told")).to_have_count(3)


def test_it_says_what_was_suffered_and_what_was_avoided(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    harm = page.get_by_test_id("harm")
    expect(harm).to_contain_text(re.compile(r"Timeouts suffered *54 of sampled"))
    expect(harm).to_contain_text(re.compile(r"Packets dropped *1\.34 k"))
    expect(harm).to_contain_text(re.compile(r"Drops avoided *97\.2 k answers that waited for room"))
    since = page.get_by_text("since the API’s process was started")
    expect(since).to_have_count(0)
    looking.served.api.lately["over_s"] = 65
    expect(since).to_contain_text("1 min 5 s ago")


def test_congested_ports_come_first(looking: Looking) -> None:
    page = looking.sign_in()
    heights = [
        page.get_by_test_id(name).bounding_box()["y"] for name in ("congested", "figures", "harm")
    ]
    assert heights == sorted(heights)


@pytest.mark.timing
def test_an_episode_is_on_the_screen_within_a_second(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    page = looking.sign_in()
    table = page.get_by_test_id("congested")
    for n in range(5):
        name = f"leaf1-eth{n}-new"
        api.congested = [name]
        begun_s = time.monotonic()
        expect(table).to_contain_text(name, timeout=1000)
        assert time.monotonic() - begun_s < 1
