"""Lines of text: where they break, and what they do not go beyond."""

from typing import Any

import pytest

import fake_fabric as fabric
from looking import Looking
from test_incident_page import open_incident

pytestmark = pytest.mark.browser

# The levels that begin on one line and end on another.
BROKEN = """() => {
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    for (const { index, 0: level } of text.data.matchAll(/CN-[LMH]/g)) {
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + level.length);
      const tops = [...range.getClientRects()].map(({ top }) => Math.round(top));
      if (new Set(tops).size > 1) found.push(text.data);
    }
  }
  return found;
}"""


@pytest.mark.parametrize("view", ["#/", "#/events", f"#/port/{fabric.port_id(*fabric.HOT)}", ""])
def test_levels_do_not_break_at_their_hyphen(looking: Looking, expect: Any, view: str) -> None:
    """Whatever the width is."""
    open_incident(looking)
    page = looking.page
    if view:
        page.evaluate("hash => { location.hash = hash }", view.replace(":", "/"))
    expect(page.locator("main")).to_contain_text("CN-H")
    broken = set()
    for width in range(320, 1300, 14):
        page.set_viewport_size({"width": width, "height": 900})
        broken |= {(width, text) for text in page.evaluate(BROKEN)}
    assert broken == set()


@pytest.mark.parametrize("width", [768, 1280])
def test_a_long_address_pushes_nothing_out_of_sight(looking: Looking, width: int) -> None:
    page = looking.sign_in()
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"location.hash = '#/port/{fabric.port_id(*fabric.HOT).replace(':', '/')}'")
    page.get_by_test_id("largest").get_by_text("2001:db8").first.wait_for()
    beyond = "one => one.scrollWidth - one.clientWidth"
    assert page.locator(".scroll[aria-label='Largest flows']").evaluate(beyond) <= 0
    page.evaluate("location.hash = '#/'")
    page.get_by_test_id("congested").wait_for()
    assert page.locator(".scroll[aria-label='Congested ports']").evaluate(beyond) <= 0


def test_figures_of_a_row_stand_side_by_side(looking: Looking) -> None:
    page = looking.sign_in()
    page.set_viewport_size({"width": 768, "height": 900})
    page.evaluate("location.hash = '#/bandwidth?src=10.0.0.1&dst=10.0.0.250'")
    figures = page.get_by_test_id("path-figures")
    figures.wait_for()
    names, values = (
        figures.locator(kind).evaluate_all(
            "all => all.map(one => one.getBoundingClientRect())"
            ".map(({top, height}) => [top, height])"
        )
        for kind in ("dt", "dd")
    )
    assert max(height for _, height in names) > 1.5 * min(height for _, height in names)
    assert len({round(top) for top, _ in values}) == 1


@pytest.mark.parametrize(
    ("hash_", "all_"),
    [
        ("#/events?text=zzz", "events"),
        ("#/flows?host=192.0.2.1", "flows"),
        ("#/settings?text=zzz", "settings"),
    ],
)
def test_what_matches_nothing_leads_back_to_all(
    looking: Looking, expect: Any, hash_: str, all_: str
) -> None:
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", hash_)
    page.get_by_text("matches").get_by_role("link", name="Show all").click()
    expect(page.get_by_text("matches")).to_have_count(0)
    assert page.url.endswith(f"#/{all_}")
