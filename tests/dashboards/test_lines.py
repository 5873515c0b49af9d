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
