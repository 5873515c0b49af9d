"""The tour: five hints for whoever signs in for the first time."""

from collections.abc import Iterator
from typing import Any

import pytest

from accessibility import LOOKS, complaints
from fake_api import Served
from looking import Looking

pytestmark = pytest.mark.browser


@pytest.fixture
def first(browser: Any, served: Served) -> Iterator[Looking[Served]]:
    """Looks at the page in a browser that has never seen it."""
    looking = Looking(browser, served, tour=True)
    yield looking
    looking.context.close()
    assert looking.errors == []


def test_it_comes_once_and_again_when_it_is_asked_for(first: Looking, expect: Any) -> None:
    page = first.sign_in()
    tour = page.get_by_test_id("tour")
    titles = []
    for n in range(1, 6):
        expect(tour).to_contain_text(f"{n} of 5")
        titles.append(tour.get_by_role("heading").inner_text())
        expect(page.locator("header .hinted")).to_have_count(1)
        tour.get_by_role("button", name="Next" if n < 5 else "Done").click()
    assert len(set(titles)) == 5
    expect(tour).to_have_count(0)
    expect(page.locator("header .hinted")).to_have_count(0)
    stored = page.evaluate("[{...localStorage}, {...sessionStorage}]")
    assert stored == [{"weir-tour": "seen"}, {}]
    page.reload()
    page.get_by_test_id("figures").wait_for()
    expect(tour).to_have_count(0)
    page.get_by_role("button", name="Show hints").click()
    expect(tour).to_contain_text("1 of 5")


def test_the_keyboard_suffices(first: Looking, expect: Any) -> None:
    page = first.sign_in()
    tour = page.get_by_test_id("tour")
    expect(tour.get_by_role("button", name="Next")).to_be_focused()
    page.keyboard.press("Enter")
    expect(tour).to_contain_text("2 of 5")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(tour).to_contain_text("1 of 5")
    page.keyboard.press("Escape")
    expect(tour).to_have_count(0)
    again = page.get_by_role("button", name="Show hints")
    expect(again).to_be_focused()
    page.keyboard.press("Enter")
    expect(tour).to_contain_text("1 of 5")
    expect(again).to_have_attribute("aria-expanded", "true")


def test_a_hint_leads_to_what_it_is_about(first: Looking, expect: Any) -> None:
    page = first.sign_in()
    tour = page.get_by_test_id("tour")
    expect(tour.get_by_role("link")).to_have_count(0)
    page.keyboard.press("Enter")
    tour.get_by_role("link", name="Show me").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fabric")
    expect(tour).to_contain_text("2 of 5")


@pytest.mark.parametrize(
    ("name", "says"), [("viewer", "nothing can be changed"), ("operator", "audit log")]
)
def test_the_last_hint_is_about_what_one_may_do(
    first: Looking, expect: Any, name: str, says: str
) -> None:
    page = first.sign_in(name)
    for _ in range(4):
        page.get_by_test_id("tour").get_by_role("button", name="Next").click()
    expect(page.get_by_test_id("tour")).to_contain_text(says)


def test_a_browser_that_stores_nothing_shows_it_all_the_same(first: Looking, expect: Any) -> None:
    first.context.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('forbidden') }})"
    )
    page = first.sign_in()
    page.get_by_test_id("tour").get_by_role("button", name="Skip").click()
    expect(page.get_by_test_id("tour")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_all_can_use_it(browser: Any, served: Served, scheme: str, width: int) -> None:
    size = {"width": width, "height": 844}
    looking = Looking(browser, served, tour=True, color_scheme=scheme, viewport=size)
    page = looking.sign_in()
    page.keyboard.press("Enter")
    page.get_by_text("2 of 5").wait_for()
    assert complaints(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    looking.context.close()
    assert looking.errors == []
