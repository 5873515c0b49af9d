"""1,000 switches stay readable: in groups, each with the worst that it has."""

import re
import time
from typing import Any

import pytest

import fake_fabric as small
import large_fabric as large
from controller.model.values import datapath_id
from looking import Looking

pytestmark = pytest.mark.browser


def fabric(looking: Looking) -> Any:
    looking.served.api.other = large.told(time.time())
    page = looking.sign_in()
    page.evaluate("location.hash = '#/fabric'")
    page.get_by_test_id("pods").wait_for()
    return page


def test_a_large_fabric_is_shown_in_groups_with_their_worst(looking: Looking, expect: Any) -> None:
    page = fabric(looking)
    groups = page.get_by_test_id("pods").get_by_role("button")
    expect(groups).to_have_count(1 + large.PODS)
    expect(groups.nth(0)).to_contain_text("40 switches, above all")
    expect(groups.nth(1)).to_contain_text("1 away")
    expect(groups.nth(2)).to_contain_text("CN-H 1 port")
    expect(groups.nth(2)).to_have_class(re.compile("level-H"))
    expect(groups.nth(3)).to_contain_text("peak 8")
    expect(groups.nth(3)).not_to_contain_text("CN-")
    # Nothing is drawn before a group is opened.
    expect(page.get_by_test_id("map")).to_have_count(0)


def test_a_group_is_opened_by_the_keyboard_and_leads_to_its_switches(
    looking: Looking, expect: Any
) -> None:
    page = fabric(looking)
    pod = page.get_by_role("button", name=re.compile(r"^Pod 2\b"))
    pod.focus()
    pod.press("Enter")
    expect(pod).to_have_attribute("aria-expanded", "true")
    drawing = page.get_by_test_id("map")
    # Its own, and the spines that it is connected to.
    expect(drawing.locator("[data-switch]")).to_have_count(large.LEAVES + 2 + 2 * large.UPLINKS)
    hot = drawing.get_by_role("button", name=re.compile(f"{datapath_id(large.HOT)}, congested"))
    expect(hot).to_be_visible()
    places = [
        drawing.locator(f"[data-switch='{datapath_id(number)}'] .box").bounding_box()["y"]
        for number in (1 + 2 * large.UPLINKS, large.HOT - 1, large.HOT)
    ]
    assert places == sorted(places), "spines are not above, or leaves not below"
    # All of it is on a desk's screen at once.
    page.set_viewport_size({"width": 1280, "height": 900})
    around = page.get_by_role("region", name="Map of the fabric")
    assert around.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    listed = page.get_by_role("list", name="Switches that are away or congested")
    expect(listed.get_by_role("button")).to_have_count(1)
    expect(listed).to_contain_text(re.compile(f"{large.HOT:x} *CN-H"))
    page.set_viewport_size({"width": 390, "height": 800})
    listed.get_by_role("button").click()
    expect(hot).to_have_attribute("aria-pressed", "true")
    # However wide the map is.
    box = hot.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    hot.press("Enter")
    expect(page.get_by_test_id("ports")).to_have_count(0)
    hot.press("Enter")
    expect(page.get_by_test_id("ports")).to_be_attached()
    pod.press("Enter")
    expect(drawing).to_have_count(0)


def test_on_a_telephone_a_group_is_brought_into_sight(looking: Looking, expect: Any) -> None:
    looking.page.set_viewport_size({"width": 390, "height": 800})
    page = fabric(looking)
    page.get_by_role("button", name=re.compile(r"^Pod 2\b")).press("Enter")
    expect(page.get_by_role("heading", name="Pod 2")).to_be_in_viewport()


def test_what_is_said_of_one_switch_is_not_said_of_the_next(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    api.bypasses = [
        small.bypass(None, None, None, "token other"),
        small.bypass(small.LEAVES[0], None, None, "token other"),
    ]
    page = looking.sign_in()
    page.evaluate("location.hash = '#/fabric'")
    switches = [page.locator(f"[data-switch='{datapath_id(one)}']") for one in small.LEAVES]
    switches[0].click()
    regulation = page.get_by_test_id("regulation")
    regulation.get_by_role("button", name="Turn on…").click()
    page.get_by_role("dialog").get_by_role("button", name="Turn on").click()
    note = regulation.get_by_text("It stays off here")
    expect(note).to_be_visible()
    switches[1].click()
    expect(page.get_by_role("heading", name=re.compile("^Switch"))).to_contain_text("12")
    expect(note).to_have_count(0)


@pytest.mark.parametrize("text", [f"{large.HOT:x}", f"sw{large.HOT}-eth3"])
def test_a_switch_is_found_and_shown(looking: Looking, expect: Any, text: str) -> None:
    page = fabric(looking)
    field = page.get_by_label("Find a switch")
    field.fill("zzz")
    expect(page.get_by_text("None matches")).to_be_visible()
    field.fill(text)
    field.press("Enter")
    chosen = page.locator(f"[data-switch='{datapath_id(large.HOT)}']")
    expect(chosen).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("heading", name=re.compile(r"^Pod 2\b"))).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile("^Switch"))).to_be_visible()


def strokes(links: Any) -> set[tuple[str, str, str]]:
    """The class, width and dashes of each line that can be seen."""
    told = links.evaluate_all(
        "all => all.map(one => [one.classList[1], getComputedStyle(one)])"
        ".filter(([, style]) => style.stroke !== 'none')"
        ".map(([name, style]) => [name, style.strokeWidth, style.strokeDasharray])"
    )
    return {tuple(one) for one in told}


def test_nobody_needs_colours_to_read_the_map(looking: Looking, expect: Any) -> None:
    topology, use = large.told(time.time())
    use["levels"][use["ids"].index(f"{datapath_id(large.HOT)}:1")] = 2
    looking.served.api.other = (topology, use)
    page = looking.sign_in()
    page.evaluate("location.hash = '#/fabric'")
    page.get_by_role("button", name=re.compile(r"^Pod 2\b")).click()
    page.get_by_test_id("map").wait_for()
    legend = strokes(page.locator(".legend .link"))
    assert {name for name, _, _ in legend} == {f"use-{n}" for n in (0, 1, 2, 3, 4, "none")}
    forms = [(float(width.removesuffix("px")), dashes) for _, width, dashes in legend]
    alike = [
        (one, other)
        for n, one in enumerate(forms)
        for other in forms[:n]
        if one[1] == other[1] and max(one[0], other[0]) < 1.5 * min(one[0], other[0])
    ]
    assert alike == []
    assert strokes(page.locator("[data-testid=map] .link")) <= legend
    # Levels of ports have the shapes of their notices, and the legend has them, too.
    shape = page.locator("[data-testid=map] .port-level")
    expect(shape).to_have_count(1)
    keys = page.locator(".legend .notice-key path")
    expect(keys).to_have_count(3)
    shapes = keys.evaluate_all("all => all.map(one => one.getAttribute('d'))")
    assert len(set(shapes)) == 3
    expect(shape).to_have_attribute("d", shapes[1])
    expect(page.locator(".legend")).to_contain_text("CN-H")


@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, {"viewport": (390, 800)}])
def test_everybody_can_use_the_groups(looking: Looking, expect: Any, look: dict[str, Any]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = fabric(looking)
    if "color_scheme" in look:
        page.emulate_media(color_scheme=look["color_scheme"])
    if "viewport" in look:
        width, height = look["viewport"]
        page.set_viewport_size({"width": width, "height": height})
    page.get_by_role("button", name=re.compile(r"^Pod 2\b")).click()
    page.get_by_label("Find a switch").fill("5")
    expect(page.get_by_test_id("map")).to_be_visible()
    found = [
        f"{one['id']}: {node['html'][:100]}"
        for one in axe.run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
